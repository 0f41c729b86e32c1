#pragma once
// add<T>(name, arguments…), whose arguments may be braced lists: add<ConvLayer>("conv", 3, 16, 3, {.padding = 1}). A
// template cannot deduce a type from a braced list; here it is T::Options.

#include <string_view>
#include <utility>

namespace braid {

/// The base of a Maker with a member make<T>(name, arguments…), which this class may call.
template <class Maker>
class AddsByName {
 public:
  template <class T>
  T& add(std::string_view name) {
    return maker().template make<T>(name);
  }
  template <class T, class A = typename T::Options>
  T& add(std::string_view name, A&& a) {
    return maker().template make<T>(name, std::forward<A>(a));
  }
  template <class T, class A = typename T::Options, class B = typename T::Options>
  T& add(std::string_view name, A&& a, B&& b) {
    return maker().template make<T>(name, std::forward<A>(a), std::forward<B>(b));
  }
  template <class T, class A = typename T::Options, class B = typename T::Options, class C = typename T::Options>
  T& add(std::string_view name, A&& a, B&& b, C&& c) {
    return maker().template make<T>(name, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class T, class A = typename T::Options, class B = typename T::Options, class C = typename T::Options,
            class D = typename T::Options, class... Rest>
  T& add(std::string_view name, A&& a, B&& b, C&& c, D&& d, Rest&&... rest) {
    return maker().template make<T>(name, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                                    std::forward<D>(d), std::forward<Rest>(rest)...);
  }

 private:
  Maker& maker() { return static_cast<Maker&>(*this); }
};

}  // namespace braid
