// One look of widgets in tests and benchmarks, whatever the desktop's is.
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
