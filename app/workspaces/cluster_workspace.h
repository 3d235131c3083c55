// The Cluster workspace: the cost of runs like this one on hundreds of GPUs, measured elsewhere and modelled.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class TimeOfAStepPanel;

class ClusterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit ClusterWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  TimeOfAStepPanel* stepTime() const { return step_time_panel_; }

 private:
  TimeOfAStepPanel* step_time_panel_;
  QDockWidget *step_time_, *live_cost_, *layers_;
};

}  // namespace moescope
