// The Router workspace: load, balance, bias, scores and their costs for each expert. The panel of an expert opens when
// an expert is selected.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class ExpertPanel;

class RouterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent = nullptr);

  void arrange() override;
  ExpertPanel* expertCard() const { return card_panel_; }

 protected:
  void setDefaultSizes() override;
  void hideWhatNeedsAChoice() override;

 private:
  void showCardOfChosen();

  QDockWidget *load_, *load_over_time_, *balance_, *bias_, *confidence_, *card_, *findings_;
  ExpertPanel* card_panel_;
  int shown_expert_ = -1;
};

}  // namespace moescope
