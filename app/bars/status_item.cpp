#include "app/bars/status_item.h"

#include <QPainter>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr int kDot = 8, kDotGap = 6;

}  // namespace

// Pressed only where something is connected to it.
StatusItem::StatusItem(QWidget* parent) : QToolButton(parent) {
  setAutoRaise(true);
  setFocusPolicy(Qt::NoFocus);
  setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
  hide();
}

void StatusItem::setForms(const QStringList& long_to_short, std::optional<QRgb> dot) {
  if (long_to_short == forms_ && dot == dot_) return;
  forms_ = long_to_short;
  dot_ = dot;
  setAccessibleName(forms_.value(0));
  setForm(0);
  update();
}

void StatusItem::setForm(int form) {
  const QString words = forms_.value(form);
  if (words != text()) setText(words);
  setVisible(!words.isEmpty());
}

QSize StatusItem::sizeHint() const {
  const QFontMetrics metrics(font());
  return {metrics.horizontalAdvance(text()) + (dot_ ? kDot + kDotGap : 0) + 2 * kSpace4, metrics.height() + 2};
}

void StatusItem::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  if (showsFocus(*this)) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
  int left = kSpace4;
  if (dot_) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(QColor(*dot_));
    painter.drawEllipse(QRectF(left, (height() - kDot) / 2.0, kDot, kDot));
    left += kDot + kDotGap;
  }
  painter.setFont(font());
  painter.setPen(QColor(focusPolicy() != Qt::NoFocus && underMouse() ? c.ink : c.ink2));
  painter.drawText(rect().adjusted(left, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, text());
}

}  // namespace moescope
