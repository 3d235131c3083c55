// Parts of a printed line that are no figures: codes of a terminal, the logger, the rank, names of types.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

// Removes codes for colours of a terminal, ESC [ ... letter, and the blocks of bars; lines of tables become "|".
std::string without_colours(std::string_view line);
// Returns the text behind "INFO:trainer:", which Python's logging writes before a message.
std::string_view without_logger(std::string_view text);
// Returns what marks the rank in a line: "[rank0]:", "[default3]:", "2: ", "[1,3]<stdout>:", "(Worker pid=12, ip=...)",
// "[pod/worker-1/trainer]" and "worker-1  |" at its beginning, or the word with its number before the values; empty if
// there is none.
std::string_view rank_of(std::string_view line);
// Writes values in the name of their type as values: "tensor(2.5, device='cuda:0')", "np.float32(2.5)",
// "Counter({0: 3})", "Array([1, 2], dtype=int32)".
std::string without_types(std::string line);

}  // namespace moescope
