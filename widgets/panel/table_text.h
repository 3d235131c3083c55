// The values of a panel's table in words.
#pragma once

#include <QStringList>

#include "core/files/text/value_table.h"
#include "core/frame/metrics.h"

namespace moescope {

// The column of a figure.
ValueColumn columnOf(const MetricInfo& info);

// A value with its unit: "1,284", "12.3 %", "31.2 dB"; an empty text if there is no value.
QString valueText(const ValueColumn& column, const TableValue& value);

// A row for a reader: the first `keys` values in one line ("step 1,284, layer 3"), then a line for each value that the
// row has ("SQNR 31.2 dB").
QStringList rowText(const ValueTable& table, std::size_t row, std::size_t keys);

}  // namespace moescope
