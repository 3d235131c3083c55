// Relations of the experts of a layer: a matrix of the tokens that choose both, N(i and j) / N(i) against chance; a map
// of the experts by the kinds of their tokens; and, on request, the similarity of their outputs.
#pragma once

#include <QComboBox>
#include <QStackedWidget>
#include <cmath>
#include <vector>

#include "core/frame/expert_map.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/text/expert_tables.h"

namespace moescope {

// Points in a plane, whose axes have the same unit, each point with its id if there is room. The readout names the
// point nearest to the mouse; a click or the arrow keys choose a point.
class ScatterPlot : public PlotFrame {
  Q_OBJECT

 public:
  struct Point {
    double x = 1, y = 1;  // NaN is not drawn
    std::uint8_t code = 0;
  };

  explicit ScatterPlot(QWidget* parent = nullptr) : PlotFrame(parent) {}
  void setPoints(std::vector<Point> points) { points_ = std::move(points); }  // the index of a point is its id
  void setAxes(const QString& x_caption, const QString& y_caption) {
    x_caption_ = x_caption;
    y_caption_ = y_caption;
  }
  void setLegend(const LegendScale& scale) { legend_ = scale; }
  void setNamed(std::vector<int> points) { named_ = std::move(points); }  // points that get their ids first
  void setCurrent(int point) { current_ = point; }
  std::function<QStringList(int point)> describe;
  QPointF placeOf(int point) const;    // widget pixels
  int nearest(QPoint position) const;  // -1: no point is near

 signals:
  void pointChosen(int point);

 protected:
  QMargins margins() const override { return {axisLabelWidth(), fontMetrics().height() + 4, 12, axisLabelHeight()}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  Axis axis(bool vertical) const;
  std::pair<double, double> range(bool vertical) const;  // ends of the axis
  double radius() const { return (points_.size() > 100 ? 2.6 : 4) * typeScale(fontMetrics()); }
  bool isDrawn(int point) const { return !std::isnan(points_[point].x); }
  std::vector<Tick> ticks(bool vertical) const;
  void paintIds(QPainter& painter) const;

  std::vector<Point> points_;
  std::vector<int> named_;
  QString x_caption_, y_caption_;
  LegendScale legend_;
  int current_ = -1;
};

class CoactivationPanel : public Panel {
  Q_OBJECT

 public:
  explicit CoactivationPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  MeasureButton* measureButton() const { return measure_; }
  void showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured);  // nullptr: not measured

 signals:
  void similarityRequested(int run, std::int64_t step);  // for a run of this program, with the weights before `step`

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  enum View { kMatrix, kMap, kSimilarity };  // entries of the switch
  bool shows(View view) const { return switch_->current() == view; }
  void makeMap();
  void makeMeasureButton();
  void showView();
  void showFigures();
  int layerShown() const;  // the selected layer, or the only one with counts
  void showButton();
  void chooseView();
  // Returns the step and the similarities of the active run at the cursor; nullptr if they were not measured.
  const MeasuredSimilarity::ByStep::value_type* measured() const { return atCursor(measured_, *selection_); }
  const LayerSimilarity* similarity() const;  // in the selected layer; nullptr: not measured
  void refill();
  void refillTogether();
  void refillSimilarity();
  void refillMap();
  std::shared_ptr<const TelemetryFrame> countsOfMap() const;
  void showOrder(const QString& title);  // names the experts at the axes
  LegendScale legend() const;
  int topK(const SpecialisationFrame& table) const;
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;
  QStringList describePair(int i, int j) const;
  QStringList describeSimilarity(int i, int j) const;
  QStringList describeOnMap(int expert) const;
  Answer answerOfMap() const;
  std::pair<int, int> nearestOnMap() const;  // the two nearest experts; equal if there are none
  Answer answerOfSimilarity() const;
  static void addMap(ValueTable& table, std::int64_t step, const SpecialisationFrame& counts);

  ViewSwitch* switch_;
  QStackedWidget* views_;
  MatrixPlot* view_;
  ScatterPlot* map_;
  QComboBox* sort_;
  MeasureButton* measure_ = nullptr;
  const History* chosen_for_ = nullptr;  // run for which chooseView() has chosen the view
  bool map_instead_ = false;
  std::shared_ptr<const MeasuredSimilarity> measured_;
  ExpertGrid similar_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> share_;
  std::vector<int> order_;
  float baseline_ = 0;
  std::shared_ptr<const TelemetryFrame> mapped_;
  ExpertMap places_;
};

}  // namespace moescope
