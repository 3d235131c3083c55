#include "core/cluster/ranks/wire.h"

#include <stdexcept>
#include <string>

#include "core/cluster/ranks/volumes.h"

namespace moescope {

RowBytes wire_row_bytes(std::string_view payload, std::int64_t dim) {
  if (payload == "fp32") return {4 * dim, 4 * dim, 4 * dim, 4 * dim};
  if (payload != "bf16" && payload != "mxfp8")
    throw std::runtime_error("payload '" + std::string(payload) + "' is none of fp32, bf16, mxfp8");
  const std::vector<AllToAllOp> ops = all_to_all_ops(payload_named(payload), false);
  const auto bytes = [&](std::size_t op) { return bytes_per_token(ops[op].payload, dim); };
  return {bytes(0), bytes(1), bytes(2), bytes(3)};
}

std::vector<std::uint64_t> wire_bytes(const VolumeFrame& volume, bool over_nodes, const RowBytes& row) {
  const int ranks = volume.ranks, per_node = volume.ranks_per_node;
  std::vector<std::uint64_t> bytes(ranks * static_cast<std::size_t>(ranks));
  const auto add = [&](int from, int to, std::uint64_t n) {
    if (from != to) bytes[from * ranks + to] += n;
  };
  // Returns the rank of `node` to which `from` sends rows for this node: itself on its own node, else the rank with its
  // local index there.
  const auto gateway = [&](int from, int node) {
    return node == from / per_node ? from : node * per_node + from % per_node;
  };
  const auto add_route = [&](int from, int to, std::uint64_t n) {
    const int first_hop = over_nodes ? gateway(from, to / per_node) : to;
    add(from, first_hop, n);
    add(first_hop, to, n);
  };
  // One copy is sent for every chosen expert. Only the dispatch over nodes sends one copy to each node, and one from
  // there to each rank.
  for (int source = 0; source < ranks; ++source) {
    for (int to = 0; to < ranks; ++to) {
      const std::uint64_t copies = volume.copies_RR[source * ranks + to];
      add_route(to, source, copies * (row.combine + row.dispatch_gradient));
      add_route(source, to, copies * row.combine_gradient);
      if (over_nodes)
        add(gateway(source, to / per_node), to, std::uint64_t{volume.distinct_RR[source * ranks + to]} * row.dispatch);
      else
        add(source, to, copies * row.dispatch);
    }
    const int nodes = ranks / per_node;
    for (int node = 0; over_nodes && node < nodes; ++node)
      add(source, gateway(source, node), std::uint64_t{volume.nodes_RN[source * nodes + node]} * row.dispatch);
  }
  return bytes;
}

}  // namespace moescope
