// Panels on the screen of a test, and the mouse over them.
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

// Sent straight to the widget: QTest::mouseMove does nothing where the cursor already is, and carries no buttons.
inline void move(QWidget* widget, QPoint at) {
  QMouseEvent event(QEvent::MouseMove, at, widget->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(widget, &event);
}

// Of a table that a panel saves, its header first.
inline QStringList lines(const QString& csv) {
  return csv.split(QLatin1Char('\n'), Qt::SkipEmptyParts);
}

}  // namespace moescope
