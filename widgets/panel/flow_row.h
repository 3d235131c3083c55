// A row of fields that continues in further rows if it is narrow. Hidden fields take no room.
#pragma once

#include <QLayout>
#include <QList>

#include "core/numerics/index.h"

namespace moescope {

class FlowRow : public QLayout {
 public:
  explicit FlowRow(QWidget* parent);
  ~FlowRow() override;
  void addItem(QLayoutItem* item) override { items_ << item; }
  int count() const override { return to_int(items_.size()); }
  QLayoutItem* itemAt(int index) const override { return items_.value(index); }
  QLayoutItem* takeAt(int index) override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override { return place({0, 0, width, 0}, false); }
  Qt::Orientations expandingDirections() const override { return {}; }
  QSize sizeHint() const override;
  QSize minimumSize() const override;
  void setGeometry(const QRect& rect) override;

 private:
  int place(const QRect& room, bool move) const;  // places the items if `move`; returns the height

  QList<QLayoutItem*> items_;
};

}  // namespace moescope
