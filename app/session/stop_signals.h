// SIGTERM, SIGHUP and Ctrl-C in the terminal end the program like closing its window: training stops after the current
// step, and the newest checkpoint stays beside the recording.
#pragma once

#include <QObject>

namespace moescope {

class StopSignals : public QObject {
  Q_OBJECT

 public:
  // Handles the signals during its life. SIGHUP stays ignored if it was (nohup). At most one object exists.
  explicit StopSignals(QObject* parent = nullptr);
  ~StopSignals() override;

 signals:
  void stopped(int signal);
};

}  // namespace moescope
