// The colour scale of quantization errors. It is the same for all runs, formats and panels, so that a strong colour is
// a large error: MXFP4 (19 dB) is dark, MXFP8 (31 dB) is in between, BF16 (56 dB) is pale.
#pragma once

#include "core/findings/comparison/operand_sqnr.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

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
