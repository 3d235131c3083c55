// Experts by token id, for layers routed by a table (router.n_hash_layers; DeepSeek-V4's hash layers).
//
// Legend: T tokens, V vocabulary, E experts, K top_k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

class ExpertTable {
 public:
  // Draws K different experts for each token id: the places of the K largest of E random numbers, drawn anew for each
  // row and layer (as TorchTitan does; DeepSeek's own table is not published).
  ExpertTable(std::int64_t seed, int layer, int vocab, int n_experts, int top_k);
  // Takes rows_VK as the table.
  ExpertTable(std::vector<std::int32_t> rows, int top_k) : top_k_(top_k), rows_(std::move(rows)) {}

  // Writes ids_TK of these tokens, in the table's order.
  void look_up(std::span<const std::int32_t> tokens, std::vector<std::int32_t>& ids) const;

 private:
  int top_k_;
  std::vector<std::int32_t> rows_;  // [V, K]
};

}  // namespace moescope
