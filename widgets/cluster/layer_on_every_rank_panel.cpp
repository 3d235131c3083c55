#include "widgets/cluster/layer_on_every_rank_panel.h"

#include <algorithm>
#include <stdexcept>

namespace moescope {
namespace {

constexpr double kMs = 1e-3;  // of a us

QString nameOf(RankActivity activity) {
  return QString::fromUtf8(rank_activity_name(activity));
}

}  // namespace

LayerOnEveryRankPanel::LayerOnEveryRankPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("A layer on every rank"), Provenance::modelled, parent) {
  export_ = new QToolButton(this);
  export_->setText(tr("Chrome trace..."));
  export_->setToolTip(tr("Saves this timeline as a trace that ui.perfetto.dev and chrome://tracing open"));
  export_->setEnabled(false);
  connect(export_, &QToolButton::clicked, this, &LayerOnEveryRankPanel::exportRequested);
  addControl(export_);
  headline_ = new QLabel(this);
  headline_->setWordWrap(true);
  headline_->setTextFormat(Qt::RichText);
  addBody(headline_, 0);
  chart_ = new LaneChart(this);
  chart_->setActivities({{nameOf(RankActivity::dispatch), 1, Qt::SolidPattern},
                         {nameOf(RankActivity::experts), 0, Qt::SolidPattern},
                         {nameOf(RankActivity::combine), 2, Qt::Dense2Pattern},
                         {tr("waiting for the slowest"), 3, Qt::Dense6Pattern}});
  chart_->setCaption(tr("ms; one MoE layer and microbatch: forward, then backward"));
  chart_->setNotice(tr("Being computed"));
  addBody(chart_);
}

void LayerOnEveryRankPanel::show(const ClusterAnswer& answer) {
  timeline_ = {};
  QString problem = QString::fromStdString(answer.problem);
  try {
    if (problem.isEmpty()) timeline_ = layer_timeline(answer.config, answer.parameters, answer.volume, answer.tokens);
  } catch (const std::runtime_error& error) {
    problem = QString::fromUtf8(error.what());
  }
  export_->setEnabled(hasTimeline());
  chart_->setNotice(problem);
  headline_->setText({});
  if (!hasTimeline()) return chart_->markDirty();
  const StepConfig& config = answer.config;
  of_ = tr("%1, %2, EP %3, %4 all-to-all, %5 experts")
            .arg(QString::fromStdString(config.shape.name), QString::fromStdString(config.hardware.name))
            .arg(timeline_.ranks)
            .arg(QString::fromUtf8(all_to_all_name(config.way)), config.mxfp8 ? tr("MXFP8") : tr("BF16"));
  std::vector<LaneChart::Interval> intervals;
  std::vector<double> experts(static_cast<std::size_t>(timeline_.ranks));
  for (const RankInterval& interval : timeline_.intervals) {
    intervals.push_back(
        {interval.rank, static_cast<int>(interval.activity), interval.from_us * kMs, interval.to_us * kMs});
    if (interval.activity == RankActivity::experts)
      experts[static_cast<std::size_t>(interval.rank)] += interval.to_us - interval.from_us;
  }
  const auto slowest = std::ranges::max_element(experts) - experts.begin();
  QStringList lanes;
  for (int rank = 0; rank < timeline_.ranks; ++rank) lanes << tr("rank %1").arg(rank);
  chart_->setLanes(std::move(lanes), std::move(intervals), timeline_.total_us * kMs);
  const bool even = timeline_.waiting_share < 0.005;
  headline_->setText(tr("<b>%1 ms</b> a layer (modelled): %2. %3 Choose the case in <i>Time of a step</i>.")
                         .arg(formatValue(timeline_.total_us * kMs, 3), of_.toHtmlEscaped(),
                              even ? tr("All ranks have the same work.")
                                   : tr("Ranks wait %1 of the time; rank %2 has the most rows.")
                                         .arg(formatPercent(timeline_.waiting_share))
                                         .arg(slowest)));
  chart_->markDirty();
}

std::string LayerOnEveryRankPanel::chromeTrace() const {
  return to_chrome_trace(timeline_, of_.toStdString());
}

QString LayerOnEveryRankPanel::csv() const {
  QString text = QStringLiteral("rank,activity,pass,from [us],to [us]\n");
  for (const RankInterval& interval : timeline_.intervals)
    text +=
        QStringLiteral("%1,%2,%3,%4,%5\n")
            .arg(interval.rank)
            .arg(nameOf(interval.activity), interval.backward ? QStringLiteral("backward") : QStringLiteral("forward"))
            .arg(interval.from_us, 0, 'f', 3)
            .arg(interval.to_us, 0, 'f', 3);
  return text;
}

QString LayerOnEveryRankPanel::explain() const {
  return tr(
      "<p><b>One MoE layer and one microbatch on every rank</b>, for the case chosen in <i>Time of a step</i>. All "
      "modelled, at the rates of that panel and with its fitted numbers: each rank's dispatch takes its own bytes over "
      "the slower of its two links, and the latency; its experts take their own rows (the backward pass twice as "
      "long); an all-to-all ends for all ranks together, so ranks that are done early wait for the slowest.</p><p>A "
      "long blue bar is a rank with hot experts: all others wait for it, twice a layer. Try <i>Routing: this "
      "router</i>, then <i>Placement: balanced</i>. Attention, shared experts and recompute are left "
      "out.</p><p><i>Chrome trace</i> saves it for ui.perfetto.dev or chrome://tracing: one thread per rank, times in "
      "microseconds, every event marked modelled.</p>");
}

}  // namespace moescope
