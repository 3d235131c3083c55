// The Cluster workspace: the cost of runs like this one on hundreds of GPUs; published, measured elsewhere, and
// modelled.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class LayerOnEveryRankPanel;

class ClusterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit ClusterWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  LayerOnEveryRankPanel* timeline() const { return timeline_panel_; }

 private:
  QDockWidget *published_, *step_time_, *live_cost_, *layers_, *timeline_, *health_;
  LayerOnEveryRankPanel* timeline_panel_;
};

}  // namespace moescope
