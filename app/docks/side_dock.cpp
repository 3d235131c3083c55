#include "app/docks/side_dock.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QMainWindow>
#include <QPainter>
#include <QToolButton>

#include "app/look/icons.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

SideDock::SideDock(const QString& title, QWidget* parent) : QDockWidget(title, parent) {
  auto* head = new QWidget(this);
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  auto* close = new QToolButton;
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  close->setToolTip("Close");
  close->setAccessibleName("Close " + title);
  connect(close, &QToolButton::clicked, this, &QWidget::close);
  auto* row = new QHBoxLayout(head);
  row->setContentsMargins(kSpace12, kSpace8, kSpace8, kSpace4);
  row->addWidget(name, 1);
  row->addWidget(close);
  setTitleBarWidget(head);
  keepOffEdges(Qt::RightDockWidgetArea);
  connect(this, &QDockWidget::dockLocationChanged, this, &SideDock::keepOffEdges);
  connect(this, &QDockWidget::topLevelChanged, this, [this](bool floating) {
    keepOffEdges(floating ? Qt::NoDockWidgetArea : static_cast<QMainWindow*>(parentWidget())->dockWidgetArea(this));
  });
}

// Keeps the same margin to the window's edge as panels have; other docks are separated by Qt's gap.
void SideDock::keepOffEdges(Qt::DockWidgetArea area) {
  const bool at_left = area == Qt::LeftDockWidgetArea, at_right = area == Qt::RightDockWidgetArea;
  const bool below = area == Qt::BottomDockWidgetArea;
  setContentsMargins(1 + (at_left || below ? kSpace8 : 0), 1 + (at_left || at_right ? kSpace8 : 0),
                     1 + (at_right || below ? kSpace8 : 0), 1);
}

void SideDock::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, surface(), isFloating() ? 0 : kRadiusPanel, QColor(c.surface), QColor(c.hairline));
}

}  // namespace moescope
