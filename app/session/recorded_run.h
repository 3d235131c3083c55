// Where an open run lies on the disk.
#pragma once

#include <QStringList>
#include <optional>
#include <string>

namespace moescope {

struct RecordedRun {
  std::string file;
  int run = 0;  // its number in the recording
};
// Of the run that is open at `place`; nullopt: it is from a log, or in training. Throws std::runtime_error if a file
// cannot be read.
std::optional<RecordedRun> recordedRun(const QStringList& paths, int place);

}  // namespace moescope
