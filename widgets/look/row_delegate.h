// Paints the rows of a table. The selected row has a soft ground, an edge at its left, and semi-bold text.
#pragma once

#include <QStyledItemDelegate>

namespace moescope {

class RowDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  // Returns the size with semi-bold text.
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 protected:
  // Paints ground and edge of a row, whose text is then drawn like the text of other rows.
  static void paintRow(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index);
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override;
};

}  // namespace moescope
