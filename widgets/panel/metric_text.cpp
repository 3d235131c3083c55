#include "widgets/panel/metric_text.h"

#include <string_view>

#include "core/explain/explain.h"
#include "core/explain/figure_knobs.h"

namespace moescope {
namespace {

QString text(const char* words) {
  return QString::fromUtf8(words).toHtmlEscaped();
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
  const bool logits = run.settings_at(step)->value(&RouterConfig::balance_rule) == BalanceRule::quantile_microbatch;
  return logits ? QStringLiteral(" (logits)") : QString();
}

QString metricCard(const MetricInfo& info) {
  const QString unit = *info.unit ? QStringLiteral(", ") + text(info.unit) : QString();
  const auto line = [](const char* kind, const QString& label, const char* words) {
    return *words ? QStringLiteral("<p class=\"%1\"><b>%2</b> %3</p>").arg(QLatin1String(kind), label, text(words))
                  : QString();
  };
  const auto more = [](const QString& label, const char* words) {
    return *words ? QStringLiteral("%1 %2<br>").arg(label, text(words)) : QString();
  };
  return QStringLiteral(
             "<p><b>%1</b>%2</p><table class=\"formula\"><tr><td><span class=\"muted\">%3</span><br>"
             "<code>%4</code></td></tr></table>")
             .arg(text(info.name), unit, QLatin1String(provenance_name(info.provenance)), text(info.formula)) +
         line("good", "Good:", info.good) + line("bad", "Bad:", info.bad) +
         QStringLiteral("<p class=\"more\">%1%2</p>")
             .arg(more("Moved by", knobs_text(info).c_str()), more("Source:", info.source));
}

}  // namespace moescope
