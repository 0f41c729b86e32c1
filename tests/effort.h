#pragma once
// How much of the longest tests a build runs. Where code is not optimised, and with sanitizers, everything takes many
// times as long; there the paths through the code matter more than the cases.

namespace braid::testing {

#ifdef NDEBUG
constexpr bool kEveryCase = true;
#else
constexpr bool kEveryCase = false;
#endif

/// ThreadSanitizer takes minutes for some test cases, and has nothing to find in them: they run on one thread, or run
/// kernels that others run on several.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsOnly = true;
#else
constexpr bool kThreadsOnly = false;
#endif

/// Builds with sanitizers run every path through the code once, on small networks, unless they are thorough.
#ifdef BRAID_ONCE
constexpr bool kOnce = true;
#else
constexpr bool kOnce = false;
#endif

/// How many random cases a test looks at of those that it has.
constexpr int some_of(int cases) { return kEveryCase ? cases : cases / 50; }

}  // namespace braid::testing
