#include "app/session/settings.h"

#include <QCryptographicHash>
#include <QDataStream>
#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>
#include <QStandardPaths>
#include <QTemporaryFile>
#include <stdexcept>

namespace moescope {

namespace {

constexpr qint64 kProbeBytes = 1 << 16;

// Throws std::runtime_error if the folder cannot be written. Writes some bytes, so that a full disk is noticed, too.
void requireWritable(const QDir& folder) {
  QTemporaryFile probe(folder.filePath("probe-XXXXXX"));
  if (probe.open() && probe.write(QByteArray(kProbeBytes, '.')) == kProbeBytes && probe.flush()) return;
  throw std::runtime_error((folder.path() + ": cannot be written: " + probe.errorString()).toStdString());
}

QByteArray sealOf(const QByteArray& bytes) {
  return QCryptographicHash::hash(QByteArray(QT_VERSION_STR MOESCOPE_VERSION) + bytes, QCryptographicHash::Sha256);
}

// Removes the queue files of candidates whose recordings are all gone.
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

void keepSealed(const QString& key, const QVariantMap& values) {
  QByteArray bytes;
  QDataStream out(&bytes, QIODevice::WriteOnly);
  out << values;
  settings().setValue(key, sealOf(bytes) + bytes);
}

QVariantMap sealed(const QString& key) {
  const QByteArray stored = settings().value(key).toByteArray();
  const qsizetype seal = QCryptographicHash::hashLength(QCryptographicHash::Sha256);
  const QByteArray bytes = stored.mid(seal);
  if (stored.size() <= seal || stored.first(seal) != sealOf(bytes)) return {};
  QVariantMap values;
  QDataStream in(bytes);
  in >> values;
  return values;
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
  requireWritable(folder);
  const QStringList recordings = folder.entryList({"*.moescope"}, QDir::Files, QDir::Time);  // newest first
  qint64 bytes = 0;
  for (qsizetype i = 0; i < recordings.size(); ++i) {
    const QString path = folder.filePath(recordings[i]);
    bytes += recordingBytes(path);
    if (i < kKeptRecordings - 1 && bytes <= kKeptBytes) continue;
    for (const char* suffix : {"", "-wal", "-shm"}) QFile::remove(path + suffix);
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
