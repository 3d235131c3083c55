// DeepEP gain: on a whole step of each run's load by EP degree, as ThisImbalancePanel computes it,
// or by DeepEP on a whole MoE layer in one node: measured on 8 H200s (assets/calibration), the curve of the layer model
// through these points, and a point for the load of each open run.
#pragma once

#include <QComboBox>
#include <QStackedWidget>
#include <QTimer>
#include <optional>
#include <vector>

#include "core/cluster/layer_model.h"
#include "widgets/cluster/cluster_question.h"
#include "widgets/panel/figure_table.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

// Points and curves over a number. Marks differ in shape and lines in dashes, so that kinds can be distinguished
// without colours; the readout names the point nearest to the mouse.
class XyPlot : public PlotFrame {
  Q_OBJECT

 public:
  enum class Mark { none, disc, ring, diamond };
  struct Series {
    QString label;
    int color = 0;  // index of seriesColor
    Mark mark = Mark::disc;
    Qt::PenStyle line = Qt::NoPen;
    std::vector<QPointF> points;
    std::vector<QString> names{};  // names of the points for the readout; may be empty
    std::vector<QString> tags{};   // texts beside the points; may be empty
  };

  using PlotFrame::PlotFrame;
  void setSeries(std::vector<Series> series);
  void setCaptions(const QString& x, const QString& y) {
    x_caption_ = x;
    y_caption_ = y;
  }
  void setAtLeastShown(ValueRange x, ValueRange y) {
    least_x_ = x;
    least_y_ = y;
  }
  // Sets a horizontal line.
  void setReference(double y, const QString& label) {
    reference_ = y;
    reference_label_ = label;
  }

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  Axis xAxis() const { return axisAcross(x_.low, x_.high); }
  Axis yAxis() const { return axisUp(y_.low, y_.high); }
  QPointF place(const QPointF& point) const { return {xAxis().toPixel(point.x()), yAxis().toPixel(point.y())}; }
  double lineWidth() const;
  void paintTags(QPainter& painter) const;
  void paintMark(QPainter& painter, const QPointF& at, const Series& series) const;

  std::vector<Series> series_;
  QString x_caption_, y_caption_, reference_label_;
  ValueRange least_x_, least_y_, x_, y_;
  double reference_ = kNoValue;
};

class DeepEPGainPanel : public Panel {
  Q_OBJECT

 public:
  explicit DeepEPGainPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  // Steps on the chosen cluster by EP degree, those of the selected run first; it has none until they are computed.
  void setSteps(std::vector<RunChoices> runs, const ClusterQuestion& cluster);

 protected:
  std::optional<Provenance> kind() const override;
  Answer answer() const override;

 private:
  struct Question {
    std::string model;
    std::vector<std::vector<std::uint32_t>> loads;  // of the selected layer of each run; may be empty
    bool operator==(const Question&) const = default;
  };
  struct Answer {
    std::string model;
    LayerGains gains;
    std::vector<std::optional<LayerGain>> live;  // of each run
  };
  void refill();
  void ask();
  void draw();
  void fillSteps();
  void addRow(const RunChoices& run, const QString& name, auto forms_at);  // forms_at(StepChoices)
  void showView();
  ValueTable stepsTable() const;
  QString gainText(double figure) const;  // "1.25 ×", "0.83 ms"
  QString measuredRange() const;
  QStringList measuredForms() const;  // measured range of the gain, from long to short
  const LayerGain* selectedGain() const;

  enum Axes { whole_step, by_copies, by_imbalance, time };  // entries of axis_
  Axes axes() const { return static_cast<Axes>(axis_->currentIndex()); }

  XyPlot* plot_;
  FigureTable* steps_table_;
  QStackedWidget* views_;
  QComboBox *shape_, *axis_;
  std::vector<RunChoices> runs_{1};
  int ep_ = 32;
  AskedRouting routing_ = AskedRouting::forced;
  Question question_;
  const History* run_ = nullptr;  // the first of the live points; only compared, never dereferenced
  std::optional<Answer> answer_;
  bool computing_ = false;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  LatestWorker worker_;
};

}  // namespace moescope
