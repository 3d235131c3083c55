// How quantized operands are named and ordered on screen.
#pragma once

#include <QString>
#include <vector>

#include "widgets/selection.h"

namespace moescope {

// The operands that each GEMM of the experts quantizes: forward x w, dgrad dy w, wgrad x dy; w1 w3 w2 in the order of
// use.
std::vector<Selection::Tensor> allTensors();
QString tensorName(Selection::Tensor tensor);                                                    // "w1 x forward"
const QuantFrame* findTensor(const TelemetryFrame* frame, int layer, Selection::Tensor tensor);  // nullptr: not there
QString noQuantizationNotice();

}  // namespace moescope
