#pragma once
// What a person watching the training sees: on a terminal one line per job that is redrawn, elsewhere one line now and
// then.

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct ProgressState {
  std::int64_t epoch = 0, epochs = 0;  ///< epoch from 1
  std::int64_t step = 0, steps = 0;    ///< of the whole run; step from 1
  double loss = 0, accuracy = 0;       ///< means over the epoch so far; accuracy in [0,1]
  double images_per_second = 0;
  double seconds_left = 0;
};

/// "epoch 1/2  step 120/938  loss 0.512  accuracy 81.2 %  1240 images/s  1:05 left"
std::string to_string(const ProgressState& state);

class Progress {
 public:
  enum class Mode {
    quiet,   ///< prints nothing
    lines,   ///< one line for every update that is due
    redraw,  ///< one line that is overwritten, for terminals
  };
  /// redraw if standard output is a terminal, else lines.
  static Mode suitable_mode(bool quiet);

  /// The stream must outlive the object. There is one row, without a label.
  Progress(std::ostream& out, Mode mode) : out_(out), mode_(mode), rows_(1) {}
  /// One row per label from now on; lines about it begin with the label.
  void set_rows(const std::vector<std::string>& labels);
  /// Shows the state of a row. `due` says that a line may be spent on it; redrawing happens at most ten times a second
  /// anyway.
  void update(std::size_t row, const ProgressState& state, bool due) { update(row, to_string(state), due); }
  /// The same for what is no epoch of training.
  void update(std::size_t row, std::string_view text, bool due);
  /// Prints a line that stays, about everything or about a row.
  void print(std::string_view line);
  void print(std::size_t row, std::string_view line);
  /// Prints "braid: warning: …" on standard error, in every mode.
  void warn(std::string_view what);

 private:
  struct Row {
    std::string label;  // "resnet20: ", or nothing
    std::string text;   // as last drawn
  };

  std::ostream& out_;
  Mode mode_;
  std::vector<Row> rows_;
  bool drawn_ = false;  // the cursor is at the end of the last row
  std::chrono::steady_clock::time_point last_draw_{};
};

}  // namespace braid
