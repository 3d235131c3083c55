// All workspaces except Compare, which has a file of its own.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class CompareWorkspace;
class ExpertPanel;
class ExpertPlacementPanel;
class TensorLab;
class TimeOfAStepPanel;
class TokensAndSamplePanel;

// The Overview: the router verdict with its figures, and panels that answer one question each. Is the run learning?
// Which experts get the tokens? What does routing cost? What does the number format cost? For a comparison with forced
// balance it has the verdicts on the losses, the loss gap and the gradient error in place of what is about routing.
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

// The All-to-all workspace: bytes between ranks, and other placements.
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

// The Microscaling workspace: effects of number formats on the operands of a run, and on any tensor, down to single
// blocks. The default layout shows the errors of all operands, the block scales of one, and the microscope together.
class MicroscalingWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit MicroscalingWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  bool hasAnswer() const override { return !isFolded(error_) || !isFolded(costs_); }
  TensorLab* tensorLab() const { return tensor_lab_; }
  void showTensors();  // brings the list of tensors and the map of block scales to the front
  void showMicroscope() { bringIntoView(microscope_); }

 private:
  bool foldsWithoutRun() const override;
  void bringUpError();

  TensorLab* tensor_lab_;
  std::pair<const History*, QDockWidget*> shown_{};  // run whose panels were brought to the front, and the first one
  QDockWidget *error_, *costs_, *tensors_, *what_if_, *scales_, *map_, *microscope_;
};

// The Router workspace: load, balance, bias, scores and their costs for each expert. The panel of an expert opens when
// an expert is selected.
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

// The Text workspace: which experts process which tokens of a text, how the experts specialise, and how stable the
// routing is.
class TextWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit TextWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  void setLive(bool live);  // whether the probe text can be changed

 signals:
  void probeWanted(const QString& escaped);
  void modelWanted();  // a run or checkpoint, since the log has nothing that these panels show

 private:
  QWidget* makeNextSteps();  // in place of the panels if the log has no data for any of them
  TokensAndSamplePanel* tokens_panel_;
  QDockWidget *tokens_, *sample_, *specialisation_, *coactivation_, *stability_;
};

// The Cluster workspace: the cost of runs like this one on hundreds of GPUs, measured elsewhere and modelled.
class ClusterWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit ClusterWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  TimeOfAStepPanel* stepTime() const { return step_time_panel_; }

 private:
  TimeOfAStepPanel* step_time_panel_;
  int cost_lines_ = 11;  // of the table of ThisImbalancePanel
  QDockWidget *step_time_, *live_cost_, *layers_;
};

}  // namespace moescope
