// Must not compile: `forgotten` has no name.

#include "core/graph/op.h"

struct Attributes {
  double number = 0;
  bool forgotten = false;
  static constexpr std::string_view kNames[] = {"number"};
};

class Forgetful final : public braid::OpWith<Forgetful, Attributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "forgetful"; }
  void infer(std::span<const braid::ValueDesc>, std::vector<braid::OutputDesc>&) const override {}
};

braid::OpPtr make() { return std::make_shared<Forgetful>(); }
