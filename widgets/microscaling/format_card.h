// The card of a number format: bits, range, spacing and special values of its elements, and the scales that they share.
#pragma once

#include <QString>

#include "core/numerics/quantize.h"

namespace moescope {

// Rich text for a panel's card; empty for formats without scales.
QString formatCard(const OperandFormat& format);

}  // namespace moescope
