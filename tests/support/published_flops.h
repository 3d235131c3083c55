// FLOPs of a token that torchtitan's MFU counts, forward and backward: 6 x (active parameters without embedding) + 6 L
// H (qk + v head dim) seq, with full attention although it is causal. A second formula besides core/training/run_cost.
#pragma once

#include <cstdint>

#include "core/cluster/model_shape.h"

namespace moescope {

inline double published_flops_per_token(const ModelShape& s, std::int64_t seq) {
  const double attention =
      static_cast<double>(s.n_layers * s.n_heads * (s.qk_nope_head_dim + s.qk_rope_head_dim + s.v_head_dim));
  return 6.0 * static_cast<double>(parameter_counts(s).active - s.vocab * s.dim) +
         6.0 * attention * static_cast<double>(seq);
}

}  // namespace moescope
