// How the figures of core/telemetry/frame/metrics.h read on screen.
#pragma once

#include <QString>
#include <initializer_list>

#include "core/telemetry/frame/metrics.h"

namespace moescope {

QString metricName(Metric metric);     // "Cross-entropy loss"
QString metricCaption(Metric metric);  // "Cross-entropy loss, nats/token"
bool metricIsShare(Metric metric);     // shown in percent

// Rich text: name, unit, formula, how to read it, what moves it, source.
QString metricCard(const MetricInfo& info);
QString metricCards(std::initializer_list<FigureKey> figures);

}  // namespace moescope
