// The Compare workspace: which of the open runs is good enough, and why. It shows the verdict in a line, a table of the
// runs, and panels on the cause of differences.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class GradientErrorPanel;
class JudgedRuns;
class LossPanel;
class VerdictStrip;
class VerdictsPanel;

class CompareWorkspace : public Workspace {
  Q_OBJECT

 public:
  CompareWorkspace(Selection* selection, const FindingsWatch* findings, ComparedRuns* runs, QWidget* parent = nullptr);

  void arrange() override;
  bool hasAnswer() const override { return selection_->histories().size() > 1; }
  void setDefaultSizes() override;
  void placeLoss(int room);  // `room`: height of the panels below the table
  GradientErrorPanel* gradientPanel() const { return gradient_panel_; }
  VerdictStrip* strip() const { return strip_; }
  // Returns a line with the verdicts, whose buttons are not connected.
  VerdictStrip* makeStrip(const FindingsWatch* findings) const;
  VerdictsPanel* verdicts() const { return verdicts_; }
  JudgedRuns* judged() const { return judged_; }

 protected:
  void arrangeEssential() override;
  bool useRoomOfFolded() override;
  void giveRoomBack() override;

 private:
  void foldPanels();
  void fitTable();
  int keepRows();
  JudgedRuns* judged_;
  VerdictStrip* strip_;
  VerdictsPanel* verdicts_;
  bool room_is_used_ = false, loss_is_tab_ = false;
  QDockWidget *table_, *gap_, *loss_, *flips_, *gradient_, *load_difference_, *regression_;
  GradientErrorPanel* gradient_panel_;
  LossPanel* loss_panel_;
  std::size_t rows_ = 0;  // number of rows for which the table has room
  void followOrigin();
  bool shows_checkpoints_ = false;  // true: the runs are checkpoints on the same texts
};

}  // namespace moescope
