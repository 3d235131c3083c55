#include "widgets/look/style.h"

#include <QAbstractScrollArea>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QPainter>
#include <QPlainTextEdit>
#include <QStyleOption>
#include <QToolButton>

#include "core/numerics/index.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kHeaderInset = 5;  // aligns headers with the cells of RowDelegate

bool has(const QWidget* widget, const char* property) {
  return widget && widget->property(property).toBool();
}

bool focusedByKeyboard(const QStyleOption& option) {
  return (option.state & QStyle::State_HasFocus) && (option.state & QStyle::State_KeyboardFocusChange);
}

QColor fieldBorder(const QStyleOption& option, const Colors& c) {
  if (!(option.state & QStyle::State_Enabled)) return c.hairline;
  return option.state & QStyle::State_HasFocus ? c.accent : c.field_border;
}

void drawField(QPainter& painter, const QStyleOption& option, const Colors& c) {
  const bool enabled = option.state & QStyle::State_Enabled;
  const bool focused = enabled && (option.state & QStyle::State_HasFocus);
  drawRounded(painter, option.rect, kRadiusControl, QColor(enabled ? c.surface : c.sunken), fieldBorder(option, c),
              focused ? kFocusLine : 1);
}

void drawPushButton(QPainter& painter, const QStyleOption& option, const Colors& c, bool primary) {
  const bool enabled = option.state & QStyle::State_Enabled,
             on = option.state & (QStyle::State_Sunken | QStyle::State_On);
  const bool hovered = enabled && (option.state & QStyle::State_MouseOver);
  QColor fill(hovered ? c.sunken : c.surface), border(enabled ? c.field_border : c.hairline);
  if (on) fill = c.accent_soft;
  if (primary && enabled) {
    fill = c.accent;
    if (on || hovered) fill = isDark(option.palette) ? fill.lighter(108) : fill.darker(112);
    border = fill;
  }
  drawRounded(painter, option.rect, kRadiusControl, fill, border);
  if (focusedByKeyboard(option))
    drawRounded(painter, option.rect, kRadiusControl, Qt::transparent, QColor(primary ? c.ink : c.accent), kFocusLine);
}

