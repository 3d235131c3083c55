// The markers of a run: marks, as time axes show them, each with a short title of the action at its step; and notes
// that a user pins to steps, markers of the kind "note". A step of a run has at most one note; a later note replaces
// it, and a note without text deletes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"

namespace moescope {

class Connection;

struct Mark {
  std::int64_t step = 0;
  std::string kind;   // kind of the marker
  std::string title;  // "kill 1:5", "bias of 2:2 = 1", "bias_update_rate = 0.01"; text of notes and events
  std::string text;   // complete text of the marker
};

// Returns the marks in the order of their steps, without data of the run (is_data_marker()), which belong to no step.
std::vector<Mark> marks_of(const History& history);

// Beginning of the text of an event by which a trainer saved a checkpoint; the marker's step is that of the checkpoint.
inline constexpr const char* kCheckpointSaved = "checkpoint saved";
// Returns the marker of the newest checkpoint that was saved or kept before `step`; nullopt if none is known.
std::optional<Marker> checkpoint_before(const History& history, std::int64_t step);

std::string note_at(const History& history, std::int64_t step);  // empty if the step has no note

// Writes a note, or data of a run (is_data_marker()), into a recording, and replaces an earlier marker of the same kind
// and step. Another program may be writing to the recording. marker.run is the run's number in the file. Throws
// std::runtime_error with the path if the file cannot be written or is not a recording.
void write_marker(const std::string& recording, const Marker& marker);

// Replaces the marker of the same run, step and kind over a connection that is open for writing; deletes it if
// marker.text is empty.
void replace_marker(Connection& connection, const Marker& marker);

// Beginning of the text of the event at step 0 that holds the loss gaps of a run with earlier seeds
// (core/findings/comparison/verdict.h). It is no mark and no note.
inline constexpr const char* kEarlierSeeds = "earlier seeds, gaps of the ";

}  // namespace moescope
