// The drawer with the set-up form at the right edge of the window, over the panels and between the bar and the status
// line. It is closed at first.
#pragma once

#include <QFrame>

class QAction;
class QMainWindow;

namespace moescope {

class SetupForm;

class SetupDrawer : public QFrame {
  Q_OBJECT

 public:
  // `toggle` opens and closes the drawer; Escape and the form's button close it.
  SetupDrawer(SetupForm* form, QAction* toggle, QMainWindow* window);

  void open();
  void close();

 signals:
  void opened();

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;  // watches the window and its bars for changes of size

 private:
  void place();

  SetupForm* form_;
  QAction* toggle_;
  QMainWindow* window_;
};

}  // namespace moescope
