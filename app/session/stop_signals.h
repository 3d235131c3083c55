// SIGTERM, SIGHUP and Ctrl-C in the terminal close the program as closing its window does: training stops after the
// current step, and the newest checkpoint stays beside the recording.
#pragma once

#include <QObject>

namespace moescope {

class StopSignals : public QObject {
  Q_OBJECT

 public:
  // Handles the signals until destroyed. An ignored SIGHUP (nohup) stays ignored. At most one object exists.
  explicit StopSignals(QObject* parent = nullptr);
  ~StopSignals() override;

 signals:
  void stopped(int signal);
};

}  // namespace moescope
