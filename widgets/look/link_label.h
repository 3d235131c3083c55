// A label that is one link. Tab gives the focus to the link at once, so that it is seen and Enter follows it; in a
// QLabel this takes a second Tab.
#pragma once

#include <QFocusEvent>
#include <QLabel>

namespace moescope {

class LinkLabel : public QLabel {
 public:
  explicit LinkLabel(const QString& text = {}, QWidget* parent = nullptr) : QLabel(text, parent) {
    setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  }

 protected:
  void focusInEvent(QFocusEvent* event) override {
    QLabel::focusInEvent(event);
    if (event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason)
      focusNextPrevChild(event->reason() == Qt::TabFocusReason);
  }
};

}  // namespace moescope
