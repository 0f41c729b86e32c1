#pragma once
// The tensors of a model in a safetensors file. Images and activations are [N,H,W,C], filters [K,R,S,C]; the metadata
// states these layouts. The checkpoints of a run also hold what training needs to continue, in tensors whose names
// start with kTrainingPrefix, and in the metadata.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/context.h"
#include "train/checkpoint/safetensors.h"

namespace braid {

/// Writes the tensors under their names. The file appears atomically and durably. Waits for the running step. Throws
/// Error if the file cannot be written.
void save_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors);

/// Which tensors of a file are read.
struct LoadOptions {
  bool strict = true;  ///< false: those that both sides have, as load_state_dict(strict=False) of PyTorch
  std::string prefix = {}, file_prefix = {};  ///< tensor `prefix`NAME is the file's `file_prefix`NAME
};

/// The names that only one side has.
struct Unmatched {
  std::vector<std::string> missing;     ///< of tensors that the file does not hold
  std::vector<std::string> unexpected;  ///< of what the file holds under `file_prefix` in addition
};

/// Reads the tensors. The file must hold exactly these and perhaps those that training needs, with the same names,
/// dtypes and shapes, in the layouts above. Otherwise throws DataError, which names the file and the problem, and
/// changes no tensor. Unless it is strict, the file need hold only one of them, and may hold others.
Unmatched load_checkpoint(const std::filesystem::path& path, Context& context, std::span<Parameter* const> tensors,
                          const LoadOptions& options = {});

/// The same for a checkpoint of a run: reads the averages of weights that training averages, as validation does.
void load_trained(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors);

// Parts of the functions above.

inline constexpr std::string_view kTrainingPrefix = "training.";

/// The name of a tensor's average in the file, or its own if there is none.
std::string trained_name(const SafeTensors& file, const std::string& tensor);
/// The layouts, for the metadata of a file.
std::map<std::string, std::string> layout_metadata();
/// Copies of the tensors, under the prefix and their names. Waits for the running step.
std::vector<NamedArray> copies_of(Context& context, std::span<Parameter* const> tensors, std::string_view prefix = "");
/// Copies of the model's tensors, and after them those of the states that training needs, under kTrainingPrefix.
std::vector<NamedArray> copies_for_training(Context& context, std::span<Parameter* const> model,
                                            std::span<Parameter* const> states);
/// Reads tensors that a file holds under the prefix and their names. Throws as load_checkpoint; with a prefix, the file
/// may hold more.
void load_tensors(const SafeTensors& file, Context& context, std::span<Parameter* const> tensors,
                  std::string_view prefix = "");

}  // namespace braid
