// While nothing moves on the screen yet, the status line says what is being done and for how long: a model that is
// being built, a file that is being read, the first step.
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

  void showStatus(const LiveStatus& status);  // of the model in training, from time to time

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
