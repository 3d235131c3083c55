#include "widgets/router/load_scale_button.h"

namespace moescope {

namespace {

constexpr int kLoadScales = 3;

}  // namespace

LoadScaleButton::LoadScaleButton(QWidget* parent) : QToolButton(parent) {
  setAccessibleName("Load scale");
  setToolTip(
      "Range of the colours: from 1/4 to 4 times the fair load. A click widens the range to 16 times, the next click "
      "to 64 times, for layers in which a few experts take nearly all tokens; the third click sets it back to 4");
  connect(this, &QToolButton::clicked, this, [this] { setScale((static_cast<int>(scale_) + 1) % kLoadScales); });
  setScale(0);
}

void LoadScaleButton::setScale(int scale) {
  scale_ = scale > 0 && scale < kLoadScales ? static_cast<LoadScale>(scale) : LoadScale::to_4;
  setText(QString("to %1x").arg(loadLimit(scale_)));
  emit changed();
}

}  // namespace moescope
