#include "core/recording/notes.h"

#include "core/files/sqlite.h"
#include "core/recording/recording_file.h"

namespace moescope {

namespace {

constexpr int kPatienceMs = 1000;  // longest wait for another program that is writing

}  // namespace

std::string note_at(const History& history, std::int64_t step) {
  for (const Marker& marker : history.markers())
    if (marker.kind == kNoteKind && marker.step == step) return marker.text;
  return {};
}

void replace_marker(Connection& connection, const Marker& marker) {
  Statement(connection, "DELETE FROM marker WHERE run = ? AND step = ? AND kind = ?")
      .bind_all(marker.run, marker.step, marker.kind)
      .run();
  if (marker.text.empty()) return;
  Statement(connection, "INSERT INTO marker (run, step, kind, text) VALUES (?, ?, ?, ?)")
      .bind_all(marker.run, marker.step, marker.kind, marker.text)
      .run();
}

void write_marker(const std::string& recording, const Marker& marker) {
  // Closing the connection moves the log of a killed program into the file, which is then complete. A program that is
  // still writing sets meta.state back to kBeingWritten.
  const bool takes_in_log = RecordingFile(recording).has_log_of_unclosed();
  Connection connection(recording, SQLITE_OPEN_READWRITE);
  sqlite3_busy_timeout(connection.handle(), kPatienceMs);
  connection.execute("BEGIN IMMEDIATE");
  replace_marker(connection, marker);
  if (takes_in_log) Statement(connection, "UPDATE meta SET value = ? WHERE key = 'state'").bind(kLogMerged).run();
  connection.execute("COMMIT");  // if COMMIT is never reached, closing the connection rolls back
}

}  // namespace moescope
