// One MoE layer on every rank of a cluster, modelled: dispatch, experts, combine and waiting over time.
#pragma once

#include <QLabel>
#include <QToolButton>

#include "core/cluster/timeline.h"
#include "widgets/cluster/cluster_question.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/lane_chart.h"

namespace moescope {

class LayerOnEveryRankPanel : public Panel {
  Q_OBJECT

 public:
  explicit LayerOnEveryRankPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

  void show(const ClusterAnswer& answer);  // shows the answer to the question of the panel "Time of a step"
  const LayerTimeline& timeline() const { return timeline_; }
  bool hasTimeline() const { return timeline_.ranks > 0; }
  std::string chromeTrace() const { return to_chrome_trace(timeline_, of_.toStdString()); }

 signals:
  void exportRequested();

 protected:
  QString status() const override { return of_; }
  Answer answer() const override;

 private:
  void fillChart();

  LaneChart* chart_;
  QAction* export_;
  LayerTimeline timeline_;
  QString of_;  // model and cluster of the layer
};

}  // namespace moescope
