// Where the title of a mark on a time axis is written.
#pragma once

#include <QFontMetrics>
#include <QString>

namespace moescope {

struct MarkTitle {
  QString text;    // empty: no room
  int left_x = 0;  // x of its first pixel
};

// Returns the title of a mark at `x`, which keeps `gap` pixels from it: the whole title at its right, up to
// `right_limit`; else the whole title at its left, from `left_limit`; else as many words as fit at its right.
MarkTitle titleBeside(int x, int gap, int left_limit, int right_limit, const QString& title,
                      const QFontMetrics& metrics);

}  // namespace moescope
