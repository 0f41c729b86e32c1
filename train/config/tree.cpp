#include "train/config/tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/base/read_file.h"
#include "core/text/text.h"

namespace braid {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxDepth = 16;
/// Appended to the text in a comment. It appears in a scalar only if a quote is never closed.
constexpr char kEndOfText = '\x01';

/// Makes "source:line:column"; for overrides, which have a single line, just the source.
struct Locator {
  std::string source;
  bool lines = true;

  std::string operator()(int line, int column) const {
    return lines ? message(source, ':', line + 1, ':', column + 1) : source;
  }
  std::string operator()(const YAML::Mark& mark) const { return (*this)(mark.line, mark.column); }
};

/// Characters that yaml-cpp would swallow or misread.
void check_characters(std::string_view text, const Locator& locate) {
  int line = 0, column = 0;
  bool indenting = true;
  for (std::size_t i = 0; i < text.size(); ++column) {
    const std::size_t length = utf8_character_bytes(text.substr(i));
    BRAID_CHECK(length > 0, ConfigError, locate(line, column), ": this is not UTF-8 text");
    const auto c = static_cast<unsigned char>(text[i]);
    i += length;
    BRAID_CHECK(!(indenting && c == '\t'), ConfigError, locate(line, column), ": indent with spaces, not with tabs");
    const bool control = (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    BRAID_CHECK(!control, ConfigError, locate(line, column), ": a control character is not allowed here");
    indenting = c == '\n' || (indenting && c == ' ');
    if (c == '\n') ++line, column = -1;
  }
}

/// Builds the tree from the parser's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Locator& locate) : locate_(locate), root_{.location = locate(0, 0)} {}

  /// What was parsed; nothing at the start if there is no document.
  ConfigNode take_root() { return std::move(root_); }
  /// Where the innermost list or map that is still open began; empty if all are closed.
  std::string open_location() const { return stack_.empty() ? "" : stack_.back().node.location; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(mark, "a second document starts here; expected one only");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_plain(mark, "?", anchor);
    if (expects_key()) fail(mark, "expected a key, got nothing");
    // yaml-cpp's mark of a missing value is that of the next token, so the key's is used.
    const bool keyed = !stack_.empty() && stack_.back().key;
    add(mark, {.location = keyed ? stack_.back().key->location : locate_(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "aliases are not supported"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_plain(mark, tag, anchor);
    if (value.find(kEndOfText) != std::string::npos) fail(mark, "this quote is never closed");
    if (expects_key()) {
      set_key(mark, value);
    } else {
      add(mark, {.kind = ConfigNode::Kind::scalar, .text = value, .quoted = tag == "!", .location = locate_(mark)});
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or map under construction, and the key whose value comes next.
  struct Frame {
    ConfigNode node;
    YAML::Mark mark;
    std::optional<ConfigNode::Entry> key;
    std::set<std::string> keys;  // so far
  };

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view what) const {
    throw ConfigError(message(locate_(mark), ": ", what));
  }

  void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(mark, "anchors are not supported");
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, "tags such as '!!int' are not supported");
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.kind == ConfigNode::Kind::map && !stack_.back().key;
  }

  void set_key(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = stack_.back();
    if (!frame.keys.insert(key).second) {
      fail(mark, message("duplicate key '", key, "', given first at ", frame.node.find(key)->location));
    }
    frame.key = ConfigNode::Entry{key, locate_(mark), {}};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ConfigNode::Kind kind) {
    check_plain(mark, tag, anchor);
    if (stack_.size() == kMaxDepth) fail(mark, message("nested deeper than ", kMaxDepth, " levels"));
    stack_.push_back({{.kind = kind, .location = locate_(mark)}, mark, {}, {}});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    add(frame.mark, std::move(frame.node));
  }

  void add(const YAML::Mark& mark, ConfigNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (Frame& parent = stack_.back(); parent.key) {
      parent.key->value = std::move(node);
      parent.node.entries.push_back(std::move(*parent.key));
      parent.key.reset();
    } else if (parent.node.kind == ConfigNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else {
      fail(mark, "expected a key, got a list or map");  // checked once complete: it may be an open bracket
    }
  }

  const Locator& locate_;
  ConfigNode root_;
  std::vector<Frame> stack_;
  int documents_ = 0;
};

ConfigNode parse(std::string_view text, const Locator& locate) {
  check_characters(text, locate);
  std::istringstream stream(message(text, "\n#", kEndOfText, '\n'));
  TreeBuilder builder(locate);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::ParserException& error) {
    if (error.msg.find("flow not found") != std::string::npos) {
      throw ConfigError(message(builder.open_location(), ": this bracket is never closed"));
    }
    throw ConfigError(message(locate(error.mark), ": not valid YAML: ", error.msg));
  }
  return builder.take_root();
}

/// The item of a list that has a key 'name' of this value, or this index.
ConfigNode& item_of(ConfigNode& list, const std::string& key, const std::string& location) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const ConfigNode::Entry* name = list.items[i].find("name");
    if ((name != nullptr && name->value.text == key) || std::to_string(i) == key) return list.items[i];
  }
  throw ConfigError(message(location, ": the list at ", list.location, " has no item '", key,
                            "': expected the name of one of its items, or its index from 0"));
}

}  // namespace

ConfigNode parse_config(std::string_view text, const std::string& source) {
  ConfigNode root = parse(text, {source});
  if (root.kind == ConfigNode::Kind::null) root.kind = ConfigNode::Kind::map;
  BRAID_CHECK(root.kind == ConfigNode::Kind::map, ConfigError, root.location, ": expected lines such as 'name: value'");
  return root;
}

ConfigNode read_config_file(const std::filesystem::path& path) {
  std::error_code none;
  BRAID_CHECK(!exists(path / "config.yaml", none), ConfigError, path.string(),
              ": expected a config file, this is the folder of a run: its config is ", (path / "config.yaml").string(),
              ", and 'braid eval ", path.string(), "' evaluates its model");
  try {
    return parse_config(read_file(path, "the config", kMaxBytes), path.string());
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

void apply_override(ConfigNode& root, const std::string& assignment) {
  constexpr std::size_t kMostShown = 201;  // characters
  const std::string location = "--set " + shortened(assignment, kMostShown);
  const std::size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const bool valid = equals != std::string::npos && !path.empty() && path.front() != '.' && path.back() != '.' &&
                     path.find("..") == std::string::npos;
  BRAID_CHECK(valid, ConfigError, location, ": expected key.path=value, such as train.epochs=3");
  const Locator locate{location, false};
  check_characters(path, locate);

  BRAID_CHECK(std::ranges::count(path, '.') < std::ptrdiff_t{kMaxDepth}, ConfigError, location, ": nested deeper than ",
              kMaxDepth, " levels");
  ConfigNode* node = &root;
  for (const std::string& key : split_text(path, '.')) {
    if (node->kind == ConfigNode::Kind::null) node->kind = ConfigNode::Kind::map;
    if (node->kind == ConfigNode::Kind::list) {
      node = &item_of(*node, key, location);
      continue;
    }
    BRAID_CHECK(node->kind == ConfigNode::Kind::map, ConfigError, location, ": cannot set the key '", key,
                "' here, because its parent is a value (", node->location, ")");
    ConfigNode::Entry* entry = node->find(key);
    if (entry == nullptr) entry = &node->entries.emplace_back(ConfigNode::Entry{key, "", {.location = location}});
    entry->location = location;
    node = &entry->value;
  }
  *node = parse(std::string_view(assignment).substr(equals + 1), locate);
}

}  // namespace braid
