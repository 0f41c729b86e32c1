#include "train/run/log/progress.h"

#include <doctest/doctest.h>

#include <sstream>

namespace braid {

namespace {

const ProgressState kState{.epoch = 1,
                           .epochs = 20,
                           .step = 120,
                           .steps = 938,
                           .loss = 0.5124,
                           .accuracy = 0.8121,
                           .images_per_second = 1240.4,
                           .seconds_left = 64.2};

/// The drawing of jobs "resnet20", "googlenet" and "vgg", the last of which has nothing to show.
std::string drawing(const TerminalSize& size) {
  std::ostringstream out;
  Progress progress(out, Progress::Mode::redraw, [size] { return size; });
  progress.set_rows({"resnet20", "googlenet", "vgg"});
  progress.update(0, kState, false);
  ProgressState second = kState;
  second.step = 60;
  progress.update(1, second, false);
  out.str("");
  progress.print("");
  return out.str();
}

/// The block as it must be drawn: after the message, and with the cursor back at its start.
std::string two_lines(const std::string& first, const std::string& second) {
  return "\r\x1b[J\n\x1b[?7l" + first + "\n" + second + "\r\x1b[1A\x1b[?7h";
}

}  // namespace

TEST_CASE("lines of the block get shorter words, and then fewer fields, until all of them fit") {
  CHECK(drawing({.columns = 92}) ==
        two_lines("resnet20   epoch 1/20  step 120/938  loss 0.512  accuracy 81.2 %  1240 images/s  1:05 left",
                  "googlenet  epoch 1/20  step 60/938   loss 0.512  accuracy 81.2 %  1240 images/s  1:05 left"));
  CHECK(drawing({.columns = 84}) ==
        two_lines("resnet20   epoch 1/20  step 120/938  loss 0.512  acc 81.2 %  1240 img/s  1:05 left",
                  "googlenet  epoch 1/20  step 60/938   loss 0.512  acc 81.2 %  1240 img/s  1:05 left"));
  CHECK(drawing({.columns = 80}) ==
        two_lines("resnet20   epoch 1/20  step 120/938  loss 0.512  acc 81.2 %  1:05 left",
                  "googlenet  epoch 1/20  step 60/938   loss 0.512  acc 81.2 %  1:05 left"));
  CHECK(drawing({.columns = 60}) == two_lines("resnet20   step 120/938  loss 0.512  acc 81.2 %  1:05 left",
                                              "googlenet  step 60/938   loss 0.512  acc 81.2 %  1:05 left"));
  CHECK(drawing({.columns = 40}) ==
        two_lines("resnet20   step 120/938  loss 0.512", "googlenet  step 60/938   loss 0.512"));
  CHECK(drawing({.columns = 12}) == two_lines("resnet20   …", "googlenet  …"));
}

TEST_CASE("a row that has finished leaves the block, and the block leaves the terminal with its object") {
  std::ostringstream out;
  {
    Progress progress(out, Progress::Mode::redraw);
    progress.update(0, "text", false);
    out.str("");
    progress.finish(0);
    CHECK(out.str() == "\r\x1b[J\x1b[?7l\r\x1b[?7h");
    out.str("");
  }
  CHECK(out.str() == "\r\x1b[J");
}

TEST_CASE("when validation begins, the block says so at once") {
  std::ostringstream out;
  Progress progress(out, Progress::Mode::redraw, [] { return TerminalSize{}; });
  progress.update(0, kState, false);
  ProgressState state = kState;
  state.validating = true;
  progress.update(0, state, false);
  CHECK(out.str().ends_with(
      "epoch 1/20  step 120/938  loss 0.512  accuracy 81.2 %  1240 images/s  validating\r\x1b[?7h"));
}

TEST_CASE("a stream that is not a terminal gets plain due lines and messages") {
  std::ostringstream out;
  Progress progress(out, Progress::Mode::lines, [] { return TerminalSize{.columns = 10}; });
  progress.set_rows({"a", "b"});
  progress.update(1, kState, true);
  progress.update(0, kState, false);
  progress.print(0, "a message of more than 10 columns");
  progress.finish(0);
  CHECK(out.str() ==
        "b: epoch 1/20  step 120/938  loss 0.512  accuracy 81.2 %  1240 images/s  1:05 left\n"
        "a: a message of more than 10 columns\n");
}

}  // namespace braid
