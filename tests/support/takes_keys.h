// Waits until keys go to a window. While a run is opened a progress bar may have had them, and without a window manager
// nobody gives them back.
#pragma once

#include <QTest>
#include <QWidget>

namespace moescope {

inline bool takesKeys(QWidget* window) {
  window->activateWindow();
  return QTest::qWaitForWindowActive(window);
}

}  // namespace moescope
