// Waits until a window has the keyboard focus. While a run is opened a progress bar may have it, and without a window
// manager the focus does not return by itself.
#pragma once

#include <QTest>
#include <QWidget>

namespace moescope {

inline bool takesKeys(QWidget* window) {
  window->activateWindow();
  return QTest::qWaitForWindowActive(window);
}

}  // namespace moescope
