#include "widgets/cluster/layer_on_every_rank_panel.h"

#include <algorithm>
#include <stdexcept>

#include "widgets/panel/csv.h"

namespace moescope {
namespace {

constexpr double kMs = 1e-3;              // ms in a us
constexpr double kHardlyWaiting = 0.005;  // share of the time below which ranks hardly wait

QString nameOf(RankActivity activity) {
  return QString::fromUtf8(rank_activity_name(activity));
}

}  // namespace

LayerOnEveryRankPanel::LayerOnEveryRankPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "A layer on every rank", Provenance::modelled, parent) {
  showAnswers();
  export_ = new QAction("Save as Chrome trace...", this);
  export_->setToolTip("Saves this timeline as a trace that ui.perfetto.dev and chrome://tracing open");
  export_->setVisible(false);
  connect(export_, &QAction::triggered, this, &LayerOnEveryRankPanel::exportRequested);
  addOption(export_);
  chart_ = new LaneChart(this);
  chart_->setActivities({{nameOf(RankActivity::dispatch), 1, Qt::SolidPattern},
                         {nameOf(RankActivity::experts), 0, Qt::SolidPattern},
                         {nameOf(RankActivity::combine), 2, Qt::Dense2Pattern},
                         {"waiting", 3, Qt::Dense6Pattern}});
  chart_->setCaption("forward, then backward pass of one microbatch, ms");
  chart_->setNotice("Computing...");
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
  export_->setVisible(hasTimeline());
  chart_->setNotice(problem);
  of_.clear();
  update();  // repaints the header as well
  if (!hasTimeline()) return chart_->markDirty();
  const StepConfig& config = answer.config;
  of_ = QString("%1, %2, EP %3, %4 all-to-all, %5 experts")
            .arg(QString::fromStdString(config.shape.name), QString::fromStdString(config.hardware.name))
            .arg(timeline_.ranks)
            .arg(config.all_to_all == AllToAll::deep_ep ? QString("DeepEP") : QString("standard"),
                 config.mxfp8 ? QString("MXFP8") : QString("BF16"));
  fillChart();
}

void LayerOnEveryRankPanel::fillChart() {
  std::vector<LaneChart::Interval> intervals;
  for (const RankInterval& interval : timeline_.intervals)
    intervals.push_back(
        {interval.rank, static_cast<int>(interval.activity), interval.from_us * kMs, interval.to_us * kMs});
  QStringList lanes;
  for (int rank = 0; rank < timeline_.ranks; ++rank) lanes << QString("rank %1").arg(rank);
  chart_->setLanes(std::move(lanes), std::move(intervals), timeline_.total_us * kMs);
  chart_->markDirty();
}

Panel::Answer LayerOnEveryRankPanel::answer() const {
  if (!hasTimeline()) return {};
  const QString question = "How long do ranks wait?",
                ms = QString("%1 ms a layer").arg(formatValue(timeline_.total_us * kMs, 3));
  if (timeline_.waiting_share < kHardlyWaiting) return {question, {QString("Hardly at all: %1").arg(ms), ms}};
  const QString waits = QString("Ranks wait %1 of the time").arg(formatPercent(timeline_.waiting_share));
  return {question,
          {waits + QString(", most for rank %1; %2").arg(timeline_.slowest).arg(ms),
           waits + QString(", most for rank %1").arg(timeline_.slowest), waits}};
}

QString LayerOnEveryRankPanel::csv() const {
  QString text = QStringLiteral("rank,activity,pass,from [us],to [us]\n");
  for (const RankInterval& interval : timeline_.intervals)
    text += csvRow(interval.rank, nameOf(interval.activity),
                   interval.backward ? QStringLiteral("backward") : QStringLiteral("forward"),
                   QString::number(interval.from_us, 'f', 3), QString::number(interval.to_us, 'f', 3));
  return text;
}

}  // namespace moescope
