#include "widgets/all_to_all/fullest_rank_panel.h"

#include <array>

#include "widgets/panel/table_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

struct RankFigure {
  Metric metric;
  const char* caption;
};
constexpr std::array<RankFigure, 3> kFigures = {{{Metric::rank_overload, "received by the fullest rank, \u00d7 mean"},
                                                 {Metric::ranks_per_token, "ranks that a token is sent to"},
                                                 {Metric::nodes_per_token, "nodes that a token is sent to"}}};

}  // namespace

FullestRankPanel::FullestRankPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Fullest rank over time", Provenance::counted, parent) {
  showAnswers();
  figure_ = makeChoice({"max \u00f7 mean", "ranks per token", "nodes per token"}, "Figure",
                       "Own rank and own node are included");
  addControl(figure_);
  plot_ = new LinePlot(selection, this);
  plot_->refill = [this] { refill(); };
  for (auto signal : {&Selection::dataChanged, &Selection::focusChanged})
    connect(selection_, signal, plot_, &PlotFrame::markDirty);
  connect(figure_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addBody(plot_);
  keepState("figure", figure_);
}

Metric FullestRankPanel::metric() const {
  return kFigures.at(figure_->currentIndex()).metric;
}

void FullestRankPanel::refill() {
  if (!hasSteps(plot_)) return;
  const auto& active = selection_->histories()[selection_->run()];
  const int layer = selection_->layer();
  const bool has_values = !is_missing(active->value_at(metric(), kWholeRun, selection_->step()));
  plot_->setNotice(has_values ? QString() : notInLogNotice(active->info(), "copies between ranks"));
  plot_->setCaption(QString::fromUtf8(kFigures.at(figure_->currentIndex()).caption));
  plot_->setAtLeastShown(1, 1);
  std::vector<ReferenceLine> references;
  if (metric() == Metric::ranks_per_token && active->info().top_k > 0)
    references.push_back({static_cast<double>(active->info().top_k), "standard: K copies"});
  plot_->setReferences(std::move(references));
  plot_->setSeries({{active, metric(), layer, QString("layer %1").arg(layer), runColor(*selection_, selection_->run())},
                    {active, metric(), kWholeRun, "mean of layers", kNoiseSeries}});
}

Panel::Answer FullestRankPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty() || !plot_->notice().isEmpty()) return {};
  const auto value = [&](Metric metric) { return history->value_at(metric, selection_->layer(), selection_->step()); };
  const float ranks = value(Metric::ranks_per_token), nodes = value(Metric::nodes_per_token);
  if (metric() == Metric::rank_overload) {
    const float overload = value(Metric::rank_overload);
    if (is_missing(overload)) return {};
    const QString times = QString("%1 times the mean").arg(formatValue(overload, 3));
    return {"How full is the fullest rank?",
            {QString("Layer %1: it receives %2").arg(selection_->layer()).arg(times), times}};
  }
  if (is_missing(ranks)) return {};
  const QString shortest = QString("To %1 ranks").arg(formatValue(ranks, 3));
  const int count = history->info().ranks;
  const QString known = count > 0 ? QString("To %1 of %2 ranks").arg(formatValue(ranks, 3)).arg(count) : shortest;
  const QString on_nodes = is_missing(nodes) ? QString() : QString(" on %1 nodes").arg(formatValue(nodes, 3));
  return {"How many ranks does a token go to?", {known + on_nodes, known, shortest}};
}

ValueTable FullestRankPanel::table() const {
  std::vector<ValueColumn> columns{{"step"}, {"layer"}};
  for (const RankFigure& figure : kFigures) columns.push_back(columnOf(metric_info(figure.metric)));
  ValueTable table(std::move(columns));
  const History* history = selection_->history();
  if (!history) return table;
  const int layer = selection_->layer();
  for (const std::int64_t step : history->steps_in(selection_->range()))
    table.add(step, layer, history->value_at(kFigures[0].metric, layer, step),
              history->value_at(kFigures[1].metric, layer, step), history->value_at(kFigures[2].metric, layer, step));
  return table;
}

}  // namespace moescope
