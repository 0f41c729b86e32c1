#pragma once
// A stream is an in-order queue on a device; work in different streams may run at the same time.

#include "core/device/device.h"

namespace braid {

/// A name for a stream. Its thread, handles and workspace live in the backend. Indices are never shared between
/// streams.
struct Stream {
  int index = 0;
  Device device;
  friend bool operator==(const Stream&, const Stream&) = default;
};

}  // namespace braid
