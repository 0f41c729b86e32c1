// What a step allocates while it runs. This program replaces the C library's allocator by one that counts, for all that
// is linked into it, on every thread. Only what oneDNN allocates while it executes a primitive does not count: several
// small blocks each time. Sanitizers bring their own allocator.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "models/registry.h"
#include "runtime/compile/plan_choice.h"
#include "runtime/session.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace braid::testing {
namespace {

std::atomic<bool> counting_allocations = false;
std::atomic<int> allocations = 0;

thread_local bool in_onednn = false;

void note_allocation() {
  if (counting_allocations && !in_onednn) ++allocations;
}

}  // namespace
}  // namespace braid::testing

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  braid::testing::note_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  braid::testing::note_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  braid::testing::note_allocation();
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  braid::testing::note_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  static const auto real =
      reinterpret_cast<decltype(&dnnl_primitive_execute)>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  braid::testing::in_onednn = true;
  const int status = real(primitive, stream, count, arguments);
  braid::testing::in_onednn = false;
  return status;
}
}

namespace braid::testing {
namespace {

template <class Function>
int allocations_of(const Function& function) {
  allocations = 0;
  counting_allocations = true;
  function();
  counting_allocations = false;
  return allocations;
}

struct StepAllocations {
  int recording = 0;
  int running = 0;  // from run() until the step has finished
};

/// Counts allocations of training steps, once the session has chosen a plan.
StepAllocations allocations_of_step(const std::string& model, const Shape& image, int streams) {
  Session session({.device = "cpu", .streams = streams, .threads = 2});
  const auto network =
      models::make_model(model, session, {.classes = 10, .image_shape = {image[1], image[2], image[3]}});
  const Array images(DType::f32, image), labels(DType::i32, {image[0]});
  StepAllocations found;
  std::size_t clean = 0;  // steps in a row
  // The plan that is kept is watched all the time. A thread that gets its first work late allocates once, so that what
  // counts is whether any steps in a row, more than are watched together, do without.
  constexpr std::size_t kSteps = 2 * kWatchedSteps;
  for (std::size_t steps = 0; clean < kSteps && steps < 10 * kSteps; ++steps) {
    Step step = session.step();
    const int recording = allocations_of([&] { backward(training_loss(network->heads(images), labels)); });
    const int running = allocations_of([&] {
      step.run();
      session.synchronize();
    });
    if (session.choosing()) steps = 0;
    clean = running == 0 && !session.choosing() ? clean + 1 : 0;
    found.recording += recording;
    found.running += running;
  }
  if (clean == kSteps) found.running = 0;
  return found;
}

}  // namespace

TEST_CASE("a step whose plan is made, and chosen, runs without allocating; recording it allocates") {
  const std::pair<std::string, Shape> models[] = {
      {"lenet5", {16, 28, 28, 1}}, {"resnet20", {4, 32, 32, 3}}, {"googlenet", {1, 32, 32, 3}}};
  for (const int streams : {0, 2}) {  // of a number that is chosen, or set
    for (const auto& [model, image] : models) {
      CAPTURE(model);
      CAPTURE(streams);
      const StepAllocations found = allocations_of_step(model, image, streams);
      CHECK(found.recording > 0);
      CHECK(found.running == 0);
    }
  }
}

}  // namespace braid::testing

#endif
