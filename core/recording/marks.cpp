#include "core/recording/marks.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/files/sqlite.h"
#include "core/files/text/words.h"
#include "core/numerics/recipes.h"
#include "core/recording/recording_file.h"

namespace moescope {
namespace {

constexpr std::size_t kNamedEntries = 3, kLongestTitle = 24;

// Parses "1:5, 2:*" or a list of biases ("2:2=1"); maps each place to its bias, or to an empty text.
std::map<std::string, std::string> places_in(std::string_view list) {
  std::map<std::string, std::string> entries;
  while (!list.empty()) {
    std::string_view value = take_until(list, ',');
    const std::string_view place = trimmed(take_until(value, '='));
    if (!place.empty()) entries.emplace(place, trimmed(value));
  }
  return entries;
}

std::string with_places(const char* action, const std::vector<std::string>& places) {
  if (places.empty()) return {};
  if (places.size() > kNamedEntries) return action + (fmt::format(" {}", places.size())) + " experts";
  return action + (" " + joined(places, ", "));
}

std::string place_words(const std::string& place) {
  return place.starts_with("*:") ? "expert " + place.substr(2) : place;
}

// Returns the title of a change of a list of experts: the experts that were added and removed.
std::string list_title(std::string_view before, std::string_view after, const char* added_title,
                       const char* removed_title) {
  const auto old_places = places_in(before), new_places = places_in(after);
  std::vector<std::string> added, removed;
  for (const auto& [place, value] : new_places) {
    const auto old = old_places.find(place);
    if (old == old_places.end() || old->second != value)
      added.push_back(place_words(place) + (value.empty() ? "" : " = " + value));
  }
  for (const auto& [place, value] : old_places)
    if (!new_places.contains(place)) removed.push_back(place_words(place));
  const std::string first = with_places(added_title, added), second = with_places(removed_title, removed);
  return first + (first.empty() || second.empty() ? "" : "; ") + second;
}

std::string change_title(Setting setting, const std::string& before, const std::string& after) {
  const bool on = after == "true";
  std::string title;
  if (setting == &RouterConfig::killed_experts) title = list_title(before, after, "kill", "revive");
  if (setting == &RouterConfig::pinned_bias) title = list_title(before, after, "bias of", "release bias of");
  if (setting == &RouterConfig::frozen) title = on ? "freeze the router" : "unfreeze the router";
  if (setting == &RouterConfig::force_balance) title = on ? "force balance" : "let the router choose";
  if (!title.empty()) return title;
  const std::string& label = setting.field().label;
  if (const auto recipe = recipe_named(after)) return label + ": " + recipe_info(*recipe).words;
  const std::string value = after.empty() ? "none" : after;
  return label + ": " + (value.size() > kLongestTitle ? "..." : value);
}

// Text of the event by which a training keeps a checkpoint in memory. It is no mark: the timeline shows these
// checkpoints itself while they are there.
constexpr const char* kCheckpointKept = "checkpoint kept";

}  // namespace

std::vector<Mark> marks_of(const History& history) {
  std::vector<Marker> markers = history.markers();
  std::erase_if(markers, [](const Marker& marker) {
    return is_data_marker(marker.kind) || marker.text == kCheckpointKept || marker.text.starts_with(kEarlierSeeds);
  });
  std::ranges::stable_sort(markers, {}, &Marker::step);
  const auto at_start = history.settings_at_start();
  std::map<Setting, std::string> current;  // values of settings that earlier markers changed
  std::vector<Mark> marks;
  for (const Marker& marker : markers) {
    // Without the checkpoint's path, which is in the text.
    std::string title = marker.text.starts_with(kCheckpointSaved) ? kCheckpointSaved : marker.text;
    const ConfigField* field = marker.kind == kChangeKind ? find_field(marker.key) : nullptr;
    if (field) {
      const auto known = current.find(*field);
      const std::string before = known == current.end() ? at_start->text(*field).value_or("") : known->second;
      title = change_title(*field, before, marker.value);
      current[*field] = marker.value;
    }
    marks.push_back({marker.step, marker.kind, std::move(title), marker.text});
  }
  return marks;
}

namespace {

constexpr int kPatienceMs = 1000;  // longest wait for another program that is writing

}  // namespace

std::optional<Marker> checkpoint_before(const History& history, std::int64_t step) {
  std::optional<Marker> newest;
  for (const Marker& marker : history.markers()) {
    const bool is_checkpoint =
        marker.kind == "event" && (marker.text.starts_with(kCheckpointSaved) || marker.text == kCheckpointKept);
    if (is_checkpoint && marker.step < step && (!newest || marker.step >= newest->step)) newest = marker;
  }
  return newest;
}

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
