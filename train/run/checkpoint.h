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
// Images and activations are [N,H,W,C], filters [K,R,S,C]; the index states these layouts.

#include <filesystem>
#include <span>

#include "core/context.h"

namespace braid {

/// Writes the tensors under their names. The file appears atomically and durably; an older one remains as
/// "<path>.previous". Waits for the running step. Throws Error if the file cannot be written.
void save_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors);

/// Reads the tensors. The file must hold exactly these, with the same names, dtypes and shapes, in the layouts above
/// and without overlap. Otherwise throws DataError, which names the file and the problem, and changes no tensor.
void load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors);

}  // namespace braid
