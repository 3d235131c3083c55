// Waits until the layout of a window has settled.
#pragma once

#include <QElapsedTimer>
#include <QHash>
#include <QTest>
#include <QWidget>
#include <utility>

#include "tests/support/screen_test.h"

namespace moescope {

// Returns true once no visible part of the window has moved or changed its size for `quiet_ms`; false after kWaitMs.
inline bool isLaidOut(QWidget* window, int quiet_ms = 50) {
  QHash<const QWidget*, QRect> places;
  QElapsedTimer quiet;
  quiet.start();
  return QTest::qWaitFor(
      [&] {
        QHash<const QWidget*, QRect> present{{window, window->geometry()}};
        for (const QWidget* part : window->findChildren<QWidget*>())
          if (part->isVisible()) present[part] = part->geometry();
        if (present != std::exchange(places, present)) quiet.restart();
        return quiet.elapsed() >= quiet_ms;
      },
      kWaitMs);
}

}  // namespace moescope
