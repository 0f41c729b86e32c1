#include "train/inspect/bench/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "autograd/functions.h"
#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid {

namespace {

constexpr std::int64_t kMatrix = 1536;                                                       // 7.2 GFLOP
constexpr std::int64_t kVectors[] = {1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};  // up to 201 MB in all

/// The shortest time of a step with the one node that `record` records, seconds; and the work of that node.
template <class Record>
std::pair<double, Work> fastest(Session& session, const Record& record) {
  constexpr int kSteps = 12;
  double least = std::numeric_limits<double>::infinity();
  Work work;
  for (int i = 0; i < kSteps; ++i) {
    Step step = session.step();
    record();
    const RunTimes times = step.measure();
    least = std::min(least, times.launches.back().finish - times.launches.front().start);
    work = step.work(times.launches.front().index);
  }
  return {least * 1e-6, work};
}

Parameter& operand(Session& session, const std::string& name, const Shape& shape) {
  return session.add("peak." + name, {DType::f32, shape}, ValueKind::state);
}

}  // namespace

double Peaks::memory_seconds(double bytes) const {
  // Short kernels do not reach what memory can do, so the fastest of what is larger counts.
  double rate = bytes_per_second.back().second;
  for (const auto& [size, reached] : bytes_per_second) {
    if (size >= bytes) rate = std::max(rate, reached);
  }
  return bytes / rate;
}

double Peaks::floor(const Work& work) const {
  return 1e6 * std::max(work.flops / flops_per_second, memory_seconds(work.bytes));
}

bool Peaks::is_bound_by_arithmetic(const Work& work) const {
  return work.flops / flops_per_second > memory_seconds(work.bytes);
}

Peaks best_of(Peaks first, const Peaks& second) {
  first.flops_per_second = std::max(first.flops_per_second, second.flops_per_second);
  for (std::size_t i = 0; i < first.bytes_per_second.size(); ++i) {
    double& rate = first.bytes_per_second[i].second;
    rate = std::max(rate, second.bytes_per_second[i].second);
  }
  return first;
}

Peaks measure_peaks(const SessionOptions& options) {
  Session session({.device = options.device, .streams = 1, .threads = options.threads, .tf32 = options.tf32});
  Peaks peaks;
  Parameter& a = operand(session, "a", {kMatrix, kMatrix});
  Parameter& b = operand(session, "b", {kMatrix, kMatrix});
  const auto [seconds, product] = fastest(session, [&] { matmul(a, b); });
  peaks.flops_per_second = product.flops / seconds;
  for (const std::int64_t size : kVectors) {
    Parameter& x = operand(session, message("x", size), {size});
    Parameter& y = operand(session, message("y", size), {size});
    const auto [time, sum] = fastest(session, [&] { add(x, y); });
    peaks.bytes_per_second.emplace_back(sum.bytes, sum.bytes / time);
  }
  return peaks;
}

double measure_handover() {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 200, kHandovers = 100, kEnd = -1;
  constexpr std::chrono::milliseconds kLimit(100);  // while both threads are on one core, a handover takes milliseconds
  alignas(128) std::atomic<int> count = 0;
  std::thread other([&count] {  // makes odd numbers even
    for (int seen = 0; seen != kEnd; seen = count.load(std::memory_order_acquire)) {
      if (seen % 2 == 1) count.store(seen + 1, std::memory_order_release);
    }
  });
  const auto begin = Clock::now();
  auto now = begin;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds && now - begin < kLimit; ++round) {
    for (int seen = 0; seen < kHandovers; seen += 2) {
      count.store(seen + 1, std::memory_order_release);
      while (count.load(std::memory_order_acquire) != seen + 2) {
      }
    }
    const auto before = std::exchange(now, Clock::now());
    least = std::min(least, std::chrono::duration<double, std::nano>(now - before).count() / kHandovers);
  }
  count.store(kEnd, std::memory_order_release);
  other.join();
  return least;
}

std::string to_text(const Roofline& roofline) {
  const auto milliseconds = [](double microseconds) { return fixed(microseconds / 1e3, 3); };
  const auto ratio = [](double measured, double floor) { return floor >= 10 ? fixed(measured / floor, 2) : ""; };
  std::vector<std::vector<std::string>> table{
      {"op", "nodes", "floor, ms", "measured, ms", "ratio", "above floor, ms", "arithmetic"}};
  OpRoofline all{.op = "all nodes"};
  const auto add_row = [&](const OpRoofline& op) {
    const std::string share = op.floor > 0 ? message(fixed(100 * op.arithmetic / op.floor, 0), " %") : "";
    table.push_back({op.op, std::to_string(op.nodes), milliseconds(op.floor), milliseconds(op.measured),
                     ratio(op.measured, op.floor), milliseconds(op.measured - op.floor), share});
  };
  for (const OpRoofline& op : roofline.ops) {
    add_row(op);
    all.nodes += op.nodes;
    all.floor += op.floor;
    all.arithmetic += op.arithmetic;
    all.measured += op.measured;
  }
  add_row(all);
  const double idle = roofline.step - all.measured;
  table.push_back({"idle", "", "", milliseconds(idle), "", milliseconds(idle), ""});
  table.push_back({"step", "", milliseconds(all.floor), milliseconds(roofline.step), ratio(roofline.step, all.floor),
                   milliseconds(roofline.step - all.floor), ""});
  const Peaks& peaks = roofline.peaks;
  double cached = 0;
  for (const auto& [bytes, rate] : peaks.bytes_per_second) cached = std::max(cached, rate);
  return message("  peaks     ", fixed(peaks.flops_per_second / 1e9, 1), " GFLOP/s, ",
                 fixed(peaks.bytes_per_second.back().second / 1e9, 1), " GB/s in memory, ", fixed(cached / 1e9, 1),
                 " GB/s in caches\n\n", text_table(table, "lrrrrrr", "  "));
}

}  // namespace braid
