#pragma once
// Makes networks for the registry. A network without a header has one function, which its row in the registry calls:
//
//     std::unique_ptr<Module> make_tiny(Context& context, const ModelOptions& options) {
//       return network<Tiny>(context, options);
//     }

#include "models/layers/options.h"
#include "models/registry.h"

namespace braid::models {

/// `auto` takes the small form below 128 pixels. Throws Error if there is no such stem.
Stem stem_of(const ModelOptions& options);

/// The options of all convolutional networks.
template <class Options>
Options network_options(const ModelOptions& options) {
  Options result;
  result.classes = options.classes;
  result.channels = options.image_shape[2];
  result.width = options.width;
  if constexpr (requires { result.stem; }) result.stem = stem_of(options);
  if constexpr (requires { result.auxiliary; }) result.auxiliary = options.auxiliary;
  if constexpr (requires { result.graph_seed; }) result.graph_seed = options.graph_seed;
  return result;
}

/// A network with these options only.
template <class Network>
std::unique_ptr<Module> network(Context& context, const ModelOptions& options) {
  return std::make_unique<Network>(context, network_options<typename Network::Options>(options));
}

}  // namespace braid::models
