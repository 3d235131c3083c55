// Names, combo boxes and bit colours of the number formats, the same wherever they are shown.
#pragma once

#include <QComboBox>
#include <QPainter>
#include <QPalette>
#include <QString>

#include "core/numerics/number_format.h"
#include "core/numerics/quantize.h"

namespace moescope {

QString elementFormatLabel(ElementFormat format);         // "E4M3"
QString scaleRuleLabel(ScaleRule rule);                   // "RCEIL"
QString blockAxisLabel(BlockAxis axis);                   // "along rows"
QString operandFormatLabel(const OperandFormat& format);  // "MXFP8 E4M3, RCEIL, blocks of 32"
QString formatLabel(const QuantFormat& format);           // "MXFP8 E4M3, RCEIL"; the name in the log if it is not known
QString withFormatLabels(const QString& text);            // "in MXFP8 E4M3" for "in mxfp8_e4m3_rceil"
QString shortFormatLabel(const OperandFormat& format);    // "E4M3" in MX, "NVFP4", "FP8 1x128"

// Fills a combo box with the formats that have scales: MX by element format, then the others.
void fillBlockFormats(QComboBox* box);
OperandFormat blockFormatAt(int index);
int blockFormatIndex(const OperandFormat& format);  // index, regardless of scale rule, block size and element of FP8
void fillScaleRules(QComboBox* box);                // indices are the enum's values

// Fields of a code, from the left.
enum class BitField { sign, exponent, mantissa };
struct BitLayout {
  int sign = 0, exponent = 0, mantissa = 0;  // numbers of bits; the sign of INT8 is its top bit
  int bits() const { return sign + exponent + mantissa; }
  BitField fieldOf(int bit_from_left) const;
};
BitLayout bitLayout(ElementFormat format);
QColor bitColor(BitField field, bool dark);

// Paints the bits of a code as coloured boxes with their digits, with gaps between the fields.
void paintBits(QPainter& painter, const QRect& area, const BitLayout& layout, int code, const QPalette& palette);
int bitsWidth(const BitLayout& layout, int height);

// Returns the shortest text that reads back as the same float32.
QString exactText(float value);

}  // namespace moescope
