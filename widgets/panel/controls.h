// Controls and layouts that several panels use.
#pragma once

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QButtonGroup>
#include <QComboBox>
#include <QEvent>
#include <QHeaderView>
#include <QLayout>
#include <QList>
#include <QStringList>
#include <QTableView>
#include <QWidget>
#include <algorithm>

#include "core/numerics/index.h"
#include "widgets/look/style.h"
#include "widgets/selection/selection.h"

namespace moescope {

// A combo box without a frame, as wide as the selected item; its list is as wide as its widest item.
class FlatCombo : public QComboBox {
  Q_OBJECT

 public:
  explicit FlatCombo(QWidget* parent = nullptr) : QComboBox(parent) {
    setProperty(kFlatProperty, true);
    setSizeAdjustPolicy(AdjustToContents);
    connect(this, &QComboBox::currentIndexChanged, this, [this] { updateGeometry(); });
  }
  QSize sizeHint() const override {
    const QSize all = QComboBox::sizeHint();
    return {all.width() - widestItem() + fontMetrics().horizontalAdvance(currentText()), all.height()};
  }
  QSize minimumSizeHint() const override { return sizeHint(); }
  void showPopup() override {
    view()->setMinimumWidth(QComboBox::sizeHint().width());
    QComboBox::showPopup();
  }

 private:
  int widestItem() const {
    int widest = 0;
    for (int i = 0; i < count(); ++i) widest = std::max(widest, fontMetrics().horizontalAdvance(itemText(i)));
    return widest;
  }
};

// Chooses the MoE layer that all panels show: follows and sets Selection::layer(). `only`: returns the only layer with
// data, or -1; that layer is then the only item.
class LayerCombo : public FlatCombo {
  Q_OBJECT

 public:
  using OnlyLayer = int (*)(const Selection& selection);
  explicit LayerCombo(Selection* selection, QWidget* parent = nullptr, OnlyLayer only = nullptr);

 private:
  void synchronise();

  Selection* selection_;
  OnlyLayer only_;
  std::vector<int> layers_;
};

// A row of fields that continues in further rows if it is narrow. Hidden fields take no room.
class FlowRow : public QLayout {
 public:
  explicit FlowRow(QWidget* parent);
  ~FlowRow() override { qDeleteAll(items_); }
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

// A table that scrolls and is only as high as its last whole row, so that no row is cut in half.
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

// A choice between a few views of the same figures with all names visible: "Over time | At a step".
class ViewSwitch : public QWidget {
  Q_OBJECT

 public:
  explicit ViewSwitch(const QStringList& names, QWidget* parent = nullptr);
  int current() const { return group_->checkedId(); }
  void setCurrent(int index);  // clamped
  void setName(int index, const QString& name);
  QAbstractButton* button(int index) const { return group_->button(index); }

 signals:
  void changed(int index);
  void clicked(int index);  // changed by the user, or the shown view was chosen again

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QButtonGroup* group_;
};

}  // namespace moescope
