// A button for the end of the load's colour scale: 4, 16 or 64 times the fair share. A click selects the next end.
#pragma once

#include <QToolButton>

#include "widgets/plots/color_scale.h"

namespace moescope {

class LoadScaleButton : public QToolButton {
  Q_OBJECT

 public:
  explicit LoadScaleButton(QWidget* parent = nullptr);
  LoadScale scale() const { return scale_; }
  void setScale(int scale);  // index of LoadScale; any other index selects the first

 signals:
  void changed();

 private:
  LoadScale scale_ = LoadScale::to_4;
};

}  // namespace moescope
