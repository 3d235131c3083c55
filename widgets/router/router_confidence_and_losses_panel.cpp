#include "widgets/router/router_confidence_and_losses_panel.h"

#include <cmath>

#include "widgets/plots/axis.h"

namespace moescope {

RouterConfidenceAndLossesPanel::RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Router confidence and losses",
                   {{Metric::score_entropy, Metric::mutual_information},
                    {Metric::margin},
                    {Metric::router_aux_loss},
                    {Metric::router_z_loss},
                    {Metric::predicted_share}},
                   parent) {
  switch_ = new ViewSwitch({"Over time", "Scores at a step"}, this);
  switch_->setAccessibleName("Figures over time, or scores and margins at a step");
  connect(switch_, &ViewSwitch::changed, this, &RouterConfidenceAndLossesPanel::showView);
  addControl(switch_);
  layers_ = makeLayersChoice("all layers", "Layers of the scores");
  addControl(layers_);
  scores_ = new ScoresView(selection, this);
  connect(layers_, &QComboBox::currentIndexChanged, scores_, [this](int index) { scores_->setOneLayer(index == 1); });
  showAnswers();
  addBody(scores_);
  showView(0);
  keepState(
      "view", [this] { return switch_->current(); }, [this](const QVariant& state) { showView(state.toInt()); });
  keepState("one_layer", layers_);
}

void RouterConfidenceAndLossesPanel::showView(int view) {
  switch_->setCurrent(view);
  setFiguresShown(!atAStep());
  scores_->setVisible(atAStep());
  layers_->setVisible(atAStep());
  if (atAStep()) giveFocusTo(scores_);
  update();
}

QString RouterConfidenceAndLossesPanel::status() const {
  if (!atAStep()) return FiguresPanel::status();
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

// Without margins of single tokens, tells the mean entropy of the scores.
Panel::Answer RouterConfidenceAndLossesPanel::answer() const {
  QStringList answers = scores_->answers();
  const History* history = selection_->history();
  const double even = history ? std::log(history->info().n_experts) : 0;
  const double entropy =
      even > 0 ? history->value_at(Metric::score_entropy, kWholeRun, selection_->step()) : double{kNoValue};
  if (answers.isEmpty() && std::isfinite(entropy)) {
    const QString share = formatPercent(entropy / even);
    answers << QString("Entropy of the scores %1 of that of equal scores").arg(share)
            << QString("Entropy %1 of equal scores").arg(share);
  }
  return answerTo("How sure is the router?", answers);
}

}  // namespace moescope
