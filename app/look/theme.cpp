#include "app/look/theme.h"

#include <QApplication>
#include <QEvent>
#include <QLabel>
#include <QPointer>
#include <QToolTip>
#include <QWidget>
#include <utility>
#include <vector>

#include "app/session/settings.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr char kThemeKey[] = "theme", kDesktopTheme[] = "desktop";

double type_factor = 1;

void applyType() {
  setUsualType(bodyFont());
  const QFont font = scaledFont(bodyFont(), type_factor);
  QApplication::setFont(font);
  QToolTip::setFont(font);
  // Notifies the widgets of the font. Qt does so only while the event loop runs, and a window may grow before that.
  QEvent changed(QEvent::ApplicationFontChange);
  for (QWidget* widget : QApplication::allWidgets()) QApplication::sendEvent(widget, &changed);
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

Theme desktopTheme() {
  static const Theme kDesktop = isDark(QApplication::palette()) ? Theme::dark : Theme::light;
  return kDesktop;
}

std::optional<Theme> chosenTheme() {
  return themeNamed(settings().value(kThemeKey).toString());
}

Theme rememberedTheme() {
  return chosenTheme().value_or(desktopTheme());
}

void applyTheme(Theme theme) {
  desktopTheme();  // read before the first theme is applied
  // A widget with a style sheet would keep its old palette, so the sheets are removed during the change. The owners of
  // sheets that follow the theme set them again.
  std::vector<std::pair<QPointer<QWidget>, QString>> sheets;
  for (QWidget* widget : QApplication::allWidgets())
    if (!widget->styleSheet().isEmpty()) sheets.emplace_back(widget, widget->styleSheet());
  for (const auto& [widget, sheet] : sheets) widget->setStyleSheet({});
  QApplication::setStyle(new WindowStyle);
  applyType();
  const QPalette palette = themePalette(theme);
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);
  for (const auto& [widget, sheet] : sheets)
    if (widget && widget->styleSheet().isEmpty()) widget->setStyleSheet(sheet);
  // Links keep the colour that they had when the text of their label was set.
  for (QWidget* widget : QApplication::allWidgets())
    if (auto* label = qobject_cast<QLabel*>(widget); label && label->text().contains("<a ")) {
      const QString text = label->text();
      label->clear();
      label->setText(text);
    }
}

void setTypeFactor(double factor) {
  type_factor = factor;
  applyType();
}

void setType(QWidget* widget, Type type, bool semibold) {
  followFont(widget, [=] { widget->setFont(typeFont(type, semibold)); });
}

void rememberTheme(std::optional<Theme> theme) {
  settings().setValue(kThemeKey, theme ? themeName(*theme) : kDesktopTheme);
}

QColor warningColor(const QPalette& palette) {
  return QColor(colors(palette).attention);
}

}  // namespace moescope
