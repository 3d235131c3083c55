// The Overview: the router verdict with its figures, and panels that answer one question each. Is the run learning?
// Which experts get the tokens? What does routing cost? What does the number format cost? For a comparison with forced
// balance it has the verdicts on the losses, the loss gap and the gradient error in place of what is about routing.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class CompareWorkspace;

class Overview : public Workspace {
  Q_OBJECT

 public:
  Overview(Selection* selection, FindingsWatch* findings, const CompareWorkspace& compare, QWidget* parent = nullptr);

  void arrange() override;

 protected:
  void setDefaultSizes() override;
  bool useRoomOfFolded() override;
  void giveRoomBack() override {
    gap_->hide();
    gradient_->hide();
  }
  bool isOneColumn() const override { return one_column_; }
  void setOneColumn(bool one_column) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  bool isNarrow() const;
  void followWidth();
  void arrangeForWidth();

  QDockWidget *loss_, *expert_load_, *all_to_all_, *quant_error_, *gap_, *gradient_;
  bool one_column_ = false;
};

}  // namespace moescope
