// Takes a printed line apart into names and values: "loss: 2.5", "loss=2.5 lr=0.1", "loss   2.50", "load: [12, 14]",
// "load: {0: 12, 1: 14}".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/logs/lines/printed_number.h"
#include "core/logs/runs/log_record.h"

namespace moescope {

inline constexpr std::size_t kLongestPiece = 65536, kLongestFigure = 200;
inline constexpr std::string_view kBlank = " \t\r";

struct PrintedPair {
  std::string name, number;  // the number or the list as it is printed
  NamedValue list;           // or a list of numbers
  std::string json;          // or a dict
  bool is_numbered = false;  // the list is printed as "0:12.5% 1:11.3% ..."
  bool is_odd = false;       // the number has an unknown unit
};

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
// Returns the digits with which the text begins.
inline std::string_view digits_at(std::string_view text) {
  return text.substr(0, text.find_first_not_of("0123456789"));
}
// Returns the end of the bracket with which the text begins, behind its counterpart; 0 if there is none.
std::size_t bracket_end(std::string_view text);
std::vector<PrintedPair> pairs_of(std::string_view line);
// Length of the layer with which a line begins, "Layer 3", "[block 3" or "L3"; 0: it begins with none.
std::size_t layer_length(std::string_view line);
// The names in "layer 3: max_vio 0.2" and "[block 3] load [12, 14]" begin with the layer.
std::vector<PrintedPair> pairs_of_layer(std::string_view line);

// True if a line ends within a dict whose first key is a text, or within a list of numbers.
bool ends_in_dict(std::string_view line);
bool ends_in_list(std::string_view line);

// Parts of a printed line that are no figures: codes of a terminal, the logger, the rank, names of types.
//
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
