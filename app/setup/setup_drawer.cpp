#include "app/setup/setup_drawer.h"

#include <QAction>
#include <QEvent>
#include <QKeyEvent>
#include <QMainWindow>
#include <QPainter>
#include <QStatusBar>
#include <QToolBar>
#include <QVBoxLayout>
#include <algorithm>

#include "app/setup/setup_form.h"
#include "widgets/look/tokens.h"

namespace moescope {

SetupDrawer::SetupDrawer(SetupForm* form, QAction* toggle, QMainWindow* window)
    : QFrame(window), form_(form), toggle_(toggle), window_(window) {
  setObjectName("setup_drawer");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(1, 0, 0, 0);
  column->addWidget(form);
  hide();
  window->installEventFilter(this);
  connect(toggle, &QAction::triggered, this, [this](bool is_open) { is_open ? open() : close(); });
  connect(form, &SetupForm::closeRequested, this, &SetupDrawer::close);
}

void SetupDrawer::open() {
  toggle_->setChecked(true);
  place();
  show();
  raise();
  form_->takeFocus();
  emit opened();
}

// Closes the drawer and returns the keyboard focus to the panels.
void SetupDrawer::close() {
  toggle_->setChecked(false);
  if (isAncestorOf(window_->focusWidget())) window_->focusWidget()->clearFocus();
  hide();
}

void SetupDrawer::place() {
  const int top = [this] {
    for (const QToolBar* bar : window_->findChildren<QToolBar*>(QString(), Qt::FindDirectChildrenOnly))
      if (bar->isVisible()) return bar->geometry().bottom() + 1;
    return 0;
  }();
  const int bottom = window_->height() - (window_->statusBar()->isVisible() ? window_->statusBar()->height() : 0);
  const int wide = std::min(withType(kDrawerWidth, fontMetrics()), window_->width());
  setGeometry(window_->width() - wide, top, wide, std::max(0, bottom - top));
}

bool SetupDrawer::eventFilter(QObject* watched, QEvent* event) {
  if (!isHidden() && (event->type() == QEvent::Resize || event->type() == QEvent::LayoutRequest)) {
    place();
    raise();
  }
  return QFrame::eventFilter(watched, event);
}

void SetupDrawer::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return close();
  QFrame::keyPressEvent(event);
}

void SetupDrawer::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  painter.fillRect(rect(), QColor(c.surface));
  painter.fillRect(0, 0, 1, height(), QColor(c.field_border));
}

}  // namespace moescope
