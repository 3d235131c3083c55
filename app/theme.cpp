#include "app/theme.h"

#include <QApplication>
#include <QStyleFactory>
#include <QToolTip>

#include "app/settings.h"

namespace moescope {

namespace {

struct Tones {
  QRgb window, base, alternate, button, text, muted, disabled, highlight, highlighted, link, light, mid, dark;
};

constexpr Tones kDark{0xff1e2126, 0xff16181c, 0xff22262c, 0xff2b3038, 0xffe4e7eb, 0xff9aa3ae, 0xff646c77,
                      0xff3d7eb8, 0xffffffff, 0xff6cb6f0, 0xff3d444f, 0xff343a43, 0xff101215};
constexpr Tones kLight{0xfff1f2f4, 0xffffffff, 0xfff6f7f8, 0xffe9ebee, 0xff1d2126, 0xff5b6470, 0xffa3a9b1,
                       0xff2f74b5, 0xffffffff, 0xff1b66b0, 0xffffffff, 0xffc8ccd2, 0xff9aa1aa};

QPalette paletteOf(const Tones& t) {
  QPalette p;
  p.setColor(QPalette::Window, QColor(t.window));
  p.setColor(QPalette::Base, QColor(t.base));
  p.setColor(QPalette::AlternateBase, QColor(t.alternate));
  p.setColor(QPalette::Button, QColor(t.button));
  p.setColor(QPalette::ToolTipBase, QColor(t.alternate));
  for (auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText})
    p.setColor(role, QColor(t.text));
  p.setColor(QPalette::PlaceholderText, QColor(t.muted));
  p.setColor(QPalette::Highlight, QColor(t.highlight));
  p.setColor(QPalette::HighlightedText, QColor(t.highlighted));
  p.setColor(QPalette::Link, QColor(t.link));
  p.setColor(QPalette::LinkVisited, QColor(t.link));
  p.setColor(QPalette::Light, QColor(t.light));
  p.setColor(QPalette::Midlight, QColor(t.button));
  p.setColor(QPalette::Mid, QColor(t.mid));
  p.setColor(QPalette::Dark, QColor(t.dark));
  p.setColor(QPalette::Shadow, QColor(t.dark).darker(140));
  for (auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText})
    p.setColor(QPalette::Disabled, role, QColor(t.disabled));
  p.setColor(QPalette::Disabled, QPalette::Highlight, QColor(t.mid));
  return p;
}

bool isDark(const QPalette& palette) {
  return palette.window().color().lightness() < 128;
}

}  // namespace

std::optional<Theme> themeNamed(const QString& name) {
  if (name == "dark") return Theme::dark;
  if (name == "light") return Theme::light;
  return std::nullopt;
}

const char* themeName(Theme theme) {
  return theme == Theme::dark ? "dark" : "light";
}

Theme rememberedTheme() {
  if (auto theme = themeNamed(settings().value("theme").toString())) return *theme;
  return isDark(QApplication::palette()) ? Theme::dark : Theme::light;
}

QPalette themePalette(Theme theme) {
  return paletteOf(theme == Theme::dark ? kDark : kLight);
}

void applyTheme(Theme theme) {
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  const QPalette palette = themePalette(theme);
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);
}

void rememberTheme(Theme theme) {
  settings().setValue("theme", themeName(theme));
}

QColor warningColor(const QPalette& palette) {
  return isDark(palette) ? QColor(0xffffb454) : QColor(0xff9a4d00);
}

QColor mutedColor(const QPalette& palette) {
  return palette.placeholderText().color();
}

}  // namespace moescope
