// One look of widgets for tests and benchmarks, independent of the desktop's.
#pragma once

#include <QApplication>
#include <QFont>
#include <QStyleFactory>

namespace moescope {

inline void useTestLook() {
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  QApplication::setFont(QFont(QStringLiteral("DejaVu Sans"), 9));
}

}  // namespace moescope
