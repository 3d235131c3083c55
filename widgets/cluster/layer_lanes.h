// One MoE layer on every rank of a cluster, modelled: dispatch, experts, combine and waiting over time.
#pragma once

#include "core/cluster/timeline.h"
#include "core/files/text/value_table.h"
#include "widgets/cluster/cluster_question.h"
#include "widgets/plots/lane_chart.h"

namespace moescope {

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
