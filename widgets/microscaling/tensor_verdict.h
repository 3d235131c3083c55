// What a number format costs the tensors of a file, as one sentence: each is compared with normally distributed values
// in the same format. The limits stand in docs/precision.md, too.
#pragma once

#include "widgets/microscaling/tensor_list_model.h"
#include "widgets/panel/verdict_line.h"

namespace moescope {

// Beyond what normally distributed values lose.
struct FormatLimits {
  double to_zero;  // share of the values
  double db;       // of SQNR
};
inline constexpr FormatLimits kAttentionLimits{0.005, 3}, kBadLimits{0.1, 10};

// Of 256 x 512 values.
QuantSums normalFigures(const OperandFormat& format);

// Of the tensors of one file; those without figures are not judged. No sentence: none has figures.
VerdictLine::Judgement tensorVerdict(const TensorListModel& tensors, const OperandFormat& format);
// The entry that the sentence begins with: -1 if it begins with none.
int worstTensor(const TensorListModel& tensors, const OperandFormat& format);
QString explainTensorVerdict();  // rich text

}  // namespace moescope
