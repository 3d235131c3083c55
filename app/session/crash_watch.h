// Offers at the next start the recording of a program that crashed. Each window that records holds a lock file named
// after its recording; a lock without a process is left by a crash, a kill or a power cut.
#pragma once

#include <QLockFile>
#include <QObject>
#include <QStringList>
#include <memory>

namespace moescope {

class MainWindow;

class CrashWatch : public QObject {
  Q_OBJECT

 public:
  explicit CrashWatch(MainWindow* window);  // holds the lock of the session's recording

  // Recordings of crashed programs, newest first; each is returned once.
  static QStringList takeCrashedRecordings();
  // Asks whether to open the newest of them, if there is any.
  void offerCrashedRecording();

 private:
  void hold(const QString& recording);  // empty: releases the lock
  MainWindow* window_;
  std::unique_ptr<QLockFile> lock_;
};

}  // namespace moescope
