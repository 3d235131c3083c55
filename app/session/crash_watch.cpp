#include "app/session/crash_watch.h"

#include <QDir>
#include <QFileInfo>
#include <QMessageBox>
#include <QPushButton>

#include "app/session/run_session.h"
#include "app/session/settings.h"

namespace moescope {

namespace {

QString lockFolder() {
  return recordingsFolder() + "/running";
}

std::unique_ptr<QLockFile> lockOf(const QString& name) {
  auto lock = std::make_unique<QLockFile>(lockFolder() + '/' + name);
  lock->setStaleLockTime(0);  // a lock does not expire: it is stale only if its process is dead
  return lock;
}

}  // namespace

CrashWatch::CrashWatch(const RunSession* session, QWidget* window) : QObject(window), window_(window) {
  connect(session, &RunSession::opened, this,
          [this, session] { hold(session->isLive() ? session->path() : QString()); });
}

void CrashWatch::hold(const QString& recording) {
  lock_.reset();
  if (recording.isEmpty() || QFileInfo(recording).path() != QFileInfo(recordingsFolder()).filePath()) return;
  QDir().mkpath(lockFolder());
  lock_ = lockOf(QFileInfo(recording).fileName());
  if (!lock_->tryLock(0)) lock_.reset();
}

QStringList CrashWatch::takeCrashedRecordings() {
  QStringList recordings;
  for (const QString& name : QDir(lockFolder()).entryList({"*.moescope"}, QDir::Files, QDir::Time)) {
    const auto lock = lockOf(name);
    if (!lock->tryLock(0)) continue;  // the program that holds the lock still runs
    const QString path = recordingsFolder() + '/' + name;
    if (QFileInfo::exists(path)) recordings << path;
  }
  return recordings;
}

void CrashWatch::offerCrashedRecording() {
  const QStringList recordings = takeCrashedRecordings();
  if (recordings.isEmpty()) return;
  const QFileInfo file(recordings.first());
  const QString more =
      recordings.size() > 1 ? QString("\n%1 more are in %2.").arg(recordings.size() - 1).arg(file.path()) : "";
  auto* box =
      new QMessageBox(QMessageBox::Question, "MoEScope",
                      QString("The last session did not end normally. Its recording is complete up to the last step:\n"
                              "%1\n"
                              "%2, %3 MB.%4")
                          .arg(file.fileName(), file.lastModified().toString("yyyy-MM-dd hh:mm"))
                          .arg(recordingBytes(recordings.first()) / 1e6, 0, 'f', 1)
                          .arg(more),
                      QMessageBox::NoButton, window_);
  box->setObjectName("left_behind");
  box->setAttribute(Qt::WA_DeleteOnClose);
  QPushButton* open = box->addButton("&Open it", QMessageBox::AcceptRole);
  open->setObjectName("open_left_behind");
  box->addButton("&Not now", QMessageBox::RejectRole);
  connect(open, &QPushButton::clicked, this, [this, path = recordings.first()] { emit openRequested(path); });
  box->open();
}

}  // namespace moescope
