// What the fullest rank receives, and to how many ranks and nodes a token is sent, over steps.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"

namespace moescope {

class FullestRankPanel : public Panel {
  Q_OBJECT

 public:
  explicit FullestRankPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override { return timeStatus(selection_->step(), false); }
  Answer answer() const override;

 private:
  Metric metric() const;
  void refill();

  LinePlot* plot_;
  QComboBox* figure_;
};

}  // namespace moescope
