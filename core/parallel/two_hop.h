// Two-hop all-to-all: data for another node first goes to the rank with the same local index there and is forwarded
// inside that node, as DeepEP's normal kernels do between nodes (V1).
//
// Legend: R ranks on N nodes of ranks_per_node(). Both are collective.
#pragma once

#include <cstdint>
#include <vector>

#include "core/parallel/ranks.h"

namespace moescope {

// The result of ranks.all_to_all(), by two all-to-alls.
void all_to_all_over_nodes(Ranks& ranks, const void* send, const Ranks::Parts& sent, void* receive,
                           const Ranks::Parts& received);

// Sends token rows to the experts on other ranks: each row once to a node and once to a rank, however many of the
// token's experts are there.
class MergedDispatch {
 public:
  // topk_TK of the tokens here; expert e lives on rank e / (E / R). All ranks have the same number of tokens.
  void plan(Ranks& ranks, const std::vector<std::int32_t>& topk_TK, int top_k, int n_experts);
  // rows_TD (row_bytes each) of the tokens here -> rows of the experts here, grouped by expert, inside an expert in the
  // order of the whole batch's tokens.
  void send(const void* rows, std::size_t row_bytes, void* at_experts) const;

 private:
  struct Move {
    std::int32_t from, to;  // rows
  };
  Ranks* ranks_ = nullptr;
  std::vector<std::int32_t> outward_;                     // tokens to pack for other nodes, by destination
  std::vector<std::size_t> outward_rows_, gateway_rows_;  // [R] sent and received in the first hop
  std::vector<Move> onward_;  // what the second hop sends; from < 0: -1 - token here, else row of the first hop
  std::vector<std::size_t> onward_rows_, arrived_rows_;  // [R]
  std::vector<Move> placed_;                             // arrived row -> row at its expert
};

}  // namespace moescope
