// One MoE layer on every rank of a cluster, modelled: dispatch, experts, combine and waiting over time.
#pragma once

#include <vector>

#include "core/cluster/timeline.h"
#include "core/files/text/value_table.h"
#include "widgets/cluster/cluster_question.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

// Intervals over time in lanes: activities of ranks. Activities differ in colour and fill.
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
  double laneHeight() const { return plotRect().height() / std::max(1.0, static_cast<double>(names_.size())); }
  std::vector<Activity> keyed() const;  // activities that occur

  std::vector<Activity> activities_;
  QStringList names_;
  std::vector<Interval> intervals_;
  QString caption_;
  double end_ = 1;
};

class LayerLanes : public LaneChart {
  Q_OBJECT

 public:
  explicit LayerLanes(QWidget* parent = nullptr);

  void setAnswer(const ClusterAnswer& answer);
  const LayerTimeline& timeline() const { return timeline_; }
  bool hasTimeline() const { return timeline_.ranks > 0; }
  std::string chromeTrace() const { return to_chrome_trace(timeline_, title_); }
  QStringList answers() const;  // how long the ranks wait, from long to short
  ValueTable table() const;

 private:
  LayerTimeline timeline_;
  std::string title_;  // model and cluster of the layer
};

}  // namespace moescope
