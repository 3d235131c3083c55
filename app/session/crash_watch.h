// After a crash, offers at the next start the recording that the crashed program wrote. Each window that records holds
// a lock file named after its recording. A crash, a kill or a power cut leaves a lock without a process.
#pragma once

#include <QLockFile>
#include <QObject>
#include <QStringList>
#include <memory>

class QWidget;

namespace moescope {

class RunSession;

class CrashWatch : public QObject {
  Q_OBJECT

 public:
  CrashWatch(const RunSession* session, QWidget* window);  // holds a lock for the recording that the session writes

  // Returns the recordings of crashed programs, the newest first. Each recording is returned once.
  static QStringList takeCrashedRecordings();
  // Asks whether to open the newest recording of a crashed program, if there is any.
  void offerCrashedRecording();
  void release() { lock_.reset(); }  // call after the recording was closed

 signals:
  void openRequested(QString recording);

 private:
  void hold(const QString& recording);  // holds the lock of this recording; empty: holds no lock
  QWidget* window_;
  std::unique_ptr<QLockFile> lock_;
};

}  // namespace moescope