// Draws a tool button, flat unless it is hovered, pressed or checked.
void drawToolButton(QPainter& painter, const QStyleOption& option, const Colors& c, const QWidget* widget) {
  const bool enabled = option.state & QStyle::State_Enabled;
  const bool exclusive = has(widget, kSwitchProperty);
  const bool on = option.state & (QStyle::State_On | QStyle::State_Sunken);
  const bool hovered = enabled && (option.state & QStyle::State_MouseOver);
  if (on && exclusive)
    drawRounded(painter, option.rect, kRadiusControl, QColor(isDark(option.palette) ? c.accent_soft : c.surface),
                QColor(c.hairline));
  else if (on)
    drawRounded(painter, option.rect, kRadiusControl,
                QColor(has(widget, kChipProperty) ? c.neutral_soft : c.accent_soft), Qt::transparent);
  else if (hovered)
    drawRounded(painter, option.rect, kRadiusControl, QColor(c.neutral_soft), Qt::transparent);
  if (focusedByKeyboard(option))
    drawRounded(painter, option.rect, kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
}

bool hasPictureAndWords(const QStyleOptionToolButton& button) {
  return button.toolButtonStyle == Qt::ToolButtonTextBesideIcon && !button.icon.isNull() && !button.text.isEmpty() &&
         !(button.features & QStyleOptionToolButton::Arrow);
}

// Draws icon and text; those of a checked button are in the accent colour.
void drawPictureAndWords(QPainter& painter, const QStyleOptionToolButton& button, const Colors& c, bool accents) {
  const bool enabled = button.state & QStyle::State_Enabled, on = button.state & QStyle::State_On;
  const QRect picture(button.rect.left() + kSpace8, button.rect.center().y() + 1 - button.iconSize.height() / 2,
                      button.iconSize.width(), button.iconSize.height());
  button.icon.paint(&painter, picture, Qt::AlignCenter, enabled ? QIcon::Normal : QIcon::Disabled,
                    on ? QIcon::On : QIcon::Off);
  painter.setFont(button.font);
  const QRgb ink = on && accents ? c.accent : c.ink;
  painter.setPen(QColor(enabled ? ink : c.disabled));
  painter.drawText(button.rect.adjusted(2 * kSpace8 + button.iconSize.width(), 0, 0, 0),
                   Qt::AlignLeft | Qt::AlignVCenter | Qt::TextHideMnemonic, button.text);
}

void drawCheckBox(QPainter& painter, const QStyleOption& option, const Colors& c) {
  const bool enabled = option.state & QStyle::State_Enabled;
  const bool on = option.state & QStyle::State_On, partly = option.state & QStyle::State_NoChange;
  QColor fill(c.surface), border(enabled ? c.field_border : c.hairline);
  if (on || partly) fill = border = enabled ? c.accent : c.disabled;
  drawRounded(painter, option.rect, kRadiusControl - 1, fill, border);
  const QRectF box = QRectF(option.rect);
  painter.setPen(QPen(QColor(c.on_accent), 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.setRenderHint(QPainter::Antialiasing);
  if (on)
    painter.drawPolyline(QPolygonF({{box.left() + box.width() * 0.25, box.top() + box.height() * 0.52},
                                    {box.left() + box.width() * 0.43, box.top() + box.height() * 0.7},
                                    {box.left() + box.width() * 0.76, box.top() + box.height() * 0.32}}));
  else if (partly)
    painter.drawLine(QPointF(box.left() + box.width() * 0.28, box.center().y()),
                     QPointF(box.left() + box.width() * 0.72, box.center().y()));
}

void drawRadio(QPainter& painter, const QStyleOption& option, const Colors& c) {
  const bool enabled = option.state & QStyle::State_Enabled, on = option.state & QStyle::State_On;
  painter.setRenderHint(QPainter::Antialiasing);
  const QRgb border = enabled ? c.field_border : c.hairline;
  painter.setPen(QPen(QColor(on ? c.accent : border), on ? 2 : 1));
  painter.setBrush(QColor(c.surface));
  const QRectF ring = QRectF(option.rect).adjusted(1, 1, -1, -1);
  painter.drawEllipse(ring);
  if (!on) return;
  painter.setPen(Qt::NoPen);
  painter.setBrush(QColor(enabled ? c.accent : c.disabled));
  painter.drawEllipse(ring.center(), ring.width() * 0.25, ring.width() * 0.25);
}

// Draws a scroll bar: a slim handle without a groove or arrows.
void drawScrollBar(QPainter& painter, const QStyleOptionSlider& option, const QRect& handle, const Colors& c) {
  const bool hovered = option.state & QStyle::State_MouseOver;
  const bool dragged = option.activeSubControls & QStyle::SC_ScrollBarSlider && option.state & QStyle::State_Sunken;
  const int inset = option.orientation == Qt::Vertical ? handle.width() / 5 : handle.height() / 5;
  const QRect bar = handle.adjusted(inset, inset, -inset, -inset);
  const int radius = std::min(bar.width(), bar.height()) / 2;
  drawRounded(painter, bar, radius, QColor(hovered || dragged ? c.field_border : c.plain_bar), Qt::transparent);
}

void drawTab(QPainter& painter, const QStyleOptionTab& tab, const Colors& c, const QFont& font) {
  const bool selected = tab.state & QStyle::State_Selected, enabled = tab.state & QStyle::State_Enabled;
  if (tab.state & QStyle::State_MouseOver && !selected)
    drawRounded(painter, tab.rect.adjusted(2, 4, -2, -4), kRadiusControl, QColor(c.neutral_soft), Qt::transparent);
  painter.setFont(selected ? semibold(font) : font);
  const QRgb ink = selected ? c.ink : c.ink2;
  painter.setPen(QColor(enabled ? ink : c.disabled));
  painter.drawText(tab.rect, Qt::AlignCenter | Qt::TextHideMnemonic, tab.text);
  if (selected) {
    const int line = withType(kTabUnderline, QFontMetrics(font));
    painter.fillRect(tab.rect.left() + kSpace8, tab.rect.bottom() + 1 - line, tab.rect.width() - 2 * kSpace8, line,
                     QColor(c.accent));
  }
  if (focusedByKeyboard(tab))
    drawRounded(painter, tab.rect.adjusted(2, 4, -2, -5), kRadiusControl, Qt::transparent, QColor(c.accent),
                kFocusLine);
}

void drawDockTitle(QPainter& painter, const QStyleOptionDockWidget& dock, const Colors& c) {
  const int buttons = (dock.closable + dock.floatable) * kSpace24;
  const QRect place = dock.rect.adjusted(kSpace12, 0, -kSpace8 - buttons, 0);
  const QFont font = semibold(painter.font());
  painter.setFont(font);
  painter.setPen(QColor(c.ink));
  painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, elidedWords(dock.title, QFontMetrics(font), place.width()));
}

void drawHeaderSection(QPainter& painter, const QStyleOption& option, const Colors& c) {
  painter.fillRect(option.rect, QColor(c.surface));
  painter.fillRect(option.rect.left(), option.rect.bottom(), option.rect.width(), 1, QColor(c.hairline));
}

void drawProgress(QPainter& painter, const QStyleOptionProgressBar& option, const Colors& c) {
  constexpr int kThick = 6;
  const QRect groove(option.rect.left(), option.rect.center().y() - kThick / 2, option.rect.width(), kThick);
  drawRounded(painter, groove, kThick / 2, QColor(c.neutral_soft), Qt::transparent);
  const double range = std::max(1, option.maximum - option.minimum);
  const bool known = option.maximum > option.minimum;
  const double share = known ? (option.progress - option.minimum) / range : 0.3;
  QRect done = groove;
  done.setWidth(static_cast<int>(groove.width() * share));
  if (done.width() > 0) drawRounded(painter, done, kThick / 2, QColor(c.accent), Qt::transparent);
}

}  // namespace

void drawRounded(QPainter& painter, const QRect& rect, int radius, const QColor& fill, const QColor& border,
                 int width) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(fill);
  painter.setPen(border.alpha() == 0 ? QPen(Qt::NoPen) : QPen(border, width));
  const double inset = border.alpha() == 0 ? 0 : width / 2.0;
  painter.drawRoundedRect(QRectF(rect).adjusted(inset, inset, -inset, -inset), radius, radius);
  painter.restore();
}

