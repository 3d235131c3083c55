// The dock of a panel: a rounded surface without a title bar of Qt's. It is dragged by the panel's header; a double
// click there floats it, and docks it again.
#pragma once

#include <QDockWidget>

#include "widgets/panel/panel.h"

namespace moescope {

class PanelDock : public QDockWidget {
  Q_OBJECT

 public:
  PanelDock(const QString& title, QWidget* content, QWidget* parent);
  void dragBy(QWidget* header);
  void setAccented(bool accented);  // a border in the accent colour: a lesson speaks of this panel
  bool accented() const { return accented_; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  bool accented_ = false;
};

}  // namespace moescope
