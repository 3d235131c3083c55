// The Cluster workspace: what runs like this one would take on hundreds of GPUs; published, measured elsewhere, and
// modelled.
#pragma once

#include "app/workspace.h"

namespace moescope {

class ClusterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit ClusterWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void shareOut() override;

 private:
  QDockWidget *published_, *step_time_, *live_cost_, *layers_, *health_;
};

}  // namespace moescope
