#include "widgets/router/fullest_experts.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kHotLoad = 2;  // load from which a bar is emphasised, besides the first

}  // namespace

FullestExperts::FullestExperts(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::NoFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Expanding);
  setAccessibleName("Fullest experts");
}

QSize FullestExperts::sizeHint() const {
  return {fontMetrics().horizontalAdvance("fullest now, \u00d7 fair share"), withType(100)};
}

void FullestExperts::setRows(std::vector<Row> rows) {
  rows_ = std::move(rows);
  QStringList spoken;
  for (const Row& row : rows_) spoken << QString("expert %1: %2").arg(row.expert).arg(formatValue(row.load, 3));
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
}

void FullestExperts::setWithoutTokens(int experts, int of) {
  without_ = experts;
  of_ = of;
}

int FullestExperts::rowHeight() const {
  return fontMetrics().height() + 2;
}

int FullestExperts::rowsThatFit() const {
  constexpr int kMost = 4, kLinesBelow = 2;
  return std::clamp((height() - margins().top()) / rowHeight() - kLinesBelow, 1, kMost);
}

void FullestExperts::paintStatic(QPainter& painter) {
  const QStringList titles{"fullest now, \u00d7 fair share", "fullest, \u00d7 fair", "fullest"};
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(0, 0, width(), fontMetrics().height()), Qt::AlignLeft,
                   fittingText(titles, fontMetrics(), width()));
}

void FullestExperts::paintData(QPainter& painter) {
  const QFont usual = painter.font(), strong = semibold(usual);
  const QFontMetrics bold(strong);
  int names = 0, figures = 0;
  for (const Row& row : rows_) {
    names = std::max(names, fontMetrics().horizontalAdvance(QString::number(row.expert)));
    figures = std::max(figures, bold.horizontalAdvance(formatValue(row.load, 3)));
  }
  const double longest = rows_.empty() ? 1 : std::max(1e-9, rows_.front().load);
  const int left = names + kSpace8, room = std::max(4, width() - left - figures - kSpace4);
  int y = margins().top();
  for (const Row& row : rows_) {
    const bool hot = &row == rows_.data() || row.load >= kHotLoad;
    painter.setPen(mutedText(palette()));
    painter.drawText(QRect(0, y, names + 1, rowHeight()), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(row.expert));
    const int length = std::max(1, static_cast<int>(row.load / longest * room));
    painter.fillRect(QRect(left, y + 3, length, rowHeight() - 6),
                     QColor(hot ? colors(palette()).strong_bar : colors(palette()).plain_bar));
    painter.setFont(hot ? strong : usual);
    painter.setPen(palette().text().color());
    painter.drawText(QRect(left + length + kSpace4, y, figures + 1, rowHeight()), Qt::AlignLeft | Qt::AlignVCenter,
                     formatValue(row.load, 3));
    painter.setFont(usual);
    y += rowHeight();
  }
  if (without_ > 0) paintWithout(painter, y + kSpace4);
}

void FullestExperts::paintWithout(QPainter& painter, int top) const {
  const QFontMetrics metrics = fontMetrics();
  const QString text = fittingText(
      {QString("%1 of %2 get none").arg(without_).arg(of_), QString("%1 get none").arg(without_)}, metrics, width());
  painter.setPen(palette().text().color());
  painter.drawText(QRect(0, top, width(), metrics.height()), Qt::AlignLeft | Qt::AlignVCenter, text);
  const int line = metrics.height(), side = withType(10);
  const QRect swatch(0, top + line + (line - side) / 2, side, side);
  if (swatch.bottom() > height()) return;
  painter.fillRect(swatch, QColor(colors(palette()).zero_load));
  painter.fillRect(swatch, fineHatch(hatchOnZeroLoad(dark())));
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(side + kSpace8, top + line, width(), line), Qt::AlignLeft | Qt::AlignVCenter, "no tokens");
}

int FullestExperts::rowAt(QPoint position) const {
  const int row = position.y() < margins().top() ? -1 : (position.y() - margins().top()) / rowHeight();
  return row < static_cast<int>(rows_.size()) ? row : -1;
}

QStringList FullestExperts::readoutAt(QPoint position) const {
  const int row = rowAt(position);
  if (row < 0) return {};
  const Row& at = rows_[static_cast<std::size_t>(row)];
  return {QString("expert %1: %2 \u00d7 its fair share").arg(at.expert).arg(formatValue(at.load, 3))};
}

void FullestExperts::mousePressEvent(QMouseEvent* event) {
  const int row = rowAt(event->pos());
  if (event->button() == Qt::LeftButton && row >= 0) emit expertChosen(rows_[static_cast<std::size_t>(row)].expert);
}

}  // namespace moescope
