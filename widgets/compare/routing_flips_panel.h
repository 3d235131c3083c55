// Tokens that a run routes to other experts than run A does, or than FP32 would, or than without the rounding of one
// number of the router: their share over steps and by layer, and their margins.
#pragma once

#include <QStackedWidget>

#include "widgets/compare/router_rounding_view.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/half_octave_plot.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

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
  bool isForced() const;  // balance is forced in the shown run
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
