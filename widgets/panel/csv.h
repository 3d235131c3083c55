// Lines of the tables that panels save.
#pragma once

#include <QString>
#include <QStringList>
#include <concepts>

namespace moescope {

// Returns a number with `count` significant digits. csvRow() writes six.
inline QString digits(double value, int count) {
  return QString::number(value, 'g', count);
}

// Returns a line of cells separated by commas. Texts are not quoted.
template <class... Cells>
QString csvRow(const Cells&... cells) {
  const auto text = [](const auto& cell) {
    if constexpr (std::convertible_to<decltype(cell), QString>)
      return QString(cell);
    else
      return QString::number(cell);
  };
  return QStringList{text(cells)...}.join(QLatin1Char(',')) + QLatin1Char('\n');
}

}  // namespace moescope
