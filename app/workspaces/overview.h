// The Overview: the router verdict with its figures, and panels that answer one question each: is the run learning, who
// gets the tokens, what does routing cost, what does the format cost.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class Overview : public Workspace {
  Q_OBJECT

 public:
  Overview(Selection* selection, FindingsWatch* findings, QWidget* parent = nullptr);

  void arrange() override;

 protected:
  void setDefaultSizes() override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  bool isNarrow() const;
  void arrangeForWidth();

  QDockWidget *loss_, *expert_load_, *all_to_all_, *quant_error_;
  bool one_column_ = false;
};

}  // namespace moescope
