// Curves of scalars over steps. Their names, and their values at the crosshair or the cursor, are at the ends of the
// curves, or in a legend above the plot if there is no room at the ends. Where many steps share a pixel, each column
// shows their whole range as a vertical span. A smoothed curve lies over the faint raw curve. NaN and Inf break the
// line and are marked at the bottom.
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
  int color = 0;      // index of seriesColor
  int smoothing = 0;  // number of last steps of the mean; 0: none
  // Returns the values in `bins` equal slices of the range, in place of a metric of the history.
  std::function<std::vector<PyramidBin>(StepRange, int bins)> fetch{};
  std::function<FigureTarget(std::int64_t step)> figure{};  // figure of a curve with `fetch`
  bool points = false;                                      // drawn as open circles, for values at a few steps
  std::int64_t other_text_from = INT64_MAX;                 // step from which on the run reads other text than run A
  // Returns the values in the bins between these edges; of a curve with `fetch`, at the first step of each bin.
  std::vector<PyramidBin> inBins(const std::vector<std::int64_t>& edges) const;
  float valueAt(std::int64_t step) const;
  float smoothedAt(std::int64_t step) const;  // value of the smoothed curve; without smoothing valueAt()
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
  void setChosen(std::size_t series) { chosen_ = series; }  // the bold one, if all are of the active run
  void setReferences(std::vector<ReferenceLine> references) { references_ = std::move(references); }
  void setCaption(const QString& caption) { caption_ = caption; }  // name and unit, along the value axis
  void setLogValues(bool log);
  void setPercent(bool percent) { percent_ = percent; }
  void setExactAtInfinity(bool exact) { exact_at_infinity_ = exact; }  // infinity means no error, as for an SNR
  // The range that the value axis always contains.
  void setAtLeastShown(double low, double high) {
    least_low_ = low;
    least_high_ = high;
  }

  std::optional<FigureTarget> figureAt(QPoint position) const override;  // figure of the nearest curve
  ValueTable table() const;                                              // values at the steps of the visible range

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QRegion hoverRegion() const override { return TimeAxisPlot::hoverRegion() | figuresRect(); }
  void paintPrintedOverlay(QPainter& painter) override { paintNames(painter); }
  QRect figuresRect() const;  // area of the names and values
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
  Axis valueAxis() const { return axisUp(values_.low, values_.high, log_values_); }
  QString formatted(float value) const;  // a value as text; a dash if there is none
  void paintSeries(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  void paintPoint(QPainter& painter, QPointF place, const QColor& color) const;
  void paintPoints(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  void paintNonFinite(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const;
  struct Named {
    int series = -1;  // -1: a reference line
    QString name = {}, value = {};
    QColor color;
    bool active = false;  // whether the curve is of the active run
    double y = 0;         // y of the end of the curve
    double x = 0;         // left edge of the name: beside the plot, or behind a curve that ends before
    bool isReference() const { return series < 0; }
    QString letter() const;  // letter of the run if `name` is the name of a run, else empty
    int swatch() const;      // width of the piece of the curve before a name that is not the name of a run
  };
  std::vector<Named> named() const;
  double freeHeight(const Named& curve) const;
  bool isActive(std::size_t series) const;
  // Forms of name and value at the end of a curve, from long to short.
  QStringList endForms(const Named& curve) const;
  int widestReference() const;
  void chooseEnds();
  void paintNames(QPainter& painter) const { ends_ ? paintEnds(painter) : paintSeriesLegend(painter); }
  void paintEnds(QPainter& painter) const;
  void paintSeriesLegend(QPainter& painter) const;
  void paintReferences(QPainter& painter) const;

  std::vector<LineSeries> series_;
  std::size_t chosen_ = 0;
  std::vector<std::vector<Column>> columns_;
  std::vector<ReferenceLine> references_;
  QString caption_;
  bool log_values_ = false, percent_ = false, exact_at_infinity_ = false;
  bool ends_ = true;  // whether curves are named at their ends
  double least_low_ = kNoValue, least_high_ = kNoValue;
  ValueRange values_;
};

}  // namespace moescope
