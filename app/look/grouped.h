// Whole numbers in the sentences of the window.
#pragma once

#include <QLocale>

namespace moescope {

// Returns for example "1,284".
inline QString groupedText(qlonglong value) {
  return QLocale(QLocale::English).toString(value);
}

}  // namespace moescope
