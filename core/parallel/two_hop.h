// Two-hop all-to-all: data for another node first goes to the rank with the same local index there and is forwarded
// inside that node, as DeepEP's normal kernels do between nodes (V1).
//
// Legend: R ranks on N nodes of ranks_per_node(). The function and the class are collective.
#pragma once

#include <cstdint>
#include <vector>

#include "core/parallel/ranks.h"

namespace moescope {

// Gives the result of ranks.all_to_all() by two all-to-alls.
void all_to_all_over_nodes(Ranks& ranks, const void* send, const Ranks::Parts& sent, void* receive,
                           const Ranks::Parts& received);

// Sends token rows to the experts on other ranks: each row once per node and once per rank, however many of the token's
// experts are there.
class MergedDispatch {
 public:
  // topk_TK is for the tokens of this rank; expert e is on rank e / (E / R). All ranks must have equally many tokens.
  void plan(Ranks& ranks, const std::vector<std::int32_t>& topk_TK, int top_k, int n_experts);
  // Sends rows_TD (row_bytes each) of this rank's tokens to rows of the experts, grouped by expert, and inside an
  // expert in the order of the whole batch's tokens.
  void send(const void* rows, std::size_t row_bytes, void* at_experts) const;

 private:
  struct Move {
    std::int32_t from, to;  // rows
  };
  Ranks* ranks_ = nullptr;
  std::vector<std::int32_t> outward_;                     // tokens to pack for other nodes, by destination
  std::vector<std::size_t> outward_rows_, gateway_rows_;  // [R] rows sent and received in the first hop
  std::vector<Move> onward_;  // rows of the second hop; from < 0: own token -1 - from, else row of the first hop
  std::vector<std::size_t> onward_rows_, arrived_rows_;  // [R]
  std::vector<Move> placed_;                             // from the arrived row to the row of its expert
};

}  // namespace moescope
