// Sizes that go with the type: what is so many pixels beside the usual type is longer beside a larger one, as in the
// projector view or on a screen of many dots.
#pragma once

#include <QFontMetrics>
#include <QWidget>
#include <functional>

namespace moescope {

double typeScale(const QFontMetrics& metrics);  // 1 for the usual type and for smaller ones
int withType(double pixels, const QFontMetrics& metrics);

// Runs `size` now, and again whenever the widget's type changes: for sizes that are set once.
void followFont(QWidget* widget, std::function<void()> size);

}  // namespace moescope
