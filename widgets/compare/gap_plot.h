// Gaps of runs to run A over steps: faint lines for every step, strong ones smoothed, a mark at the first step at which
// the losses differ by more than epsilon. Over the steps that are judged: the mean gap of every run with its interval,
// and in grey the gaps that cannot be told from chance.
#pragma once

#include <optional>
#include <vector>

#include "core/telemetry/comparison/comparison.h"
#include "widgets/plots/time_axis_plot.h"

namespace moescope {

struct GapSeries {
  int place = 1;  // position of the run among those compared
  QString label;
  int color = 0;
  std::optional<std::int64_t> first_difference{};
  bool judged = true;  // not a noise twin
};

class GapPlot : public TimeAxisPlot {
  Q_OBJECT

 public:
  explicit GapPlot(Selection* selection, QWidget* parent = nullptr);

  // Called in refill.
  void setSeries(std::vector<GapSeries> series, const RunGaps& gaps);
  void setCaption(const QString& caption) { caption_ = caption; }

 protected:
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void paintPrintedOverlay(QPainter& painter) override { paintGapLegend(painter); }
  QStringList readoutAt(QPoint position) const override;

 private:
  struct Curve {
    std::vector<PyramidBin> raw;
    std::vector<float> smooth;
  };
  struct LegendEntry {
    QString text;
    QColor color;
    bool filled;
  };
  int bins() const;
  float newestAt(const std::vector<float>& values, std::int64_t step) const;
  void paintLegendRow(QPainter& painter, QRect row, const std::vector<LegendEntry>& entries) const;
  double centreOf(std::size_t bin, std::size_t bins) const;
  std::size_t binAt(std::int64_t step) const;
  Axis valueAxis() const;
  void chooseValueRange();
  void paintChance(QPainter& painter) const;
  void paintMeans(QPainter& painter) const;
  void paintCurve(QPainter& painter, const Curve& curve, const QColor& color, Qt::PenStyle line) const;
  void paintFirstDifferences(QPainter& painter) const;
  void paintGapLegend(QPainter& painter) const;

  std::vector<GapSeries> series_;
  std::vector<Curve> curves_;
  struct Mean {
    StepRange steps;
    double gap, half;
    int color;
    QString letter;
    bool by_twins;
  };
  std::vector<Mean> means_;
  float chance_ = kNoValue;  // the widest of their intervals by noise twins
  QString caption_;
  ValueRange values_;
};

}  // namespace moescope
