// Panels on the screen of a test, and mouse moves over them.
#pragma once

#include <QApplication>
#include <QMouseEvent>
#include <QTest>
#include <QWidget>

namespace moescope {

inline void show(QWidget* widget, QSize size = {600, 320}) {
  widget->resize(size);
  widget->show();
  QVERIFY(QTest::qWaitForWindowExposed(widget));
  QApplication::processEvents();
}

// Sends the event straight to the widget, because QTest::mouseMove does nothing if the cursor is already there, and
// carries no buttons.
inline void move(QWidget* widget, QPoint at) {
  QMouseEvent event(QEvent::MouseMove, at, widget->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(widget, &event);
}

// Lines of a table that a panel saves, its header first.
inline QStringList lines(const QString& csv) {
  return csv.split(QLatin1Char('\n'), Qt::SkipEmptyParts);
}

}  // namespace moescope
