// Parts of tables: plain look, bars with values, and figures that sort by value.
#pragma once

#include <QHeaderView>
#include <QPainter>
#include <QStandardItem>
#include <QStyledItemDelegate>
#include <QTableView>
#include <algorithm>
#include <cmath>

#include "core/numerics/index.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {

// Makes a table without frame, grid and numbers of rows, in which the user can choose one whole row.
inline void makePlain(QTableView* table, const QString& name) {
  table->setAccessibleName(name);
  table->setFrameShape(QFrame::NoFrame);
  table->setShowGrid(false);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setSelectionMode(QAbstractItemView::SingleSelection);
  table->verticalHeader()->hide();
  table->horizontalHeader()->setHighlightSections(false);
}

inline constexpr int kShareRole = Qt::UserRole + 1;  // role with the length of a cell's bar, 1 for the longest

// Paints a bar with its value at the end; the longest bar is emphasised.
class ShareDelegate : public QStyledItemDelegate {
 public:
  // `longest`: a text that is as wide as any value.
  ShareDelegate(const QString& longest, QObject* parent) : QStyledItemDelegate(parent), longest_(longest) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Colors& c = colors(option.palette);
    const double share = index.data(kShareRole).toDouble();
    const bool is_longest = share >= 1;
    const QFont type = is_longest ? semibold(option.font) : option.font;
    const QFontMetrics metrics(type);
    const QString text = index.data().toString();
    const QRect place = option.rect.adjusted(kSpace4, 0, -kSpace4, 0);
    const int room =
        std::max(0, place.width() - QFontMetrics(semibold(option.font)).horizontalAdvance(longest_) - kSpace8);
    const int length = to_int(std::lround(share * room)), height = metrics.ascent();
    if (option.state & QStyle::State_Selected) painter->fillRect(option.rect, QColor(c.accent_soft));
    painter->fillRect(QRect(place.left(), place.center().y() - height / 2, length, height),
                      QColor(is_longest ? c.strong_bar : c.plain_bar));
    painter->setFont(type);
    painter->setPen(QColor(c.ink));
    painter->drawText(place.adjusted(length + kSpace8, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, text);
  }
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const QSize size = QStyledItemDelegate::sizeHint(option, index);
    return {size.width() + kSpace24, size.height()};
  }

 private:
  QString longest_;
};

// Returns a change in two digits, since most changes are far below 0.001.
inline QString signedText(double value) {
  return inPrint((value < 0 ? QString() : QStringLiteral("+")) + QString::number(value, 'g', 2));
}

inline QStandardItem* textItem(const QString& text, const QString& tip = {}) {
  auto* item = new QStandardItem(text);
  item->setData(text, Qt::UserRole);
  item->setToolTip(tip);
  return item;
}

inline QStandardItem* figureItem(const QString& text, double value) {
  auto* item = new QStandardItem(text);
  item->setData(value, Qt::UserRole);
  item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  return item;
}

inline constexpr int kBarColumn = 1;

// Empties a table that sorts by value. `columns`: their headings and tool tips.
inline void beginTable(QStandardItemModel& model, const QList<std::pair<QString, QString>>& columns) {
  model.clear();
  model.setSortRole(Qt::UserRole);
  for (int i = 0; i < columns.size(); ++i)
    model.setHorizontalHeaderItem(i, textItem(columns[i].first, columns[i].second));
}

// `share`: length of the bar in kBarColumn.
inline void appendOperand(QStandardItemModel& model, const QList<QStandardItem*>& cells, double share) {
  cells[kBarColumn]->setData(share, kShareRole);
  for (QStandardItem* cell : cells) cell->setEditable(false);
  model.appendRow(cells);
}

}  // namespace moescope
