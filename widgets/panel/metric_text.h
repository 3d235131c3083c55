// How the figures of core/frame/metrics.h read on screen.
#pragma once

#include <QString>

#include "core/frame/metrics.h"
#include "core/history/history.h"

namespace moescope {

QString metricName(Metric metric);     // "Cross-entropy loss"
QString metricCaption(Metric metric);  // "Cross-entropy loss, nats/token"
bool metricIsShare(Metric metric);     // shown in percent

// "measured here"; of a log of another program "from the log".
QString measuredWhere(const History* run);
// What biases and margins of a run are in at a step: " (logits)", where the rule adds biases to the router's outputs in
// place of the scores; else empty.
QString biasUnit(const History& run, std::int64_t step);

// Rich text: name, unit, formula, how to read it, what moves it, source.
QString metricCard(const MetricInfo& info);

}  // namespace moescope
