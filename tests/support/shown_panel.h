// Shows panels in a test, moves the mouse over them and turns its wheel.
#pragma once

#include <QApplication>
#include <QMouseEvent>
#include <QTest>
#include <QWheelEvent>
#include <QWidget>

namespace moescope {

inline void show(QWidget* widget, QSize size = {600, 320}) {
  widget->resize(size);
  widget->show();
  QVERIFY(QTest::qWaitForWindowExposed(widget));
  QApplication::processEvents();
}

// Moves the mouse to `at`, without a pressed button. Sends the event directly to the widget, because QTest::mouseMove()
// sends none if the cursor is already there.
inline void move(QWidget* widget, QPoint at) {
  QMouseEvent event(QEvent::MouseMove, at, widget->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(widget, &event);
}

// Turns the wheel of the mouse at `at`; positive notches turn it away from the user.
inline void wheel(QWidget* widget, QPoint at, int notches) {
  QWheelEvent event(at, widget->mapToGlobal(at), {}, {0, 120 * notches}, Qt::NoButton, Qt::NoModifier,
                    Qt::NoScrollPhase, false);
  QApplication::sendEvent(widget, &event);
}

// Returns the lines of a panel's table in CSV, the header first.
inline QStringList lines(const QString& csv) {
  return csv.split(QLatin1Char('\n'), Qt::SkipEmptyParts);
}

}  // namespace moescope
