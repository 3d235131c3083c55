// A choice between a few views of the same figures with all names visible: "Over time | At a step".
#pragma once

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

 signals:
  void changed(int index);

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QButtonGroup* group_;
};

}  // namespace moescope
