// Where the title of a mark on a time axis is written.
#pragma once

#include <QFontMetrics>
#include <QString>

namespace moescope {

struct MarkTitle {
  QString text;  // empty: no room
  int left = 0;  // x of its first pixel
};

// Returns the title of a mark at `x`, which keeps `gap` pixels from it: the whole title at its right, up to `right`;
// else the whole title at its left, from `left`; else as many words as fit at its right.
MarkTitle titleBeside(int x, int gap, int left, int right, const QString& title, const QFontMetrics& metrics);

}  // namespace moescope
