// The doors of start_doors.h in a panel, for as long as it says that no run is open.
#pragma once

#include <QObject>
#include <QWidget>

namespace moescope {

class Panel;
class RunSession;
class Selection;
class StartDoors;

class EmptyPanelDoors : public QObject {
  Q_OBJECT

 public:
  EmptyPanelDoors(Panel* panel, RunSession* session, Selection* selection);  // belongs to the panel
  StartDoors* doors() const { return doors_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void look();
  const QWidget* notice() const;  // what says that there is no run; nullptr: nothing does

  Panel* panel_;
  RunSession* session_;
  Selection* selection_;
  StartDoors* doors_;
};

}  // namespace moescope
