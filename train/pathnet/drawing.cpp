// A picture of the final paths.

#include <algorithm>

#include "core/base/text_stream.h"
#include "core/text/text.h"
#include "train/pathnet/report.h"

namespace braid {

namespace {

using models::Genotype;
using models::PathGrid;

// Pixels. In a panel, layers go from left to right and the modules of a layer from top to bottom.
constexpr int kMargin = 24, kHeader = 118, kPanelHeader = 66;
constexpr int kCellWidth = 44, kCellHeight = 16, kRow = 22, kColumn = 84, kEnd = 40, kGap = 40;
constexpr int kMinWidth = 1000, kMaxWidth = 1240;

constexpr const char* kStyle = R"(  <style>
    text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2733; }
    .title { font-size: 17px; font-weight: 600; }
    .note { font-size: 12.5px; fill: #55606e; }
    .seed { font-size: 14px; font-weight: 600; }
    .name { font-size: 11px; text-anchor: middle; }
    .on { fill: #ffffff; font-weight: 600; }
    .background { fill: #ffffff; }
    .unused { fill: #f1f2f4; stroke: #d5d8dd; }
    .end { fill: #ffffff; stroke: #6b7684; }
    .a { fill: #3b6fb6; }
    .b { fill: #b3541e; }
    .path { fill: none; stroke-width: 1.4; stroke-opacity: 0.55; }
    .path.a { fill: none; stroke: #3b6fb6; }
    .path.b { fill: none; stroke: #b3541e; stroke-dasharray: 5 3; }
  </style>
)";

struct Point {
  int x = 0, y = 0;
};

bool uses(const Genotype& path, int layer, int module) {
  return std::ranges::count(path.layers[static_cast<std::size_t>(layer)], module) > 0;
}

void draw_text(std::ostream& out, Point at, std::string_view style, std::string_view words) {
  out << "  <text x=\"" << at.x << "\" y=\"" << at.y << "\" class=\"" << style << "\">" << words << "</text>\n";
}

/// The panel of one seed.
class Panel {
 public:
  Panel(std::ostream& out, const PathGrid& grid, const SeedRun& run, Point corner)
      : out_(out), grid_(grid), run_(run), corner_(corner) {}

  static int width(const PathGrid& grid) { return kEnd + kGap + grid.layers * kColumn + kEnd; }
  static int height(const PathGrid& grid) { return kPanelHeader + grid.modules * kRow + kMargin; }

  void draw() {
    const auto count = [](const TaskRun& run) { return message(run.learned ? "" : "more than ", run.generations); };
    text({corner_.x, corner_.y + 14}, "seed", message("seed ", run_.seed));
    text({corner_.x, corner_.y + 32}, "note",
         message("generations: A ", count(run_.a), ", B ", count(run_.b), ", B from scratch ", count(run_.control)));
    draw_path(run_.a.path, "a", -2);
    draw_path(run_.b.path, "b", 2);
    end({corner_.x, middle()}, "image");
    end({last_x(), end_y("a")}, "A");
    end({last_x(), end_y("b")}, "B");
    for (int layer = 0; layer < grid_.layers; ++layer) {
      const Point top = cell_corner(layer, 0);
      text({top.x + kCellWidth / 2, top.y - 8}, "name", message("layer ", layer + 1));
      for (int module = 0; module < grid_.modules; ++module) cell(layer, module);
    }
  }

 private:
  Point cell_corner(int layer, int module) const {
    return {corner_.x + kEnd + kGap + layer * kColumn, corner_.y + kPanelHeader + module * kRow};
  }
  int middle() const { return corner_.y + kPanelHeader + (grid_.modules * kRow - kRow + kCellHeight) / 2; }
  int last_x() const { return corner_.x + kEnd + kGap + grid_.layers * kColumn; }
  int end_y(std::string_view task) const { return middle() + (task == "a" ? -kRow : kRow); }

  void text(Point at, std::string_view style, std::string_view words) { draw_text(out_, at, style, words); }
  void rectangle(Point at, int width, std::string_view style) {
    out_ << "  <rect x=\"" << at.x << "\" y=\"" << at.y << "\" width=\"" << width << "\" height=\"" << kCellHeight
         << "\" rx=\"3\" class=\"" << style << "\"/>\n";
  }
  /// Draws the start or end of a path; y is its middle.
  void end(Point at, std::string_view name) {
    rectangle({at.x, at.y - kCellHeight / 2}, kEnd, "end");
    text({at.x + kEnd / 2, at.y + 4}, "name", name);
  }

  void cell(int layer, int module) {
    const bool a = uses(run_.a.path, layer, module), b = uses(run_.b.path, layer, module);
    const Point at = cell_corner(layer, module);
    rectangle(at, kCellWidth, a ? "a" : b ? "b" : "unused");
    if (a && b) rectangle({at.x + kCellWidth / 2, at.y}, kCellWidth / 2, "b");
    if (a || b) text({at.x + kCellWidth / 2, at.y + 12}, "name on", a && b ? "A B" : a ? "A" : "B");
  }

  /// Every module of a layer reads the sum of the previous layer, so all modules of the two layers are connected.
  void draw_path(const Genotype& path, std::string_view task, int shift) {
    std::vector<Point> sources{{corner_.x + kEnd, middle()}};
    for (int layer = 0; layer < grid_.layers; ++layer) {
      std::vector<Point> next;
      for (const int module : path.modules(layer)) {
        const Point at = cell_corner(layer, module);
        const int y = at.y + kCellHeight / 2 + shift;
        for (const Point& source : sources) join(source, {at.x, y}, task);
        next.push_back({at.x + kCellWidth, y});
      }
      sources = next;
    }
    for (const Point& source : sources) join(source, {last_x(), end_y(task)}, task);
  }
  void join(Point from, Point to, std::string_view task) {
    const int bend = (from.x + to.x) / 2;
    out_ << "  <path class=\"path " << task << "\" d=\"M" << from.x << ' ' << from.y << " C" << bend << ' ' << from.y
         << ' ' << bend << ' ' << to.y << ' ' << to.x << ' ' << to.y << "\"/>\n";
  }

  std::ostream& out_;
  const PathGrid& grid_;
  const SeedRun& run_;
  Point corner_;
};

void draw_header(std::ostream& out, const PathNetConfig& config) {
  const auto sample = [&](int x, int y, std::string_view left, std::string_view right, std::string_view words) {
    for (const auto& [offset, style] : {std::pair(0, left), std::pair(kCellWidth / 2, right)}) {
      out << "  <rect x=\"" << x + offset << "\" y=\"" << y - 12 << "\" width=\"" << kCellWidth / 2 << "\" height=\""
          << kCellHeight << "\" class=\"" << style << "\"/>\n";
    }
    draw_text(out, {x + kCellWidth + 8, y}, "note", words);
  };
  draw_text(out, {kMargin, 36}, "title", "The paths that PathNet found");
  const bool always = config.frozen_path == FrozenPath::always_active;
  draw_text(out, {kMargin, 56}, "note",
            message("Task A: classes ", comma_list(config.task_a), " of ", config.data.name, ". Then task B: classes ",
                    comma_list(config.task_b), ". The outputs of a layer's modules on a path are summed.",
                    always ? " In task B, A's path stays active." : ""));
  sample(kMargin, 84, "a", "a", "on A's path, frozen for task B");
  sample(kMargin + 265, 84, "a", "b", "on both: B's path reuses it");
  sample(kMargin + 510, 84, "b", "b", "on B's path, trained in task B");
  sample(kMargin + 770, 84, "unused", "unused", "on neither");
}

}  // namespace

std::string draw_paths(const PathNetConfig& config, std::span<const SeedRun> runs) {
  const PathGrid& grid = config.net.grid;
  const int panel_width = Panel::width(grid) + kMargin, panel_height = Panel::height(grid);
  const int count = static_cast<int>(runs.size());
  const int columns = std::clamp(kMaxWidth / panel_width, 1, std::max(1, count));
  const int rows = (count + columns - 1) / columns;
  const int width = std::max(kMargin + columns * panel_width, kMinWidth), height = kHeader + rows * panel_height;
  TextStream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
      << "\" role=\"img\" aria-labelledby=\"title\">\n  <title id=\"title\">The paths that PathNet found</title>\n"
      << kStyle << "  <rect class=\"background\" width=\"" << width << "\" height=\"" << height << "\"/>\n";
  draw_header(out, config);
  for (int i = 0; i < count; ++i) {
    const Point corner{kMargin + i % columns * panel_width, kHeader + i / columns * panel_height};
    Panel(out, grid, runs[static_cast<std::size_t>(i)], corner).draw();
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace braid