bool showsFocus(const QWidget& widget) {
  return widget.hasFocus() && widget.window()->testAttribute(Qt::WA_KeyboardFocusChange);
}

void drawChevron(QPainter& painter, const QRect& rect, const QColor& color) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  const double half_size = 3.5 * typeScale(painter.fontMetrics());
  const QPointF middle = QRectF(rect).center();
  painter.drawPolyline(QPolygonF({{middle.x() - half_size, middle.y() - half_size / 2},
                                  {middle.x(), middle.y() + half_size / 2},
                                  {middle.x() + half_size, middle.y() - half_size / 2}}));
  painter.restore();
}

void WindowStyle::drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                                const QWidget* widget) const {
  const Colors& c = colors(option->palette);
  switch (element) {
    case PE_PanelButtonCommand:
      return drawPushButton(*painter, *option, c, has(widget, kPrimaryProperty));
    case PE_PanelButtonTool:
      return drawToolButton(*painter, *option, c, widget);
    case PE_PanelLineEdit:
      if (const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option); frame && frame->lineWidth == 0) {
        painter->fillRect(option->rect,
                          option->state & State_Enabled ? option->palette.color(QPalette::Base) : QColor(c.sunken));
        return;
      }
      return drawField(*painter, *option, c);
    case PE_FrameLineEdit:
      return;  // PE_PanelLineEdit draws it
    case PE_IndicatorCheckBox:
      return drawCheckBox(*painter, *option, c);
    case PE_IndicatorRadioButton:
      return drawRadio(*painter, *option, c);
    case PE_FrameFocusRect:
      return drawRounded(*painter, option->rect, kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
    case PE_IndicatorArrowDown:
      if (const auto* button = qobject_cast<const QToolButton*>(widget);
          button && button->popupMode() == QToolButton::InstantPopup)
        return;  // no arrow: icon or text show that the button opens a menu
      return drawChevron(*painter, option->rect, QColor(c.ink2));
    case PE_FrameMenu:
      return drawRounded(*painter, option->rect, 0, Qt::transparent, QColor(c.field_border));
    case PE_Frame:
      if (const auto* text = qobject_cast<const QPlainTextEdit*>(widget); text && !text->isReadOnly())
        return drawRounded(*painter, option->rect, kRadiusControl, Qt::transparent, QColor(c.field_border));
      [[fallthrough]];
    case PE_FrameGroupBox:
      return drawRounded(*painter, option->rect, kRadiusControl, Qt::transparent, QColor(c.hairline));
    case PE_PanelMenu:
      painter->fillRect(option->rect, QColor(c.popup));
      return;
    case PE_FrameStatusBarItem:
    case PE_PanelStatusBar:
    case PE_FrameTabBarBase:
    case PE_PanelToolBar:
    case PE_IndicatorToolBarSeparator:
    case PE_IndicatorDockWidgetResizeHandle:
      return;
    default:
      return QProxyStyle::drawPrimitive(element, option, painter, widget);
  }
}

