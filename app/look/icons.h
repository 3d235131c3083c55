// Icons of buttons, drawn in the palette's text color so that they suit every theme.
#pragma once

#include <QIcon>
#include <QPalette>
#include <functional>

class QWidget;

namespace moescope {

enum class Picture { menu, play, pause, step, reset, live, settings, plus, close, search, folder };
QIcon picture(Picture which, const QPalette& palette);
// Returns the icon in one color, `size` logical pixels wide and high.
QPixmap picturePixmap(Picture which, const QColor& color, int size = 16);

// Calls `draw` now and whenever the widget's palette changes, for icons that are drawn once.
void followPalette(QWidget* widget, std::function<void()> draw);

QIcon applicationIcon();  // assets/moescope.svg

// Returns a run's letter on a square of its color.
QPixmap chipPixmap(const QString& letter, const QColor& color, int height, qreal ratio);

}  // namespace moescope
