// Dark and light: Qt's Fusion style with palettes of our own. Painted panels read the palette, so they follow.
#pragma once

#include <QPalette>
#include <QString>
#include <optional>

namespace moescope {

enum class Theme { dark, light };

std::optional<Theme> themeNamed(const QString& name);
const char* themeName(Theme theme);
Theme rememberedTheme();  // of the last window; at first the desktop's own

// Of buttons that fold something away: their arrow tells, so that they need not stand out when they are pressed.
inline constexpr char kHeadingProperty[] = "heading";

void applyTheme(Theme theme);  // to the whole application
void rememberTheme(Theme theme);
QPalette themePalette(Theme theme);

// Text that warns, legible on the palette's window colour (never the only sign: it goes with words).
QColor warningColor(const QPalette& palette);
QColor mutedColor(const QPalette& palette);

}  // namespace moescope
