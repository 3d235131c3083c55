// Notes that a user pins to steps: markers of the kind "note". A step of a run has at most one; a later one replaces
// it, and one without text deletes it.
#pragma once

#include <string>

#include "core/frame/frame.h"
#include "core/history/history.h"

namespace moescope {

class Connection;

std::string note_at(const History& history, std::int64_t step);  // empty: none

// Writes a note into a recording; another program may be writing it, too. Throws
// std::runtime_error with the path: it cannot be written, or is no recording. note.run is its number in the file.
void write_note(const std::string& recording, const Marker& note);

// The same over a connection that is open for writing.
void replace_note(Connection& connection, const Marker& note);

}  // namespace moescope
