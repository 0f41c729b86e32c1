#pragma once
// Trained tensors in one file:
//
//     "BRAIDCKP"  magic, 8 bytes
//     u32         version of the format, 1
//     u32         CRC-32 of everything after it
//     u64         bytes of the index
//     u64         bytes of the elements
//     index       JSON: the layouts, and for each tensor its name, kind, dtype, shape, and bytes from the first element
//     elements    little-endian, one tensor after the other
//
// Images and activations are [N,H,W,C], filters [K,R,S,C]; the index says so.

#include <filesystem>
#include <span>

#include "core/context.h"

namespace braid {

/// Writes the tensors under their names. The file appears at once and durably; an older one stays beside it under
/// "<path>.previous". Waits for the running step. Throws Error if the file cannot be written.
void save_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors);

/// Reads the tensors. The file must hold exactly these: same names, dtypes and shapes. Throws DataError that names the
/// file and what is wrong with it (the index must make sense too: its layouts these, no tensors that overlap), having
/// changed no tensor.
void load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors);

}  // namespace braid
