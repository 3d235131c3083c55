// When a log shows that its training went back to an earlier step: the same rule for every format.
//
// A training that was stopped goes on from a checkpoint and logs the steps after it once more. It shows by a key that
// was logged before
//   - at a later step, or
//   - at the same step, while something was logged at a later one.
// What was read of this step and of all later ones then belongs to the attempt that was given up, and is dropped. No
// restart are:
//   - a key that comes late, as the validation loss of step 100 after the losses of step 101: it joins its step;
//   - a key that comes again at the newest step: its later value counts, the others of the step stay.
// Where the log itself says that a training went back (TensorBoard's session log), that counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace moescope {

// The steps from `step` to `last` were dropped.
struct Restart {
  std::int64_t step = 0, last = 0;
  bool operator==(const Restart&) const = default;
};
// "goes on from step 101: dropped what an earlier attempt logged of the steps 101 to 150"
std::string restart_text(const Restart& restart);

// Why a log is refused most of whose steps would be dropped, though so many restarts go back to a step that was not
// logged before: its lines were shuffled, or the newest stands first.
bool is_in_no_order(std::size_t to_new_steps, std::size_t dropped, std::size_t logged);
std::string no_order_text(std::size_t to_new_steps, std::size_t dropped, std::size_t logged);

class RestartRule {
 public:
  // Notes a value, in the order of the log. What it returns has to be dropped before the value is taken.
  std::optional<Restart> take(std::string_view key, std::int64_t step);
  // The log says that the training goes on from `step`; nullopt: there was nothing from there on.
  std::optional<Restart> go_back_to(std::int64_t step);
  // "step 0: "loss" was logged again (and 2 more such values): the last value of a step is shown"; empty: none was.
  std::string again_text() const;

 private:
  struct Seen {
    std::int64_t step = -1;
    std::size_t restarts = 0;  // how many there had been
  };
  struct Cut {
    std::int64_t step;
    std::size_t number;  // of the restart, from 1
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::int64_t kept(const Seen& seen) const;

  std::unordered_map<std::string, Seen, Hash, std::equal_to<>> seen_;
  std::vector<Cut> cuts_;  // those that no later one went behind: steps and numbers rise
  std::size_t restarts_ = 0;
  std::int64_t newest_ = -1;
  // Values that came again at the newest step, the first of them.
  std::size_t again_ = 0;
  std::string first_again_;
};

}  // namespace moescope
