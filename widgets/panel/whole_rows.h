// A table that scrolls and is only as high as its last whole row, so that no row is cut in half.
#pragma once

#include <QEvent>
#include <QHeaderView>
#include <QTableView>
#include <algorithm>

namespace moescope {

class WholeRows : public QWidget {
 public:
  // All rows have the same height, below a header.
  explicit WholeRows(QTableView* table) : table_(table) {
    table->setParent(this);
    table->viewport()->installEventFilter(this);
    setFocusProxy(table);
    setMinimumSize(table->minimumSizeHint());
  }

 protected:
  void resizeEvent(QResizeEvent*) override { table_->setGeometry(rect()); }

  // Shortens the table by the part of a row that fits into the viewport, whose height depends on header and scroll bar.
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() != QEvent::Resize) return false;
    const int row = std::max(1, table_->verticalHeader()->defaultSectionSize()), room = table_->viewport()->height();
    if (room > row && room % row > 0) table_->resize(table_->width(), table_->height() - room % row);
    return false;
  }

 private:
  QTableView* table_;
};

}  // namespace moescope
