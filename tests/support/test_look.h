// Sets a style of widgets for tests and benchmarks that does not depend on the desktop.
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
