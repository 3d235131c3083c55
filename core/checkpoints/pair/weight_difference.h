// Where the weights of two checkpoints differ, as |W_B - W_A| / |W_A| over the values of an expert or of a tensor.
// Stored formats do not matter: the values are compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {

struct LayerWeightDifference {
  int layer = 0;                            // among all layers
  std::vector<float> norm_E, difference_E;  // length of the weights of B's expert, and their difference from A's
};
struct TensorDifference {
  std::string name;
  double difference = 0;
};
struct WeightDifference {
  std::vector<LayerWeightDifference> layers;  // MoE layers whose experts have the same shapes
  std::vector<TensorDifference> tensors;      // tensors outside the experts that differ, the most different first
  std::size_t compared_tensors = 0;           // outside the experts, with the same name and shape
  // "expert weights differ in 1 of 64 experts: layer 3, expert 5 by 12 %; 0 of 85 other tensors differ"
  std::string text() const;
};

// `progress` gets 0..1 and returns false to stop, which leaves what was compared until then. Throws std::runtime_error
// if a file was shortened meanwhile.
WeightDifference weight_difference(const CheckpointModel& a, const CheckpointModel& b,
                                   const std::function<bool(double)>& progress);

}  // namespace moescope
