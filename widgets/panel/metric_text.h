// Texts on the figures of core/frame/metrics.h.
#pragma once

#include <QString>

#include "core/frame/metrics.h"
#include "core/history/history.h"

namespace moescope {

QString metricName(Metric metric);     // "Cross-entropy loss"
QString metricCaption(Metric metric);  // "Cross-entropy loss, nats/token"
bool metricIsShare(Metric metric);     // whether the metric is shown in percent

// "measured here", or "from the log" for a log of another program.
QString measuredWhere(const History* run);
// The unit of biases and margins of a run at a step: " (logits)" if the rule adds biases to the router's outputs in
// place of the scores, else empty.
QString biasUnit(const History& run, std::int64_t step);

}  // namespace moescope
