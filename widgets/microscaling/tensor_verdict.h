// The cost of a number format to the tensors of a file, in one sentence. Each tensor is compared with normally
// distributed values in the same format. The limits are in docs/precision.md as well.
#pragma once

#include "widgets/microscaling/tensor_list_model.h"
#include "widgets/panel/verdict_line.h"

namespace moescope {

// Limits of a loss beyond that of normally distributed values.
struct FormatLimits {
  double to_zero;  // share of the values that become zero
  double db;       // SQNR in dB
};
inline constexpr FormatLimits kAttentionLimits{0.005, 3}, kBadLimits{0.1, 10};

// Figures of 256 x 512 normally distributed values.
QuantSums normalFigures(const OperandFormat& format);

// Judges the tensors of one file that have figures. An empty sentence: none has.
VerdictLine::Judgement tensorVerdict(const TensorListModel& tensors, const OperandFormat& format);
// The tensor with which the sentence begins; -1: it begins with none.
int worstTensor(const TensorListModel& tensors, const OperandFormat& format);
QString explainTensorVerdict();  // the rule of the verdict as rich text

}  // namespace moescope
