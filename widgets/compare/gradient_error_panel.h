// Error of each run's gradients against FP32, over steps, and by layer and group of tensors; and the difference of its
// predictions from the predictions of the FP32 pass.
#pragma once

#include <QComboBox>
#include <QPushButton>
#include <QStackedWidget>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class GradientErrorPanel : public Panel {
  Q_OBJECT

 public:
  explicit GradientErrorPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  // Sets whether the runs are in training, so that cadenceRequested has an effect.
  void setLive(bool live);

 signals:
  void cadenceRequested(int interval);  // requests telemetry.gradient_every

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  bool cosine() const { return figure_->currentIndex() == 1; }
  bool pinned() const { return pinned_->isChecked(); }  // the FP32 pass uses the experts of the run
  Metric shownMetric() const;                           // metric of the chosen figure
  // True if the figure is a figure of the predictions, which have no layers.
  bool showsPredictions() const;
  void followOrigin();
  QString predictionCaption() const;
  // Shows layers x tensors of the active run if the user chose that, else the whole models of all runs.
  void showFigure();
  Answer answerOfPredictions() const;
  Answer answerOfCheckpoints() const;
  ValueTable tableOfPredictions() const;
  bool measured() const;
  std::shared_ptr<const TelemetryFrame> frame() const;
  LineSeries seriesOf(int run) const;  // error of the run over steps
  void refillLines();
  void refillMatrix();
  void showButton() { measure_->setVisible(live_ && selection_->history() && !measured()); }
  void paintNumbers(QPainter& painter) const;
  const GradientFrame* cell(int row, int column) const;
  // True if the matrix shows the active run's figures minus run A's.
  bool minusA() const { return minus_a_->isChecked() && selection_->run() > 0; }
  double figureOf(const GradientFrame& gradient) const;
  double shownValue(int row, int column) const;  // value of a cell; NaN: no value
  double position(double value) const;           // position on the colour scale, 0..1
  LegendScale legend() const;
  QStringList describe(int row, int column) const;
  QString againstA(double difference) const;
  QString unpinnedError(int run) const;
  QString valueText(double value) const;

  LinePlot* lines_;
  MatrixPlot* matrix_;
  QComboBox* figure_;
  QStackedWidget* stack_;
  QToolButton *by_layer_, *minus_a_, *pinned_;
  QPushButton* measure_;
  bool live_ = false;
  std::shared_ptr<const TelemetryFrame> frame_, frame_of_a_;
  std::vector<int> layers_;             // layers of the rows; -1: no layer
  std::vector<GradientGroup> columns_;  // groups of the columns, in frame_
};

}  // namespace moescope
