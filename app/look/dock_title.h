// The title row of a dock: name, a menu of what can be done with the panel, float and close.
#pragma once

#include <QWidget>

class QDockWidget;
class QMenu;

namespace moescope {

class DockTitle : public QWidget {
 public:
  DockTitle(QDockWidget* dock, QMenu* menu);
};

}  // namespace moescope
