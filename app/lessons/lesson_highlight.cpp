#include "app/lessons/lesson_highlight.h"

#include <QEvent>
#include <QPainter>

namespace moescope {

LessonHighlight::LessonHighlight(QWidget* over) : QWidget(over) {
  setAttribute(Qt::WA_TransparentForMouseEvents);
  setObjectName("lesson_highlight");
  over->installEventFilter(this);
  setGeometry(over->rect());
  show();
  raise();
}

void LessonHighlight::paintEvent(QPaintEvent*) {
  constexpr int kWidth = 3;
  QPainter painter(this);
  painter.setPen(QPen(palette().link().color(), kWidth));
  painter.drawRect(rect().adjusted(1, 1, -kWidth + 1, -kWidth + 1));
}

bool LessonHighlight::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize) setGeometry(static_cast<QWidget*>(watched)->rect());
  if (event->type() == QEvent::ChildAdded) raise();
  return QWidget::eventFilter(watched, event);
}

}  // namespace moescope
