// The window's stored state (QSettings), and the folder of its recordings.
#pragma once

#include <QSettings>
#include <QString>
#include <QStringList>
#include <QVariantMap>

namespace moescope {

inline constexpr int kKeptRecordings = 20;
inline constexpr qint64 kKeptBytes = 8'000'000'000;  // limit on all recordings together
// A run pauses at this size, so that it does not fill the disk unattended.
inline constexpr qint64 kPauseAfterBytes = 2'000'000'000;
inline constexpr int kRecentFiles = 8;

QSettings settings();  // one INI file in the user's configuration directory

// Stores values with a checksum, for those that are not checked when they are read, such as the places of docks: a
// damaged settings file then loses them without harm. Empty: not stored, or by another version.
void keepSealed(const QString& key, const QVariantMap& values);
QVariantMap sealed(const QString& key);

QString recordingsFolder();
qint64 recordingBytes(const QString& path);  // size with the write-ahead log; 0: no such file
// A new path <folder>/<date>-<name>.moescope. Creates the folder and removes the oldest recordings of the window until
// at most kKeptRecordings - 1 with at most kKeptBytes are left. Throws std::runtime_error if the folder cannot be
// written.
QString newRecordingPath(const QString& name);

QStringList recentFiles();
void rememberRecentFile(const QString& path);
void forgetRecentFile(const QString& path);

}  // namespace moescope