void WindowStyle::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                              const QWidget* widget) const {
  const Colors& c = colors(option->palette);
  switch (element) {
    case CE_TabBarTabShape:
    case CE_ToolBar:
    case CE_MenuBarEmptyArea:
    case CE_Splitter:
    case CE_ProgressBarGroove:
      return;
    case CE_TabBarTabLabel:
      if (const auto* tab = qstyleoption_cast<const QStyleOptionTab*>(option)) {
        QStyleOptionTab shown(*tab);
        shown.state.setFlag(State_Selected, (tab->state & State_Selected) && !has(widget, kNoneChosenProperty));
        return drawTab(*painter, shown, c, widget ? widget->font() : painter->font());
      }
      break;
    case CE_HeaderLabel:
      if (const auto* header = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
        QStyleOptionHeader label = *header;
        label.rect.adjust(kHeaderInset, 0, -kHeaderInset, 0);
        return QProxyStyle::drawControl(element, &label, painter, widget);
      }
      break;
    case CE_HeaderSection:
    case CE_HeaderEmptyArea:
      return drawHeaderSection(*painter, *option, c);
    case CE_DockWidgetTitle:
      if (const auto* dock = qstyleoption_cast<const QStyleOptionDockWidget*>(option))
        return drawDockTitle(*painter, *dock, c);
      break;
    case CE_ProgressBarContents:
      if (const auto* bar = qstyleoption_cast<const QStyleOptionProgressBar*>(option))
        return drawProgress(*painter, *bar, c);
      break;
    case CE_PushButtonLabel:
      if (const auto* button = qstyleoption_cast<const QStyleOptionButton*>(option);
          button && has(widget, kPrimaryProperty) && (option->state & State_Enabled)) {
        QStyleOptionButton white(*button);
        white.palette.setColor(QPalette::ButtonText, QColor(c.on_accent));
        painter->setFont(semibold(painter->font()));
        return QProxyStyle::drawControl(element, &white, painter, widget);
      }
      break;
    case CE_ComboBoxLabel:  // text beside the chevron
      if (const auto* box = qstyleoption_cast<const QStyleOptionComboBox*>(option); box && has(widget, kFlatProperty))
        return drawItemText(painter, subControlRect(CC_ComboBox, box, SC_ComboBoxEditField, widget),
                            visualAlignment(box->direction, Qt::AlignRight | Qt::AlignVCenter), box->palette,
                            box->state & State_Enabled, box->currentText, QPalette::ButtonText);
      break;
    case CE_ToolButtonLabel:
      if (const auto* button = qstyleoption_cast<const QStyleOptionToolButton*>(option);
          button && hasPictureAndWords(*button))
        return drawPictureAndWords(*painter, *button, c, !has(widget, kChipProperty));
      break;
    default:
      break;
  }
  QProxyStyle::drawControl(element, option, painter, widget);
  // Lists and tables show the focus at their current cell, or at their frame if there is none.
  const bool frame = element == CE_ShapedFrame && qobject_cast<const QAbstractScrollArea*>(widget);
  if (frame && focusedByKeyboard(*option))
    drawRounded(*painter, option->rect, kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
}

void WindowStyle::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                                     const QWidget* widget) const {
  const Colors& c = colors(option->palette);
  if (control == CC_ComboBox &&
      !(option->subControls & SC_ComboBoxArrow && widget && !qobject_cast<const QComboBox*>(widget))) {
    if (has(widget, kFlatProperty)) {
      const auto* box = qstyleoption_cast<const QStyleOptionComboBox*>(option);
      if (box && box->currentText.isEmpty()) return;  // there is nothing to choose
      if (option->state & State_MouseOver && option->state & State_Enabled)
        drawRounded(*painter, option->rect, kRadiusControl, QColor(c.neutral_soft), Qt::transparent);
      if (focusedByKeyboard(*option))
        drawRounded(*painter, option->rect, kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
    } else {
      drawField(*painter, *option, c);
    }
    const QRect arrow = subControlRect(CC_ComboBox, option, SC_ComboBoxArrow, widget);
    return drawChevron(*painter, arrow, QColor(option->state & State_Enabled ? c.ink2 : c.disabled));
  }
  if (control == CC_SpinBox) {
    drawField(*painter, *option, c);
    if (!(option->state & State_MouseOver)) return;
    const QRect up = subControlRect(CC_SpinBox, option, SC_SpinBoxUp, widget);
    const QRect down = subControlRect(CC_SpinBox, option, SC_SpinBoxDown, widget);
    painter->save();
    painter->translate(up.center());
    painter->rotate(180);
    painter->translate(-up.center());
    drawChevron(*painter, up, QColor(c.ink2));
    painter->restore();
    return drawChevron(*painter, down, QColor(c.ink2));
  }
  if (control == CC_ScrollBar)
    if (const auto* bar = qstyleoption_cast<const QStyleOptionSlider*>(option)) {
      painter->fillRect(option->rect, option->palette.brush(QPalette::Base));
      return drawScrollBar(*painter, *bar, subControlRect(CC_ScrollBar, option, SC_ScrollBarSlider, widget), c);
    }
  QProxyStyle::drawComplexControl(control, option, painter, widget);
}

int WindowStyle::pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const {
  switch (metric) {
    case PM_DockWidgetSeparatorExtent:
    case PM_DockWidgetTitleMargin:
      return kSpace8;
    case PM_ScrollBarExtent:
      return 10;
    case PM_ToolBarFrameWidth:
    case PM_ToolBarItemMargin:
    case PM_DockWidgetFrameWidth:
    case PM_MenuBarPanelWidth:
    case PM_TabBarBaseHeight:
    case PM_TabBarBaseOverlap:
    case PM_ButtonShiftHorizontal:
    case PM_ButtonShiftVertical:
    case PM_TabBarTabShiftVertical:
      return 0;
    case PM_IndicatorWidth:
    case PM_IndicatorHeight:
    case PM_ExclusiveIndicatorWidth:
    case PM_ExclusiveIndicatorHeight:
      return widget ? withType(16, widget->fontMetrics()) : 16;
    case PM_MenuPanelWidth:
      return 1;
    case PM_MenuVMargin:
      return kSpace4;
    case PM_TabBarTabHSpace:
      return 2 * kSpace12;
    default:
      return QProxyStyle::pixelMetric(metric, option, widget);
  }
}

int WindowStyle::styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                           QStyleHintReturn* data) const {
  switch (hint) {
    case SH_ComboBox_Popup:
    case SH_MenuBar_AltKeyNavigation:  // the menu bar is hidden: Alt opens the menu button's menu
    case SH_ScrollBar_Transient:
    case SH_EtchDisabledText:
    case SH_DialogButtonBox_ButtonsHaveIcons:  // the icons of the desktop have their own colours
      return 0;
    case SH_UnderlineShortcut:
      return 1;
    case SH_DialogButtonLayout:
      return QDialogButtonBox::GnomeLayout;  // the primary button is at the right
    default:
      return QProxyStyle::styleHint(hint, option, widget, data);
  }
}

