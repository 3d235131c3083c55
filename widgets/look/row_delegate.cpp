#include "widgets/look/row_delegate.h"

#include <QPainter>

#include "widgets/look/tokens.h"

namespace moescope {

void RowDelegate::paintRow(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index) {
  if (!(option.state & QStyle::State_Selected)) return;
  const Colors& c = colors(option.palette);
  painter.fillRect(option.rect, QColor(c.accent_soft));
  if (index.column() > 0) return;
  QRect edge = option.rect;
  edge.setWidth(kTabUnderline);
  painter.fillRect(edge, QColor(c.accent));
}

void RowDelegate::initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const {
  const bool chosen = option->state & QStyle::State_Selected;
  QStyledItemDelegate::initStyleOption(option, index);
  option->state &= ~(QStyle::State_Selected | QStyle::State_HasFocus | QStyle::State_MouseOver);
  if (chosen) option->font = semibold(option->font);
}

void RowDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
  paintRow(*painter, option, index);
  QStyledItemDelegate::paint(painter, option, index);
}

QSize RowDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  QStyleOptionViewItem chosen = option;
  chosen.font = semibold(option.font);
  chosen.fontMetrics = QFontMetrics(chosen.font);
  return QStyledItemDelegate::sizeHint(chosen, index) + QSize(kSpace8, 0);
}

}  // namespace moescope
