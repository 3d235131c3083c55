// Numbers of ranks and nodes to which a token is sent, and imbalance of the received copies, over steps.
#pragma once

#include "widgets/panel/figures_panel.h"

namespace moescope {

class RanksATokenGoesToPanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit RanksATokenGoesToPanel(Selection* selection, QWidget* parent = nullptr);

 protected:
  Answer answer() const override;
};

}  // namespace moescope
