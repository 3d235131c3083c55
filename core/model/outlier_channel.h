// Makes an outlier channel on request: the model computes the same function, but one channel of every feed-forward's
// input is much larger than the others.
#pragma once

#include "core/model/layers/parameters.h"

namespace moescope {

// Multiplies the channel's gain in every ffn_norm by model.outlier_factor and divides the weights that read it (gate,
// w1 and w3 of dense, shared and routed experts) by it. Every output is unchanged except for rounding (SmoothQuant,
// arXiv:2211.10438, in reverse).
template <class T>
void make_outlier_channel(const ModelConfig& model, const ModelView<T>& weights);

extern template void make_outlier_channel<float>(const ModelConfig&, const ModelView<float>&);
extern template void make_outlier_channel<double>(const ModelConfig&, const ModelView<double>&);

}  // namespace moescope
