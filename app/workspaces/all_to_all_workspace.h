// The All-to-all workspace: who sends how much to whom, over which link, and what it would be otherwise.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class ExpertPlacementPanel;

class AllToAllWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit AllToAllWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void shareOut() override;
  ExpertPlacementPanel* placement() const { return placement_panel_; }

 private:
  QDockWidget *matrix_, *spread_, *links_, *sweep_, *placement_, *wire_, *timeline_;
  ExpertPlacementPanel* placement_panel_;
};

}  // namespace moescope
