// Notes that a person pins to steps: markers of the kind "note". A step of a run has at most one; a later one takes its
// place, and one without text takes it away.
#pragma once

#include <string>

#include "core/telemetry/frame/frame.h"
#include "core/telemetry/history/history.h"

namespace moescope {

class Connection;

std::string note_at(const History& history, std::int64_t step);  // empty: none

// Into a recording, of any format, that nobody or another program writes. Throws std::runtime_error with the path: it
// cannot be written, or is no recording. note.run is its number in the file.
void write_note(const std::string& recording, const Marker& note);

// The same over a connection that is open for writing.
void replace_note(Connection& connection, const Marker& note);

}  // namespace moescope
