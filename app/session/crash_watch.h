// Offers at the next start the recording of a program that crashed. Each window that records holds a lock file named
// after its recording; a lock without a process is left by a crash, a kill or a power cut.
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
  CrashWatch(const RunSession* session, QWidget* window);  // holds the lock of the recording that the session writes

  // Recordings of crashed programs, newest first; each is returned once.
  static QStringList takeCrashedRecordings();
  // Asks whether to open the newest of them, if there is any.
  void offerCrashedRecording();
  void release() { lock_.reset(); }  // call when the recording is closed

 signals:
  void openRequested(QString recording);

 private:
  void hold(const QString& recording);  // holds the lock of this recording; empty: of none
  QWidget* window_;
  std::unique_ptr<QLockFile> lock_;
};

}  // namespace moescope
