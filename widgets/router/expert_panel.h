// All figures of the selected expert: load and bias over time, domains and favourite tokens, rank and weights, and the
// interventions on it.
#pragma once

#include <QPushButton>
#include <QSpinBox>
#include <functional>
#include <optional>
#include <vector>

#include "core/recording/history/last_array.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/panel.h"
#include "widgets/panel/token_contexts.h"
#include "widgets/plots/band_bars.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/fair_share_plot.h"

namespace moescope {

class ExpertPanel : public Panel {
  Q_OBJECT

 public:
  explicit ExpertPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  // Returns the present interventions on an expert. Called when the panel is updated. If it is not set or `possible` is
  // false, no run is in training, and the panel offers no interventions.
  struct Intervention {
    bool possible = false;
    bool killed = false;
    std::optional<double> pinned_bias;
  };
  std::function<Intervention(int layer, int expert)> interventionOf;
  void refreshActions();
  void showExperts(std::shared_ptr<const MeasuredExperts> measured);        // nullptr: not measured
  void showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured);  // nullptr: not measured

 signals:
  void killRequested(int layer, int expert, bool kill);                  // `kill` false: revive
  void pinRequested(int layer, int expert, std::optional<double> bias);  // nullopt: return to the bias rule

 protected:
  QString status() const override;
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  const RouterFrame* router() const;  // router of the selected layer at the cursor; nullptr: none
  QString whyNothing() const;
  void followChoice();
  void hidePartsWithoutData();  // hides plots and tiles without data
  void addTiles();
  void addActions();
  void refillLoad();
  void refillBias();
  void refillCosts();
  void refillDomains();
  void refillTokens();
  // Values of the selected expert at the cursor, or at the last step that has values, and a text that names that step.
  const LastArray::Found* arrayAt(LastArray& array) const;  // nullptr: no expert is chosen, or there is no step
  QString figure(LastArray& array, bool share) const;
  QStringList stepOf(LastArray& array) const;
  const std::vector<std::uint32_t>* counts() const;  // tokens of the experts; nullptr: not known, or no expert
  QString loadText() const;
  QString tokensText() const;
  QString placeText() const;
  bool hasNoToken() const;
  QString lastStepWithTokens() const;
  QString rankText() const;
  std::optional<SpecialisationFrame> specialisation() const;  // of the layer at the cursor
  QString weightsText() const;
  QStringList changeTexts() const;
  const ExpertCost* cost() const;  // cost of the chosen expert at the cursor; nullptr: not measured
  QString mostSimilarText() const;

  QSpinBox* expert_;
  LinePlot *load_, *bias_, *costs_;
  FairSharePlot* fair_share_;
  BandBars* domains_;
  TokenContexts* tokens_;
  QPushButton *kill_, *pin_;
  QWidget *figures_, *actions_;
  std::shared_ptr<const MeasuredExperts> measured_;
  std::shared_ptr<const MeasuredSimilarity> similarity_;
  mutable std::shared_ptr<const TelemetryFrame> frame_;
  LastArray last_bias_{&RouterFrame::expert_bias}, last_gate_{&RouterFrame::gate_mass},
      last_score_{&RouterFrame::score_mass};
};

}  // namespace moescope
