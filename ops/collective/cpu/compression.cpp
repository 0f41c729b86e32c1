#include "ops/collective/compression.h"

#include <algorithm>
#include <cmath>

#include "ops/collective/arithmetic.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

using Method = Compression::Method;
using ops::MessageFormat;

constexpr std::int64_t kElements = MessageFormat::kBlock, kBlocksAtATime = kElementGrain / kElements;

/// Where the numbers and the codes of a message are.
template <class T, class Byte>
struct Message {
  template <class U>
  using Of = std::conditional_t<std::is_const_v<Byte>, const U, U>;
  Of<T>* numbers;
  Byte* codes;

  Message(const MessageFormat& format, Byte* begin)
      : numbers(reinterpret_cast<Of<T>*>(begin)), codes(begin + format.numbers() * format.number) {}
  Of<std::uint16_t>* places() const { return reinterpret_cast<Of<std::uint16_t>*>(codes); }
  Of<std::int8_t>* bytes() const { return reinterpret_cast<Of<std::int8_t>*>(codes); }
};

/// The places of the chosen elements of a block, in their order: of equally large ones the first.
template <class T>
void choose(const MessageFormat& format, std::int32_t step, std::int64_t block, const T* x, std::int64_t count,
            std::uint16_t* places) {
  const std::int64_t length = format.length(block);
  if (format.method == Method::random_k) {
    for (std::int64_t i = 0; i < count; ++i) {
      places[i] = static_cast<std::uint16_t>(arithmetic::random_place(step, block, i, count, length));
    }
    return;
  }
  arithmetic::Bits<T> sizes[kElements], ordered[kElements];
  std::transform(x, x + length, sizes, arithmetic::magnitude_bits<T>);
  std::copy_n(sizes, length, ordered);
  std::nth_element(ordered, ordered + count - 1, ordered + length, std::greater{});
  const auto least = ordered[count - 1];
  auto equals = count - std::count_if(sizes, sizes + length, [=](auto size) { return size > least; });
  for (std::int64_t i = 0; i < length; ++i) {
    if (sizes[i] > least || (sizes[i] == least && equals-- > 0)) *places++ = static_cast<std::uint16_t>(i);
  }
}

template <class T>
void compress(const MessageFormat& format, std::int32_t step, std::int64_t block, const T* gradient, T* residual,
              const Message<T, std::byte>& message) {
  const std::int64_t begin = block * kElements, length = format.length(block), first = format.first(block);
  T x[kElements];
  T* const rest = residual + begin;
  for_each_element(0, length, [=, own = &x[0], g = gradient + begin](std::int64_t i) { own[i] = g[i] + rest[i]; });
  if (block == format.blocks() - 1) {
    auto* const begin_bytes = reinterpret_cast<std::byte*>(message.numbers);
    std::fill(begin_bytes + format.used_bytes(), begin_bytes + format.bytes(), std::byte{0});
  }
  if (format.chooses()) {
    std::uint16_t* const places = message.places() + first;
    const std::int64_t count = format.chosen(length);
    choose(format, step, block, x, count, places);
    std::transform(x, x + length, rest, [](T own) { return arithmetic::remaining(own, T(0)); });
    for (std::int64_t i = 0; i < count; ++i) {
      message.numbers[first + i] = x[places[i]];
      rest[places[i]] = 0;
    }
  } else if (format.method == Method::int8) {
    const T largest = *std::ranges::max_element(x, x + length, {}, arithmetic::magnitude_bits<T>);
    const arithmetic::ByteCode<T> code{std::abs(largest)};
    message.numbers[first] = code.scale;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int8_t sent = message.bytes()[begin + i] = code.encode(x[i]);
      rest[i] = arithmetic::remaining(x[i], code.decode(sent));
    }
  } else {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) sum += static_cast<double>(std::abs(x[i]));
    const T scale = message.numbers[first] = static_cast<T>(sum / static_cast<double>(length));
    for (std::int64_t i = 0; i < kElements; i += 8) {
      unsigned bits = 0;
      for (std::int64_t j = i; j < std::min(i + 8, length); ++j) {
        const bool is_negative = x[j] < 0;
        bits |= static_cast<unsigned>(is_negative) << (j - i);
        rest[j] = arithmetic::remaining(x[j], is_negative ? -scale : scale);
      }
      message.codes[(begin + i) / 8] = static_cast<std::byte>(bits);
    }
  }
}

/// sum = what the messages of all shards say of a block.
template <class T>
void decompress(const MessageFormat& format, std::int64_t block, const std::byte* messages, std::int64_t shards,
                T* sum) {
  const std::int64_t begin = block * kElements, length = format.length(block), first = format.first(block);
  std::fill_n(sum, length, T(0));
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const Message<T, const std::byte> message(format, messages + shard * format.bytes());
    if (format.chooses()) {
      for (std::int64_t i = first; i < first + format.chosen(length); ++i) {
        sum[message.places()[i]] += message.numbers[i];
      }
    } else if (format.method == Method::int8) {
      const arithmetic::ByteCode<T> code{message.numbers[first]};
      for_each_element(0, length,
                       [=, codes = message.bytes() + begin](std::int64_t i) { sum[i] += code.decode(codes[i]); });
    } else {
      const T scale = message.numbers[first];
      for (std::int64_t i = 0; i < length; ++i) {
        const bool is_negative = (static_cast<unsigned>(message.codes[(begin + i) / 8]) >> (i % 8) & 1U) != 0;
        sum[i] += is_negative ? -scale : scale;
      }
    }
  }
}

}  // namespace

Implementations make_compress(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[1].dtype, [&]<class T>() {
    const auto& [method, ratio] = spec.attributes<ops::Compress>();
    const std::int64_t shards = spec.outputs[0].shape[0],
                       size = spec.inputs[1].shape.size() / std::max<std::int64_t>(1, shards);
    const MessageFormat format(method, ratio, size, spec.inputs[1].dtype);
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const std::int32_t step = *at<const std::int32_t>(inputs, 0);
      const T* const gradients = at<const T>(inputs, 1);
      T* const residuals = at<T>(outputs, 1);  // has the address of the old ones
      auto* const messages = at<std::byte>(outputs, 0);
      const std::int64_t blocks = format.blocks();
      parallel_for(width, shards * blocks, kBlocksAtATime, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t shard = i / blocks;
          compress(format, step, i % blocks, gradients + shard * size, residuals + shard * size,
                   Message<T, std::byte>(format, messages + shard * format.bytes()));
        }
      });
    });
  });
}

Implementations make_decompress(const KernelSpec& spec) {
  return for_float_type(spec, spec.outputs[0].dtype, [&]<class T>() {
    const auto& [method, ratio, dtype, shape] = spec.attributes<ops::Decompress>();
    const MessageFormat format(method, ratio, shape.size(), dtype);
    return function_kernel([=, shards = spec.inputs[0].shape[0], width = spec.width](auto inputs, auto outputs) {
      const auto* const messages = at<const std::byte>(inputs, 0);
      T* const sum = at<T>(outputs, 0);
      parallel_for(width, format.blocks(), kBlocksAtATime, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
          decompress(format, block, messages, shards, sum + block * kElements);
        }
      });
    });
  });
}

}  // namespace braid::cpu
