// The names of a layer's tensors as transformers writes them. They follow "model.layers.N.". "{}" stands for the number
// of the expert. ".weight" and ".bias" are appended, except to names of stacked experts and of the choice's bias.
#pragma once

#include <array>
#include <cstdint>

namespace moescope {

// How the routed experts of a layer are stored.
struct ExpertNames {
  enum class Layout : std::uint8_t {
    each,           // gate, up and down of every expert, [out, in] each
    stacked,        // [E, gate then up, in] and [E, out, in]
    stacked_across  // [E, in, gate and up alternating] and [E, in, out], with biases; packed codes are [E, out, in]
  } layout;
  const char *gate, *up;  // `up` is nullptr if both are one tensor
  const char* down;
};

struct LayerNames {
  const char* router = nullptr;
  const char* router_bias = nullptr;  // bias of the choice; nullptr if there is none
  const ExpertNames* experts = nullptr;
  const char *shared = nullptr, *shared_gate = nullptr;  // prefix of ".gate_proj"; nullptr if there is none
};

// The names of published files, and those of transformers 5's own modules (save_original_format=False). The second has
// no router if they are the same.
using LayerLayouts = std::array<LayerNames, 2>;

}  // namespace moescope
