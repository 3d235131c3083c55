#include "app/window/menu_key.h"

#include <QAction>
#include <QApplication>
#include <QKeyEvent>
#include <QWidget>
#include <utility>

namespace moescope {

MenuKey::MenuKey(QWidget* window) : QObject(window), window_(window) {
  auto* action = new QAction("Menu", window);
  action->setShortcut(Qt::Key_F10);
  action->setWhatsThis("Open the menu (also Alt)");
  connect(action, &QAction::triggered, this, &MenuKey::pressed);
  window->addAction(action);
  qApp->installEventFilter(this);
}

// Alt opens the menu only if it was pressed alone: with another key or with the mouse it has another meaning.
bool MenuKey::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::KeyPress:
    case QEvent::KeyRelease: {
      const auto* key = static_cast<QKeyEvent*>(event);
      const auto* widget = qobject_cast<QWidget*>(watched);
      if (!widget || key->isAutoRepeat()) break;
      const bool ours = widget->window() == window_ && key->key() == Qt::Key_Alt;
      if (event->type() == QEvent::KeyPress)
        alt_alone_ = ours;
      else if (std::exchange(alt_alone_, false) && ours)
        emit pressed();
      break;
    }
    case QEvent::ShortcutOverride:  // Alt and a letter may be a shortcut, which no widget gets as a key
      if (static_cast<const QKeyEvent*>(event)->key() != Qt::Key_Alt) alt_alone_ = false;
      break;
    case QEvent::ToolTip: {  // a tool tip of the window must not cover an open menu
      const QWidget* popup = QApplication::activePopupWidget();
      const auto* widget = qobject_cast<QWidget*>(watched);
      if (popup && widget && widget->window() == window_) return true;
      break;
    }
    case QEvent::MouseButtonPress:
    case QEvent::Wheel:
    case QEvent::WindowDeactivate:
      alt_alone_ = false;
      break;
    default:
      break;
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace moescope