QSize WindowStyle::sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                                    const QWidget* widget) const {
  QSize contents_size = QProxyStyle::sizeFromContents(type, option, size, widget);
  if (!widget) return contents_size;
  const auto typed = [&](int pixels) { return withType(pixels, widget->fontMetrics()); };
  switch (type) {
    case CT_PushButton:  // a primary button has semi-bold text
      return {contents_size.width() + (has(widget, kPrimaryProperty) ? kSpace24 : kSpace8),
              std::max(size.height() + kSpace4, typed(kFieldHeight))};
    case CT_LineEdit:
      return {contents_size.width(), std::max(size.height() + kSpace4, typed(kFieldHeight))};
    case CT_ComboBox:
      if (has(widget, kFlatProperty)) return {size.width() + typed(18) + 3 * kSpace4, typed(kFlatHeight)};
      return {contents_size.width() + kSpace8, std::max(size.height() + kSpace4, typed(kFieldHeight))};
    case CT_HeaderSection:
      return {contents_size.width() + 2 * kHeaderInset, contents_size.height()};
    case CT_SpinBox:  // the size already contains the frame of a line edit
      return {contents_size.width(), typed(kFieldHeight)};
    case CT_TabBarTab:
      return {contents_size.width(), has(widget, kBarTabsProperty) ? typed(kBarHeight) : typed(kFieldHeight)};
    case CT_ToolButton:
      if (const auto* button = qstyleoption_cast<const QStyleOptionToolButton*>(option);
          button && hasPictureAndWords(*button))
        return {button->iconSize.width() + button->fontMetrics.horizontalAdvance(button->text) + 3 * kSpace8,
                std::max(contents_size.height(), typed(kFlatHeight))};
      return {contents_size.width(), std::max(contents_size.height(), typed(kFlatHeight))};
    default:
      return contents_size;
  }
}

