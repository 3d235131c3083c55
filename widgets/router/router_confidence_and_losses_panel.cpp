#include "widgets/router/router_confidence_and_losses_panel.h"

#include <cmath>

namespace moescope {
namespace {

enum { kGateEntropy, kMargin, kAux, kZ, kPredicted };

}  // namespace

RouterConfidenceAndLossesPanel::RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Router confidence and losses",
                   {{"Score entropy",
                     "nats",
                     {{Metric::score_entropy, "entropy"}, {Metric::mutual_information, "mutual info"}},
                     4,
                     "Entropy of a token's scores; the plot shows the mutual information of token and expert, too",
                     {},
                     0,
                     "Entropy"},
                    {"Margin", "score margin", {{Metric::margin, "margin"}}},
                    {"Aux loss", "load-balance loss", {{Metric::router_aux_loss, "aux loss"}}, 2, {}, {}, 0, "Aux"},
                    {"z loss", "z loss", {{Metric::router_z_loss, "z loss"}}, 2, {}, {}, 0, "z"},
                    {"Prediction",
                     "share predicted",
                     {{Metric::predicted_share, "by the layer before"}},
                     2,
                     {},
                     {},
                     0,
                     "Pred."}},
                   parent) {}

QString RouterConfidenceAndLossesPanel::whyNothing(int figure) const {
  const History* history = selection_->history();
  const Metric metrics[] = {Metric::score_entropy, Metric::margin, Metric::router_aux_loss, Metric::router_z_loss,
                            Metric::predicted_share};
  const QString names[] = {"score entropy", "score margin", "load-balance loss", "router z-loss"};
  if (!is_missing(history->value_at(metrics[figure], layerOf(figure), history->steps().last))) return {};
  if (figure == kPredicted)
    return QString(
        "Prediction by the layer before: in logs with every token's experts (router traces, routed_experts), from "
        "the second MoE layer on");
  return notInLogNotice(history->info(), names[figure]);
}

void RouterConfidenceAndLossesPanel::decorate(int figure, LinePlot* plot,
                                              std::vector<ReferenceLine>* references) const {
  const RunInfo& info = selection_->history()->info();
  if (figure == kGateEntropy && info.n_experts > 1 && info.top_k > 0) {
    const double all = std::log(info.n_experts), chosen = std::log(info.top_k);
    references->push_back({all, QString("ln E %1").arg(formatValue(all, 3))});
    references->push_back({chosen, QString("ln K %1").arg(formatValue(chosen, 3))});
    plot->setAtLeastShown(0, 1.1 * all);
  } else if (figure == kPredicted && info.n_experts > 0) {
    const double chance = static_cast<double>(info.top_k) / info.n_experts;
    references->push_back({chance, QString("K / E %1").arg(formatValue(chance, 3))});
    plot->setAtLeastShown(0, 1);
  } else {
    plot->setAtLeastShown(0, 0);
  }
}

}  // namespace moescope
