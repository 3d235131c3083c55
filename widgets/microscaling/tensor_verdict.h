// The loss of the tensors of a file in a number format, in one sentence. Each tensor is compared with normally
// distributed values in the same format. docs/precision.md states the limits as well.
#pragma once

#include "widgets/microscaling/tensor_list_model.h"
#include "widgets/panel/verdict_line.h"
#include "widgets/selection/selection.h"

namespace moescope {

// Limits of the loss beyond that of normally distributed values.
struct FormatLimits {
  double to_zero;  // share of the values that become zero
  double db;       // SQNR in dB
};
inline constexpr FormatLimits kAttentionLimits{0.005, 3}, kBadLimits{0.1, 10};

// Returns the figures of 256 x 512 normally distributed values.
QuantSums normalFigures(const OperandFormat& format);

// Judges the tensors of one file that have figures. The sentence is empty if no tensor has figures.
VerdictLine::Judgement tensorVerdict(const TensorListModel& tensors, const OperandFormat& format);
// Returns the tensor with which the sentence begins; -1 if it begins with none.
int worstTensor(const TensorListModel& tensors, const OperandFormat& format);
QString explainTensorVerdict();  // the rule of the verdict as rich text

// Judges the operands of the active run at the cursor by the findings on number formats, or says that the run quantizes
// nothing. The sentence is empty if no run is open or it has no step yet.
VerdictLine::Judgement operandVerdict(const Selection& selection);
// Returns the operand that the sentence names; nullopt if the run has no statistics.
std::optional<OperandPlace> operandOfVerdict(const Selection& selection);
QString explainOperandVerdict();

}  // namespace moescope
