#include "widgets/metric_text.h"

#include <QCoreApplication>
#include <array>

namespace moescope {
namespace {

struct Text {
  Metric metric;
  const char* name;
  const char* unit;
  const char* meaning;
};

constexpr std::array<Text, kNumMetrics> kTexts = {{
    {Metric::ce_loss, "CE loss", "nats/byte", "mean cross-entropy of the next byte"},
    {Metric::aux_loss, "aux loss", "", "auxiliary balance loss with its coefficient, sum over layers"},
    {Metric::z_loss, "z loss", "", "router z-loss with its coefficient, sum over layers (arXiv:2202.08906)"},
    {Metric::grad_norm, "grad norm", "", "L2 norm of all gradients before clipping"},
    {Metric::lr, "learning rate", "", "as the schedule gave it for this step"},
    {Metric::tokens_per_s, "tokens/s", "1/s", "tokens of the step over its wall time"},
    {Metric::step_ms, "step time", "ms", "sum of the phases of the step"},
    {Metric::max_vio, "MaxVio batch", "", "max u - 1 over one batch, u = n E / (K T) (arXiv:2408.15664)"},
    {Metric::max_vio_window, "MaxVio window", "", "the same over the counts of the last steps"},
    {Metric::cv, "CV", "", "std(n) / mean(n) over the experts"},
    {Metric::entropy_norm, "load entropy", "", "H / ln E with H = -sum p ln p, p = n / sum n; 1 is uniform"},
    {Metric::dead_fraction, "dead experts", "", "share of experts without a token in the window"},
    {Metric::score_entropy, "score entropy", "nats", "mean over tokens of the entropy of their scores"},
    {Metric::margin, "margin", "", "mean over tokens of the K-th minus the next biased score"},
    {Metric::router_aux_loss, "aux loss", "", "of one layer, with its coefficient"},
    {Metric::router_z_loss, "z loss", "", "of one layer, with its coefficient"},
    {Metric::padding_fraction, "padding", "", "rows added to reach multiples of 32, over T K"},
    {Metric::dropped_fraction, "would drop", "", "share of slots past the what-if capacity"},
}};

const Text& textOf(Metric metric) {
  return kTexts[static_cast<std::size_t>(metric)];
}

}  // namespace

QString metricName(Metric metric) {
  return QCoreApplication::translate("Metric", textOf(metric).name);
}

QString metricCaption(Metric metric) {
  const Text& text = textOf(metric);
  return *text.unit ? metricName(metric) + QStringLiteral(", ") + QLatin1String(text.unit) : metricName(metric);
}

QString metricCard(Metric metric) {
  const Text& text = textOf(metric);
  return QStringLiteral("<p><b>%1</b>: %2</p>")
      .arg(metricCaption(metric).toHtmlEscaped(), QCoreApplication::translate("Metric", text.meaning).toHtmlEscaped());
}

bool metricIsShare(Metric metric) {
  return metric == Metric::dead_fraction || metric == Metric::padding_fraction || metric == Metric::dropped_fraction;
}

}  // namespace moescope
