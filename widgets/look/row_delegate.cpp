#include "widgets/look/row_delegate.h"

#include <QPainter>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

void RowDelegate::paintRow(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index) {
  const Colors& c = colors(option.palette);
  if (option.state & QStyle::State_Selected) {
    painter.fillRect(option.rect, QColor(c.accent_soft));
    if (index.column() == 0)
      painter.fillRect(option.rect.adjusted(0, 0, kTabUnderline - option.rect.width(), 0), QColor(c.accent));
  }
  constexpr QStyle::State kByKeyboard = QStyle::State_HasFocus | QStyle::State_KeyboardFocusChange;
  if ((option.state & kByKeyboard) == kByKeyboard)
    drawRounded(painter, option.rect, kRadiusControl, Qt::transparent, QColor(c.accent));
}

void RowDelegate::initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const {
  const bool chosen = option->state & QStyle::State_Selected;
  QStyledItemDelegate::initStyleOption(option, index);
  option->state &= ~(QStyle::State_Selected | QStyle::State_HasFocus | QStyle::State_MouseOver);
  if (chosen) option->font = semibold(option->font);
}

void RowDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
  paintRow(*painter, option, index);
  QStyleOptionViewItem spaced = option;  // columns do not touch
  spaced.rect.adjust(kSpace4, 0, -kSpace4, 0);
  QStyledItemDelegate::paint(painter, spaced, index);
}

QSize RowDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  QStyleOptionViewItem chosen = option;
  chosen.font = semibold(option.font);
  chosen.fontMetrics = QFontMetrics(chosen.font);
  return QStyledItemDelegate::sizeHint(chosen, index) + QSize(kSpace8, 0);
}

}  // namespace moescope
