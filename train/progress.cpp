#include "train/progress.h"

#include <unistd.h>

#include <cmath>
#include <iomanip>
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

void Progress::update(std::string_view line, bool due) {
  constexpr std::chrono::milliseconds kRedraw{100};
  constexpr const char* kEraseRest = "\x1b[K";  // ECMA-48: erase to the end of the line
  if (mode_ == Mode::lines && due) out_ << line << std::endl;
  const auto now = std::chrono::steady_clock::now();
  if (mode_ != Mode::redraw || now - last_draw_ < kRedraw) return;
  out_ << '\r' << line << kEraseRest << std::flush;
  drawn_ = true;
  last_draw_ = now;
}

void Progress::print(std::string_view line) {
  if (mode_ == Mode::quiet) return;
  if (drawn_) out_ << '\n';
  out_ << line << std::endl;
  drawn_ = false;
}

}  // namespace braid
