#include "scheduler/costs/cluster.h"

#include <algorithm>

#include "core/text/text.h"

namespace braid::scheduler {

namespace {

/// The share of a network's nominal bandwidth that libraries reach, about.
constexpr double kShare = 0.8;

constexpr double bits(double per_second) { return kShare * per_second / 8; }
constexpr double bytes(double per_second) { return kShare * per_second; }

std::vector<Cluster> clusters() {
  // Bandwidths come from data sheets; message latencies are assumed.
  constexpr double kNvLink = 3e-6, kPcie = 8e-6, kInfiniBand = 6e-6, kEthernet = 20e-6;
  return {
      // "NVIDIA DGX H100/H200 User Guide": NVLink with 900 GB/s to and from each GPU, eight 400 Gbit/s adapters; 128 of
      // them in four scalable units of 32, with a full fat tree ("NVIDIA DGX SuperPOD reference architecture").
      {"dgx_h100", "h100", 128, 8, {kNvLink, bytes(450e9)}, {kInfiniBand, bits(8 * 400e9)}, 32, 1},
      // Eight GPUs on PCIe 4.0 with 16 lanes each.
      {"pcie_box", "a100", 1, 8, {kPcie, bytes(31.5e9)}, {}},
      // The servers of Horovod's published benchmarks: four P100 each, 25 Gbit/s Ethernet with RDMA.
      {"ethernet_25g", "p100", 128, 4, {kPcie, bytes(15.75e9)}, {kEthernet, bits(25e9)}},
      // One P100 in each host, as in Cray XC50, whose nodes inject up to 10.2 GB/s into the network.
      {"p100_nodes", "p100", 100, 1, {}, {kInfiniBand, bytes(10.2e9)}},
      // Four hosts with four P100 each, whose four links of NVLink have 20 GB/s each, and 100 Gbit/s InfiniBand: the
      // cluster of Jia et al., "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks" (2018).
      {"p100x4x4", "p100", 4, 4, {kNvLink, bytes(80e9)}, {kInfiniBand, bits(100e9)}},
  };
}

}  // namespace

Link link_of(const Cluster& cluster, int ranks) { return link_of(cluster, ranks, {.ranks = ranks}); }

Link link_of(const Cluster& cluster, int ranks, const RankGroup& group) {
  BRAID_CHECK(ranks >= 1 && ranks <= cluster.ranks(), Error, "[cluster] expected 1 to ", cluster.ranks(), " ranks on '",
              cluster.name, "', which has ", plural(cluster.hosts, "host"), " with ", plural(cluster.devices, "device"),
              " each, got ", ranks);
  if (group.ranks == 1) return {};
  const std::int64_t devices = std::min(ranks, cluster.devices), block = group.ranks * group.stride;
  const double servers = cluster.has_servers ? 1 : 0;
  Link link = cluster.inside;
  link.server_share = servers;
  if (block <= devices && devices % block == 0) return link;
  link = cluster.network;
  const int hosts = (ranks + cluster.devices - 1) / cluster.devices;
  if (cluster.hosts_per_switch > 0 && hosts > cluster.hosts_per_switch) {
    link.bytes_per_second /= cluster.oversubscription;
  }
  // A ring visits the ranks of a group on a host one after another; as many rings leave the host as it has groups.
  const std::int64_t of_group = std::clamp<std::int64_t>(devices / group.stride, 1, group.ranks);
  link.bytes_per_second *= static_cast<double>(of_group) / static_cast<double>(devices);
  // The servers on each host have an equal part of the tensors; that of its own host does not pass the network.
  const double hosts_of_group = static_cast<double>(group.ranks) / static_cast<double>(of_group);
  link.server_share = servers * static_cast<double>(of_group) * (1 - 1 / hosts_of_group);
  if (of_group > 1) {
    link.latency_seconds = std::max(link.latency_seconds, cluster.inside.latency_seconds);
    link.bytes_per_second = std::min(link.bytes_per_second, cluster.inside.bytes_per_second);
  }
  return link;
}

Cluster known_cluster(std::string_view name) {
  for (const Cluster& cluster : clusters()) {
    if (cluster.name == name) return cluster;
  }
  throw Error(message("[cluster] expected one of ", comma_list(known_cluster_names()), ", got '", name, "'"));
}

std::vector<std::string> known_cluster_names() {
  std::vector<std::string> names;
  for (const Cluster& cluster : clusters()) names.push_back(cluster.name);
  return names;
}

}  // namespace braid::scheduler
