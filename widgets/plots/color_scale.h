// Colours and their meaning. No scale relies on red against green, and every scale has a legend with numbers.
#pragma once

#include <QBrush>
#include <QColor>
#include <QImage>
#include <QPainter>
#include <QPalette>
#include <array>
#include <cstdint>
#include <vector>

#include "core/findings/comparison/operand_sqnr.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {

// Cells are quantized to a byte before they are coloured: 1..255 along the scale, 0 for "no data".
using Lut = std::array<QRgb, 256>;
inline constexpr std::uint8_t kNoDataCode = 0;

// Returns the byte of a cell at a position 0..1 on a scale; kNoDataCode for NaN.
std::uint8_t scaleCode(double position);

// Perceptually uniform scales that are readable without colour vision: van der Walt and Smith 2015 (viridis), Nunez et
// al. 2018 (cividis); interpolated between ten published colours. Code 0 has the theme's no-data colour.
Lut viridisLut(bool dark);
Lut cividisLut(bool dark);
// Scale of matrices with numbers in their cells; the strong end is more bytes or less SQNR.
Lut matrixLut(bool dark);

// Scale of the utilisation u. It diverges over log2 u from 1/4 to 4, blue below 1 and orange above. The fair share has
// the colour of the ground, and extremes stand out from it. Code 1 is u = 0 exactly (no token) and has its own colour,
// hatched.
inline constexpr std::uint8_t kZeroLoadCode = 1;
Lut utilisationLut(bool dark);
// The scale of utilisation ends at `limit` times the fair share and at 1 / limit of it: 4, or the smallest of 16, 64
// and 256 that reaches the largest load. From half to twice the fair share all scales have the same colours.
int loadLimit(double largest_load);
std::uint8_t utilisationCode(double utilisation, int limit = 4);
// Code of a position 0..1 on the same colours, for another quantity; 1/2 is neutral; NaN gives kNoDataCode.
std::uint8_t divergingCode(double position);
// Position of a share on a logarithmic scale from `lowest` to 1; NaN for NaN.
double logPosition(double share, double lowest);

// Colours of series, derived from the series of Okabe and Ito. Any two differ by at least 12 in CIE Lab, also as seen
// with protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes 2009); the first four, which the runs
// have, differ by 20. Each stands out from its theme's ground by 3 : 1.
QColor seriesColor(int index, bool dark);
Qt::PenStyle seriesLine(int index);
void paintSwatch(QPainter& painter, const QRect& place, int index, bool dark);  // a piece of the curve, for its legend

inline QColor gridColor(const QPalette& palette) {
  return colors(palette).grid;
}
inline QColor mutedText(const QPalette& palette) {
  return colors(palette).ink2;
}
inline QColor axisColor(const QPalette& palette) {
  return colors(palette).axis;
}
// Colour of the cursor and of the frame of a selected cell, which are drawn on a halo.
inline QColor cursorColor(bool dark) {
  return colors(dark).ink;
}
// Returns black or white, whichever reads better on `background`.
QColor textOn(QRgb background);
// Returns a brush of fine diagonal lines for cells without tokens. A line passes through every cell of 2 x 2 pixels.
QBrush fineHatch(const QColor& color);
inline QColor hatchOnZeroLoad(bool dark) {
  return colors(dark).zero_load_hatch;
}

// Legend of a colour scale with the labels of its ends. Swatches explain special cells.
struct LegendScale {
  struct Swatch {
    QColor color;
    QString label;
    enum Kind { filled, struck, pointer, frame } kind = filled;
  };
  Lut lut{};
  QString low, high;
  QString caption;
  int first_code = 1;
  std::vector<Swatch> swatches{};
  double mark = -1;  // position 0..1 of a value that the caption names; negative: none
};
LegendScale utilisationLegend(bool dark, int limit = 4);  // the legend of utilisationLut()
// Paints a legend on one line at the right of `area`: swatches, the scale with its ends, the caption. Without enough
// room it leaves out the caption, then the scale, or paints nothing. Returns the painted width.
int paintFlatLegend(QPainter& painter, const QRect& area, const LegendScale& scale, const QPalette& palette);

// The colour scale of quantization errors. It is the same for all runs, formats and panels, so that a strong colour is
// a large error: MXFP4 (19 dB) is dark, MXFP8 (31 dB) is in between, BF16 (56 dB) is pale.
//
// Position of an SQNR on the scale; below 0 and above 1 for values beyond its ends, NaN for NaN.
inline double sqnrPosition(double db) {
  return (kPaleSqnrDb - db) / (kPaleSqnrDb - kStrongSqnrDb);
}

inline LegendScale sqnrLegend(bool dark) {
  return {.lut = matrixLut(dark),
          .low = QStringLiteral("\u2265 %1").arg(kPaleSqnrDb),
          .high = QStringLiteral("\u2264 %1").arg(kStrongSqnrDb),
          .caption = QStringLiteral("SQNR, dB")};
}

}  // namespace moescope
