// Reads the layers of a checkpoint by a table of the names of their tensors.
#pragma once

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/weight_reader.h"

namespace moescope {

// Fills `to`, whose members refer to each other, so that it must not move afterwards. `roundings`: rounding of the
// operands of the layer's linear layers, by class.
void read_layer(const CheckpointConfig& config, std::size_t layer, WeightReader& weights,
                const CheckpointModel::Roundings& roundings, CheckpointModel::Layer& to);

}  // namespace moescope
