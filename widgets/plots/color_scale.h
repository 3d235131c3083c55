// Colours and their meaning. None relies on red against green, and every scale has a legend with numbers.
#pragma once

#include <QBrush>
#include <QColor>
#include <QImage>
#include <QPainter>
#include <QPalette>
#include <array>
#include <cstdint>
#include <vector>

#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {

// Cells are quantised to a byte before they are coloured: 1..255 along the scale, 0 means "no data".
using Lut = std::array<QRgb, 256>;
inline constexpr std::uint8_t kNoDataCode = 0;

// A position 0..1 on a scale as a cell's byte; NaN gives kNoDataCode.
std::uint8_t scaleCode(double position);

// Perceptually uniform and readable without colour vision: van der Walt and Smith 2015 (viridis), Nunez et al. 2018
// (cividis); interpolated between ten published colours. Code 0 has the theme's no-data colour.
Lut viridisLut(bool dark);
Lut cividisLut(bool dark);
// The scale of matrices with numbers in their cells; the strong end is more bytes or less SQNR.
Lut matrixLut(bool dark);

// Utilisation u: diverging over log2 u from 1/4 to 4, blue below 1 and orange above. The fair share has the
// colour of the ground, extremes stand out from it. Code 1 is u = 0 exactly (no token): its own colour,
// hatched.
inline constexpr std::uint8_t kZeroLoadCode = 1;
Lut utilisationLut(bool dark);
// The scale of utilisation, or the same colours up to 16 or 64 times the fair load.
enum class LoadScale { to_4, to_16, to_64 };
int loadLimit(LoadScale scale);  // 4, 16, 64
std::uint8_t utilisationCode(double utilisation, LoadScale scale = LoadScale::to_4);
// The code of another quantity on these colours: position 0..1, neutral at 1/2; NaN gives kNoDataCode.
std::uint8_t divergingCode(double position);
// The position of a share on a logarithmic scale from `lowest` to 1; NaN of NaN.
double logPosition(double share, double lowest);

// Started from Okabe and Ito's series and moved until, also as seen with protanopia, deuteranopia and tritanopia
// (Machado, Oliveira and Fernandes 2009), any two are 12 apart in CIE Lab, the first four, which runs have, 20; and
// each stands out from its theme's ground by 3 : 1.
QColor seriesColor(int index, bool dark);
Qt::PenStyle seriesLine(int index);

inline QColor gridColor(const QPalette& palette) {
  return colors(palette).grid;
}
inline QColor mutedText(const QPalette& palette) {
  return colors(palette).ink2;
}
inline QColor axisColor(const QPalette& palette) {
  return colors(palette).axis;
}
// The colour of cursor and selected cell, drawn on a halo.
inline QColor cursorColor(bool dark) {
  return colors(dark).ink;
}
// Black or white, whichever reads better on `background`.
QColor textOn(QRgb background);
// A brush of fine diagonal lines for cells without tokens: one passes through every cell of 2 x 2 pixels.
QBrush fineHatch(const QColor& color);
inline QColor hatchOnZeroLoad(bool dark) {
  return colors(dark).zero_load_hatch;
}

// A scale of colours with its labels (value = position 0..1). `beyond`: values outside the scale have the end colours.
// Swatches explain special cells.
struct LegendScale {
  struct Swatch {
    QColor color;
    QString label;
    bool struck = false;
  };
  Lut lut{};
  std::vector<Tick> ticks;
  QString caption;
  bool beyond = false;
  int first_code = 1;
  std::vector<Swatch> swatches{};
};
LegendScale utilisationLegend(bool dark, LoadScale scale = LoadScale::to_4);  // the legend of utilisationLut()
// Paints a legend on one line at the right of `area`: swatches, the scale with its ends, the caption. Returns its
// width; without room it leaves out the caption, then all.
int paintFlatLegend(QPainter& painter, const QRect& area, const LegendScale& scale, const QPalette& palette);

}  // namespace moescope
