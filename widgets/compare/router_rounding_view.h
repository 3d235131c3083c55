// The effect of BF16 in the router of one run: the share of the tokens that change experts if operands, stored logits
// or stored biases alone are rounded, and the share of the experts whose bias moves in another direction if counts are
// rounded; over steps, or by layer with the margins of the changed choices.
#pragma once

#include <QStackedWidget>
#include <QWidget>
#include <memory>

#include "widgets/plots/half_octave_plot.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

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

}  // namespace moescope
