// The stored state of the window (QSettings), and the folder of its recordings.
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

// Stores values with a checksum, which protects values that are not checked when they are read, such as the places of
// docks. sealed() returns them; empty if there are none, if the file is damaged, or if another version stored them.
void keepSealed(const QString& key, const QVariantMap& values);
QVariantMap sealed(const QString& key);

QString recordingsFolder();
qint64 recordingBytes(const QString& path);  // size including the write-ahead log; 0: there is no such file
// Returns a new path <folder>/<date>-<name>.moescope. Creates the folder, and removes the oldest recordings of the
// window until at most kKeptRecordings - 1 recordings with at most kKeptBytes are left. Throws std::runtime_error if
// the folder cannot be written.
QString newRecordingPath(const QString& name);

QStringList recentFiles();
void rememberRecentFile(const QString& path);
void forgetRecentFile(const QString& path);

}  // namespace moescope
