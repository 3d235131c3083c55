// A run whose program ended without closing it is offered at the next start. Each window that records holds a lock file
// named as its recording; a lock whose process is gone is what a crash, a kill or a power cut left.
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
  explicit CrashWatch(MainWindow* window);  // holds the lock of what its session records

  // Recordings that crashed programs left, newest first; each is told once.
  static QStringList takeCrashedRecordings();
  // Asks whether to open the newest of them, if there is any.
  void offerCrashedRecording();

 private:
  void hold(const QString& recording);  // empty: of none
  MainWindow* window_;
  std::unique_ptr<QLockFile> lock_;
};

}  // namespace moescope
