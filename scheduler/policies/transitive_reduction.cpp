// An edge is implied by a longer path if its tail reaches another predecessor of its head. Which nodes reach which is a
// matrix of bits, too large to be kept for a large graph; it is made in blocks of columns, each in one pass over the
// nodes, and used at once.

#include "scheduler/policies/transitive_reduction.h"

#include <algorithm>
#include <bitset>

namespace braid::scheduler {
namespace {

constexpr NodeId kColumns = 4096;
using Row = std::bitset<kColumns>;  // the nodes of one block that reach a node

}  // namespace

Edges transitive_reduction(const Edges& edges) {
  const NodeId nodes = edges.node_count();
  std::vector<std::vector<NodeId>> kept(nodes);
  std::vector<Row> rows(nodes);
  for (NodeId begin = 0; begin < nodes; begin += kColumns) {
    for (NodeId head = begin; head < nodes; ++head) {
      // Predecessors come in ascending order; those before the block are not in it.
      const auto all = edges.predecessors(head);
      const auto first = std::ranges::lower_bound(all, begin);
      Row& row = rows[head].reset();
      for (auto tail = first; tail != all.end(); ++tail) row |= rows[*tail];
      for (auto tail = first; tail != all.end() && *tail - begin < kColumns; ++tail) {
        if (!row[*tail - begin]) kept[head].push_back(*tail);
      }
      for (auto tail = first; tail != all.end() && *tail - begin < kColumns; ++tail) row.set(*tail - begin);
    }
  }
  return Edges::from_predecessors(kept);
}

}  // namespace braid::scheduler
