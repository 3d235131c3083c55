// Tokens that a run routes to other experts than run A does, or than FP32 would, or than without the rounding of one
// number of the router: their share over steps and by layer, and their margins.
#pragma once

#include <QStackedWidget>
#include <QWidget>
#include <memory>

#include "widgets/panel/panel.h"
#include "widgets/plots/half_octave_plot.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

// The effect of BF16 in the router of one run: the share of the tokens that change experts if operands, stored logits
// or stored biases alone are rounded, and the share of the experts whose bias moves in another direction if counts are
// rounded; over steps, or by layer with the margins of the changed choices.
class RouterRoundingView : public QWidget {
  Q_OBJECT

 public:
  explicit RouterRoundingView(Selection* selection, QWidget* parent = nullptr);

  // Shows layer x rounding at the cursor's step in place of curves over steps
  void showLayers(bool layers) { stack_->setCurrentWidget(layers ? static_cast<QWidget*>(matrix_) : lines_); }
  void showMargins(bool margins) { margins_->setVisible(margins); }  // shows the margins beside them
  QStringList answers() const;                                       // long to short; empty: not measured
  ValueTable table() const;
  // The step of the shown figures; -1 if there are none.
  std::int64_t shownStep() const;

 private:
  std::shared_ptr<const TelemetryFrame> frame() const;
  QString whyNothing() const;
  RouterRounding shownRounding() const;  // the chosen rounding, else the one that changes most tokens
  void refillLines();
  void refillMatrix();
  void refillMargins();
  const RouterRoundingFrame* cell(int row, int column) const;
  QStringList describe(int row, int column) const;

  Selection* selection_;
  QStackedWidget* stack_;
  LinePlot* lines_;
  MatrixPlot* matrix_;
  HalfOctavePlot* margins_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<int> layers_;  // layers of the rows
  int chosen_ = -1;          // chosen column; -1: none
};

class RoutingFlipsPanel : public Panel {
  Q_OBJECT

 public:
  // Shows flips by rounding as soon as a step was compared with FP32, unless the user has chosen the reference.
  explicit RoutingFlipsPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override;
  Answer answer() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void showLayers(bool layers);  // shows layer x step of one run in place of the means of all runs
  // Compares with an FP32 pass on the same weights in place of run A, which shows the effect of the formats without the
  // drift of the weights.
  void showRounding(bool rounding);
  bool rounding() const { return by_rounding_->isChecked(); }
  // Shows the effect of each rounding in the router alone in place of flips against another run or pass.
  void showRouter(bool router);
  bool inRouter() const { return in_router_->isChecked(); }
  QString whyNoMargins() const;
  QString whyNothing() const;  // empty if there is something to show
  const History* shown() const;
  // balance is forced in the shown run
  bool isForced() const { return shown() && shown()->settings_at_start()->holds(&RouterConfig::force_balance); }
  std::shared_ptr<const TelemetryFrame> frameAt(std::int64_t step) const;
  const std::vector<FlipFrame>& flipsOf(const TelemetryFrame& frame) const;
  Metric shownMetric() const { return rounding() ? Metric::rounding_flip_rate : Metric::flip_rate; }
  int shownRun() const;  // place of the shown run; -1: none
  void chooseReference();
  struct Rate {
    int run;
    std::int64_t step;  // step of the measurement
    double share;       // share of the tokens, mean over layers
  };
  std::vector<Rate> rates() const;  // rates of all compared runs
  QString reasonText(const Rate& rate) const;
  QString commonText() const;
  void refillLines();
  void refillLayers();
  void refillMargins();
  QStringList describe(int row, std::int64_t step) const;

  bool chosen_ = false;  // the user has chosen the reference
  LinePlot* lines_;
  TimeHeatMap* layers_;
  HalfOctavePlot* margins_;
  RouterRoundingView* router_;
  QStackedWidget *stack_, *pages_;  // curves or layers; flips or the router
  QToolButton *by_layer_, *by_rounding_, *in_router_;
};

}  // namespace moescope
