// Where the window remembers itself (QSettings) and where its runs go on disk.
#pragma once

#include <QSettings>
#include <QString>
#include <QStringList>

namespace moescope {

inline constexpr int kKeptRecordings = 20;
inline constexpr int kRecentFiles = 8;

QSettings settings();  // one INI file in the user's configuration directory

QString recordingsFolder();
// A fresh <folder>/<date>-<name>.moescope; creates the folder and removes all but the newest kKeptRecordings - 1
// recordings of earlier window runs. Throws std::runtime_error when the folder cannot be made.
QString newRecordingPath(const QString& name);

QStringList recentFiles();
void rememberRecentFile(const QString& path);

}  // namespace moescope
