#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"

namespace moescope {

RanksATokenGoesToPanel::RanksATokenGoesToPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, tr("Ranks a token goes to"),
                   {{tr("Max/mean"),
                     tr("x mean"),
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
                   parent) {}

void RanksATokenGoesToPanel::decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const {
  plot->setAtLeastShown(1, 1);
  const RunInfo& info = selection_->history()->info();
  if (figure == 0)
    references->push_back({1, tr("even")});
  else if (figure == 1 && info.top_k > 0)
    references->push_back({static_cast<double>(info.top_k), tr("K, what standard sends")});
}

QString RanksATokenGoesToPanel::explain() const {
  return tr("<p><b>What the routing means for communication.</b> A token whose experts share a rank is sent there "
            "once by DeepEP and once per expert by a standard all-to-all. Counted on virtual ranks, from every "
            "step's real routing.</p>") +
         figureCards();
}

}  // namespace moescope
