// A combo box without a frame, as wide as the selected item; its list is as wide as its widest item.
#pragma once

#include <QAbstractItemView>
#include <QComboBox>
#include <algorithm>

#include "widgets/look/style.h"

namespace moescope {

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

}  // namespace moescope
