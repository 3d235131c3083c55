// Icons of buttons, drawn in the palette's text colour so that they suit every theme.
#pragma once

#include <QIcon>
#include <QPalette>

namespace moescope {

enum class Picture { play, pause, step, reset, settings };
QIcon picture(Picture which, const QPalette& palette);

QIcon applicationIcon();  // assets/moescope.svg

QPixmap chipPixmap(const QString& letter, const QColor& color, int height, qreal ratio);  // a run's coloured letter

}  // namespace moescope
