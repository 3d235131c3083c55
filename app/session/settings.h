// The window's saved state (QSettings), and the folder of its recordings.
#pragma once

#include <QSettings>
#include <QString>
#include <QStringList>
#include <QVariantMap>

namespace moescope {

inline constexpr int kKeptRecordings = 20;
inline constexpr qint64 kKeptBytes = 8'000'000'000;        // of all recordings together
inline constexpr qint64 kPauseAfterBytes = 2'000'000'000;  // an unattended run must not fill the disk
inline constexpr int kRecentFiles = 8;

QSettings settings();  // one INI file in the user's configuration directory

// For what Qt or the program would not check when it takes it over, such as the places of docks: with a checksum, so
// that a damaged settings file loses it and does no harm. Empty: nothing was kept, or not by this version.
void keepSealed(const QString& key, const QVariantMap& values);
QVariantMap sealed(const QString& key);

QString recordingsFolder();
qint64 recordingBytes(const QString& path);  // with its write-ahead log; 0: no such file
// A fresh <folder>/<date>-<name>.moescope; creates the folder and removes the oldest recordings of earlier window runs
// until at most kKeptRecordings - 1 of at most kKeptBytes together are left. Throws std::runtime_error when nothing can
// be written there.
QString newRecordingPath(const QString& name);

QStringList recentFiles();
void rememberRecentFile(const QString& path);
void forgetRecentFile(const QString& path);

}  // namespace moescope
