// The All-to-all workspace: who sends how much to whom, over which link, and what it would be otherwise.
#pragma once

#include "app/workspace.h"

namespace moescope {

class AllToAllWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit AllToAllWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void shareOut() override;

 private:
  QDockWidget *matrix_, *spread_, *links_, *sweep_, *timeline_;
};

}  // namespace moescope
