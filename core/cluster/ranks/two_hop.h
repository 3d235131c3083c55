// Two-hop all-to-all: data for another node is sent to the rank with the same local index there, which forwards it
// inside that node. DeepEP's normal kernels do this between nodes (V1).
//
// Legend: R ranks on N nodes of ranks_per_node(). The function and the class are collective.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cluster/ranks/ranks.h"

namespace moescope {

// Has the result of ranks.all_to_all(), but takes two all-to-alls.
void all_to_all_over_nodes(Ranks& ranks, const void* send, const Ranks::Parts& sent, void* receive,
                           const Ranks::Parts& received);

// Sends token rows to the experts on other ranks: each row once per node and once per rank, however many of the token's
// experts are there.
class MergedDispatch {
 public:
  // topk_TK holds the chosen experts of this rank's tokens; expert e is on rank e / (E / R). All ranks must have
  // equally many tokens.
  void plan(Ranks& ranks, const std::vector<std::int32_t>& topk_TK, int top_k, int n_experts);
  // Sends `rows` of this rank's tokens, `row_bytes` each, and writes the rows for this rank's experts to `at_experts`:
  // grouped by expert, those of one expert in the order of the tokens in the whole batch.
  void send(const void* rows, std::size_t row_bytes, void* at_experts) const;

 private:
  struct Move {
    std::int32_t from, to;  // rows
  };
  Ranks* ranks_ = nullptr;
  std::vector<std::int32_t> first_hop_tokens_;            // tokens to pack for other nodes, by destination
  std::vector<std::size_t> outward_rows_, gateway_rows_;  // [R] rows sent and received in the first hop
  std::vector<Move>
      second_hop_moves_;  // rows of the second hop; from < 0: own token -1 - from, else row of the first hop
  std::vector<std::size_t> onward_rows_, arrived_rows_;  // [R] rows sent and received in the second hop
  std::vector<Move> placed_;                             // from the arrived row to the row of its expert
};

}  // namespace moescope
