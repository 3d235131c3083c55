// Whole numbers as the window writes them in sentences.
#pragma once

#include <QLocale>

namespace moescope {

// "1,284".
inline QString grouped(qlonglong value) {
  return QLocale(QLocale::English).toString(value);
}

}  // namespace moescope
