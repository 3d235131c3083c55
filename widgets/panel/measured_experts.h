// What a model loses without its experts, as panels show it.
#pragma once

#include <QString>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>

#include "core/frame/expert_scan.h"
#include "widgets/plots/axis.h"

namespace moescope {

struct MeasuredExperts {
  using Scans = std::map<std::int64_t, ExpertScan>;
  QString run;  // letter and name of the run
  Scans scans;  // not empty; by step, of a run of this program with the weights before it

  // Returns the newest scan at or before `step`; if there is no such scan, the first.
  const Scans::value_type& at(std::int64_t step) const {
    const auto after = scans.upper_bound(step);
    return after == scans.begin() ? *after : *std::prev(after);
  }
};

// "+0.0123"; a change of the loss in nats/token.
inline QString lossChangeText(double change) {
  return (change > 0 ? QStringLiteral("+") : QString()) + inPrint(QString::number(change, 'g', 3));
}
// "+0.0123 \u00b1 0.0021"; without the interval if there is none.
inline QString lossChangeText(const FigureOfPieces& figure) {
  const QString mean = lossChangeText(figure.mean);
  return std::isnan(figure.interval)
             ? mean
             : mean + QStringLiteral(" \u00b1 ") + inPrint(QString::number(figure.interval, 'g', 2));
}

}  // namespace moescope
