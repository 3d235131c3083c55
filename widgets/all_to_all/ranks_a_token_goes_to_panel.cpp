#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"

namespace moescope {
namespace {

enum SpreadFigure { kOverload, kRanks, kNodes };

}  // namespace

RanksATokenGoesToPanel::RanksATokenGoesToPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, tr("Ranks a token goes to"),
                   {{tr("Max/mean"),
                     tr("received, \u00d7 mean"),
                     {{Metric::rank_overload, tr("received tokens")}},
                     2,
                     tr("Token copies that arrive on the fullest rank, over the mean")},
                    {tr("Ranks/token"),
                     tr("ranks per token"),
                     {{Metric::ranks_per_token, tr("ranks per token")}},
                     2,
                     tr("Ranks that a token is sent to, its own counted")},
                    {tr("Nodes/token"),
                     tr("nodes per token"),
                     {{Metric::nodes_per_token, tr("nodes per token")}},
                     2,
                     tr("Nodes that a token is sent to, its own counted")}},
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
  const QString shortest = tr("To %1 ranks").arg(formatValue(ranks, 3));
  const QString of = info.ranks > 0 ? tr("To %1 of %2 ranks").arg(formatValue(ranks, 3)).arg(info.ranks) : shortest;
  const QString on_nodes = is_missing(nodes) ? QString() : tr(" on %1 nodes").arg(formatValue(nodes, 3));
  return {tr("How far does a token go?"), {of + on_nodes, of, shortest}};
}

void RanksATokenGoesToPanel::decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const {
  plot->setAtLeastShown(1, 1);
  const RunInfo& info = selection_->history()->info();
  if (figure == kOverload)
    references->push_back({1, tr("even")});
  else if (figure == kRanks && info.top_k > 0)
    references->push_back({static_cast<double>(info.top_k), tr("K, what standard sends")});
}

QString RanksATokenGoesToPanel::explain() const {
  return tr("<p><b>What the routing means for communication.</b> A token whose experts share a rank is sent there "
            "once by DeepEP and once per expert by a standard all-to-all. Counted on virtual ranks, from every "
            "step's real routing.</p>") +
         figureCards();
}

}  // namespace moescope
