#include "app/session/recorded_run.h"

#include "core/logs/file_kind.h"
#include "core/recording/recording.h"

namespace moescope {

// A recording numbers its runs; a log holds one.
std::optional<RecordedRun> recordedRun(const QStringList& paths, int place) {
  for (const QString& path : paths) {
    const std::string file = path.toStdString();
    if (file_kind(file) != FileKind::recording) {
      if (place-- == 0) return std::nullopt;
      continue;
    }
    const RecordingReader recording(file);
    const auto runs = static_cast<int>(recording.runs().size());
    if (place < runs) return RecordedRun{file, recording.runs()[static_cast<std::size_t>(place)].run};
    place -= runs;
  }
  return std::nullopt;
}

}  // namespace moescope
