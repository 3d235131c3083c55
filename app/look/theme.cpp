#include "app/look/theme.h"

#include <QAbstractScrollArea>
#include <QApplication>
#include <QPainter>
#include <QPointer>
#include <QProxyStyle>
#include <QStyleOption>
#include <QToolTip>
#include <QWidget>
#include <utility>
#include <vector>

#include "app/session/settings.h"

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

bool hasLightText(const QPalette& palette) {
  return palette.window().color().lightness() < 128;
}

// Fusion, whose pressed buttons hardly differ from others on a dark background.
class Style : public QProxyStyle {
 public:
  Style() : QProxyStyle(QStringLiteral("Fusion")) {}

  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override {
    const bool button = element == PE_PanelButtonCommand || element == PE_PanelButtonTool;
    const auto* as_button = button ? qstyleoption_cast<const QStyleOptionButton*>(option) : nullptr;
    const bool heading = widget && widget->property(kHeadingProperty).toBool();
    if (!button || heading || !(option->state & State_On))
      return QProxyStyle::drawPrimitive(element, option, painter, widget);
    const QPalette colors = QApplication::palette();
    const QColor ground = mixed(colors.button().color(), colors.highlight().color(), 0.45);
    if (as_button) {
      QStyleOptionButton on(*as_button);
      on.palette.setColor(QPalette::Button, ground);
      return QProxyStyle::drawPrimitive(element, &on, painter, widget);
    }
    QStyleOption on(*option);
    on.palette.setColor(QPalette::Button, ground);
    QProxyStyle::drawPrimitive(element, &on, painter, widget);
  }

  // Lists and tables show the focus at their current cell, and where there is none at their frame.
  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override {
    QProxyStyle::drawControl(element, option, painter, widget);
    constexpr State kByKeyboard = State_HasFocus | State_KeyboardFocusChange;
    if (element != CE_ShapedFrame || !qobject_cast<const QAbstractScrollArea*>(widget)) return;
    if ((option->state & kByKeyboard) != kByKeyboard) return;
    painter->setPen(option->palette.highlight().color());
    painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
  }

 private:
  static QColor mixed(const QColor& a, const QColor& b, float share) {
    const auto between = [share](float from, float to) { return from + (to - from) * share; };
    return QColor::fromRgbF(between(a.redF(), b.redF()), between(a.greenF(), b.greenF()),
                            between(a.blueF(), b.blueF()));
  }
};

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
  return hasLightText(QApplication::palette()) ? Theme::dark : Theme::light;
}

QPalette themePalette(Theme theme) {
  return paletteOf(theme == Theme::dark ? kDark : kLight);
}

void applyTheme(Theme theme) {
  // What has a style sheet would keep its palette of before: the sheets come back after the change, those that do not
  // depend on it.
  std::vector<std::pair<QPointer<QWidget>, QString>> sheets;
  for (QWidget* widget : QApplication::allWidgets())
    if (!widget->styleSheet().isEmpty()) sheets.emplace_back(widget, widget->styleSheet());
  for (const auto& [widget, sheet] : sheets) widget->setStyleSheet({});
  QApplication::setStyle(new Style);
  const QPalette palette = themePalette(theme);
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);
  for (const auto& [widget, sheet] : sheets)
    if (widget && widget->styleSheet().isEmpty()) widget->setStyleSheet(sheet);
}

void rememberTheme(Theme theme) {
  settings().setValue("theme", themeName(theme));
}

QColor warningColor(const QPalette& palette) {
  return hasLightText(palette) ? QColor(0xffffb454) : QColor(0xff9a4d00);
}

QColor mutedColor(const QPalette& palette) {
  return palette.placeholderText().color();
}

}  // namespace moescope
