// The table of tensor names of each architecture, as transformers writes them. "{}" in the names of an expert's tensors
// is the number of the expert. Names of a layer come after "model.layers.N."; names without ".weight" or ".bias" are of
// matrices.
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
    each,           // gate, up and down of every expert, [out, in] each
    stacked,        // [E, gate then up, in] and [E, out, in]
    stacked_across  // [E, in, gate and up in turns] and [E, in, out], with biases; packed codes lie as [E, out, in]
  } layout;
  const char *gate, *up;  // `up` is nullptr if both are one tensor
  const char* down;
};

struct LayerNames {
  const char* router;
  const char* router_bias;                    // bias of the choice; nullptr if there is none
  std::array<const ExpertNames*, 2> experts;  // the first one that the file has is used; the second may be nullptr
  const char *shared, *shared_gate;           // prefix of ".gate_proj"; nullptr if there is none
};
const LayerNames& layer_names(Architecture architecture);

}  // namespace moescope
