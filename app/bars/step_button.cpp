#include "app/bars/step_button.h"

#include <QLocale>
#include <QStyleOptionToolButton>
#include <QStylePainter>
#include <algorithm>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kStepChevron = 16;

QString groupedStep(std::int64_t step) {
  return QLocale(QLocale::English).toString(static_cast<qlonglong>(step));
}

// The text with all digits replaced by 9, so that the button keeps its width while the step rises.
QString asNines(QString digits) {
  for (QChar& digit : digits)
    if (digit.isDigit()) digit = '9';
  return digits;
}

}  // namespace

StepButton::StepButton(QWidget* parent) : QToolButton(parent) {
  setAutoRaise(true);
  setFocusPolicy(Qt::TabFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
}

void StepButton::showStep(std::int64_t step, std::optional<std::int64_t> end) {
  if (step == step_ && end == end_) return;
  const QSize before = sizeHint();
  step_ = step;
  end_ = end;
  setAccessibleName("Step: " + shownText());
  if (sizeHint() != before) updateGeometry();
  update();
}

void StepButton::setShort(bool is_short) {
  if (is_short == short_) return;
  short_ = is_short;
  updateGeometry();
  update();
}

QString StepButton::before() const {
  return short_ || end_ ? QString() : QString("step ");
}

QString StepButton::after() const {
  return short_ || !end_ ? QString() : " of " + groupedStep(*end_);
}

QString StepButton::shownText() const {
  return before() + groupedStep(step_) + after();
}

int StepButton::widthOf(const QString& before, const QString& number, const QString& after) const {
  const QFontMetrics body(font()), secondary(typeFont(font(), Type::secondary));
  return (before.isEmpty() ? 0 : body.horizontalAdvance(before)) + body.horizontalAdvance(number) +
         secondary.horizontalAdvance(after);
}

QSize StepButton::sizeHint() const {
  const QString longest = asNines(groupedStep(std::max(step_, end_.value_or(0))));
  const QFontMetrics metrics(font());
  return {widthOf(before(), longest, after()) + 2 * kSpace8 + kSpace4 + withType(kStepChevron, metrics),
          withType(kFieldHeight, metrics)};
}

void StepButton::paintEvent(QPaintEvent*) {
  QStylePainter painter(this);
  QStyleOptionToolButton option;
  initStyleOption(&option);
  painter.drawPrimitive(QStyle::PE_PanelButtonTool, option);
  const Colors& c = colors(palette());
  const QColor ink(isEnabled() ? c.ink : c.disabled), quiet(isEnabled() ? c.ink2 : c.disabled);
  const int chevron = withType(kStepChevron, fontMetrics());
  QRect room = rect().adjusted(kSpace8, 0, -kSpace8 - chevron, 0);
  const auto write = [&](const QString& text, const QFont& font, const QColor& color) {
    painter.setFont(font);
    painter.setPen(color);
    painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter, text);
    room.setLeft(room.left() + QFontMetrics(font).horizontalAdvance(text));
  };
  room.setLeft(room.right() + 1 - widthOf(before(), groupedStep(step_), after()));
  write(before() + groupedStep(step_), font(), ink);
  write(after(), typeFont(font(), Type::secondary), quiet);
  drawChevron(painter, QRect(rect().right() - kSpace4 - chevron, 0, chevron, height()), quiet);
}

}  // namespace moescope
