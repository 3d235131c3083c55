#include "widgets/look/panel_frame.h"

#include <QPainter>
#include <QVBoxLayout>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

PanelFrame::PanelFrame(QWidget* content, QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, kSpace4, 0, 0);  // as under the grip of a dock
  column->addWidget(content);
}

void PanelFrame::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.surface), QColor(c.hairline));
}

}  // namespace moescope
