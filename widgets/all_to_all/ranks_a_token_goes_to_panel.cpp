#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"

namespace moescope {
namespace {

enum SpreadFigure { kOverload, kRanks, kNodes };

}  // namespace

RanksATokenGoesToPanel::RanksATokenGoesToPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Ranks a token goes to",
                   {{"Max/mean",
                     "received, \u00d7 mean",
                     {{Metric::rank_overload, "received tokens"}},
                     2,
                     "Token copies that arrive on the fullest rank, over the mean"},
                    {"Ranks/token",
                     "ranks per token",
                     {{Metric::ranks_per_token, "ranks per token"}},
                     2,
                     "Ranks that a token is sent to, its own rank included"},
                    {"Nodes/token",
                     "nodes per token",
                     {{Metric::nodes_per_token, "nodes per token"}},
                     2,
                     "Nodes that a token is sent to, its own node included"}},
                   parent) {
  showAnswers();
}

Panel::Answer RanksATokenGoesToPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  const auto value = [&](Metric metric, SpreadFigure figure) {
    return history->value_at(metric, layerOf(figure), selection_->step());
  };
  const float ranks = value(Metric::ranks_per_token, kRanks), nodes = value(Metric::nodes_per_token, kNodes);
  if (is_missing(ranks)) return {};
  const RunInfo& info = history->info();
  const QString shortest = QString("To %1 ranks").arg(formatValue(ranks, 3));
  const QString of =
      info.ranks > 0 ? QString("To %1 of %2 ranks").arg(formatValue(ranks, 3)).arg(info.ranks) : shortest;
  const QString on_nodes = is_missing(nodes) ? QString() : QString(" on %1 nodes").arg(formatValue(nodes, 3));
  return {"How many ranks does a token go to?", {of + on_nodes, of, shortest}};
}

void RanksATokenGoesToPanel::decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const {
  plot->setAtLeastShown(1, 1);
  const RunInfo& info = selection_->history()->info();
  if (figure == kOverload)
    references->push_back({1, "even"});
  else if (figure == kRanks && info.top_k > 0)
    references->push_back({static_cast<double>(info.top_k), "standard: K copies"});
}

}  // namespace moescope
