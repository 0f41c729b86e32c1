#include "train/run/log/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "core/base/error.h"
#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid {

namespace {

/// "1:05" or "2:03:04".
std::string clock(double seconds) {
  const auto total = static_cast<std::int64_t>(std::ceil(seconds));
  std::ostringstream out;
  out << std::setfill('0');
  if (total >= 3600) out << total / 3600 << ':' << std::setw(2);
  out << total / 60 % 60 << ':' << std::setw(2) << total % 60;
  return out.str();
}

/// Brevity 0 shows everything, 1 abbreviates, and each further level omits the least important field left.
constexpr int kMostBrevity = 6;

std::vector<std::string> fields(const ProgressState& state, int brevity) {
  std::vector<std::string> list;
  const auto add = [&](int most_brevity, std::string field) {
    if (brevity <= most_brevity) list.push_back(std::move(field));
  };
  add(2, message("epoch ", state.epoch, '/', state.epochs));
  add(kMostBrevity, message("step ", state.step, '/', state.steps));
  add(5, "loss " + fixed(state.loss, 3));
  add(3, message(brevity == 0 ? "accuracy " : "acc ", fixed(100 * state.accuracy, 1), " %"));
  add(1, message(fixed(state.images_per_second, 0), brevity == 0 ? " images/s" : " img/s"));
  add(4, state.validating ? "validating" : clock(state.seconds_left) + " left");
  return list;
}

// ECMA-48 and DEC: to the start of the line, and erase from there to the end of the screen; up some lines; whether a
// character beyond the last column goes to the next line.
constexpr const char *kErase = "\r\x1b[J", *kEscape = "\x1b[", *kUp = "A", *kWrapOff = "\x1b[?7l",
                     *kWrapOn = "\x1b[?7h";

}  // namespace

std::string to_string(const ProgressState& state) { return comma_list(fields(state, 0), "  "); }

TerminalSize terminal_size() {
  TerminalSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = window.ws_col;
  if (window.ws_row > 0) size.rows = window.ws_row;
  return size;
}

Progress::Mode Progress::suitable_mode(bool quiet) {
  if (quiet) return Mode::quiet;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(STDOUT_FILENO) == 1 && !dumb ? Mode::redraw : Mode::lines;
}

Progress::~Progress() {
  if (mode_ == Mode::redraw) write(kErase);
}

void Progress::set_rows(const std::vector<std::string>& labels) {
  rows_.clear();
  for (const std::string& label : labels) rows_.push_back({.label = label, .text = "", .state = {}});
}

void Progress::show(std::size_t row, const std::optional<ProgressState>& state, std::string_view text, bool due) {
  constexpr std::chrono::milliseconds kRedraw{100};
  rows_[row].text = text;
  rows_[row].state = state;
  if (mode_ == Mode::lines && due) write(rows_[row].line(text) + '\n');
  const bool at_once = state && state->validating;
  if (mode_ == Mode::redraw && (at_once || std::chrono::steady_clock::now() - last_draw_ >= kRedraw)) redraw();
}

void Progress::finish(std::size_t row) {
  rows_[row].text.clear();
  if (mode_ == Mode::redraw) redraw();
}

void Progress::print(std::string_view line) {
  const std::string whole = std::string(line) + '\n';
  if (mode_ == Mode::lines) write(whole);
  if (mode_ == Mode::redraw) redraw(whole);
}

void Progress::print(std::size_t row, std::string_view line) { print(rows_[row].line(line)); }

void Progress::warn(std::string_view what) {
  if (mode_ == Mode::redraw) write(kErase);
  std::cerr << "braid: warning: " << what << std::endl;
  if (mode_ == Mode::redraw) redraw();
}

void Progress::redraw(std::string_view lines) {
  // The cursor stays at the start of the block, so erasing from there removes every line, even after a resize. Lines
  // that are too long must not wrap before the next redraw has asked for the new width.
  std::string frame = message(kErase, lines, kWrapOff);
  const std::vector<std::string> drawn = block(size_());
  for (const std::string& line : drawn) frame += (&line == drawn.data() ? "" : "\n") + line;
  frame += '\r';
  if (drawn.size() > 1) frame += message(kEscape, drawn.size() - 1, kUp);
  write(frame + kWrapOn);
  last_draw_ = std::chrono::steady_clock::now();
}

std::vector<std::string> Progress::block(const TerminalSize& size) const {
  std::vector<std::string> lines;
  for (int brevity = 0; brevity <= kMostBrevity; ++brevity) {
    std::vector<std::vector<std::string>> cells;
    for (const Row& row : rows_) {
      if (row.text.empty()) continue;
      cells.push_back(row.state ? fields(*row.state, brevity) : std::vector{row.text});
      if (!row.label.empty()) cells.back().insert(cells.back().begin(), row.label);
    }
    lines = split_text(text_table(cells, "llllllll"), '\n');
    if (std::ranges::all_of(lines, [&](const auto& line) { return utf8_length(line) <= size.columns; })) break;
  }
  if (lines.size() > size.rows) {
    const std::size_t shown = size.rows - 1;
    const std::string more = message("and ", lines.size() - shown, " more");
    lines.resize(shown);
    lines.push_back(more);
  }
  for (std::string& line : lines) line = shortened(line, size.columns);
  return lines;
}

void Progress::write(std::string_view text) {
  out_ << text << std::flush;
  if (out_) return;
  mode_ = Mode::quiet;
  on_failure_();
}

}  // namespace braid
