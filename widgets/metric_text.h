// How the metrics read on screen; what they mean comes from core/telemetry/metrics.h.
#pragma once

#include <QString>

#include "core/telemetry/history.h"

namespace moescope {

QString metricName(Metric metric);     // "CE loss"
QString metricCaption(Metric metric);  // "CE loss, nats/byte"
QString metricCard(Metric metric);     // rich text: name, formula, unit, source
bool metricIsShare(Metric metric);     // shown in percent

}  // namespace moescope
