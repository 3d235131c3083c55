// Gaps of the runs to the baseline over the steps, and the band that is too small to matter.
#pragma once

#include <QComboBox>
#include <vector>

#include "core/findings/comparison/comparison.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/look/sign.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/time_axis_plot.h"

namespace moescope {

struct GapSeries {
  const GapTrack* track;
  QString letter, name;
  int color = 0;
  float mean = kNoValue, half_width = kNoValue;  // of the judged steps; kNoValue: not known
  std::vector<PastVerdict> past{};
  std::int64_t sign_step = -1;    // step from which on the present verdict holds; -1: not marked
  Sign sign = Sign::open;         // of this verdict
  std::vector<PyramidBin> raw{};  // gaps behind the curve; empty: none
  std::vector<float> values{};    // gaps of the curve
};

// Gaps of runs to the baseline over steps, with the band that is too small to matter and the steps that are judged. A
// level line over these steps is the mean gap of a run. The names of the curves are at the height of their values at
// the crosshair or the cursor, with these values.
class GapPlot : public TimeAxisPlot {
  Q_OBJECT

 public:
  explicit GapPlot(Selection* selection, QWidget* parent = nullptr);

  struct Ground {
    float matters = kNoValue;  // half the width of the band
    StepRange judged;
    std::int64_t other_text_from = -1;  // step from which on a run reads different text; -1: none
  };
  // Gaps that are drawn as curves. `both`: smoothed gaps, with the gap of each step faintly behind them.
  enum class Gaps { smoothed, both, per_step };
  // Called in refill().
  void setSeries(std::vector<GapSeries> series, const Ground& ground, Gaps drawn);
  void setCaption(const QString& caption) { caption_ = caption; }

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QRegion hoverRegion() const override;
  void paintPrintedOverlay(QPainter& painter) override { paintEnds(painter); }
  QStringList readoutAt(QPoint position) const override;

 private:
  int bins() const;
  float newestAt(const std::vector<float>& values, std::int64_t step) const;
  double centreOf(std::size_t bin, std::size_t bins) const;
  std::size_t binAt(std::int64_t step) const;
  std::int64_t shownStep() const;
  Axis valueAxis() const { return axisUp(values_.low, values_.high); }
  void chooseEnds();
  void chooseValueRange();
  void paintGround(QPainter& painter) const;
  void paintCurve(QPainter& painter, const GapSeries& curve) const;
  void paintMeans(QPainter& painter) const;
  void paintVerdict(QPainter& painter, const GapSeries& curve) const;
  void paintEnds(QPainter& painter) const;
  int endOf(const GapSeries& curve) const;

  std::vector<GapSeries> series_;
  Ground ground_;
  Gaps drawn_ = Gaps::smoothed;
  bool ends_ = true;  // true if the ends of the curves have room for names
  QString caption_;
  ValueRange values_;
};

class LossGapPanel : public Panel {
  Q_OBJECT

 public:
  LossGapPanel(Selection* selection, JudgedRuns* judged, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;

 protected:
  QString status() const override { return timeStatus(selection_->step(), false); }
  Answer answer() const override;

 private:
  void refill();
  Answer answerOnTexts() const;
  QString letterOf(int place) const;
  QString captionOf(const GapPlot::Ground& ground, bool has_sign) const;
  static QString sideOf(const Conclusion& c);
  QStringList otherTexts(int place) const;
  // Judged steps of the first candidate, and the first step from which on one reads different text.
  GapPlot::Ground ground() const;

  JudgedRuns* judged_;
  GapPlot* plot_;
  QComboBox* shown_;
};

}  // namespace moescope
