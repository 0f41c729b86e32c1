#include "train/progress.h"

#include <unistd.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

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

}  // namespace

std::string to_string(const ProgressState& state) {
  std::ostringstream out;
  out << "epoch " << state.epoch << '/' << state.epochs << "  step " << state.step << '/' << state.steps << std::fixed
      << std::setprecision(3) << "  loss " << state.loss << std::setprecision(1) << "  accuracy "
      << 100 * state.accuracy << " %  " << std::setprecision(0) << state.images_per_second << " images/s  "
      << clock(state.seconds_left) << " left";
  return out.str();
}

Progress::Mode Progress::suitable_mode(bool quiet) {
  if (quiet) return Mode::quiet;
  return isatty(STDOUT_FILENO) == 1 ? Mode::redraw : Mode::lines;
}

void Progress::set_rows(const std::vector<std::string>& labels) {
  rows_.clear();
  for (const std::string& label : labels) rows_.push_back({label + ": ", ""});
}

void Progress::update(std::size_t row, std::string_view text, bool due) {
  constexpr std::chrono::milliseconds kRedraw{100};
  // ECMA-48: erase to the end of the line, and go up some lines.
  constexpr const char *kEraseRest = "\x1b[K", *kUp = "\x1b[";
  rows_[row].text = text;
  if (mode_ == Mode::lines && due) out_ << rows_[row].label << rows_[row].text << std::endl;
  const auto now = std::chrono::steady_clock::now();
  if (mode_ != Mode::redraw || now - last_draw_ < kRedraw) return;
  if (drawn_ && rows_.size() > 1) out_ << kUp << rows_.size() - 1 << 'A';
  for (const Row& each : rows_) {
    out_ << (&each == rows_.data() ? "" : "\n") << '\r' << each.label << each.text << kEraseRest;
  }
  out_ << std::flush;
  drawn_ = true;
  last_draw_ = now;
}

void Progress::print(std::string_view line) {
  if (mode_ == Mode::quiet) return;
  if (drawn_) out_ << '\n';
  out_ << line << std::endl;
  drawn_ = false;
}

void Progress::warn(std::string_view what) {
  if (drawn_) out_ << std::endl;
  drawn_ = false;
  std::cerr << "braid: warning: " << what << std::endl;
}

void Progress::print(std::size_t row, std::string_view line) { print(rows_[row].label + std::string(line)); }

}  // namespace braid
