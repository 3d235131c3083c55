#include "widgets/microscaling/format_card.h"

#include <cmath>

#include "core/numerics/block_anatomy.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

QString binadesText(double largest, double smallest) {
  return QString("%1 binades").arg(std::log2(largest / smallest), 0, 'f', 1);
}

QString specialValues(ElementFormat element) {
  if (element == ElementFormat::int8) return QString("80 = -2 is never produced; one zero");
  const FormatTraits& f = traits(element);
  const auto hex = [](int code) { return QString::number(code, 16).toUpper(); };
  const int sign = 1 << (f.bits - 1), largest = sign - 1, infinity = largest >> f.mantissa_bits << f.mantissa_bits;
  switch (f.special) {
    case SpecialCodes::none:
      return QString("none: every code is a number");
    case SpecialCodes::nan:
      return QString("NaN %1 %2; no infinity").arg(hex(largest), hex(sign + largest));
    case SpecialCodes::ieee:
      return QString("infinity %1 %2; NaN %3-%4 %5-%6")
          .arg(hex(infinity), hex(sign + infinity), hex(infinity + 1), hex(largest), hex(sign + infinity + 1),
               hex(sign + largest));
  }
  return {};
}

QString elementText(ElementFormat element) {
  const FormatTraits& f = traits(element);
  const BitLayout bits = bitLayout(element);
  const auto power = [](float value) { return formatPowerOfTwo(to_int(std::lround(std::log2(value)))); };
  const QString range = element == ElementFormat::int8
                            ? QString("Spacing 1/64 everywhere")
                            : QString("Smallest normal %1, smallest subnormal %2; spacing: binade / %3")
                                  .arg(power(f.min_normal), power(f.min_subnormal))
                                  .arg(1 << f.mantissa_bits);
  return QString(
             "<p><b>%1</b>: %2 sign, %3 exponent and %4 mantissa bits, %5 values up to %6. %7. Special codes: %8.</p>")
      .arg(elementFormatLabel(element))
      .arg(bits.sign)
      .arg(bits.exponent)
      .arg(bits.mantissa)
      .arg(representable_values(element).size())
      .arg(exactText(f.max), range, specialValues(element));
}

// What shares a scale, the range that the scales give a tensor, and where NaN and infinity lead.
struct ScaleTexts {
  QString shared, tensor_range, not_finite;
};

ScaleTexts scaleTexts(const OperandFormat& format) {
  const FormatTraits& f = traits(format.element);
  switch (format.scheme) {
    case QuantScheme::mx:
      return {QString("%1 values along a row or column share a power of two, E8M0").arg(format.block),
              binadesText(f.max * 0x1p127, f.min_subnormal * 0x1p-127), "its block becomes NaN"};
    case QuantScheme::nvfp4:  // block scales from 2^-6, torchao's smallest, to 448 (quantize.h)
      return {
          "16 values along a row or column share an E4M3 scale from 2\u207b\u2076 to 448, and the tensor an FP32 "
          "scale. NVIDIA's TransformerEngine has scales down to 2\u207b\u2079, and blocks too small for that "
          "become zeros",
          binadesText(f.max * 448.0, f.min_subnormal * 0x1p-6), "the whole tensor becomes NaN"};
    case QuantScheme::fp8:
      return {"128 values, 128 × 128 values, a row or the tensor share an FP32 scale", "as FP32",
              "all that shares the scale becomes NaN"};
    case QuantScheme::fp32:
    case QuantScheme::bf16:
      break;
  }
  return {};
}

}  // namespace

QString formatCard(const OperandFormat& format) {
  if (!is_scaled(format)) return {};
  const FormatTraits& f = traits(format.element);
  const ScaleTexts scale = scaleTexts(format);
  const QString bits =
      format.scheme == QuantScheme::fp8 ? QString("8 + 32 / n") : QString::number(bits_per_value(format));
  return elementText(format.element) +
         QString("<p><b>%1</b>: %2. %3 bits per value. Range in a block %4, in a tensor %5. NaN or infinity: %6.</p>")
             .arg(operandFormatLabel(format).section(QLatin1Char(','), 0, 0), scale.shared, bits,
                  binadesText(f.max, f.min_subnormal), scale.tensor_range, scale.not_finite);
}

}  // namespace moescope
