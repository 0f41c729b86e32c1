#pragma once
// Decisions that must be equal on all ranks. All ranks make each call, while no step runs. A call begins with a few
// bytes that identify it, and so does every step on the CPU: a rank that makes a different call is an error on all
// ranks before data of different calls are mixed.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/context.h"

namespace braid {

/// Throws CommunicationError, on all ranks, unless they are about to do the same: `call` is its hash.
void require_same_call(const ParallelOptions& parallel, const Hash& call);

/// Throws CommunicationError, on all ranks, unless they pass equal hashes; `what` names what is hashed, as in "the plan
/// of a step".
void require_agreement(const ParallelOptions& parallel, const Hash& hash, std::string_view what);

/// The same for texts; the error shows the first line that differs on some rank.
void require_same_text(const ParallelOptions& parallel, const std::string& text, std::string_view what);

/// The same for the bits of each rank's tensors.
void require_same_bits(Context& context, std::span<Parameter* const> tensors, std::string_view what);

/// The largest of the ranks' values.
double largest(const ParallelOptions& parallel, double value);

/// The texts of all ranks, in their order.
std::vector<std::string> of_all_ranks(const ParallelOptions& parallel, const std::string& text);

/// Ends the calls of the other ranks, which would wait for this one, with a CommunicationError: "rank 2 failed: …",
/// where `why` follows the colon. May be called by one rank, at any time.
void abandon_ranks(const ParallelOptions& parallel, const std::string& why);

/// Returns the argument of rank 0, a string or a vector of integers, on all ranks.
template <class List>
List of_first_rank(const ParallelOptions& parallel, List list);

}  // namespace braid
