#include "core/cluster/ranks/volumes.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/frame/router_stats.h"

namespace moescope {
namespace {

// Returns the token after the last one of a source rank: t * R / T == source  <=>  t < ceil((source + 1) T / R)
std::size_t end_of_source(std::size_t source, std::size_t tokens, std::size_t ranks) {
  return ((source + 1) * tokens + ranks - 1) / ranks;
}

}  // namespace

VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks,
                          int ranks_per_node) {
  assert(n_experts % ranks == 0);
  return count_volumes(topk_TK, top_k, place_contiguous(n_experts, ranks), ranks_per_node);
}

VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, const Placement& placement,
                          int ranks_per_node) {
  const int ranks = placement.ranks, n_experts = placement.n_experts();
  assert(top_k > 0 && ranks > 0 && ranks_per_node > 0 && topk_TK.size() % top_k == 0);
  // Experts start with different replicas, so that a few tokens do not all go to the lowest ranks.
  std::vector<std::int32_t> next(n_experts);
  for (std::int32_t e = 0; e < n_experts; ++e) {
    const std::int32_t first = placement.first_replica[e];
    next[e] = first + e % (placement.first_replica[e + 1] - first);
  }
  const std::size_t tokens = topk_TK.size() / top_k;
  const std::size_t nodes = (ranks + ranks_per_node - 1) / ranks_per_node;

  VolumeFrame volume;
  volume.ranks = ranks;
  volume.ranks_per_node = ranks_per_node;
  volume.copies_RR.resize(static_cast<std::size_t>(ranks) * ranks);
  volume.distinct_RR.resize(volume.copies_RR.size());
  volume.nodes_RN.resize(ranks * nodes);

  // The last token (plus one) of each rank and node distinguishes a first copy from a repeated one without clearing
  // anything between tokens.
  struct Sent {
    std::size_t last_token = 0;
    std::uint32_t copies = 0, distinct = 0;
  };
  std::vector<Sent> to_rank(ranks), to_node(nodes);
  std::vector<std::uint32_t> node_of_rank(ranks);
  for (int r = 0; r < ranks; ++r) node_of_rank[r] = r / ranks_per_node;
  std::size_t t = 0;
  for (std::size_t source = 0; source < static_cast<std::size_t>(ranks); ++source) {
    const std::size_t end = end_of_source(source, tokens, ranks);
    for (; t < end; ++t) {
      const std::int32_t* chosen = topk_TK.data() + t * top_k;
      for (int k = 0; k < top_k; ++k) {
        const std::int32_t expert = chosen[k];
        if (expert < 0) continue;
        assert(expert < n_experts);
        const std::int32_t rank = placement.replica_rank[next[expert]];
        if (++next[expert] == placement.first_replica[expert + 1]) next[expert] = placement.first_replica[expert];
        for (Sent* sent : {&to_rank[rank], &to_node[node_of_rank[rank]]}) {
          ++sent->copies;
          sent->distinct += sent->last_token != t + 1;
          sent->last_token = t + 1;
        }
      }
    }
    for (std::size_t rank = 0; rank < to_rank.size(); ++rank) {
      volume.copies_RR[source * ranks + rank] = std::exchange(to_rank[rank].copies, 0);
      volume.distinct_RR[source * ranks + rank] = std::exchange(to_rank[rank].distinct, 0);
    }
    for (std::size_t node = 0; node < nodes; ++node)
      volume.nodes_RN[source * nodes + node] = std::exchange(to_node[node].distinct, 0);
  }
  return volume;
}

SummedVolume sum_of_layers(std::span<const RouterFrame> routers, int layer) {
  SummedVolume sum;
  for (const RouterFrame& router : routers) {
    const VolumeFrame& volume = router.volume;
    if (volume.ranks == 0 || (layer >= 0 && router.layer != layer)) continue;
    sum.volume.ranks = volume.ranks;
    sum.volume.ranks_per_node = volume.ranks_per_node;
    add_counts(sum.volume.copies_RR, volume.copies_RR);
    add_counts(sum.volume.distinct_RR, volume.distinct_RR);
    add_counts(sum.volume.nodes_RN, volume.nodes_RN);
    ++sum.layers;
  }
  return sum;
}

