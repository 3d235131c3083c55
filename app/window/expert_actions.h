// What a person can do to one expert of the run on screen: kill it, revive it, pin its bias. Each is a change of a live
// setting like any other: marked on the timeline, undone with Ctrl+Z. For any panel or card that shows experts:
// fillMenu() for a context menu, or the slots.
#pragma once

#include <QObject>
#include <optional>

#include "core/config/run_config.h"

class QMenu;
class QWidget;

namespace moescope {

class RunSession;
class Selection;

class ExpertActions : public QObject {
  Q_OBJECT

 public:
  ExpertActions(RunSession* session, Selection* selection, QWidget* window);

  bool possible(int layer, int expert) const;  // there is such an expert, in training
  bool killed(int layer, int expert) const;
  std::optional<double> pinned(int layer, int expert) const;
  void fillMenu(QMenu* menu, int layer, int expert);

 public slots:
  void kill(int layer, int expert);
  void revive(int layer, int expert);
  void reviveAll();
  void pin(int layer, int expert, double bias);
  void release(int layer, int expert);  // of its pin
  void askPin(int layer, int expert);   // starts from the bias that it has

 signals:
  void changeRequested(QString key, moescope::ConfigValue value);

 private:
  RunConfig config() const;
  double biasNow(int layer, int expert) const;

  RunSession* session_;
  Selection* selection_;
  QWidget* window_;
};

}  // namespace moescope
