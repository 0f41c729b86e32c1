#pragma once
// Loops over several cores. The pieces a loop is cut into depend on its length alone, never on the number of threads,
// so results do not depend on the width either.

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace braid {

/// A reference to something callable as body(piece, member). Does not own it.
class LoopBody {
 public:
  template <class Body>
  LoopBody(const Body& body)  // NOLINT: a reference, like std::string_view
      : body_(&body), call_([](const void* object, std::int64_t piece, int member) {
          (*static_cast<const Body*>(object))(piece, member);
        }) {}
  void operator()(std::int64_t piece, int member) const { call_(body_, piece, member); }

 private:
  const void* body_;
  void (*call_)(const void*, std::int64_t, int);
};

/// The order in which a thread takes its pieces. A second pass over the same data goes backward, because the end of the
/// first pass is what the caches still hold.
enum class LoopOrder { forward, backward };

/// Calls body(piece, member) once for every piece of [0, pieces), on the calling thread and up to width - 1 others. See
/// cpu::ThreadPool::run.
void run_pieces(int width, std::int64_t pieces, LoopOrder order, LoopBody body);

/// Calls body(begin, end) for consecutive pieces of at most `grain` that cover [0, size), on up to `width` threads. If
/// the body takes a third argument, it gets a number below `width` that no two threads have at a time, for separate
/// scratch memory. Rethrows what the body throws. CPU kernels take KernelSpec::width for the width.
template <LoopOrder kOrder = LoopOrder::forward, class Body>
void parallel_for(int width, std::int64_t size, std::int64_t grain, const Body& body) {
  const std::int64_t pieces = (size + grain - 1) / grain;
  const auto run = [&](std::int64_t piece, int member) {
    const std::int64_t begin = piece * grain, end = std::min(size, begin + grain);
    if constexpr (std::is_invocable_v<const Body&, std::int64_t, std::int64_t, int>) {
      body(begin, end, member);
    } else {
      body(begin, end);
    }
  };
  if (width > 1 && pieces > 1) return run_pieces(width, pieces, kOrder, run);
  for (std::int64_t i = 0; i < pieces; ++i) run(kOrder == LoopOrder::forward ? i : pieces - 1 - i, 0);
}

}  // namespace braid
