#pragma once
// Programs as tests write them: every launch next to its kernel.

#include <functional>

#include "core/device/program.h"

namespace braid::testing {

/// A kernel that runs a function.
class TestKernel final : public Kernel {
 public:
  explicit TestKernel(std::function<void(const LaunchContext&)> run) : run_(std::move(run)) {}
  explicit TestKernel(std::function<void()> run) : run_([run](const LaunchContext&) { run(); }) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void launch(const LaunchContext& context) override { run_(context); }

 private:
  std::function<void(const LaunchContext&)> run_;
};

struct Instruction {
  Command command;
  Kernel* kernel = nullptr;  // kernel of a launch
};

/// A launch without an index gets the next free one.
inline Instruction launch(Kernel& kernel, std::int32_t index = -1) { return {{Command::Kind::launch, index}, &kernel}; }
inline Instruction record(std::int32_t event) { return {{Command::Kind::record, event}}; }
inline Instruction wait(std::int32_t event) { return {{Command::Kind::wait, event}}; }

class TestProgram {
 public:
  explicit TestProgram(const std::vector<std::vector<Instruction>>& streams = {}, std::int32_t events = 0)
      : commands_{std::vector<std::vector<Command>>(streams.size()), events}, program_{commands_, {}} {
    auto& kernels = program_.kernels;
    for (std::size_t stream = 0; stream < streams.size(); ++stream) {
      for (auto [command, kernel] : streams[stream]) {
        if (command.kind == Command::Kind::launch) {
          if (command.index < 0) command.index = static_cast<std::int32_t>(kernels.size());
          kernels.resize(std::max(kernels.size(), static_cast<std::size_t>(command.index) + 1));
          kernels[static_cast<std::size_t>(command.index)] = kernel;
        }
        commands_.streams[stream].push_back(command);
      }
    }
  }
  TestProgram(const TestProgram&) = delete;
  void make_brief() { program_.brief = true; }

  operator const Program&() const { return program_; }

 private:
  CommandLists commands_;
  Program program_;
};

}  // namespace braid::testing
