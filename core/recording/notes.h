// Notes that a user pins to steps: markers of the kind "note". A step of a run has at most one note; a later note
// replaces it, and a note without text deletes it.
#pragma once

#include <string>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"

namespace moescope {

class Connection;

std::string note_at(const History& history, std::int64_t step);  // empty if the step has no note

// Writes a note, or data of a run (is_data_marker()), into a recording, and replaces an earlier marker of the same kind
// and step. Another program may be writing to the recording. marker.run is the run's number in the file. Throws
// std::runtime_error with the path if the file cannot be written or is not a recording.
void write_marker(const std::string& recording, const Marker& marker);

// Replaces the marker of the same run, step and kind over a connection that is open for writing; deletes it if
// marker.text is empty.
void replace_marker(Connection& connection, const Marker& marker);

}  // namespace moescope
