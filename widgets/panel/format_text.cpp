#include "widgets/panel/format_text.h"

#include <QRegularExpression>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kFieldGap = 4;

int bitWidth(int height) {
  return std::max(11, height * 3 / 4);
}

QRect bitRect(const QRect& area, const BitLayout& layout, int bit) {
  const int width = bitWidth(area.height());
  int gaps = 0;
  if (layout.sign && bit >= layout.sign) ++gaps;
  if (layout.exponent && bit >= layout.sign + layout.exponent) ++gaps;
  return {area.left() + bit * width + gaps * kFieldGap, area.top(), width - 1, area.height()};
}

const std::vector<OperandFormat>& blockFormats() {
  static const std::vector<OperandFormat> formats = [] {
    std::vector<OperandFormat> all;
    for (int i = 0; i < kNumElementFormats; ++i) all.push_back(mx_format(static_cast<ElementFormat>(i)));
    for (const NamedFormat& named : named_formats())
      if (is_scaled(named.format) && named.format.scheme != QuantScheme::mx) all.push_back(named.format);
    return all;
  }();
  return formats;
}

// Formats with blocks of 32 have a name of MX; other block sizes have the name of the element only.
QString mxName(const OperandFormat& format) {
  const QString element = elementFormatLabel(format.element);
  if (format.block != 32) return element;
  if (format.element == ElementFormat::int8) return QStringLiteral("MXINT8");
  return QStringLiteral("MXFP%1 %2").arg(traits(format.element).bits).arg(element);
}

QString nvfp4Label(const Nvfp4Scaling& scaling) {
  QString text = scaling.square ? QString("blocks of 16 × 16") : QString("blocks of 16");
  if (scaling.rule == Nvfp4Rule::transformer_engine) text += QString(", TransformerEngine's scales");
  if (scaling.rule == Nvfp4Rule::torchao) text += QString(", torchao's arithmetic");
  if (scaling.rule == Nvfp4Rule::torchao_one_level) text += QString(", torchao's without a tensor scale");
  if (scaling.four_over_six == FourOverSix::mae) text += QString(", 4over6 by absolute error");
  if (scaling.four_over_six == FourOverSix::mse) text += QString(", 4over6 by squared error");
  return text;
}

}  // namespace

QString elementFormatLabel(ElementFormat format) {
  return QString::fromLatin1(traits(format).name).toUpper();
}

QString scaleRuleLabel(ScaleRule rule) {
  return QString::fromLatin1(scale_rule_name(rule)).toUpper();
}

QString blockAxisLabel(BlockAxis axis) {
  return axis == BlockAxis::row ? QString("along rows") : QString("down columns");
}

QString operandFormatLabel(const OperandFormat& format) {
  constexpr const char* kScales[] = {"one scale", "a scale per row", "blocks of 1 × 128", "blocks of 128 × 128"};
  QString text;
  switch (format.scheme) {
    case QuantScheme::fp32:
      return QStringLiteral("FP32");
    case QuantScheme::bf16:
      text = QStringLiteral("BF16");
      break;
    case QuantScheme::fp8:
      text = QStringLiteral("FP8 %1, %2")
                 .arg(elementFormatLabel(format.element),
                      QString::fromUtf8(kScales[static_cast<int>(format.granularity)]));
      if (format.power_of_two_scale) text += QString(", a power of two");
      break;
    case QuantScheme::mx:
      text = mxName(format) + QStringLiteral(", %1, ").arg(scaleRuleLabel(format.rule)) +
             QString("blocks of %1").arg(format.block);
      break;
    case QuantScheme::nvfp4:
      text = QStringLiteral("NVFP4 E2M1, ") + nvfp4Label(format.nvfp4);
  }
  if (format.rounding == Rounding::stochastic) text += QString(", stochastic rounding");
  if (format.hadamard) text += QString(", rotated in blocks of %1").arg(format.hadamard);
  return text;
}

// The usual blocks of 32 are not named.
QString formatLabel(const QuantFormat& format) {
  if (!format.operand) return QString::fromStdString(format.name);
  return operandFormatLabel(*format.operand).remove(QStringLiteral(", blocks of 32"));
}

