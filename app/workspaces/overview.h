// The Overview workspace: router, experts and number formats of one run at a glance.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class Overview : public Workspace {
  Q_OBJECT

 public:
  Overview(Selection* selection, FindingsWatch* findings, QWidget* parent = nullptr);

  void arrange() override;

 protected:
  void setDefaultSizes() override;  // the same room for all panels of a row
  bool useRoomOfFolded() override;
  void giveRoomBack() override;

 private:
  void addHealth(FindingsWatch* findings);
  void addLoss();
  void addExpertLoad();
  void addLoadOverTime();
  void addBalance();
  void addAllToAll();
  void addScaleHistogram();
  void addQuantError();

  QDockWidget *loss_, *expert_load_, *load_over_time_, *balance_, *all_to_all_, *scale_histogram_, *quant_error_;
  QDockWidget* findings_;
};

}  // namespace moescope
