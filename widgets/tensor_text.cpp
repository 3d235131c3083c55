#include "widgets/tensor_text.h"

#include <QCoreApplication>
#include <algorithm>

namespace moescope {

std::vector<Selection::Tensor> allTensors() {
  std::vector<Selection::Tensor> all;
  for (const ExpertWeight weight : {ExpertWeight::w1, ExpertWeight::w3, ExpertWeight::w2}) {
    all.push_back({weight, Operand::x, Direction::forward});
    all.push_back({weight, Operand::w, Direction::forward});
    all.push_back({weight, Operand::dy, Direction::dgrad});
    all.push_back({weight, Operand::w, Direction::dgrad});
    all.push_back({weight, Operand::x, Direction::wgrad});
    all.push_back({weight, Operand::dy, Direction::wgrad});
  }
  return all;
}

QString tensorName(Selection::Tensor tensor) {
  return QStringLiteral("%1 %2 %3")
      .arg(QLatin1String(expert_weight_name(tensor.weight)), QLatin1String(operand_name(tensor.operand)),
           QLatin1String(direction_name(tensor.direction)));
}

const QuantFrame* findTensor(const TelemetryFrame* frame, int layer, Selection::Tensor tensor) {
  if (!frame) return nullptr;
  const auto place = std::ranges::find_if(frame->quants, [&](const QuantFrame& quant) {
    return quant.gemm_class == GemmClass::experts && quant.layer == layer &&
           Selection::Tensor{quant.weight, quant.operand, quant.direction} == tensor;
  });
  return place == frame->quants.end() ? nullptr : &*place;
}

QString noQuantizationNotice() {
  return QCoreApplication::translate(
      "Panel",
      "This run does not quantize its experts: they compute in full precision. Set their precision to "
      "mxfp8_rceil or another recipe, in the set-up or, while it runs, in the Live bar.");
}

}  // namespace moescope