QString withFormatLabels(const QString& text) {
  static const QRegularExpression kName(QStringLiteral(R"(\b(?:mx|nv)?fp[0-9][a-z0-9_]*\b)"));
  QString labelled = text;
  for (auto names = kName.globalMatch(text); names.hasNext();) {
    const QString name = names.next().captured();
    const auto format = quant_format(name.toStdString()).operand;
    if (!format) continue;
    labelled.replace(QRegularExpression(QStringLiteral("\\b%1\\b").arg(name)),
                     operandFormatLabel(*format).section(QLatin1Char(','), 0, 0));
  }
  return labelled;
}

QString shortFormatLabel(const OperandFormat& format) {
  if (format.scheme == QuantScheme::fp8)
    return QStringLiteral("FP8 ") + QString::fromLatin1(granularity_name(format.granularity));
  if (format.scheme == QuantScheme::nvfp4) return QStringLiteral("NVFP4");
  return QString::fromLatin1(element_name(format)).toUpper();
}

void fillBlockFormats(QComboBox* box) {
  box->setAccessibleName("Element format");
  box->setToolTip(box->accessibleName());
  for (const OperandFormat& format : blockFormats()) {
    const QString label = shortFormatLabel(format);
    box->addItem(format.scheme == QuantScheme::mx ? mxName(format) : label);
    QString tip = "FP8 with FP32 scales: the name shows which values share a scale";
    if (format.scheme == QuantScheme::mx) tip = QString("%1 with power-of-two scales, as in MX").arg(label);
    if (format.scheme == QuantScheme::nvfp4) tip = "E2M1 in blocks of 16 with E4M3 scales and a tensor scale";
    box->setItemData(box->count() - 1, tip, Qt::ToolTipRole);
  }
}

OperandFormat blockFormatAt(int index) {
  return blockFormats()[index];
}

int blockFormatIndex(const OperandFormat& format) {
  const auto found = std::ranges::find_if(blockFormats(), [&](const OperandFormat& candidate) {
    return candidate.scheme == format.scheme &&
           (format.scheme != QuantScheme::mx || candidate.element == format.element) &&
           (format.scheme != QuantScheme::fp8 || candidate.granularity == format.granularity);
  });
  return found == blockFormats().end() ? -1 : to_int(found - blockFormats().begin());
}

void fillScaleRules(QComboBox* box) {
  for (int i = 0; i < 4; ++i) box->addItem(scaleRuleLabel(static_cast<ScaleRule>(i)));
  box->setAccessibleName(QString("Scale rule"));
  box->setToolTip(
      QString("Scale rule: how the power of two follows from the largest value of the block.\n"
              "FLOOR: rounded down; CEIL, RCEIL: rounded up, so that nothing clips; EVEN: to the mantissa, then down"));
}

BitField BitLayout::fieldOf(int bit_from_left) const {
  if (bit_from_left < sign) return BitField::sign;
  return bit_from_left < sign + exponent ? BitField::exponent : BitField::mantissa;
}

BitLayout bitLayout(ElementFormat format) {
  const FormatTraits& f = traits(format);
  return {1, f.exponent_bits, f.bits - 1 - f.exponent_bits};
}

QColor bitColor(BitField field, bool dark) {
  constexpr int kSeries[] = {1, 0, 2};
  return seriesColor(kSeries[static_cast<int>(field)], dark);
}

void paintBits(QPainter& painter, const QRect& area, const BitLayout& layout, int code, const QPalette& palette) {
  const bool dark = isDark(palette);
  for (int bit = 0; bit < layout.bits(); ++bit) {
    const QRect box = bitRect(area, layout, bit);
    const bool set = code >> (layout.bits() - 1 - bit) & 1;
    const QColor color = bitColor(layout.fieldOf(bit), dark);
    painter.fillRect(box, set ? color : palette.base().color());
    painter.setPen(color);
    painter.drawRect(box.adjusted(0, 0, -1, -1));
    painter.setPen(set ? textOn(color.rgb()) : palette.text().color());
    painter.drawText(box, Qt::AlignCenter, set ? QStringLiteral("1") : QStringLiteral("0"));
  }
}

int bitsWidth(const BitLayout& layout, int height) {
  return bitRect({0, 0, 0, height}, layout, layout.bits() - 1).right() + 2;
}

QString exactText(float value) {
  if (std::isnan(value)) return QStringLiteral("NaN");
  if (std::isinf(value)) return value > 0 ? QStringLiteral("inf") : QStringLiteral("-inf");
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return QString::fromLatin1(text, to_int(end - text));
}

}  // namespace moescope
