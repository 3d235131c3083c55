#include "app/look/keep_keys.h"

#include <QAbstractButton>
#include <QKeyEvent>

namespace moescope {

namespace {

class KeyKeeper : public QObject {
 public:
  using QObject::QObject;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return false;
    auto* key = static_cast<QKeyEvent*>(event);
    if (key->modifiers() & ~Qt::KeypadModifier) return false;
    const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    if (event->type() == QEvent::KeyPress) {
      auto* button = qobject_cast<QAbstractButton*>(watched);
      if (!enter || !button) return false;
      button->click();
      return true;
    }
    if (enter || key->key() == Qt::Key_Space || (key->key() >= Qt::Key_Left && key->key() <= Qt::Key_Down))
      event->accept();
    return false;
  }
};

}  // namespace

void keepKeys(QWidget* button) {
  button->installEventFilter(new KeyKeeper(button));
}

}  // namespace moescope
