#include "widgets/router/router_confidence_and_losses_panel.h"

#include <cmath>

namespace moescope {
namespace {

enum { kGateEntropy, kMargin, kAux, kZ, kPredicted };

}  // namespace

RouterConfidenceAndLossesPanel::RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, tr("Router confidence and losses"),
                   {{tr("Score entropy"),
                     tr("nats"),
                     {{Metric::score_entropy, tr("entropy")}, {Metric::mutual_information, tr("mutual info")}},
                     4,
                     tr("Entropy of a token's scores; the plot shows the mutual information of token and expert, too"),
                     {},
                     0,
                     tr("Entropy")},
                    {tr("Margin"), tr("score margin"), {{Metric::margin, tr("margin")}}},
                    {tr("Aux loss"),
                     tr("load-balance loss"),
                     {{Metric::router_aux_loss, tr("aux loss")}},
                     2,
                     {},
                     {},
                     0,
                     tr("Aux")},
                    {tr("z loss"), tr("z loss"), {{Metric::router_z_loss, tr("z loss")}}, 2, {}, {}, 0, tr("z")},
                    {tr("Prediction"),
                     tr("share predicted"),
                     {{Metric::predicted_share, tr("by the layer before")}},
                     2,
                     {},
                     {},
                     0,
                     tr("Pred.")}},
                   parent) {}

QString RouterConfidenceAndLossesPanel::whyNothing(int figure) const {
  const History* history = selection_->history();
  const Metric metrics[] = {Metric::score_entropy, Metric::margin, Metric::router_aux_loss, Metric::router_z_loss,
                            Metric::predicted_share};
  const QString names[] = {tr("score entropy"), tr("score margin"), tr("load-balance loss"), tr("router z-loss")};
  if (!is_missing(history->value_at(metrics[figure], layerOf(figure), history->steps().last))) return {};
  if (figure == kPredicted)
    return tr(
        "Prediction by the layer before: in logs with every token's experts (router traces, routed_experts), from "
        "the second MoE layer on");
  return notInLogNotice(history->info(), names[figure]);
}

void RouterConfidenceAndLossesPanel::decorate(int figure, LinePlot* plot,
                                              std::vector<ReferenceLine>* references) const {
  const RunInfo& info = selection_->history()->info();
  if (figure == kGateEntropy && info.n_experts > 1 && info.top_k > 0) {
    const double all = std::log(info.n_experts), chosen = std::log(info.top_k);
    references->push_back({all, tr("ln E %1").arg(formatValue(all, 3))});
    references->push_back({chosen, tr("ln K %1").arg(formatValue(chosen, 3))});
    plot->setAtLeastShown(0, 1.1 * all);
  } else if (figure == kPredicted && info.n_experts > 0) {
    const double chance = static_cast<double>(info.top_k) / info.n_experts;
    references->push_back({chance, tr("K / E %1").arg(formatValue(chance, 3))});
    plot->setAtLeastShown(0, 1);
  } else {
    plot->setAtLeastShown(0, 0);
  }
}

QString RouterConfidenceAndLossesPanel::explain() const {
  return tr("<p><b>How sure the router is of its choice, and what its losses say.</b> The dashed lines of the score "
            "entropy are its highest value, ln E (all experts alike), and ln K (the scores of K experts alike, all "
            "others 0). Prediction is of logs with every token's experts: the dashed line is what guessing at random "
            "gives, K / E.</p>") +
         figureCards() +
         tr("<p><b>Reading it.</b> Entropy falls while the margin grows: the router learns to tell tokens apart. "
            "Entropy at ln E: it tells no experts apart, and chance or the bias decides. Losses at 0 are switched "
            "off.</p>");
}

}  // namespace moescope
