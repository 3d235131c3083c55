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

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
};

}  // namespace moescope
