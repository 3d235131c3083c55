#include "app/setup/group_header.h"

#include <QApplication>
#include <QStyleOptionToolButton>
#include <QStylePainter>

#include "app/look/icons.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kFoldMark = 16;
constexpr int kNewRunMark = 12;

}  // namespace

GroupHeader::GroupHeader(const QString& title, QWidget* body, QWidget* parent) : QToolButton(parent) {
  setText(title);
  setCheckable(true);
  setAutoRaise(true);
  setFocusPolicy(Qt::TabFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(this, &QToolButton::toggled, body, &QWidget::setVisible);
  body->hide();
}

void GroupHeader::setNote(const QString& note) {
  note_ = note;
  update();
}

void GroupHeader::setNeedsNewRun(bool needs) {
  needs_new_run_ = needs;
  setToolTip(needs ? "These settings need a new run" : QString());
  update();
}

QSize GroupHeader::sizeHint() const {
  const QFontMetrics metrics(semibold(font()));
  return {metrics.horizontalAdvance(text()) + kFoldMark + 2 * kSpace8, withType(kFieldHeight, fontMetrics()) + kSpace4};
}

void GroupHeader::paintEvent(QPaintEvent*) {
  QStylePainter painter(this);
  QStyleOptionToolButton option;
  initStyleOption(&option);
  option.state &= ~(QStyle::State_On | QStyle::State_Sunken);  // drawn as open or folded, not as checked
  painter.drawPrimitive(QStyle::PE_PanelButtonTool, option);
  const Colors& c = colors(palette());
  painter.fillRect(0, 0, width(), 1, QColor(c.hairline));
  const QRect mark(0, (height() - kFoldMark) / 2, kFoldMark, kFoldMark);
  painter.save();
  if (!isChecked()) {
    const QPointF middle = QRectF(mark).center();
    painter.translate(middle);
    painter.rotate(-90);
    painter.translate(-middle);
  }
  drawChevron(painter, mark, QColor(c.ink2));
  painter.restore();
  int x = kFoldMark + kSpace8;
  const auto write = [&](const QString& text, const QFont& font, QRgb color) {
    painter.setFont(font);
    painter.setPen(QColor(color));
    painter.drawText(QRect(x, 0, width() - x, height()), Qt::AlignLeft | Qt::AlignVCenter, text);
    x += QFontMetrics(font).horizontalAdvance(text) + kSpace8;
  };
  write(text(), semibold(font()), c.ink);
  const QFont secondary = typeFont(QApplication::font(), Type::secondary);
  if (x + QFontMetrics(secondary).horizontalAdvance(note_) < width()) write(note_, secondary, c.ink2);
  if (needs_new_run_)
    painter.drawPixmap(x, (height() - kNewRunMark) / 2, picturePixmap(Picture::reset, QColor(c.ink2), kNewRunMark));
}

}  // namespace moescope
