#include "widgets/look/fitted_text.h"

#include <QPainter>
#include <algorithm>

namespace moescope {

QString fittingText(const QStringList& texts, const QFontMetrics& metrics, int width) {
  for (const QString& text : texts)
    if (metrics.horizontalAdvance(text) <= width) return text;
  return {};
}

QString elidedWords(const QString& text, const QFontMetrics& metrics, int width) {
  const QString shown = metrics.elidedText(text, Qt::ElideRight, width);
  if (shown == text) return text;
  const auto is_digit = [](QChar character) { return character.isDigit(); };
  return std::ranges::any_of(text, is_digit) ? QString() : shown;
}

FittedLabel::FittedLabel(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Preferred);
}

void FittedLabel::setTexts(const QStringList& texts) {
  if (texts_ == texts) return;
  texts_ = texts;
  setToolTip(texts_.value(0));
  setAccessibleName(texts_.value(0));
  updateGeometry();
  update();
}

void FittedLabel::setRole(QPalette::ColorRole role) {
  role_ = role;
  update();
}

void FittedLabel::setAlignment(Qt::Alignment alignment) {
  alignment_ = alignment;
  update();
}

void FittedLabel::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, role_));
  painter.drawText(rect(), alignment_, shownText());
}

}  // namespace moescope