QRect WindowStyle::subControlRect(ComplexControl control, const QStyleOptionComplex* option, SubControl part,
                                  const QWidget* widget) const {
  if (control == CC_ComboBox && widget) {
    const int arrow = withType(has(widget, kFlatProperty) ? 18 : 24, widget->fontMetrics());
    const QRect all = option->rect;
    if (part == SC_ComboBoxArrow)
      return visualRect(option->direction, all, {all.right() + 1 - arrow, all.top(), arrow, all.height()});
    if (part == SC_ComboBoxEditField)
      return visualRect(option->direction, all,
                        {all.left() + (has(widget, kFlatProperty) ? kSpace4 : kSpace8), all.top() + kFocusLine,
                         all.width() - arrow - kSpace4, all.height() - 2 * kFocusLine});
  }
  if (control == CC_ScrollBar)
    if (const auto* bar = qstyleoption_cast<const QStyleOptionSlider*>(option)) {
      const bool upright = bar->orientation == Qt::Vertical;
      const int length = upright ? bar->rect.height() : bar->rect.width();
      const int range = bar->maximum - bar->minimum;
      const int handle =
          range <= 0 ? length : std::max(24, to_int(std::int64_t{length} * bar->pageStep / (range + bar->pageStep)));
      const int start =
          sliderPositionFromValue(bar->minimum, bar->maximum, bar->sliderPosition, length - handle, bar->upsideDown);
      const auto along = [&](int from, int to) {
        return upright ? QRect(bar->rect.left(), bar->rect.top() + from, bar->rect.width(), to - from)
                       : QRect(bar->rect.left() + from, bar->rect.top(), to - from, bar->rect.height());
      };
      switch (part) {
        case SC_ScrollBarSlider:
          return along(start, start + handle);
        case SC_ScrollBarGroove:
          return along(0, length);
        case SC_ScrollBarSubPage:
          return along(0, start);
        case SC_ScrollBarAddPage:
          return along(start + handle, length);
        default:
          return {};
      }
    }
  return QProxyStyle::subControlRect(control, option, part, widget);
}

}  // namespace moescope
