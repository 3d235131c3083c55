// A button under the sentence of a panel that has no run to show: the way to the start page.
#pragma once

#include <QObject>
#include <QPushButton>

namespace moescope {

class Panel;
class RunSession;
class Selection;

class EmptyPanelButton : public QObject {
  Q_OBJECT

 public:
  EmptyPanelButton(Panel* panel, RunSession* session, Selection* selection);  // belongs to the panel

 signals:
  void pressed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void look();
  const QWidget* notice() const;  // what says that there is no run; nullptr: nothing does

  Panel* panel_;
  RunSession* session_;
  Selection* selection_;
  QPushButton* button_;
};

}  // namespace moescope
