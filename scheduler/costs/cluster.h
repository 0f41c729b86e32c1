#pragma once
// Devices of one kind in hosts that a network connects: for plans on more ranks than this machine has.

#include <string>
#include <string_view>
#include <vector>

#include "core/device/link.h"

namespace braid::scheduler {

struct Cluster {
  std::string name = {};
  std::string device = {};  ///< as find_plan_target() takes it
  int hosts = 1;
  int devices = 1;    ///< devices of each host
  Link inside = {};   ///< from a device to the others of its host
  Link network = {};  ///< from a host to the others
  /// How many hosts one switch connects; 0: all. Between switches, each host has its bandwidth ÷ oversubscription, as
  /// in a fat tree whose users get hosts anywhere.
  int hosts_per_switch = 0;
  double oversubscription = 1;
  bool has_servers = false;  ///< parameter servers on every host add

  int ranks() const { return hosts * devices; }
};

/// The link that each rank owns in a ring or tree over `ranks` ranks. Ranks fill one host after another, and the ring
/// visits the ranks of a host one after another, so each host sends to one other host. Throws Error if there are fewer
/// devices.
Link link_of(const Cluster& cluster, int ranks);
/// The same within a group of these ranks, while the other groups communicate likewise: those with ranks on a host
/// share its network.
Link link_of(const Cluster& cluster, int ranks, const RankGroup& group);

/// A cluster by its name, such as "dgx_h100". Throws Error with the list of names if there is none.
Cluster known_cluster(std::string_view name);
std::vector<std::string> known_cluster_names();

}  // namespace braid::scheduler
