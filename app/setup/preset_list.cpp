#include "app/setup/preset_list.h"

#include <QAbstractItemView>
#include <QPainter>
#include <QStyleOptionComboBox>
#include <QStylePainter>
#include <QStyledItemDelegate>
#include <algorithm>

#include "core/config/config_toml.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kCost = Qt::UserRole;
constexpr int kGap = 24;  // pixels between name and cost

// Paints the costs in a column at the right of the names.
class CostDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const QSize name = QStyledItemDelegate::sizeHint(option, index);
    if (isSeparator(index)) return {0, 5};
    const QString cost = index.data(kCost).toString();
    return cost.isEmpty() ? name : name + QSize(kGap + option.fontMetrics.horizontalAdvance(cost) + 6, 0);
  }

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    if (isSeparator(index)) {
      painter->setPen(mutedText(option.palette));
      const int y = option.rect.center().y();
      return painter->drawLine(option.rect.left() + 4, y, option.rect.right() - 4, y);
    }
    QStyledItemDelegate::paint(painter, option, index);
    const bool chosen = option.state & QStyle::State_Selected;
    painter->setPen(chosen ? option.palette.highlightedText().color() : mutedText(option.palette));
    painter->drawText(option.rect.adjusted(0, 0, -6, 0), Qt::AlignRight | Qt::AlignVCenter,
                      index.data(kCost).toString());
  }

 private:
  static bool isSeparator(const QModelIndex& index) {
    return index.data(Qt::AccessibleDescriptionRole).toString() == QLatin1String("separator");
  }
};

}  // namespace

PresetList::PresetList(QWidget* parent) : QComboBox(parent) {
  setItemDelegate(new CostDelegate(this));
}

void PresetList::paintEvent(QPaintEvent*) {
  QStylePainter painter(this);
  QStyleOptionComboBox option;
  initStyleOption(&option);
  option.currentText = "Preset: " + (currentIndex() < 0 ? QString("own settings") : currentText());
  painter.drawComplexControl(QStyle::CC_ComboBox, option);
  painter.drawControl(QStyle::CE_ComboBoxLabel, option);
}

// Asks for the costs each time, since measurements improve them while the program runs.
void PresetList::showPopup() {
  const std::vector<std::string> presets = preset_names();
  for (int i = 0; i < count(); ++i) {
    if (std::ranges::count(presets, itemText(i).toStdString()) == 0 || !cost_) continue;
    const Cost cost = cost_(itemText(i));
    const QString about = QString::fromStdString(preset_about(itemText(i).toStdString())).trimmed();
    setItemData(i, cost.in_short, kCost);
    setItemData(i, about + "\n\n" + cost.whole, Qt::ToolTipRole);
  }
  view()->setMinimumWidth(view()->sizeHintForColumn(0) + kGap);
  QComboBox::showPopup();
}

}  // namespace moescope
