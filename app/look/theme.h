// Dark and light theme: Qt's Fusion style with our own palettes. Painted panels read the palette, so they follow.
#pragma once

#include <QPalette>
#include <QString>
#include <optional>

namespace moescope {

enum class Theme { dark, light };

std::optional<Theme> themeNamed(const QString& name);
const char* themeName(Theme theme);
Theme rememberedTheme();  // of the last session; at first the desktop's

// For buttons that fold something away: the arrow shows their state, so that they need no pressed look.
inline constexpr char kHeadingProperty[] = "heading";

void applyTheme(Theme theme);  // to the whole application
void rememberTheme(Theme theme);
QPalette themePalette(Theme theme);

// Colour of warnings, legible on the palette's window colour. Never the only sign: the text says it, too.
QColor warningColor(const QPalette& palette);
QColor mutedColor(const QPalette& palette);

}  // namespace moescope
