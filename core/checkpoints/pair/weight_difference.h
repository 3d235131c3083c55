// The experts and tensors in which the weights of two checkpoints differ, and |W_B - W_A| / |W_A| over the values of
// each. Values are compared, so stored formats may differ.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {

struct LayerWeightDifference {
  int layer = 0;                            // among all layers
  std::vector<float> norm_E, difference_E;  // |W_B| of each expert, and |W_B - W_A| / |W_A|
};
struct TensorDifference {
  std::string name;
  double difference = 0;
};
struct WeightDifference {
  std::vector<LayerWeightDifference> layers;  // MoE layers whose experts have the same shapes
  std::vector<TensorDifference> tensors;      // other tensors that differ, the largest difference first
  std::size_t compared_tensors = 0;           // other tensors with the same name and shape in both
  // "weights differ in 1 of 64 experts: layer 3 expert 5 by 12 %; and in 0 of 85 other tensors"
  std::string text() const;
};

// `progress` gets the finished share, 0 to 1; if it returns false, the result holds what was compared until then.
// Throws std::runtime_error if a file was shortened meanwhile.
WeightDifference weight_difference(const CheckpointModel& a, const CheckpointModel& b,
                                   const std::function<bool(double)>& progress);

}  // namespace moescope
