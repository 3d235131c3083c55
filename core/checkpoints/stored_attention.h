// The weights of a checkpoint's attention in one layer. Those that its kind does not have are empty.
//
// Legend: H heads.
#pragma once

#include <vector>

#include "core/checkpoints/stored_matrix.h"

namespace moescope {

struct StoredAttention {
  StoredLinear q, output;             // q for plain queries
  StoredLinear q_a, q_b, kv_a, kv_b;  // of latent attention; q_a and q_b for low-rank queries
  StoredLinear k, v;                  // of grouped attention
  std::vector<float> q_norm;          // gains of low-rank queries; of grouped attention for a head or for all of them
  std::vector<float> kv_norm;         // gains of latent keys
  std::vector<float> k_norm;          // gains of grouped keys, as q_norm
  std::vector<float> sinks;           // [H] of grouped attention
};

}  // namespace moescope
