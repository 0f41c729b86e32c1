// Uses a custom op: checks its gradient in float64, and trains a network with it on two streams.
//
//   custom_op [device]

#include <braid/braid.h>

#include <exception>
#include <iostream>

#include "swish.h"

namespace {

using custom::swish;

/// Compares the gradient of Swish with difference quotients. Throws Error if they do not agree.
void check_gradient(const std::string& device) {
  braid::Session session({.device = device, .streams = 2});
  braid::Parameter& w = session.add("w", {braid::DType::f64, {2, 5}}, braid::ValueKind::parameter);
  session.write(w, braid::Array::from<double>({-3, -1, -0.5, -0.1, 0, 0.1, 0.5, 1, 2, 4}, {2, 5}));
  braid::Parameter* const parameters[] = {&w};
  const auto labels = braid::Array::from<std::int32_t>({1, 3}, {2});
  const auto loss_of = [&](std::vector<braid::Array>* gradients) {
    const braid::Step step = session.step();
    const braid::Tensor loss = braid::cross_entropy(swish(w, 1.5), labels);
    if (gradients != nullptr) {
      braid::backward(loss);
      gradients->push_back(braid::gradient(w).keep().array());
    }
    return loss.item();
  };
  const std::string disagreement = braid::check_gradients(session, parameters, loss_of);
  if (!disagreement.empty()) throw braid::Error("[custom_op] " + disagreement);
  std::cout << "the gradient agrees with difference quotients\n";
}

/// Two branches that differ in β, joined: the scheduler may run them at the same time.
class Net final : public braid::Module {
 public:
  explicit Net(braid::Context& context)
      : Module(context),
        left_(add<braid::LinearLayer>("left", 64, 128)),
        right_(add<braid::LinearLayer>("right", 64, 128)),
        head_(add<braid::LinearLayer>("head", 256, 10)) {}
  braid::Tensor forward(const braid::Tensor& x) override {
    const braid::Tensor branches[] = {swish(left_(x)), swish(right_(x), 2)};
    return head_(braid::concat(branches));
  }

 private:
  braid::LinearLayer &left_, &right_, &head_;
};

/// The loss before and after some steps.
std::pair<double, double> train(const std::string& device, int streams, int steps) {
  braid::Session session({.device = device, .streams = streams, .intra_op_threads = 1});
  Net net(session);
  braid::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto data = braid::synthetic({.size = 256, .shape = {8, 8, 1}, .classes = 10});
  braid::Loader batches(data, {.batch_size = 64, .shuffle = true});
  double first = 0, last = 0;
  for (int done = 0; done < steps;) {
    for (const braid::Batch& batch : batches) {
      if (done == steps) break;
      braid::Step step = session.step();
      const braid::Tensor loss = braid::cross_entropy(net(braid::flatten(batch.images)), batch.labels);
      braid::backward(loss);
      sgd.step();
      step.run();  // plans, has the verifier check the plan, and runs it
      last = loss.item();
      if (done++ == 0) {
        first = last;
        std::cout << step.graph().node_count() << " nodes on " << step.plan().commands.used_streams() << " of "
                  << streams << " streams, " << step.plan().commands.waits() << " waits\n";
      }
    }
  }
  return {first, last};
}

void run(const std::string& device) {
  check_gradient(device);
  const auto [first, last] = train(device, 2, 40);
  std::cout << "loss " << first << " at first, " << last << " after 40 steps\n";
  if (last > first / 2) throw braid::Error("[custom_op] the loss has not fallen");
  if (train(device, 1, 40).second != last) throw braid::Error("[custom_op] one stream gives another loss than two");
  std::cout << "one stream gives the same loss, bit by bit\n";
}

}  // namespace

int main(int argc, char** argv) try {
  custom::register_swish();
  run(argc > 1 ? argv[1] : "cpu");
} catch (const std::exception& error) {
  std::cerr << "custom_op: " << error.what() << '\n';
  return 1;
}
