#include "widgets/panel/view_switch.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QToolButton>
#include <algorithm>

#include "core/numerics/index.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

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
