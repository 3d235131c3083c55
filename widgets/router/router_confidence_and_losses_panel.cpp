#include "widgets/router/router_confidence_and_losses_panel.h"

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

Panel::Answer RouterConfidenceAndLossesPanel::answer() const {
  return answerTo("How sure is the router?", scores_->answers());
}

}  // namespace moescope
