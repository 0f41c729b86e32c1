#include "train/report/plan/scaling.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/text_stream.h"
#include "core/text/json.h"
#include "core/text/text_table.h"

namespace braid::scheduler {

namespace {

// Pixels.
constexpr int kWidth = 960, kHeight = 400, kMargin = 24;
constexpr int kTop = 128, kBottom = 344, kPanelWidth = 380;
constexpr int kLeft[] = {72, 556};                       // left edges of the panels
constexpr double kNumberWidth = 34, kNumberHeight = 16;  // size of a number, with room around it

constexpr const char* kStyle = R"(  <style>
    .scaling text { font: 12px system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1d2430; }
    .scaling .title { font-size: 17px; font-weight: 600; }
    .scaling .panel { font-size: 13px; font-weight: 600; }
    .scaling .note { fill: #667085; }
    .scaling .end { text-anchor: end; }
    .scaling .middle { text-anchor: middle; }
    .scaling .paper { fill: #f6f7f9; stroke: #d5d9e0; }
    .scaling .line { stroke: #d5d9e0; }
    .scaling .ideal { stroke: #667085; stroke-dasharray: 5 4; }
    .scaling .curve { fill: none; stroke: #3073b5; stroke-width: 2; stroke-linejoin: round; }
    .scaling .point { fill: #f6f7f9; stroke: #3073b5; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      .scaling text { fill: #e8ecf2; }
      .scaling .note { fill: #9aa6b6; }
      .scaling .paper { fill: #1c222b; stroke: #39424f; }
      .scaling .line { stroke: #39424f; }
      .scaling .ideal { stroke: #9aa6b6; }
      .scaling .curve { stroke: #629eda; }
      .scaling .point { fill: #1c222b; stroke: #629eda; }
    }
  </style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string percent(double share) { return fixed(100 * share, 0) + " %"; }

/// A factor with three digits, as in "97.6 times".
std::string times(double number) { return fixed(number, number < 10 ? 2 : number < 100 ? 1 : 0); }

/// The values of one row as text.
std::string values(const ScaleRow& row) {
  return message(row.ranks, row.ranks == 1 ? " rank: " : " ranks: ", milliseconds(row.makespan / 1e6), " per step, ",
                 percent(row.efficiency), " efficiency, speedup ", times(row.speedup()), ", communicating ",
                 milliseconds(row.communicating / 1e6));
}

/// One of the two: a frame whose x axis has the number of ranks, with a logarithmic scale.
class Panel {
 public:
  Panel(std::ostream& out, const std::vector<ScaleRow>& rows, int left) : out_(out), rows_(rows), left_(left) {}

  double x(const ScaleRow& row) const { return left_ + kPanelWidth * log_share(row.ranks); }
  /// The y coordinate of 0 to 1 of the height.
  static double y(double share) { return kBottom - (kBottom - kTop) * share; }
  /// Where a number between 1 and the most ranks is on a logarithmic scale, 0 to 1.
  double log_share(double number) const { return std::log(std::max(number, 1.0)) / std::log(rows_.back().ranks); }

  void heading(std::string_view words) {
    text(left_, kTop - 36, "panel", words);
    text(left_ + kPanelWidth / 2, kBottom + 40, "note middle", "ranks");
    for (const ScaleRow& row : apart(kNumberWidth / kPanelWidth)) {
      text(x(row), kBottom + 20, "note middle", std::to_string(row.ranks));
    }
  }
  /// The rows whose numbers of ranks are so far apart, on a logarithmic scale from 0 to 1. The last, which was asked
  /// for, is one of them.
  std::vector<ScaleRow> apart(double share) const {
    std::vector<ScaleRow> kept;
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      if (kept.empty() || log_share(kept.back().ranks) - log_share(row->ranks) >= share) kept.push_back(*row);
    }
    return kept;
  }
  void grid_line(double share, const std::string& name) {
    line("line", left_, y(share), left_ + kPanelWidth, y(share));
    text(left_ - 10, y(share) + 4, "note end", name);
  }
  void line(std::string_view style, double x1, double y1, double x2, double y2) {
    out_ << "  <line class=\"" << style << "\" x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
         << "\"/>\n";
  }
  void text(double at_x, double at_y, std::string_view style, std::string_view words) {
    out_ << "  <text class=\"" << style << "\" x=\"" << at_x << "\" y=\"" << at_y << "\">" << escaped(words)
         << "</text>\n";
  }
  /// `share` of a row: its height.
  template <class Share>
  void curve(const Share& share) {
    out_ << "  <polyline class=\"curve\" points=\"";
    for (const ScaleRow& row : rows_) out_ << (&row == rows_.data() ? "" : " ") << x(row) << ',' << y(share(row));
    out_ << "\"/>\n";
    for (const ScaleRow& row : rows_) {
      out_ << "  <circle class=\"point\" r=\"4\" cx=\"" << x(row) << "\" cy=\"" << y(share(row)) << "\"><title>"
           << values(row) << "</title></circle>\n";
    }
  }

 private:
  std::ostream& out_;
  const std::vector<ScaleRow>& rows_;
  const int left_;
};

}  // namespace

Json rows_of(const Scaling& scaling) {
  Json rows = Json::array();
  for (const ScaleRow& row : scaling.rows) {
    rows.push_back({{"ranks", row.ranks},
                    {"makespan_us", row.makespan},
                    {"communicating_us", row.communicating},
                    {"buckets", row.buckets},
                    {"efficiency", row.efficiency}});
  }
  return rows;
}

std::string scaling_picture(std::string_view title, const Scaling& scaling) {
  const std::vector<ScaleRow>& rows = scaling.rows;
  BRAID_CHECK(rows.size() > 1, Error, "[plan] a picture of scaling needs at least 2 ranks");
  TextStream out;
  out.precision(5);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"scaling\" viewBox=\"0 0 " << kWidth << ' ' << kHeight
      << "\" role=\"img\" aria-labelledby=\"scaling-title scaling-values\">\n  <title id=\"scaling-title\">Efficiency "
         "of "
      << escaped(title) << " on up to " << rows.back().ranks << " ranks</title>\n  <desc id=\"scaling-values\">";
  for (const ScaleRow& row : rows) out << values(row) << ". ";
  out << "</desc>\n"
      << kStyle << "  <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"" << kWidth - 1 << "\" height=\"" << kHeight - 1
      << "\" rx=\"8\"/>\n";

  Panel efficiency(out, rows, kLeft[0]);
  efficiency.text(kMargin, 34, "title", title);
  efficiency.text(kMargin, 56, "note", message("simulated on ", scaling.cluster));
  efficiency.heading("efficiency: images per second of each rank");
  const double most = std::max(1.0, std::ranges::max(rows, {}, &ScaleRow::efficiency).efficiency);
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) efficiency.grid_line(share / most, percent(share));
  efficiency.curve([&](const ScaleRow& row) { return row.efficiency / most; });
  for (const ScaleRow& row : efficiency.apart(kNumberWidth / kPanelWidth)) {  // next to a falling curve
    efficiency.text(efficiency.x(row) - 1, Panel::y(row.efficiency / most) - 10, "value", percent(row.efficiency));
  }

  Panel speedup(out, rows, kLeft[1]);
  speedup.heading("speedup: images per second of all ranks");
  for (const ScaleRow& row : speedup.apart(kNumberHeight / (kBottom - kTop))) {
    speedup.grid_line(speedup.log_share(row.ranks), std::to_string(row.ranks));
  }
  speedup.line("ideal", speedup.x(rows.front()), Panel::y(0), speedup.x(rows.back()), Panel::y(1));
  speedup.curve([&](const ScaleRow& row) { return speedup.log_share(row.speedup()); });
  for (const ScaleRow& row : speedup.apart(kNumberWidth / kPanelWidth)) {
    if (row.ranks > 1)
      speedup.text(speedup.x(row), Panel::y(speedup.log_share(row.speedup())) + 21, "middle", times(row.speedup()));
  }
  speedup.text(kLeft[1] + kPanelWidth / 2 - 6, Panel::y(0.5) - 6, "note end", "ideal");
  out << "</svg>\n";
  return out.str();
}

}  // namespace braid::scheduler
