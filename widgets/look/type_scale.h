// Sizes that scale with the font. A size is given in pixels for the usual font; it grows with a larger font, as in the
// projector view or on a screen of high resolution.
#pragma once

#include <QFontMetrics>
#include <QWidget>
#include <functional>

namespace moescope {

// Sets the font whose scale is 1. Called when a theme is applied.
void setUsualType(const QFont& font);
// Returns the scale of a font: 1 for the usual font and smaller fonts, and at least the enlargement of the
// application's font.
double typeScale(const QFontMetrics& metrics);
int withType(double pixels, const QFontMetrics& metrics);

// Calls `size` now and whenever the widget's font changes, for sizes that are set once.
void followFont(QWidget* widget, std::function<void()> size);

}  // namespace moescope
