#include "widgets/panel/flow_row.h"

#include <QWidget>
#include <algorithm>

#include "widgets/look/tokens.h"

namespace moescope {

FlowRow::FlowRow(QWidget* parent) : QLayout(parent) {
  setContentsMargins(0, 0, 0, 0);
}

FlowRow::~FlowRow() {
  qDeleteAll(items_);
}

QLayoutItem* FlowRow::takeAt(int index) {
  return index >= 0 && index < items_.size() ? items_.takeAt(index) : nullptr;
}

QSize FlowRow::sizeHint() const {
  QSize size;
  for (const QLayoutItem* item : items_)
    if (!item->isEmpty())
      size = {size.width() + item->sizeHint().width() + kSpace4, std::max(size.height(), item->sizeHint().height())};
  return size;
}

QSize FlowRow::minimumSize() const {
  QSize size;
  for (const QLayoutItem* item : items_)
    if (!item->isEmpty()) size = size.expandedTo(item->sizeHint());
  return size;
}

void FlowRow::setGeometry(const QRect& rect) {
  QLayout::setGeometry(rect);
  place(rect, true);
}

int FlowRow::place(const QRect& room, bool move) const {
  int x = room.left(), y = room.top(), row = 0;
  for (QLayoutItem* item : items_) {
    if (item->isEmpty()) continue;
    const QSize size = item->sizeHint();
    if (x > room.left() && x + size.width() > room.left() + room.width()) {
      x = room.left();
      y += row;
      row = 0;
    }
    if (move) item->setGeometry({QPoint(x, y), size});
    x += size.width() + kSpace4;
    row = std::max(row, size.height());
  }
  return y + row - room.top();
}

}  // namespace moescope
