// A run whose program ended without closing it is offered at the next start. Each window that records holds a lock file
// named as its recording; a lock whose process is gone is what a crash, a kill or a power cut left.
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
  CrashWatch(const RunSession* session, QWidget* window);  // holds the lock of what the session records

  // Recordings that crashed programs left, newest first; each is told once.
  static QStringList takeLeftBehind();
  // Asks whether to open the newest of them, if there is any.
  void offerLeftBehind();

 signals:
  void openRequested(QString recording);

 private:
  void hold(const QString& recording);  // empty: of none
  QWidget* window_;
  std::unique_ptr<QLockFile> lock_;
};

}  // namespace moescope
