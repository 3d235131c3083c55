// One MoE layer on every rank of a cluster, modelled: who dispatches, computes, combines, and who waits for whom.
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
  QString explain() const override;

  void show(const ClusterAnswer& answer);  // of the question that the panel "Time of a step" asks
  const LayerTimeline& timeline() const { return timeline_; }
  bool hasTimeline() const { return timeline_.ranks > 0; }
  std::string chromeTrace() const;

 signals:
  void exportRequested();

 private:
  QLabel* headline_;
  LaneChart* chart_;
  QToolButton* export_;
  LayerTimeline timeline_;
  QString of_;  // what it is a layer of
};

}  // namespace moescope
