#include "app/look/dock_title.h"

#include <QDockWidget>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QStyle>
#include <QToolButton>

namespace moescope {

namespace {

QToolButton* flatButton(const QString& name) {
  auto* button = new QToolButton;
  button->setAutoRaise(true);
  button->setFocusPolicy(Qt::NoFocus);
  button->setAccessibleName(name);
  button->setToolTip(name);
  return button;
}

}  // namespace

DockTitle::DockTitle(QDockWidget* dock, QMenu* menu) : QWidget(dock) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(6, 1, 2, 0);
  row->setSpacing(0);
  auto* name = new QLabel(dock->windowTitle());
  QFont bold = name->font();
  bold.setBold(true);
  name->setFont(bold);
  name->setMinimumWidth(0);
  name->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  row->addWidget(name, 1);
  auto* more = flatButton(dock->windowTitle() + ": save, explain, float, close");
  more->setText(QString::fromUtf8("\u22ef"));
  more->setPopupMode(QToolButton::InstantPopup);
  more->setStyleSheet("QToolButton::menu-indicator { image: none; }");
  more->setMenu(menu);
  row->addWidget(more);
}

}  // namespace moescope
