// How quantized operands are named and ordered on screen.
#pragma once

#include <QString>
#include <vector>

#include "widgets/selection/selection.h"

namespace moescope {

// The order of use: weights in the order of the forward pass, for each forward x W, dgrad dY W, wgrad x dY.
bool comesBefore(const OperandPlace& a, const OperandPlace& b);  // of one class; layers do not count
// Every operand of the class that some layer of the frame quantizes, once, with layer 0.
std::vector<OperandPlace> operandsOf(const TelemetryFrame& frame, GemmClass gemm_class);
std::vector<int> layersOf(const TelemetryFrame& frame, GemmClass gemm_class);  // ascending; -1: the head

QString gemmClassLabel(GemmClass gemm_class);   // "routed experts"
QString gemmClassBrief(GemmClass gemm_class);   // "routed"
QString tensorName(const OperandPlace& place);  // "w1 x forward"
QString layerName(int layer);                   // "layer 3", "head"
QString placeName(const OperandPlace& place);   // "layer 3, routed experts, w1 x forward"
const QuantFrame* findTensor(const TelemetryFrame* frame, const OperandPlace& place);  // nullptr: not there
// Why a class has nothing to show in a frame, which may be nullptr.
QString noQuantizationNotice(const RunInfo& info, const TelemetryFrame* frame, GemmClass gemm_class);
QString noTensorNotice();  // for panels of a single tensor

}  // namespace moescope
