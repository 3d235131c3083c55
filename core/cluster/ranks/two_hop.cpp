#include "core/cluster/ranks/two_hop.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>

#include "core/numerics/index.h"

namespace moescope {
namespace {

// Converts between a rank and its node and local index there.
struct Places {
  int size, per_node;
  int node(int rank) const { return rank / per_node; }
  int place(int rank) const { return rank % per_node; }
  int rank(int node, int place) const { return node * per_node + place; }
  int nodes() const { return size / per_node; }
};

Places places_of(const Ranks& ranks) {
  assert(ranks.size() % ranks.ranks_per_node() == 0);
  return {ranks.size(), ranks.ranks_per_node()};
}

}  // namespace

void all_to_all_over_nodes(Ranks& ranks, const void* send, const Ranks::Parts& sent, void* receive,
                           const Ranks::Parts& received) {
  const Places at = places_of(ranks);
  const int me = ranks.rank(), my_node = at.node(me), my_place = at.place(me);
  const std::size_t size = at.size;
  std::vector<std::size_t> bytes(size * size);  // [source][destination]
  ranks.gather_all(sent.bytes.data(), size * sizeof(std::size_t), bytes.data());
  const auto between = [&](int source, int to) { return bytes[source * size + to]; };

  // First hop: sends all data for a node to the rank there that has this rank's local index.
  std::vector<std::size_t> out(size), in(size);
  std::vector<char> packed, gateway;
  for (int node = 0; node < at.nodes(); ++node) {
    if (node == my_node) continue;
    const int partner = at.rank(node, my_place);
    for (int place = 0; place < at.per_node; ++place) {
      const std::size_t to = at.rank(node, place);
      const char* from = static_cast<const char*>(send) + sent.offset[to];
      packed.insert(packed.end(), from, from + sent.bytes[to]);
      out[partner] += sent.bytes[to];
      in[partner] += between(partner, at.rank(my_node, place));
    }
  }
  const Ranks::Parts in_parts(in);
  gateway.resize(in_parts.total);
  ranks.all_to_all(packed.data(), Ranks::Parts(out), gateway.data(), in_parts);

  // Second hop, inside the node: forwards the data of all sources with this rank's local index, in the order of their
  // nodes.
  std::vector<std::size_t> on(size), arrive(size);
  std::vector<char> handed, arrived;
  for (int place = 0; place < at.per_node; ++place) {
    const int to = at.rank(my_node, place);
    for (int node = 0; node < at.nodes(); ++node) {
      const int source = at.rank(node, my_place);
      const char* from = static_cast<const char*>(send) + sent.offset[to];
      if (node != my_node) {
        from = gateway.data() + in_parts.offset[source];
        for (int before = 0; before < place; ++before) from += between(source, at.rank(my_node, before));
      }
      handed.insert(handed.end(), from, from + between(source, to));
      on[to] += between(source, to);
      arrive[to] += between(at.rank(node, place), me);
    }
  }
  const Ranks::Parts arrive_parts(arrive);
  arrived.resize(arrive_parts.total);
  ranks.all_to_all(handed.data(), Ranks::Parts(on), arrived.data(), arrive_parts);
  for (int place = 0; place < at.per_node; ++place) {
    const char* from = arrived.data() + arrive_parts.offset[at.rank(my_node, place)];
    for (int node = 0; node < at.nodes(); ++node) {
      const std::size_t source = at.rank(node, place);
      std::memcpy(static_cast<char*>(receive) + received.offset[source], from, received.bytes[source]);
      from += received.bytes[source];
    }
  }
}

void MergedDispatch::plan(Ranks& ranks, const std::vector<std::int32_t>& topk_TK, int top_k, int n_experts) {
  ranks_ = &ranks;
  const Places at = places_of(ranks);
  const int me = ranks.rank(), my_node = at.node(me), my_place = at.place(me), experts_per_rank = n_experts / at.size;
  const std::size_t size = at.size, k = top_k;
  const std::size_t tokens = topk_TK.size() / k;
  std::vector<std::int32_t> all(topk_TK.size() * size);
  ranks.gather_all(topk_TK.data(), topk_TK.size() * sizeof(std::int32_t), all.data());
  const auto chosen = [&](int source, std::size_t t) { return std::span(all).subspan((source * tokens + t) * k, k); };
  const auto needs_rank = [&](int source, std::size_t t, int rank) {
    return std::ranges::any_of(chosen(source, t),
                               [&](std::int32_t e) { return e >= 0 && e / experts_per_rank == rank; });
  };
  const auto needs_node = [&](int source, std::size_t t, int node) {
    return std::ranges::any_of(chosen(source, t),
                               [&](std::int32_t e) { return e >= 0 && at.node(e / experts_per_rank) == node; });
  };

  first_hop_tokens_.clear();
  outward_rows_.assign(size, 0);
  gateway_rows_.assign(size, 0);
  std::vector<std::vector<std::int32_t>> at_gateway(size);  // [source][token]: row after the first hop
  std::int32_t row = 0;
  for (int node = 0; node < at.nodes(); ++node) {
    if (node == my_node) continue;
    const std::size_t partner = at.rank(node, my_place);
    at_gateway[partner].assign(tokens, -1);
    for (std::size_t t = 0; t < tokens; ++t) {
      if (needs_node(me, t, node)) {
        first_hop_tokens_.push_back(to_int(t));
        ++outward_rows_[partner];
      }
      if (needs_node(to_int(partner), t, my_node)) {
        at_gateway[partner][t] = row++;
        ++gateway_rows_[partner];
      }
    }
  }

  second_hop_moves_.clear();
  onward_rows_.assign(size, 0);
  arrived_rows_.assign(size, 0);
  std::vector<std::vector<std::int32_t>> arrived(size);  // [source][token]: row after the second hop
  std::int32_t arrived_row = 0;
  for (int place = 0; place < at.per_node; ++place) {
    const int to = at.rank(my_node, place);
    for (int node = 0; node < at.nodes(); ++node) {
      const int source = at.rank(node, my_place), theirs = at.rank(node, place);
      arrived[theirs].assign(tokens, -1);
      for (std::size_t t = 0; t < tokens; ++t) {
        if (needs_rank(source, t, to)) {
          const std::int32_t from = source == me ? -1 - to_int(t) : at_gateway[source][t];
          second_hop_moves_.push_back({from, to_int(second_hop_moves_.size())});
          ++onward_rows_[to];
        }
        if (needs_rank(theirs, t, me)) {
          arrived[theirs][t] = arrived_row++;
          ++arrived_rows_[to];
        }
      }
    }
  }

  placed_.clear();
  for (int e = me * experts_per_rank; e < (me + 1) * experts_per_rank; ++e)
    for (int source = 0; source < at.size; ++source)
      for (std::size_t t = 0; t < tokens; ++t)
        if (std::ranges::count(chosen(source, t), e)) placed_.push_back({arrived[source][t], to_int(placed_.size())});
}

void MergedDispatch::send(const void* rows, std::size_t row_bytes, void* at_experts) const {
  const auto* own_rows = static_cast<const char*>(rows);
  const auto copy = [row_bytes](char* to, std::size_t to_row, const char* from, std::size_t from_row) {
    std::memcpy(to + to_row * row_bytes, from + from_row * row_bytes, row_bytes);
  };
  std::vector<char> packed(first_hop_tokens_.size() * row_bytes);
  for (std::size_t i = 0; i < first_hop_tokens_.size(); ++i) copy(packed.data(), i, own_rows, first_hop_tokens_[i]);
  const Ranks::Parts gateway_parts(gateway_rows_, row_bytes);
  std::vector<char> gateway(gateway_parts.total);
  ranks_->all_to_all(packed.data(), Ranks::Parts(outward_rows_, row_bytes), gateway.data(), gateway_parts);

  std::vector<char> handed(second_hop_moves_.size() * row_bytes);
  for (const Move& move : second_hop_moves_) {
    const bool is_local = move.from < 0;
    copy(handed.data(), move.to, is_local ? own_rows : gateway.data(), is_local ? -1 - move.from : move.from);
  }
  const Ranks::Parts arrived_parts(arrived_rows_, row_bytes);
  std::vector<char> arrived(arrived_parts.total);
  ranks_->all_to_all(handed.data(), Ranks::Parts(onward_rows_, row_bytes), arrived.data(), arrived_parts);
  for (const Move& move : placed_) copy(static_cast<char*>(at_experts), move.to, arrived.data(), move.from);
}

}  // namespace moescope
