// Applies a theme to the whole application: style, type and palette of widgets/look. Painted panels read the palette,
// so they follow.
#pragma once

#include <QPalette>
#include <QString>
#include <optional>

#include "widgets/look/tokens.h"

namespace moescope {

std::optional<Theme> themeNamed(const QString& name);  // "dark", "light"
const char* themeName(Theme theme);
Theme desktopTheme();
// The last choice of a person; while there is none, or it is "desktop", the desktop's.
Theme rememberedTheme();
bool followsDesktop();

void applyTheme(Theme theme);
void setTypeFactor(double factor);  // of the whole application; 1: the usual type
void rememberTheme(Theme theme);
void rememberDesktopTheme();

// Colour of warnings, legible on the palette's window colour. Never the only sign: the text says it, too.
QColor warningColor(const QPalette& palette);
QColor mutedColor(const QPalette& palette);

}  // namespace moescope
