// All figures of the selected expert: load and bias over time, domains and favourite tokens, rank and weights, and the
// interventions on it.
#pragma once

#include <QPushButton>
#include <QSpinBox>
#include <functional>
#include <optional>
#include <vector>

#include "core/frame/specialisation.h"  // included before Qt, whose keyword `slots` is a name in it
#include "core/recording/history/last_array.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"
#include "widgets/plots/curve_plot.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/plots/value_tile.h"
#include "widgets/selection/selection.h"

namespace moescope {

// Tokens with the text around them, one on each line; the token is framed in the middle.
class TokenContexts : public PlotFrame {
  Q_OBJECT

 public:
  struct Line {
    QString before, token, after;  // printable text before, at and after the token
    double share = 0;              // share of the expert in the token's mix, 0..1: the opacity of the frame
  };

  explicit TokenContexts(QWidget* parent = nullptr);
  void setLines(std::vector<Line> lines);
  void setTitle(const QString& title) { title_ = title; }
  int linesThatFit() const;
  QSize sizeHint() const override { return {200, 7 * fontMetrics().height() + 6}; }
  QSize minimumSizeHint() const override { return {120, 3 * fontMetrics().height()}; }

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;

 private:
  std::vector<Line> lines_;
  QString title_;
};

// Returns the bytes of a text for display: line feeds and tabs as visible signs, unprintable bytes as dots.
QString shownBytes(std::string_view bytes);

// Share of a step's tokens that choose the selected expert, by the bias of the expert, and the bias that would give the
// expert its fair share. Quantile balancing cuts this distribution.
class FairSharePlot : public CurvePlot {
  Q_OBJECT

 public:
  explicit FairSharePlot(const Selection* selection, QWidget* parent = nullptr);
  // The bias that gives the fair share, as text; empty if it is not known.
  QString fairBiasText() const;

 private:
  // The distribution of the selected expert at the newest step that has one.
  struct Distribution {
    std::int64_t step = 0;
    int expert = 0, top_k = 0, n_experts = 0;
    std::vector<float> bias_for_share_Q;
    float bias = kNoValue;  // after the step's update
    double fair_bias() const { return bias_for_share_Q[kFairShare]; }
  };
  std::optional<Distribution> find() const;
  void fill();
  QStringList readoutOf(double bias) const;

  const Selection* selection_;
  std::optional<Distribution> shown_;
};

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
