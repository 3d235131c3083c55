// An estimated duration as text.
#pragma once

#include <QString>
#include <algorithm>
#include <cmath>

namespace moescope {

// "about 40 s", "about 12 min", "about 3.5 h"
inline QString aboutDuration(double seconds) {
  if (seconds < 90) return QStringLiteral("about %1 s").arg(std::max(1.0, std::round(seconds)));
  if (seconds < 5400) return QStringLiteral("about %1 min").arg(std::round(seconds / 60));
  return QStringLiteral("about %1 h").arg(seconds / 3600, 0, 'f', 1);
}

}  // namespace moescope
