// Must not compile: hash and equality know nothing of `forgotten`. The attribute leaves room behind it, in which a
// member of a byte could hide.

#include "core/graph/op.h"

struct Attribute {
  double number = 0;
  bool flag = false;
  static constexpr std::string_view kNames[] = {"number", "flag"};
};

class Forgetful final : public braid::OpWith<Forgetful, Attribute> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "forgetful"; }
  void infer(std::span<const braid::ValueDesc>, std::vector<braid::OutputDesc>&) const override {}

 private:
  bool forgotten = false;
};

braid::OpPtr make() { return std::make_shared<Forgetful>(); }
