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

}  // namespace moescope
