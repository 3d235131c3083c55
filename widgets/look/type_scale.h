// Sizes that go with the type: what is so many pixels beside the usual type is longer beside a larger one, as in the
// projector view or on a screen of many dots.
#pragma once

#include <QFontMetrics>
#include <QWidget>
#include <functional>

namespace moescope {

// Set once a theme is applied: the font of which the scale is 1.
void setUsualType(const QFont& font);
// 1 for the usual type and for smaller ones; never less than the enlargement of the application's font.
double typeScale(const QFontMetrics& metrics);
int withType(double pixels, const QFontMetrics& metrics);

// Runs `size` now, and again whenever the widget's type changes: for sizes that are set once.
void followFont(QWidget* widget, std::function<void()> size);

}  // namespace moescope
