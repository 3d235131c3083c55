// Intervals over time in lanes: activities of ranks. Activities differ in colour and fill.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class LaneChart : public PlotFrame {
  Q_OBJECT

 public:
  struct Interval {
    int lane = 0, activity = 0;
    double from = 0, to = 0;
  };
  struct Activity {
    QString name;
    int color = 0;  // index of seriesColor
    Qt::BrushStyle fill = Qt::SolidPattern;
  };

  using PlotFrame::PlotFrame;
  void setActivities(std::vector<Activity> activities) { activities_ = std::move(activities); }
  void setLanes(QStringList names, std::vector<Interval> intervals, double end);
  void setCaption(const QString& caption) { caption_ = caption; }  // caption of the time axis, with unit
  const std::vector<Interval>& intervals() const { return intervals_; }

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  Axis axis() const { return axisAcross(0, end_); }
  double laneHeight() const;
  std::vector<Activity> keyed() const;  // activities that occur

  std::vector<Activity> activities_;
  QStringList names_;
  std::vector<Interval> intervals_;
  QString caption_;
  double end_ = 1;
};

}  // namespace moescope
