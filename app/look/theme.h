// Applies a theme to the whole application: style, fonts and palette of widgets/look. Painted panels read the palette.
#pragma once

#include <QPalette>
#include <QString>
#include <optional>

#include "widgets/look/tokens.h"

class QWidget;

namespace moescope {

std::optional<Theme> themeNamed(const QString& name);  // "dark", "light"
const char* themeName(Theme theme);
Theme desktopTheme();
std::optional<Theme> chosenTheme();  // the theme that the user chose last; nullopt: the desktop's
// Without a choice the desktop's theme.
Theme rememberedTheme();

void applyTheme(Theme theme);
void setTypeFactor(double factor);  // scales all fonts of the application; 1: the usual size
// Gives the widget a font of this size, which follows the application's font.
void setType(QWidget* widget, Type type, bool semibold = false);
void rememberTheme(std::optional<Theme> theme);  // nullopt: the desktop's theme

// Color of warnings, legible on the palette's window color. The text of a warning says that it is one.
QColor warningColor(const QPalette& palette);

}  // namespace moescope
