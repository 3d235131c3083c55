// Texts about the figures of core/frame/metrics.h, and the values of a panel's table in words.
#pragma once

#include <QStringList>

#include "core/files/text/value_table.h"
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

// The column of a figure.
ValueColumn columnOf(const MetricInfo& info);

// A value with its unit: "1,284", "12.3 %", "31.2 dB"; an empty text if there is no value.
QString valueText(const ValueColumn& column, const TableValue& value);

// A row for a reader: the first `keys` values in one line ("step 1,284, layer 3"), then a line for each value that the
// row has ("SQNR 31.2 dB").
QStringList rowText(const ValueTable& table, std::size_t row, std::size_t keys);

}  // namespace moescope
