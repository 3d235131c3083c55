// The Overview: a verdict with its figures, and five panels that answer a question each. Is it learning? What does
// routing cost? What does the format cost? And, large, who gets the tokens?
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
