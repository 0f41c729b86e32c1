#pragma once
// Shows the progress of training: on a terminal, a block with a line per job, redrawn below all messages; elsewhere,
// an occasional line.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct ProgressState {
  std::int64_t epoch = 0, epochs = 0;  ///< epoch from 1
  std::int64_t step = 0, steps = 0;    ///< steps of the whole run; step from 1
  double loss = 0, accuracy = 0;       ///< means over some steps; accuracy in [0,1]
  double images_per_second = 0;
  double seconds_left = 0;
  bool validating = false;  ///< the epoch has ended, and the model is being evaluated
};

/// "epoch 1/2  step 120/938  loss 0.512  accuracy 81.2 %  1240 images/s  1:05 left"
std::string to_string(const ProgressState& state);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// The size of the terminal on standard output; the default if unknown.
TerminalSize terminal_size();

/// While a block is on the terminal, print only through the object.
class Progress {
 public:
  enum class Mode {
    quiet,   ///< prints nothing
    lines,   ///< one line for every due update
    redraw,  ///< an overwritten block, for terminals
  };
  /// redraw if standard output is a terminal that can move its cursor, else lines.
  static Mode suitable_mode(bool quiet);

  /// The stream must outlive the object. Starts with one row, without a label. Asks for the size whenever it draws the
  /// block, so that the block follows a terminal that is resized.
  Progress(std::ostream& out, Mode mode, std::function<TerminalSize()> size = terminal_size)
      : out_(out), mode_(mode), size_(std::move(size)), rows_(1) {}
  /// Erases the block.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The callback runs once if the stream fails; nothing is printed from then on.
  void on_failure(std::function<void()> action) { on_failure_ = std::move(action); }
  /// One row per label from now on; lines about it begin with the label.
  void set_rows(const std::vector<std::string>& labels);
  /// Shows the state of a row. `due` allows a line for it in mode `lines`. The block is redrawn at most ten times a
  /// second, and at once when validation begins.
  void update(std::size_t row, const ProgressState& state, bool due) { show(row, state, to_string(state), due); }
  /// The same for text other than the progress of an epoch.
  void update(std::size_t row, std::string_view text, bool due) { show(row, {}, text, due); }
  /// Removes a row from the block until its next update.
  void finish(std::size_t row);
  /// Prints a permanent line, about everything or about a row.
  void print(std::string_view line);
  void print(std::size_t row, std::string_view line);
  /// Prints "braid: warning: …" on standard error, in every mode.
  void warn(std::string_view what);

 private:
  struct Row {
    std::string label;                   // "resnet20", or nothing
    std::string text;                    // as last shown; empty if the row is not in the block
    std::optional<ProgressState> state;  // the state behind the text, if the text can be shortened

    std::string line(std::string_view said) const { return (label.empty() ? "" : label + ": ").append(said); }
  };

  void show(std::size_t row, const std::optional<ProgressState>& state, std::string_view text, bool due);
  /// Replaces the block by permanent lines, each with its line end, and a new block below.
  void redraw(std::string_view lines = "");
  /// The lines of the block, at most as wide and as many as fit the terminal.
  std::vector<std::string> block(const TerminalSize& size) const;
  void write(std::string_view text);

  std::ostream& out_;
  Mode mode_;
  std::function<TerminalSize()> size_;
  std::function<void()> on_failure_ = [] {};
  std::vector<Row> rows_;
  std::chrono::steady_clock::time_point last_draw_{};
};

}  // namespace braid
