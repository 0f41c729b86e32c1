// Must not compile: hash and equality leave out `forgotten`. The attribute is followed by padding, in which a one-byte
// member could hide.

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
