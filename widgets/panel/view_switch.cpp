#include "widgets/panel/view_switch.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QPainter>
#include <algorithm>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

ViewSwitch::ViewSwitch(const QStringList& names, QWidget* parent) : QWidget(parent) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(1, 1, 1, 1);
  row->setSpacing(0);
  auto* group = new QButtonGroup(this);
  for (const QString& name : names) {
    auto* button = new QToolButton(this);
    button->setCheckable(true);
    button->setAutoRaise(true);
    button->setProperty(kSwitchProperty, true);
    group->addButton(button, static_cast<int>(buttons_.size()));
    row->addWidget(button);
    buttons_ << button;
    setName(static_cast<int>(buttons_.size()) - 1, name);
  }
  connect(group, &QButtonGroup::idToggled, this, [this](int index, bool on) {
    if (on) emit changed(index);
  });
  buttons_.front()->setChecked(true);
}

int ViewSwitch::current() const {
  for (int i = 0; i < buttons_.size(); ++i)
    if (buttons_[i]->isChecked()) return i;
  return 0;
}

void ViewSwitch::setCurrent(int index) {
  buttons_[std::clamp(index, 0, static_cast<int>(buttons_.size()) - 1)]->setChecked(true);
}

void ViewSwitch::setName(int index, const QString& name) {
  buttons_[index]->setText(name);
  buttons_[index]->setAccessibleName(name);
}

void ViewSwitch::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  drawRounded(painter, rect(), kRadiusControl, QColor(colors(palette()).neutral_soft), Qt::transparent);
}

}  // namespace moescope
