// Texts about the figures of core/frame/metrics.h.
#pragma once

#include <QString>

#include "core/frame/metrics.h"
#include "core/recording/history/history.h"

namespace moescope {

QString metricName(Metric metric);     // "Cross-entropy loss"
QString metricCaption(Metric metric);  // "Cross-entropy loss, nats/token"
bool metricIsShare(Metric metric);     // whether the metric is shown in percent

// "measured here", or "from the log" for a log of another program.
QString measuredWhere(const History* run);
// Unit of the biases and margins of a run at a step: " (logits)" if the rule adds biases to the outputs of the gate in
// place of the scores, else empty.
QString biasUnit(const History& run, std::int64_t step);

}  // namespace moescope
