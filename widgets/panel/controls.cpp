#include "widgets/panel/controls.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolButton>

#include "widgets/look/tokens.h"

namespace moescope {

LayerCombo::LayerCombo(Selection* selection, QWidget* parent, OnlyLayer only)
    : FlatCombo(parent), selection_(selection), only_(only) {
  setAccessibleName("Layer");
  connect(selection_, &Selection::focusChanged, this, &LayerCombo::synchronise);
  connect(selection_, &Selection::dataChanged, this, &LayerCombo::synchronise);
  connect(this, &QComboBox::activated, this, [this](int index) { selection_->setLayer(layers_[index]); });
  synchronise();
}

void LayerCombo::synchronise() {
  const History* history = selection_->history();
  const int only = only_ ? only_(*selection_) : -1;
  const std::vector<int> all_layers = history ? history->info().moe_layers : std::vector<int>{};
  const std::vector<int> layers = only < 0 ? all_layers : std::vector<int>{only};
  setToolTip(only < 0 ? QString("The MoE layer that all panels show") : QString("Only this layer has counts"));
  const QSignalBlocker quiet(this);
  if (layers != layers_) {
    layers_ = layers;
    clear();
    for (const int layer : layers_) addItem(QString("layer %1").arg(layer));
  }
  setEnabled(!layers_.empty());
  const auto place = std::ranges::find(layers_, only < 0 ? selection_->layer() : only);
  if (place != layers_.end() && currentIndex() != place - layers_.begin())
    setCurrentIndex(to_int(place - layers_.begin()));
  updateGeometry();  // FlatCombo does not call it, since the signals are blocked
}

FlowRow::FlowRow(QWidget* parent) : QLayout(parent) {
  setContentsMargins(0, 0, 0, 0);
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

ViewSwitch::ViewSwitch(const QStringList& names, QWidget* parent) : QWidget(parent), group_(new QButtonGroup(this)) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(1, 1, 1, 1);
  row->setSpacing(0);
  for (int i = 0; i < names.size(); ++i) {
    auto* button = new QToolButton(this);
    button->setCheckable(true);
    button->setAutoRaise(true);
    button->setProperty(kSwitchProperty, true);
    group_->addButton(button, i);
    row->addWidget(button);
    setName(i, names[i]);
  }
  connect(group_, &QButtonGroup::idToggled, this, [this](int index, bool on) {
    if (on) emit changed(index);
  });
  connect(group_, &QButtonGroup::idClicked, this, &ViewSwitch::clicked);
  setCurrent(0);
}

void ViewSwitch::setCurrent(int index) {
  group_->button(std::clamp(index, 0, to_int(group_->buttons().size()) - 1))->setChecked(true);
}

void ViewSwitch::setName(int index, const QString& name) {
  group_->button(index)->setText(name);
  group_->button(index)->setAccessibleName(name);
}

void ViewSwitch::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  drawRounded(painter, rect(), kRadiusControl, QColor(colors(palette()).neutral_soft), Qt::transparent);
}

}  // namespace moescope
