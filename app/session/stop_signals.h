// SIGTERM, SIGHUP and Ctrl-C in the terminal close the window program as closing its window does: the training stops
// after the step in flight, and its newest checkpoint stays beside the recording.
#pragma once

#include <QObject>

namespace moescope {

class StopSignals : public QObject {
  Q_OBJECT

 public:
  // From now on, until it is destroyed; a SIGHUP that is ignored (nohup) stays ignored. One at a time.
  explicit StopSignals(QObject* parent = nullptr);
  ~StopSignals() override;

 signals:
  void stopped(int signal);
};

}  // namespace moescope
