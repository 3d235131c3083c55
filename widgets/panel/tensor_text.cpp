#include "widgets/panel/tensor_text.h"

#include <QStringList>
#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "widgets/panel/panel.h"

namespace moescope {
namespace {

// The position of a GEMM in the order of a layer.
int orderOfGemm(Gemm gemm) {
  using enum Gemm;
  constexpr Gemm kOrder[] = {dispatch, wq_a,      wq,        wq_b,      wkv_a,     wkv_b,     wo,
                             gate,     expert_w1, expert_w3, expert_w2, shared_w1, shared_w3, shared_w2,
                             dense_w1, dense_w3,  dense_w2,  output,    combine};
  static_assert(std::size(kOrder) == kNumGemms);
  return to_int(std::ranges::find(kOrder, gemm) - std::begin(kOrder));
}

auto orderOf(const OperandPlace& place) {
  // Order of operands: x, W in the forward pass; dY, W in dgrad; x, dY in wgrad.
  constexpr int kOperands[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};  // by direction and operand
  const int operand = kOperands[static_cast<int>(place.direction)][static_cast<int>(place.operand)];
  return std::tuple(orderOfGemm(place.gemm), place.direction, operand);
}

}  // namespace

bool comesBefore(const OperandPlace& a, const OperandPlace& b) {
  return orderOf(a) < orderOf(b);
}

std::vector<OperandPlace> operandsOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  std::vector<OperandPlace> places;
  for (const QuantFrame& quant : frame.quants) {
    if (quant.gemm_class() != gemm_class) continue;
    OperandPlace place = quant;
    place.layer = 0;
    const auto at = std::ranges::lower_bound(places, place, comesBefore);
    if (at == places.end() || *at != place) places.insert(at, place);
  }
  return places;
}

std::vector<int> layersOf(const TelemetryFrame& frame, GemmClass gemm_class) {
  std::set<int> layers;
  for (const QuantFrame& quant : frame.quants)
    if (quant.gemm_class() == gemm_class) layers.insert(quant.layer);
  return {layers.begin(), layers.end()};
}

QString gemmClassLabel(GemmClass gemm_class) {
  static constexpr const char* kLabels[kNumQuantClasses] = {
      "routed experts", "shared experts", "dense FFN", "attention", "router gate", "head", "token payload"};
  return QString(kLabels[static_cast<int>(gemm_class)]);
}

QString gemmClassBrief(GemmClass gemm_class) {
  return gemmClassLabel(gemm_class)
      .remove(QStringLiteral(" experts"))
      .remove(QStringLiteral("router "))
      .remove(QStringLiteral("token "));
}

QString tensorName(const OperandPlace& place) {
  return QStringLiteral("%1 %2 %3")
      .arg(QLatin1String(gemm_name(place.gemm)), QLatin1String(operand_name(place.operand)),
           QLatin1String(direction_name(place.direction)));
}

QString operandTerms() {
  return QString(
      "w1, w3, w2: weights of an expert\nf, forward: forward pass, x W\nd, dgrad: gradient of the input, dY W\n"
      "w, wgrad: gradient of the weights, dY x\nx: activations; W: weights; dY: gradient of the output");
}

QString layerName(int layer) {
  return layer < 0 ? QString("head") : QString("layer %1").arg(layer);
}

QString placeName(const OperandPlace& place) {
  QStringList parts;
  if (place.layer >= 0) parts << layerName(place.layer);
  parts << gemmClassLabel(place.gemm_class()) << tensorName(place);
  return parts.join(QStringLiteral(", "));
}

const QuantFrame* findTensor(const TelemetryFrame* frame, const OperandPlace& place) {
  if (!frame) return nullptr;
  const auto found = std::ranges::find_if(frame->quants, [&](const QuantFrame& quant) { return place == quant; });
  return found == frame->quants.end() ? nullptr : &*found;
}

QString noQuantizationNotice(const RunInfo& info, const TelemetryFrame* frame, GemmClass gemm_class) {
  if (info.config_toml.empty() && (!frame || frame->quants.empty()))
    return notInLogNotice(info, "quantization statistics");
  if (gemm_class == GemmClass::payload)
    return QString("This run sends its token payload in FP32. Set precision.payload to BF16 or MXFP8 in Set-up (F2).");
  const QString how =
      QString(
          "Set precision.%1 to a recipe of MXFP8 or another format, in Set-up (F2) or, while it runs, in the "
          "live settings (F4)%2.")
          .arg(QLatin1String(gemm_class_name(gemm_class)),
               frame && !frame->quants.empty() ? QString("; or choose another class above") : QString());
  return QString("This run does not quantize its %1: they compute in full precision. ")
             .arg(gemmClassLabel(gemm_class)) +
         how;
}

QString noTensorNotice() {
  return QString("No tensor is open: click a cell of Quantization error, or open a file of tensors");
}

}  // namespace moescope
