// Curves of scalars over steps, named at their ends with the values at the crosshair or the cursor; where the ends have
// no room, in a legend above. Where many steps share a pixel each column shows their whole range as a vertical span;
// a smoothed curve lies over the faint raw one. NaN and Inf break the line and are marked at the bottom.
#pragma once

#include <memory>
#include <vector>

#include "widgets/plots/time_axis_plot.h"

namespace moescope {

struct LineSeries {
  std::shared_ptr<const History> history;
  Metric metric = Metric::ce_loss;
  int layer = kWholeRun;
  QString label;
  int color = 0;         // index of seriesColor
  double smoothing = 0;  // factor of the exponential moving average; 0: none
  // Instead of a metric of the history: `bins` equal slices of the range.
  std::function<std::vector<PyramidBin>(StepRange, int bins)> fetch{};
  std::function<FigureTarget(std::int64_t step)> figure{};  // of such a curve
  bool points = false;                                      // open circles: measured at a few steps
  std::vector<PyramidBin> slices(StepRange range, int bins) const;
  std::vector<PyramidBin> atSteps(const std::vector<std::int64_t>& steps) const;  // a slice for each
  float valueAt(std::int64_t step) const;
};

struct ReferenceLine {
  double value = 0;
  QString label;
};

class LinePlot : public TimeAxisPlot {
  Q_OBJECT

 public:
  explicit LinePlot(Selection* selection, QWidget* parent = nullptr);

  std::function<QString(std::int64_t step)> note;  // a last line of the readout; empty: none
  void setSeries(std::vector<LineSeries> series);
  void setReferences(std::vector<ReferenceLine> references);
  void setCaption(const QString& caption) { caption_ = caption; }  // name and unit, along the value axis
  void setLogValues(bool log);
  void setPercent(bool percent) { percent_ = percent; }
  void setExactAtInfinity(bool exact) { exact_at_infinity_ = exact; }  // of an SNR: there is no error
  void setAtLeastShown(double low, double high);                       // the value axis always holds these

  std::optional<FigureTarget> figureAt(QPoint position) const override;  // of the nearest curve
  QString csv() const;                                                   // the steps of the visible range

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void paintPrintedOverlay(QPainter& painter) override { paintNames(painter); }
  QRect figuresRect() const;  // holds the names and values
  QString staticKey() const override;
  QStringList readoutAt(QPoint position) const override;

 private:
  struct Column {
    double step = 0;  // centre of the slice
    PyramidBin bin;
    float smooth = kNoValue;
  };
  std::vector<Column> columnsOf(const LineSeries& series) const;
  std::vector<std::int64_t> stepsOfAll() const;
  void chooseValueRange();
  Axis valueAxis() const;
  QString formatted(float value) const;  // a dash where there is none
  void paintSeries(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  void paintPoints(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  void paintNonFinite(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  struct Named {
    int series = -1;  // -1: a reference line
    QString name, value;
    QColor color;
    bool active = false;  // of the run that is looked at
    double y = 0;         // where the curve ends
    bool isReference() const { return series < 0; }
  };
  std::vector<Named> named() const;
  bool isActive(std::size_t series) const;
  // The name and the value at the end of a curve, long to short.
  QStringList endForms(const Named& curve) const;
  void chooseEnds();
  void paintNames(QPainter& painter) const;
  void paintEnds(QPainter& painter) const;
  void paintSeriesLegend(QPainter& painter) const;
  void paintReferences(QPainter& painter) const;

  std::vector<LineSeries> series_;
  std::vector<std::vector<Column>> columns_;
  std::vector<ReferenceLine> references_;
  QString caption_;
  bool log_values_ = false, percent_ = false, exact_at_infinity_ = false;
  bool ends_ = true;  // curves are named at their ends
  double least_low_ = kNoValue, least_high_ = kNoValue;
  ValueRange values_;
};

}  // namespace moescope
