#include "widgets/panel/table_text.h"

#include "widgets/plots/axis.h"

namespace moescope {

ValueColumn columnOf(const MetricInfo& info) {
  return {std::string(info.name), std::string(info.unit)};
}

QString valueText(const ValueColumn& column, const TableValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return {};
  if (const auto* text = std::get_if<std::string>(&value)) return QString::fromStdString(*text);
  if (const auto* holds = std::get_if<bool>(&value)) return *holds ? QStringLiteral("yes") : QStringLiteral("no");
  const auto* count = std::get_if<std::int64_t>(&value);
  const auto* single = std::get_if<float>(&value);
  double number = 0;
  if (count)
    number = *count;
  else
    number = single ? *single : std::get<double>(value);
  if (column.unit == "share") return formatPercent(number);
  if (column.unit == "bytes") return formatBytes(number);
  const QString text = count ? formatCount(number) : formatValue(number, column.digits);
  return column.unit.empty() ? text : text + QLatin1Char(' ') + QString::fromStdString(column.unit);
}

QStringList rowText(const ValueTable& table, std::size_t row, std::size_t keys) {
  QStringList key_texts, lines;
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    const ValueColumn& column = table.columns()[i];
    const QString value = valueText(column, table.row(row)[i]);
    if (value.isEmpty()) continue;
    (i < keys ? key_texts : lines) << QString::fromStdString(column.name) + QLatin1Char(' ') + value;
  }
  if (!key_texts.isEmpty()) lines.prepend(key_texts.join(QStringLiteral(", ")));
  return lines;
}

}  // namespace moescope
