// Shows in the status line what the program is doing and for how long, while the screen has nothing new to show:
// building a model, reading a file, taking the first step.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "core/training/engine/live_status.h"

namespace moescope {

class RunSession;
class StatusLine;

class Heartbeat : public QObject {
  Q_OBJECT

 public:
  Heartbeat(RunSession* session, StatusLine* status, QObject* parent);

  void showStatus(const LiveStatus& status);  // called by the frame clock with the status of the runs in training

 private:
  void begin(const QString& what);
  void beat();
  void show();
  bool firstStepIsTaken() const;

  RunSession* session_;
  StatusLine* status_;
  QString what_;
  QElapsedTimer since_;
  QTimer timer_{this};
};

}  // namespace moescope
