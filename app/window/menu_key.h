// Opens the menu by Alt alone, when it is released, or by F10. Keeps tool tips of the window off open menus.
#pragma once

#include <QObject>

class QWidget;

namespace moescope {

class MenuKey : public QObject {
  Q_OBJECT

 public:
  explicit MenuKey(QWidget* window);

 signals:
  void pressed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // watches the application

 private:
  QWidget* window_;
  bool alt_alone_ = false;  // Alt is held, and no other key was pressed
};

}  // namespace moescope
