#include "widgets/panel/metric_text.h"

#include <string_view>

#include "core/findings/explain/explain.h"
#include "widgets/plots/axis.h"

namespace moescope {
QString metricName(Metric metric) {
  return QString::fromUtf8(metric_info(metric).name);
}

QString metricCaption(Metric metric) {
  const MetricInfo& info = metric_info(metric);
  const bool plain = !*info.unit || metricIsShare(metric);
  return plain ? metricName(metric) : inPrint(metricName(metric) + QStringLiteral(", ") + QString::fromUtf8(info.unit));
}

bool metricIsShare(Metric metric) {
  return metric == Metric::entropy_norm || std::string_view(metric_info(metric).unit) == "share";
}

QString measuredWhere(const History* run) {
  const Provenance kind = run ? provenance_in(run->info(), Provenance::measured_here) : Provenance::measured_here;
  return QString::fromLatin1(provenance_name(kind));
}

QString biasUnit(const History& run, std::int64_t step) {
  const bool logits = run.settings_at(step)->value(&RouterConfig::balance_rule) == BalanceRule::quantile_microbatch;
  return logits ? QStringLiteral(" (logits)") : QString();
}

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
