#include "app/look/card_frame.h"

#include <QPainter>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

void CardFrame::setAccented(bool accented) {
  accented_ = accented;
  update();
}

void CardFrame::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.surface), QColor(accented_ ? c.accent : c.hairline));
}

}  // namespace moescope
