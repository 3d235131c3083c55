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
  const char* router;
  const char* router_bias;                    // bias of the choice; nullptr if there is none
  std::array<const ExpertNames*, 2> experts;  // the second is used if the file has its tensors; nullptr: there is none
  const char *shared, *shared_gate;           // prefix of ".gate_proj"; nullptr if there is none
};

}  // namespace moescope
