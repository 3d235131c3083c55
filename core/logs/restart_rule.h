// Detects that a training went back to an earlier step, by one rule for every log format.
//
// A training that was stopped resumes from a checkpoint and logs the steps after it again. A restart is detected if a
// key was logged before
// - at a later step, or
// - at the same step, and any key was logged at a later step since.
// Values of this step and of later ones then belong to the abandoned attempt and are dropped. Not a restart:
// - a late key, such as the validation loss of step 100 after the losses of step 101: it joins its step;
// - a repeated key at the newest step: its later value replaces the earlier one; the other values of the step stay.
// If the log itself records that a training went back (TensorBoard's session log), that counts as a restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/name_map.h"

namespace moescope {

// A restart drops the steps from `step` to `last`.
struct Restart {
  std::int64_t step = 0, last = 0;
  bool operator==(const Restart&) const = default;
};
// Returns "continues from step 101: dropped steps 101 to 150 of an earlier attempt".
std::string restart_text(const Restart& restart);

class RestartRule {
 public:
  // To be called for each value in the order of the log. Returns the steps of an abandoned attempt, which the caller
  // must drop before it adds the value; nullopt if there are none.
  // Other `numbers` of the same key and step change the step.
  std::optional<Restart> take(std::string_view key, std::int64_t step, std::span<const double> numbers = {});
  // To be called if the log itself records that the training goes on from `step`. Returns the steps to drop; nullopt if
  // there were no values from `step` on.
  std::optional<Restart> go_back_to(std::int64_t step);
  // Returns "step 0: "loss" was logged again (and 2 more such values): the last value of a step is shown"; empty if no
  // value was repeated.
  std::string again_text() const;
  std::int64_t changed_steps() const { return changed_steps_; }

 private:
  struct Seen {
    std::int64_t step = -1;
    std::size_t restarts = 0;  // number of restarts before the value was logged
    std::size_t hash = 0;      // of its numbers
  };
  struct Cut {
    std::int64_t step;
    std::size_t number;  // number of the restart, from 1
  };
  std::int64_t kept_step(const Seen& names) const;

  NameMap<Seen> names_;
  // Restarts, except those after which a later one went back as far or further. Steps and numbers rise.
  std::vector<Cut> cuts_;
  std::size_t restarts_ = 0;
  std::int64_t newest_ = -1, changed_steps_ = 0, last_changed_ = -1;
  // Number of values that were repeated at the newest step, and a text on the first of them.
  std::size_t repeated_values_ = 0;
  std::string first_again_;
};

}  // namespace moescope