std::vector<std::uint32_t> count_by_expert(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks) {
  const std::size_t k = top_k, experts = n_experts;
  std::vector<std::uint32_t> copies_RE(ranks * experts);
  std::size_t slot = 0;
  for (std::size_t source = 0; source < static_cast<std::size_t>(ranks); ++source) {
    const std::size_t end = k * end_of_source(source, topk_TK.size() / k, ranks);
    for (; slot < end; ++slot) {
      assert(topk_TK[slot] >= -1 && topk_TK[slot] < n_experts);
      if (topk_TK[slot] < 0) continue;
      ++copies_RE[source * experts + topk_TK[slot]];
    }
  }
  return copies_RE;
}

std::int64_t bytes_per_token(Payload payload, std::int64_t dim) {
  switch (payload) {
    case Payload::bf16:
      return 2 * dim;
    case Payload::fp8:  // DeepEP's dispatch: E4M3 with an FP32 scale per 128 values
      return dim + 4 * ((dim + 127) / 128);
    case Payload::mxfp8:  // torchao's all-to-all: E4M3 with an E8M0 scale per 32 values
      return dim + (dim + 31) / 32;
  }
  return 0;
}

std::vector<LinkCopies> copies_by_link(const VolumeFrame& volume, AllToAll kind) {
  const int ranks = volume.ranks, per_node = volume.ranks_per_node;
  const int nodes = (ranks + per_node - 1) / per_node;
  std::vector<LinkCopies> links(ranks);
  const std::vector<std::uint32_t>& copies = kind == AllToAll::standard ? volume.copies_RR : volume.distinct_RR;
  // Returns the rank of `node` on which a copy from `source` arrives. A last node with fewer ranks spreads copies over
  // them.
  const auto peer_of = [&](int source, int node) {
    const int size = std::min(per_node, ranks - node * per_node);
    return node * per_node + source % per_node % size;
  };
  for (int source = 0; source < ranks; ++source) {
    const int own_node = source / per_node;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::uint64_t n = copies[static_cast<std::size_t>(source) * ranks + rank];
      const int node = rank / per_node;
      if (node != own_node && kind == AllToAll::standard) {
        links[source].network_out += n;
        links[rank].network_in += n;
        continue;
      }
      const int from = node == own_node ? source : peer_of(source, node);
      if (from == rank) {
        links[rank].local += n;
      } else {
        links[from].nvlink_out += n;
        links[rank].nvlink_in += n;
      }
    }
    if (kind == AllToAll::standard) continue;
    for (int node = 0; node < nodes; ++node) {
      if (node == own_node) continue;
      const std::uint64_t n = volume.nodes_RN[static_cast<std::size_t>(source) * nodes + node];
      links[source].network_out += n;
      links[peer_of(source, node)].network_in += n;
    }
  }
  return links;
}

LinkCopies total(std::span<const LinkCopies> ranks) {
  LinkCopies sum;
  for (const LinkCopies& rank : ranks) {
    sum.local += rank.local;
    sum.nvlink_out += rank.nvlink_out;
    sum.nvlink_in += rank.nvlink_in;
    sum.network_out += rank.network_out;
    sum.network_in += rank.network_in;
  }
  return sum;
}

std::vector<std::uint64_t> received_tokens(const VolumeFrame& volume, AllToAll kind) {
  return received_by_rank(kind == AllToAll::standard ? volume.copies_RR : volume.distinct_RR, volume.ranks);
}

std::int64_t bytes_per_copy(std::span<const AllToAllOp> ops, std::int64_t dim) {
  std::int64_t bytes = 0;
  for (const AllToAllOp& op : ops) bytes += bytes_per_token(op.payload, dim);
  return bytes;
}

std::vector<AllToAllOp> all_to_all_ops(Payload payload, bool recompute) {
  const Payload gradient = payload == Payload::mxfp8 ? Payload::mxfp8 : Payload::bf16;
  std::vector<AllToAllOp> ops{{"forward dispatch", payload}, {"forward combine", Payload::bf16}};
  if (recompute) {
    ops.push_back({"recompute dispatch", payload});
    ops.push_back({"recompute combine", Payload::bf16});
  }
  ops.push_back({"backward of combine", gradient});
  ops.push_back({"backward of dispatch", Payload::bf16});
  return ops;
}

RowBytes wire_row_bytes(std::string_view payload, std::int64_t dim) {
  if (payload == "fp32") return {4 * dim, 4 * dim, 4 * dim, 4 * dim};
  if (payload != "bf16" && payload != "mxfp8")
    throw std::runtime_error("payload '" + std::string(payload) + "' is none of fp32, bf16, mxfp8");
  const std::vector<AllToAllOp> ops = all_to_all_ops(payload_name.get("payload", payload), false);
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
