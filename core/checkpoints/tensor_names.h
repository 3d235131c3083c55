// Under which names each architecture keeps its tensors, as transformers writes them: one table. "{}" in the names of
// an expert's tensors is the expert. Names of a layer follow "model.layers.N.", names without an end (".weight",
// ".bias") are of matrices.
#pragma once

#include <array>

#include "core/checkpoints/checkpoint_config.h"

namespace moescope {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kFinalNormName = "model.norm.weight";
inline constexpr const char* kHeadName = "lm_head";
inline constexpr const char* kLayerNames = "model.layers.";

// How the routed experts of a layer are stored.
struct ExpertNames {
  enum class Layout : std::uint8_t {
    each,           // of every expert gate, up and down, [out, in]
    stacked,        // [E, gate then up, in] and [E, out, in]
    stacked_across  // [E, in, gate and up in turns] and [E, in, out], with biases; packed codes lie as [E, out, in]
  } layout;
  const char *gate, *up;  // `up` is nullptr where both are one tensor
  const char* down;
};

struct LayerNames {
  const char* router;
  const char* router_bias;                    // of the choice; nullptr: none
  std::array<const ExpertNames*, 2> experts;  // the first that is there; nullptr: no second
  const char *shared, *shared_gate;           // before ".gate_proj"; nullptr: none
};
const LayerNames& layer_names(Architecture architecture);

}  // namespace moescope
