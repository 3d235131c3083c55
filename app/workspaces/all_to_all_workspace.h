// The All-to-all workspace: bytes between ranks, and other placements.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class ExpertPlacementPanel;

class AllToAllWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit AllToAllWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override {}  // its panels share one place
  ExpertPlacementPanel* placement() const { return placement_panel_; }

 private:
  QDockWidget *matrix_, *placement_;
  ExpertPlacementPanel* placement_panel_;
};

}  // namespace moescope
