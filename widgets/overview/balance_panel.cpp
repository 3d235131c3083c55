#include "widgets/overview/balance_panel.h"

#include <cmath>

#include "core/frame/router_stats.h"

namespace moescope {
namespace {

enum { kMaxVio, kVariation, kEntropy, kDead };

}  // namespace

BalancePanel::BalancePanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Balance",
                   {{"MaxVio",
                     "MaxVio",
                     {{Metric::max_vio, "batch"}, {Metric::max_vio_window, "window"}},
                     4,
                     "MaxVio of the window; the plot shows the batch's, too",
                     Worst::largest,
                     1},
                    {"CV", "CV", {{Metric::cv, "CV"}}, 2, "Coefficient of variation", Worst::largest},
                    {"Entropy",
                     "load entropy",
                     {{Metric::entropy_norm, "H / ln E"}},
                     3,
                     "Normalised entropy of the load",
                     Worst::smallest},
                    {"Unused",
                     "unused experts",
                     {{Metric::dead_fraction, "unused in window"}},
                     2,
                     "Share of experts without a token in the window",
                     Worst::largest}},
                   parent) {}

void BalancePanel::decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const {
  if (figure == kMaxVio) {
    const double floor = chance_max_vio(selection_->history()->info());
    if (std::isnan(floor)) return;
    references->push_back({floor, QString("chance %1").arg(formatValue(floor, 2))});
    plot->setAtLeastShown(0, 1.2 * floor);
  } else if (figure == kDead) {
    plot->setAtLeastShown(0, 0.01);
  } else if (figure == kVariation) {
    plot->setAtLeastShown(0, 0.1);
  } else {
    plot->setAtLeastShown(1, 1);
  }
}

}  // namespace moescope
