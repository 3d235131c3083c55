// The look of standard controls: Qt's Fusion without bevels, drawn from tokens.h.
#pragma once

#include <QProxyStyle>

namespace moescope {

// Properties of widgets that the style reads.
inline constexpr char kFlatProperty[] = "flat";               // QComboBox: text and a chevron without a frame
inline constexpr char kPrimaryProperty[] = "primary";         // QPushButton: the most likely choice
inline constexpr char kSwitchProperty[] = "switch";           // QToolButton: one of several exclusive choices
inline constexpr char kChipProperty[] = "chip";               // QToolButton: an open run
inline constexpr char kBarTabsProperty[] = "bar_tabs";        // QTabBar: as high as the bar
inline constexpr char kNoneChosenProperty[] = "none_chosen";  // QTabBar: no tab is drawn as the current one

class WindowStyle : public QProxyStyle {
 public:
  WindowStyle() : QProxyStyle(QStringLiteral("Fusion")) {}

  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override;
  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override;
  void drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                          const QWidget* widget) const override;
  int pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const override;
  int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                QStyleHintReturn* data) const override;
  QSize sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                         const QWidget* widget) const override;
  QRect subControlRect(ComplexControl control, const QStyleOptionComplex* option, SubControl part,
                       const QWidget* widget) const override;
};

// Draws a rounded rectangle whose border is inside `rect`.
void drawRounded(QPainter& painter, const QRect& rect, int radius, const QColor& fill, const QColor& border,
                 int width = 1);

// True if the focus is to be drawn: only after the user has moved it with the keyboard.
bool showsFocus(const QWidget& widget);

// Draws a chevron that points down, centred in `rect`.
void drawChevron(QPainter& painter, const QRect& rect, const QColor& color);

}  // namespace moescope
