// Mistakes with sessions, steps and tensors.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "tests/api/misuse.h"
#include "tests/api/one_layer.h"
#include "tests/error_of.h"

namespace braid {

namespace {

using testing::check_misuses;
using testing::check_misuses_in_steps;

using testing::kOnes;
using testing::OneLayer;

/// Makes the calls of a kernel slow enough for another thread to come.
class WhileBusy final : public LaunchObserver {
 public:
  explicit WhileBusy(std::function<void()> action) : action_(std::move(action)) {}
  void before_launch(int, std::int32_t) override {
    if (action_) std::exchange(action_, nullptr)();
  }
  void after_launch(int, std::int32_t) override {}

 private:
  std::function<void()> action_;
};

/// A layer whose session is gone.
std::unique_ptr<LinearLayer> orphaned_layer() {
  Session session({.device = "cpu"});
  return std::make_unique<LinearLayer>(session, 3, 2);
}

/// A tensor whose session is gone.
Tensor orphaned_tensor() {
  Session session({.device = "cpu"});
  Step step = session.step();
  return relu(kOnes);
}

/// The weight of a layer that is gone.
Parameter& released_weight(Session& session) { return *LinearLayer(session, 3, 2).parameters().front(); }

}  // namespace

TEST_CASE("a second thread in a session, and a fork of its process, are told so") {
  OneLayer f;
  std::string of_thread;
  WhileBusy observer([&] {  // in a thread of the stream, while this one waits in run()
    of_thread = testing::error_of<Error>([&] { (void)f.session.step(); });
  });
  f.session.set_observer(&observer);
  Step step = f.session.step();
  CHECK(f.loss().item() > 0);
  f.session.set_observer(nullptr);
  CHECK(of_thread == "[session] two threads use this session at the same time: give each thread a session");

#ifndef __SANITIZE_THREAD__  // which cannot follow threads into a fork
  const pid_t child = fork();
  if (child == 0) {
    const std::string error = testing::error_of<Error>([&] {
      Step another = f.session.step();
      (void)f.loss().item();
    });
    int status = testing::contains(error, "make the session after fork()") ? 0 : 2;
    {
      OneLayer own;  // which has streams and helpers
      Step fresh = own.session.step();
      if (!(own.loss().item() > 0)) status = 3;
    }
    _exit(status);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(WIFEXITED(status));
#endif
}

TEST_CASE("mistakes with steps say what is wrong") {
  OneLayer f;
  check_misuses({
      {"an input outside a step", "no step is being recorded", [&] { Tensor{kOnes}; }},
      {"a parameter outside a step", "no step is being recorded", [&] { Tensor{f.w}; }},
      {"an update outside a step", "no step is being recorded", [&] { f.sgd.step(); }},
      {"two steps are open at once", "is being recorded already",
       [&] {
         Step a = f.session.step();
         Step b = f.session.step();
       }},
      {"no parameter", "[optimizer] expected parameters, got a null pointer at place 2",
       [&] {
         SGD({&f.w, nullptr}, {});
       }},
      {"the gradient of no parameter", "[backward] expected parameters, got a null pointer",
       [&] {
         Step a = f.session.step();
         Parameter* const none = nullptr;
         backward(f.loss(), std::span(&none, 1));
       }},
      {"an average of no parameter", "[weight_average] expected parameters",
       [&] { WeightAverage(f.session, {nullptr}, 0.5); }},
      {"saving no parameter", "[checkpoint] expected parameters",
       [&] {
         Parameter* const none = nullptr;
         save_checkpoint("none.safetensors", f.session, std::span(&none, 1));
       }},
      {"a step runs twice", "has run already",
       [&] {
         Step a = f.session.step();
         f.loss();
         a.run();
         a.run();
       }},
      {"recording after the run", "has run already",
       [&] {
         Step a = f.session.step();
         f.loss();
         a.run();
         f.loss();
       }},
      {"an update after the run", "has run already",
       [&] {
         Step a = f.session.step();
         backward(f.loss());
         a.run();
         f.sgd.step();
       }},
      {"running a step that was discarded", "was discarded",
       [&] {
         Step a = f.session.step();
         f.loss();
         a.discard();
         a.run();
       }},
      {"reading from a step that was discarded", "was discarded",
       [&] {
         Step a = f.session.step();
         const Tensor loss = f.loss();
         a.discard();
         (void)loss.item();
       }},
      {"reading a result of a step after its fault was reported", "label",
       [&] {
         Step a = f.session.step();
         const Tensor loss = cross_entropy(linear(kOnes, f.w), Array::from<std::int32_t>({0, 99}, {2}));
         a.run();
         CHECK_THROWS_AS(f.session.synchronize(), Error);
         (void)loss.item();
       }},
      {"the plan of a step that has not run", "no plan before it has run", [&] { (void)f.session.step().plan(); }},
      {"the plan of an earlier step", "has ended",
       [&] {
         Step a = f.session.step();
         f.loss();
         a.run();
         Step b = f.session.step();
         (void)a.plan();
       }},
      {"running an earlier step", "has ended",
       [&] {
         Step a = f.session.step();
         f.loss();
         a.plan_ahead();
         Step b = f.session.step();
         a.run();
       }},
      {"a step that was moved from", "has ended",
       [&] {
         Step a = f.session.step();
         f.loss();
         Step b = std::move(a);
         a.run();  // NOLINT: that is the mistake
       }},
      {"a step whose session is gone", "its session has begun another step, or is gone",
       [&] {
         auto session = std::make_unique<Session>(SessionOptions{.device = "cpu"});
         Step a = session->step();
         session.reset();
         a.run();
       }},
      {"recording on a session that is gone", "no step is being recorded",
       [&] {
         auto session = std::make_unique<Session>(SessionOptions{.device = "cpu"});
         Step a = session->step();
         session.reset();
         Tensor{kOnes};
       }},
      {"recording in another thread", "no step is being recorded in this thread",
       [&] {
         Step a = f.session.step();
         std::exception_ptr thrown;
         std::thread([&] {
           try {
             Tensor{kOnes};
           } catch (...) {
             thrown = std::current_exception();
           }
         }).join();
         if (thrown != nullptr) std::rethrow_exception(thrown);
       }},
  });
}

TEST_CASE("mistakes with tensors say what is wrong") {
  OneLayer f;
  std::optional<Step> step;
  check_misuses_in_steps(
      f.session, step,
      {
          {"item() of several elements", "expects a single element", [&] { (void)relu(kOnes).item(); }},
          {"reading a value that was not kept", "keep",
           [&] {
             const Tensor x = relu(kOnes);
             relu(x);
             step->run();
             (void)x.array();
           }},
          {"keeping after the run", "has run already",
           [&] {
             const Tensor x = relu(kOnes);
             step->run();
             x.keep();
           }},
          {"a value that does not exist", "no value 1000",
           [&] {
             f.loss();
             (void)f.session.tape().tensor(1000);
           }},
          {"the value -1", "no value -1",
           [&] {
             f.loss();
             (void)f.session.tape().tensor(kNoValue);
           }},
          {"an empty array", "expected an array with elements", [&] { Tensor{Array()}; }},
      });
  check_misuses({
      {"an undefined tensor in an op", "undefined", [&] { relu(Tensor()); }},
      {"the shape of an undefined tensor", "undefined", [&] { (void)Tensor().shape(); }},
      {"a tensor of an earlier step", "belongs to an earlier step",
       [&] {
         std::optional<Step> a(f.session.step());
         const Tensor loss = f.loss();
         a->run();
         a.emplace(f.session.step());
         (void)loss.item();
       }},
      {"a tensor whose step was given up", "step of this tensor has ended",
       [&] {
         Tensor loss;
         {
           Step a = f.session.step();
           loss = f.loss();
         }
         (void)loss.item();
       }},
      {"a tensor whose session is gone", "its session is gone", [] { (void)orphaned_tensor().shape(); }},
      {"a tensor whose session is gone, while another has its place", "its session is gone",
       [] {
         const Tensor loss = orphaned_tensor();
         Session session({.device = "cpu"});
         Step a = session.step();
         relu(kOnes);
         (void)loss.shape();
       }},
      {"tensors of two sessions in one op", "different sessions",
       [&] {
         Session other({.device = "cpu"});
         Step a = f.session.step();
         const Tensor x = relu(kOnes);
         Step b = other.step();
         add(x, relu(kOnes));
       }},
      {"the outputs of an input", "expected the output of an op",
       [&] {
         Step a = f.session.step();
         outputs_of(kOnes);
       }},
  });
}

TEST_CASE("mistakes with gradients say what is wrong") {
  OneLayer f;
  Parameter& other = f.session.add("other", {DType::f32, {2, 3}}, ValueKind::parameter);
  Parameter& mean = f.session.add("mean", {DType::f32, {2, 3}}, ValueKind::state);
  std::optional<Step> step;
  check_misuses_in_steps(
      f.session, step,
      {
          {"a gradient before backward()", "no backward() was called",
           [&] {
             f.loss();
             gradient(f.w);
           }},
          {"a gradient after the update", "updated since",
           [&] {
             backward(f.loss());
             f.sgd.step();
             step->run();
             gradient(f.w);
           }},
          {"the gradient of a parameter that the loss does not depend on", "depends on it",
           [&] {
             backward(f.loss());
             gradient(other);
           }},
          {"the gradient of a state", "is frozen",
           [&] {
             backward(f.loss());
             gradient(mean);
           }},
          {"the gradient of another session's parameter", "another session",
           [&] {
             OneLayer g;
             backward(f.loss());
             gradient(g.w);
           }},
          {"the gradient of an input that requires none", "call require_gradient()",
           [&] {
             const Tensor x = kOnes;
             backward(cross_entropy(linear(x, f.w), Array::from<std::int32_t>({0, 1}, {2})));
             gradient(x);
           }},
          {"require_gradient() after the first use", "has used this tensor already",
           [&] {
             const Tensor x = kOnes;
             relu(x);
             x.require_gradient();
           }},
          {"require_gradient() of labels", "expected a floating tensor",
           [&] {
             Tensor(Array::from<std::int32_t>({0, 1}, {2})).require_gradient();
           }},
          {"require_gradient() of a parameter", "set its `trainable`", [&] { Tensor(f.w).require_gradient(); }},
          {"backward() to parameters that it does not depend on", "depends on none of the tensors",
           [&] { backward(f.loss(), std::vector<Parameter*>{&other}); }},
          {"backward() after the update", "call backward() before the update",
           [&] {
             const Tensor loss = f.loss(), second = f.loss();
             backward(loss);
             f.sgd.step();
             backward(second);
           }},
          {"backward() after the run", "has run already",
           [&] {
             const Tensor loss = f.loss();
             step->run();
             backward(loss);
           }},
          {"an update without a gradient", "call backward(loss) first",
           [&] {
             f.loss();
             f.sgd.step();
           }},
          {"a second update by the same gradients", "call backward(loss) first",
           [&] {
             backward(f.loss());
             f.sgd.step();
             f.sgd.step();
           }},
      });
}

TEST_CASE("mistakes with models, names and lifetimes say what is wrong") {
  OneLayer f;
  check_misuses({
      {"two tensors of one name", "there is a tensor named 'w' already",
       [&] {
         f.session.add("w", {DType::f32, {1}}, ValueKind::state);
       }},
      {"two models without names", "give each model of a session a name",
       [&] {
         LinearLayer a(f.session, 2, 3);
         LinearLayer b(f.session, 2, 3);
       }},
      {"a model after its session", "the session of this model or optimizer is gone",
       [&] {
         const auto layer = orphaned_layer();
         Step step = f.session.step();
         (*layer)(kOnes);
       }},
      {"a parameter after its session", "belongs to another session",
       [&] {
         const auto layer = orphaned_layer();
         Step step = f.session.step();
         Tensor{*layer->parameters().front()};
       }},
      {"a parameter after its model", "has been released",
       [&] {
         Parameter& weight = released_weight(f.session);
         Step step = f.session.step();
         Tensor{weight};
       }},
      {"reading a parameter after its model", "has been released",
       [&] { (void)f.session.read(released_weight(f.session)); }},
      {"another session's model", "another session",
       [&] {
         Session session({.device = "cpu"});
         LinearLayer layer(session, 3, 2);
         Step step = f.session.step();
         layer(kOnes);
       }},
      {"an optimizer after its session", "another session",
       [&] {
         std::unique_ptr<LinearLayer> layer;
         std::unique_ptr<SGD> sgd;
         {
           Session session({.device = "cpu"});
           layer = std::make_unique<LinearLayer>(session, 3, 2);
           sgd = std::make_unique<SGD>(layer->parameters(), SGD::Options{.momentum = 0.9});
         }
         Step step = f.session.step();
         backward(f.loss());
         sgd->step();
       }},
      {"reading another session's parameter", "another session",
       [&] {
         Session session({.device = "cpu"});
         (void)session.read(f.w);
       }},
      {"a parameter given twice", "was given twice",
       [&] {
         SGD({&f.w, &f.w}, {});
       }},
      {"parameters of two sessions in one optimizer", "belong to different sessions",
       [&] {
         OneLayer g;
         SGD({&f.w, &g.w}, {});
       }},
      {"a negative learning rate", "expected a learning rate of at least 0", [&] { SGD({&f.w}, {.lr = -1}); }},
      {"a momentum of 1", "expected a momentum in [0, 1)", [&] { SGD({&f.w}, {.momentum = 1}); }},
      {"nesterov without momentum", "nesterov needs a momentum", [&] { SGD({&f.w}, {.nesterov = true}); }},
      {"a beta of 1", "expected betas in [0, 1)", [&] { Adam({&f.w}, {.beta2 = 1}); }},
      {"a module that takes several tensors, called with one", "call it with a list of tensors",
       [&] {
         struct Pair final : Module {
           using Module::Module;
           std::vector<Tensor> forward_all(std::span<const Tensor> inputs) override {
             return {inputs.begin(), inputs.end()};
           }
         } pair(f.session);
         Step step = f.session.step();
         pair(kOnes);
       }},
      {"a module that takes one tensor, called with two", "expected one tensor, got 2",
       [&] {
         ReluLayer layer(f.session);
         Step step = f.session.step();
         layer({kOnes, kOnes});
       }},
  });
}

}  // namespace braid
