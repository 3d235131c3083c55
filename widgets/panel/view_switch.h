// A choice between a few views of the same figures with all names visible: "Over time | At a step".
#pragma once

#include <QAbstractButton>
#include <QButtonGroup>
#include <QStringList>
#include <QWidget>

namespace moescope {

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
