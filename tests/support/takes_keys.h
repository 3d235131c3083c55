// Gives a window the keyboard focus and waits until it has it. While a run is opened, a progress dialog may have the
// focus; without a window manager the focus does not return to the window.
#pragma once

#include <QTest>
#include <QWidget>

namespace moescope {

inline bool takesKeys(QWidget* window) {
  window->activateWindow();
  return QTest::qWaitForWindowActive(window);
}

}  // namespace moescope
