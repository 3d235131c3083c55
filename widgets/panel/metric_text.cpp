#include "widgets/panel/metric_text.h"

#include <QCoreApplication>
#include <string_view>

#include "core/telemetry/explain/explain.h"
#include "core/telemetry/recording/run_settings.h"

namespace moescope {
namespace {

QString text(const char* words) {
  return QString::fromUtf8(words).toHtmlEscaped();
}

QString tipLine(const char* label, const char* words) {
  if (!*words) return {};
  return QStringLiteral("<br><i>%1</i> %2").arg(QCoreApplication::translate("Metric", label), text(words));
}

}  // namespace

QString metricName(Metric metric) {
  return QString::fromUtf8(metric_info(metric).name);
}

QString metricCaption(Metric metric) {
  const MetricInfo& info = metric_info(metric);
  const bool plain = !*info.unit || metricIsShare(metric);
  return plain ? metricName(metric) : metricName(metric) + QStringLiteral(", ") + QString::fromUtf8(info.unit);
}

bool metricIsShare(Metric metric) {
  return std::string_view(metric_info(metric).unit) == "share";
}

QString measuredWhere(const History* run) {
  const Provenance kind = run ? provenance_in(run->info(), Provenance::measured_here) : Provenance::measured_here;
  return QString::fromLatin1(provenance_name(kind));
}

QString biasUnit(const History& run, std::int64_t step) {
  const bool logits = setting_at(run, "router.balance_rule", step) == "quantile_microbatch";
  return logits ? QStringLiteral(" (logits)") : QString();
}

QString metricCard(const MetricInfo& info) {
  const QString unit = *info.unit ? QStringLiteral(" [%1]").arg(text(info.unit)) : QString();
  return QStringLiteral("<p><b>%1</b>%2, %3<br><code>%4</code>")
             .arg(text(info.name), unit, QLatin1String(provenance_name(info.provenance)), text(info.formula)) +
         tipLine("Good:", info.good) + tipLine("Bad:", info.bad) + tipLine("Moved by:", info.knob) +
         tipLine("Source:", info.source) + QStringLiteral("</p>");
}

QString metricCards(std::initializer_list<FigureKey> figures) {
  QString cards;
  for (const FigureKey& figure : figures) cards += metricCard(figure.info());
  return cards;
}

}  // namespace moescope
