#include "core/recording/notes.h"

#include "core/io/sqlite.h"
#include "core/recording/recording_file.h"

namespace moescope {

namespace {

constexpr int kPatienceMs = 1000;  // wait for another program that is writing

}  // namespace

std::string note_at(const History& history, std::int64_t step) {
  for (const Marker& marker : history.markers())
    if (marker.kind == kNoteKind && marker.step == step) return marker.text;
  return {};
}

void replace_note(Connection& connection, const Marker& note) {
  Statement(connection, "DELETE FROM marker WHERE run = ? AND step = ? AND kind = ?")
      .bind_all(note.run, note.step, kNoteKind)
      .run();
  if (note.text.empty()) return;
  Statement(connection, "INSERT INTO marker (run, step, kind, text) VALUES (?, ?, ?, ?)")
      .bind_all(note.run, note.step, kNoteKind, note.text)
      .run();
}

namespace {

// Calls `change` in a transaction.
template <class Change>
void change_recording(const std::string& recording, Change change) {
  // Closing moves the log of a killed program into the file, so that nothing is missing any more. A program that still
  // writes sets its state again.
  const bool takes_in_log = RecordingFile(recording).has_log_of_unclosed();
  Connection connection(recording, SQLITE_OPEN_READWRITE);
  sqlite3_busy_timeout(connection.handle(), kPatienceMs);
  connection.execute("BEGIN IMMEDIATE");
  change(connection);
  if (takes_in_log) Statement(connection, "UPDATE meta SET value = ? WHERE key = 'state'").bind(kLogTakenIn).run();
  connection.execute("COMMIT");  // if COMMIT is never reached, closing the connection rolls back
}

}  // namespace

void write_note(const std::string& recording, const Marker& note) {
  change_recording(recording, [&](Connection& connection) { replace_note(connection, note); });
}

void write_data(const std::string& recording, const Marker& data) {
  change_recording(recording, [&](Connection& connection) {
    Statement(connection, "DELETE FROM marker WHERE run = ? AND step = ? AND kind = ?")
        .bind_all(data.run, data.step, data.kind)
        .run();
    Statement(connection, "INSERT INTO marker (run, step, kind, text) VALUES (?, ?, ?, ?)")
        .bind_all(data.run, data.step, data.kind, data.text)
        .run();
  });
}

}  // namespace moescope
