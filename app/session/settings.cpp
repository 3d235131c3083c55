#include "app/session/settings.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>
#include <QStandardPaths>
#include <stdexcept>

namespace moescope {

namespace {

void removeRecording(const QString& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) QFile::remove(path + suffix);
}

// Of candidates whose groups' recordings are all gone.
void removeQueuesWithoutRecordings(const QDir& folder) {
  for (const QString& queue : folder.entryList({"*.queue"}, QDir::Files)) {
    const QString groups = QFileInfo(queue).completeBaseName() + "-*.moescope";
    if (folder.entryList({groups}, QDir::Files).isEmpty()) QFile::remove(folder.filePath(queue));
  }
}

}  // namespace

QSettings settings() {
  return QSettings(QSettings::IniFormat, QSettings::UserScope, "moescope", "moescope");
}

QString recordingsFolder() {
  return QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + "/recordings";
}

qint64 recordingBytes(const QString& path) {
  return QFileInfo(path).size() + QFileInfo(path + "-wal").size();
}

QString newRecordingPath(const QString& name) {
  QDir folder(recordingsFolder());
  if (!folder.mkpath("."))
    throw std::runtime_error((folder.path() + ": cannot make the folder for recordings").toStdString());
  const QStringList kept = folder.entryList({"*.moescope"}, QDir::Files, QDir::Time);  // newest first
  qint64 bytes = 0;
  for (qsizetype i = 0; i < kept.size(); ++i) {
    const QString path = folder.filePath(kept[i]);
    bytes += recordingBytes(path);
    if (i >= kKeptRecordings - 1 || bytes > kKeptBytes) removeRecording(path);
  }
  removeQueuesWithoutRecordings(folder);

  QString stem = name;
  stem.replace(QRegularExpression("[^A-Za-z0-9._-]+"), "_");
  stem = QDateTime::currentDateTime().toString("yyyyMMdd-HHmmss") + "-" + stem;
  QString path = folder.filePath(stem + ".moescope");
  for (int n = 2; QFileInfo::exists(path); ++n) path = folder.filePath(QString("%1-%2.moescope").arg(stem).arg(n));
  return path;
}

QStringList recentFiles() {
  return settings().value("recent_files").toStringList();
}

void rememberRecentFile(const QString& path) {
  const QString full = QFileInfo(path).absoluteFilePath();
  QStringList files = recentFiles();
  files.removeAll(full);
  files.prepend(full);
  settings().setValue("recent_files", QStringList(files.mid(0, kRecentFiles)));
}

void forgetRecentFile(const QString& path) {
  QStringList files = recentFiles();
  files.removeAll(path);
  settings().setValue("recent_files", files);
}

}  // namespace moescope
