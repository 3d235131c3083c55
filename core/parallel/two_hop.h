// All-to-all over nodes: what is for another node first goes to the rank of the same place there, over one link between
// the nodes for each place, and is handed on inside the node. As DeepEP's normal kernels send (V1, between nodes).
//
// Legend: R ranks on N nodes of ranks_per_node(). Both are collective.
#pragma once

#include <cstdint>
#include <vector>

#include "core/parallel/ranks.h"

namespace moescope {

// What ranks.all_to_all() does, in two of them.
void all_to_all_over_nodes(Ranks& ranks, const void* send, const Ranks::Parts& sent, void* receive,
                           const Ranks::Parts& received);

// Token rows for the experts of other ranks, each sent once to a node and once to a rank that needs it, however many of
// its experts live there.
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
