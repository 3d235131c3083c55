#include "core/logs/lines/printed_line.h"

#include <algorithm>
#include <array>

#include "core/files/text/words.h"
#include "core/logs/lines/printed_pairs.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

// Returns the word and the number in "[Rank 3] ..." or "INFO rank=3 ..."; empty if there is none.
std::string_view rank_word(std::string_view text) {
  for (std::size_t at = 0; at + 4 < text.size(); ++at) {
    const bool is_word = (text[at] | 0x20) == 'r' && (text[at + 1] | 0x20) == 'a' && (text[at + 2] | 0x20) == 'n' &&
                         (text[at + 3] | 0x20) == 'k' && (at == 0 || !is_letter(text[at - 1]) || text[at - 1] == '_');
    const std::size_t first = is_word ? text.find_first_not_of(" =:", at + 4) : std::string_view::npos;
    const std::string_view rank = first == std::string_view::npos ? std::string_view() : digits_at(text.substr(first));
    if (!rank.empty()) return text.substr(at, first + rank.size() - at);
  }
  return {};
}

// Returns "worker-1  |" with which a line of one of several containers begins; empty if it does not.
std::string_view container_of(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(" \t"));
  const std::size_t bar = text.find_first_not_of(" \t", name.size());
  const std::string word = spelled_alike(name.substr(0, name.rfind('-')));
  const bool counts_steps = counted_by(word) == Counted::step || word == "epoch";  // "epoch-3 | loss 2.5"
  const bool is_name = !name.empty() && is_letter(name.front()) && is_digit(name.back()) && !counts_steps;
  return is_name && name.find('-') != name.npos && bar != text.npos && text[bar] == '|' ? text.substr(0, bar + 1)
                                                                                        : std::string_view();
}

}  // namespace

std::string without_colours(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::string_view mark = line[i] == '\xe2' ? line.substr(i, 3) : std::string_view();
    if (mark == "\u2502" || mark == "\u2503" || mark.starts_with("\xe2\x96")) {
      out += mark.starts_with("\xe2\x96") ? "" : "|";
      i += 2;
      continue;
    }
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && !is_letter(line[i + 1])) ++i;
    ++i;
  }
  return out;
}

std::string_view without_logger(std::string_view text) {
  for (const std::string_view level : {"DEBUG:", "INFO:", "WARNING:"}) {
    const std::size_t end = text.starts_with(level) ? text.find(':', level.size()) : text.npos;
    if (end != text.npos && text.substr(0, end).find_first_of(" =") == text.npos) return text.substr(end + 1);
  }
  return text;
}

std::string_view rank_of(std::string_view line) {
  const std::string_view text = line.substr(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view number = digits_at(text);
  if (!number.empty() && text.substr(number.size()).starts_with(": ")) return text.substr(0, number.size() + 1);
  if (const std::string_view container = container_of(text); !container.empty()) return container;
  const std::string_view mark = text.substr(0, text.find_first_of("])") + 1);  // empty if there is no bracket
  const std::string_view behind = text.substr(mark.size());
  if (mark.starts_with('(') && mark.ends_with(')') && mark.find("pid=") != std::string_view::npos) return mark;
  if (mark.starts_with("[pod/")) return mark;
  if (mark.starts_with('[')) {
    std::string_view name = mark.substr(1, mark.size() - 2);
    const bool is_rank = behind.starts_with("<std") || !rank_word(name).empty();
    if (name.starts_with("default")) name.remove_prefix(7);
    const bool is_number = !name.empty() && digits_at(name).size() == name.size() && behind.starts_with(':');
    if (is_rank || is_number) return text.substr(0, mark.size() + (behind.starts_with(':') ? 1 : 0));
  }
  return rank_word(text.substr(0, std::min({text.find("tep"), text.find("ter"), text.find('{'), kLongestFigure})));
}

std::string without_types(std::string line) {
  constexpr std::array<std::string_view, 12> kTypes = {"tensor",  "array",   "Array",       "Tensor",
                                                       "float16", "float32", "float64",     "int32",
                                                       "int64",   "Counter", "defaultdict", "bfloat16"};
  for (std::size_t at = line.find('('); at != std::string::npos; at = line.find('(', at + 1)) {
    const std::string_view text = line;
    std::size_t word = at;
    while (word > 0 && (is_letter(line[word - 1]) || is_digit(line[word - 1]))) --word;
    if (std::ranges::find(kTypes, text.substr(word, at - word)) == kTypes.end()) continue;
    const std::size_t end = bracket_end(text.substr(at));
    if (end == 0) break;
    std::string_view value = text.substr(at + 1, end - 2);
    if (value.starts_with('<')) value.remove_prefix(std::min(value.find(", ") + 2, value.size()));  // a class
    const std::size_t list = value.starts_with('[') || value.starts_with('{') ? bracket_end(value) : value.find(',');
    while (word > 0 && (line[word - 1] == '.' || is_letter(line[word - 1]))) --word;  // "np." of "np.float32"
    line = line.substr(0, word) + std::string(value.substr(0, list)) + line.substr(at + end);
    at = word;
  }
  return line;
}

}  // namespace moescope
