// Names and order of quantized operands.
#pragma once

#include <QString>
#include <vector>

#include "widgets/selection/selection.h"

namespace moescope {

// Orders operands by use: weights in the order of the forward pass; for each weight, x and W of the forward pass, dY
// and W of dgrad, x and dY of wgrad.
bool comesBefore(const OperandPlace& a, const OperandPlace& b);  // for operands of one class; ignores layers
// Returns the operands of the class that any layer of the frame quantizes, each once, with layer 0.
std::vector<OperandPlace> operandsOf(const TelemetryFrame& frame, GemmClass gemm_class);
std::vector<int> layersOf(const TelemetryFrame& frame, GemmClass gemm_class);  // ascending; -1: the head

QString gemmClassLabel(GemmClass gemm_class);   // "routed experts"
QString gemmClassBrief(GemmClass gemm_class);   // "routed"
QString tensorName(const OperandPlace& place);  // "w1 x forward"
QString operandTerms();                         // what the parts of such a name are, as a tool tip
QString layerName(int layer);                   // "layer 3", "head"
QString placeName(const OperandPlace& place);   // "layer 3, routed experts, w1 x forward"
// Returns the statistics of an operand; nullptr if the frame has none.
const QuantFrame* findTensor(const TelemetryFrame* frame, const OperandPlace& place);
// Returns why a frame, which may be nullptr, has no statistics of a class.
QString noQuantizationNotice(const RunInfo& info, const TelemetryFrame* frame, GemmClass gemm_class);
QString noTensorNotice();  // notice of panels of a single tensor

}  // namespace moescope
