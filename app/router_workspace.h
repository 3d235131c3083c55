// The Router workspace: load, balance, bias, scores and what they cost, expert by expert.
#pragma once

#include "app/workspace.h"

namespace moescope {

class RouterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent = nullptr);

  void arrange() override;
  void shareOut() override;

 private:
  QDockWidget *load_, *load_over_time_, *layers_, *bias_, *gate_, *confidence_, *capacity_, *findings_;
  QDockWidget* timeline_;
};

}  // namespace moescope
