// Paints the rows of a table: the selected one has a soft ground, an edge at its left, and semi-bold text.
#pragma once

#include <QStyledItemDelegate>

namespace moescope {

class RowDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  // Size with semi-bold text.
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 protected:
  // Paints ground and edge of a row; its text is then drawn as that of any other row.
  static void paintRow(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index);
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override;
};

}  // namespace moescope
