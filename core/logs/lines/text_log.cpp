#include "core/logs/lines/text_log.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/lines/printed_step.h"
#include "core/logs/lines/python_dict.h"
#include "core/logs/table/table_cells.h"

namespace moescope {

struct TextLogReader::Pair {
  std::string name, number;  // the number as it is printed
  NamedValue list;           // or a list of numbers
  std::string json;          // or a dict
};

namespace {

using Pair = TextLogReader::Pair;

constexpr std::size_t kLongestPiece = 65536, kLongestFigure = 200, kMaxPairs = 4096, kMaxBraces = 16,
                      kLongestNumber = 64;
constexpr std::ptrdiff_t kMaxDigitsOfStep = 15;
constexpr std::string_view kBlank = " \t\r";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Removes codes for colours of a terminal: ESC [ ... letter.
std::string without_colours(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
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

// Returns the digits with which the text begins.
std::string_view digits_at(std::string_view text) {
  return text.substr(0, text.find_first_not_of("0123456789"));
}

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

// Returns what marks the rank in a line: "[rank0]:", "[default3]:", "2: ", "[1,3]<stdout>:" and "(Worker pid=12,
// ip=...)" at its beginning, or the word with its number before the values; empty if there is none.
std::string_view rank_of(std::string_view line) {
  const std::string_view text = line.substr(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view number = digits_at(text);
  if (!number.empty() && text.substr(number.size()).starts_with(": ")) return text.substr(0, number.size() + 1);
  const std::string_view mark = text.substr(0, text.find_first_of("])") + 1);  // empty if there is no bracket
  const std::string_view behind = text.substr(mark.size());
  if (mark.starts_with('(') && mark.ends_with(')') && mark.find("pid=") != std::string_view::npos) return mark;
  if (mark.starts_with('[')) {
    std::string_view name = mark.substr(1, mark.size() - 2);
    const bool is_rank = behind.starts_with("<std") || !rank_word(name).empty();
    if (name.starts_with("default")) name.remove_prefix(7);
    const bool is_number = !name.empty() && digits_at(name).size() == name.size() && behind.starts_with(':');
    if (is_rank || is_number) return text.substr(0, mark.size() + (behind.starts_with(':') ? 1 : 0));
  }
  return rank_word(text.substr(0, std::min({text.find("tep"), text.find("ter"), text.find('{'), kLongestFigure})));
}

// Returns the end of the bracket with which the text begins, behind its counterpart; 0 if there is none.
std::size_t bracket_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth +=
        (text[i] == '(' || text[i] == '[' || text[i] == '{') - (text[i] == ')' || text[i] == ']' || text[i] == '}');
    if (depth <= 0) return depth == 0 && i > 0 ? i + 1 : 0;
  }
  return 0;
}

// Writes values in the name of their type as values: "tensor(2.5, device='cuda:0')", "np.float32(2.5)",
// "Counter({0: 3})", "Array([1, 2], dtype=int32)".
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

struct StepPlace {
  std::string_view word;
  std::string_view number;         // as it is printed
  std::size_t begin = 0, end = 0;  // begin of the word; end of the number and its total
};

// Returns the digits with which the text begins, and the commas between them: "1,000" of "1,000/2,000".
std::string_view whole_number_at(std::string_view text) {
  std::string_view number = text.substr(0, text.find_first_not_of("0123456789,"));
  if (number.starts_with(',')) return {};
  while (number.ends_with(',')) number.remove_suffix(1);
  return number;
}

// Finds "step:  12", "iteration   100/ 250000", "global_step=7"; "steps: 12" only at the beginning of the line, because
// elsewhere it may be the number of all steps.
std::optional<StepPlace> find_step(std::string_view line) {
  constexpr std::array<std::string_view, 7> kWords = {"global_step", "train_step", "iteration", "num_updates",
                                                      "step",        "iter",       "update"};
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (at > 0 && (is_letter(line[at - 1]) || is_digit(line[at - 1]))) continue;
    for (const std::string_view word : kWords) {
      std::string_view begin = line.substr(at, word.size());
      const bool is_same =
          begin.size() == word.size() &&
          std::equal(word.begin(), word.end(), begin.begin(), [](char a, char b) { return a == (b | 0x20) || a == b; });
      if (!is_same) continue;
      const bool is_plural = at == 0 && word == "step" && line.substr(word.size()).starts_with("s:");
      std::size_t digits = line.find_first_not_of(" \t", at + word.size() + (is_plural ? 1 : 0));
      if (digits != std::string_view::npos && (line[digits] == ':' || line[digits] == '='))
        digits = line.find_first_not_of(" \t[", digits + 1);
      if (digits == std::string_view::npos || digits == at + word.size()) continue;
      const std::string_view number = whole_number_at(line.substr(digits));
      const std::size_t end = digits + number.size();
      if (number.empty() || std::ranges::count_if(number, is_digit) > kMaxDigitsOfStep) continue;
      if (end < line.size() && (is_letter(line[end]) || line[end] == '.' || line[end] == '%')) continue;
      StepPlace place{word == "update" ? "step" : word, number, at, end};
      const std::size_t slash = line.find_first_not_of(' ', end);
      if (slash != std::string_view::npos && line[slash] == '/') {  // the total follows
        const std::size_t total = line.find_first_not_of(' ', slash + 1);
        if (total != std::string_view::npos && is_digit(line[total]))
          place.end = std::min(line.find_first_not_of("0123456789", total), line.size());
      }
      return place;
    }
  }
  return std::nullopt;
}

// Returns the length of the number with which the text begins, without commas at its end; also of a text such as "3,5",
// which may be a number. Returns 0 if there is none or it does not end at a blank, a bracket, "|", ";" or the end of
// the text.
std::size_t number_length(std::string_view text) {
  text = text.substr(0, kLongestNumber);
  const std::size_t end = std::min(text.find_first_of(" \t|;()[]{}\r"), text.size());
  std::string_view word = text.substr(0, end);
  if (word.size() == kLongestNumber) return 0;
  while (word.ends_with(',')) word.remove_suffix(1);
  return printed_number(word) || number_with_unit(word) || is_like_number(word) ? word.size() : 0;
}

// Sets a printed number, which stays a text if it is no number or its comma may be a decimal point: "2,345" is 2345 if
// it is a count, but no program prints a loss so.
void set_printed(std::string_view number, bool is_count, NamedValue& value, LogRecord& record) {
  auto read = is_count || !may_have_decimal_comma(number) ? printed_number(number) : std::nullopt;
  if (!read) read = number_with_unit(number);
  if (read) {
    value.numbers = {*read};
    return;
  }
  value.text = record.keep(std::string(number));
  value.is_text = true;
}

constexpr const char* kBetweenParts = "|";

// Splits a line at "|", ";", two blanks, tabs, " - " and commas before a blank or a letter. Parts that not only blanks
// separate have a part kBetweenParts between them.
std::vector<std::string> parts_of(std::string_view text) {
  std::string joined;  // without blanks after : and =
  for (std::size_t i = 0; i < text.size(); ++i) {
    joined += text[i];
    if (text[i] == ':' || text[i] == '=') i = std::min(text.find_first_not_of(" \t", i + 1), text.size()) - 1;
  }
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    const char next = i + 1 < joined.size() ? joined[i + 1] : ' ';
    const bool is_comma = joined[i] == ',' && (next == ' ' || is_letter(next));
    const bool is_dash = std::string_view(joined).substr(i).starts_with(" - ");
    const bool is_mark = joined[i] == '|' || joined[i] == ';' || is_comma || is_dash;
    if ((is_mark || joined[i] == '\t' || (joined[i] == ' ' && next == ' ')) && parts.size() < kMaxPairs) {
      if (is_dash) i += 2;
      if (is_mark) parts.emplace_back(kBetweenParts);
      parts.emplace_back();
    } else {
      parts.back() += joined[i];
    }
  }
  return parts;
}

// Returns the first of the numbers "0.0001,0.0002": if it has a decimal point, the comma is none.
std::string_view first_of_list(std::string_view list) {
  const std::string_view first = list.substr(0, list.find(','));
  return first.find('.') == std::string_view::npos ? list : first;
}

// Adds the names and numbers in "loss:2.5", "loss 2.5" or "loss=2.5 lr=0.1".
void add_pairs(std::string_view part, std::vector<Pair>& pairs) {
  const auto add = [&](std::string_view name, std::string_view number) {
    name = trimmed(name, " \t:=,-");
    // The name follows a value that is no number in "caller=train loss=2.5", and the rest of one in "10 / 400
    // loss=2.5".
    if (name.find('=') != std::string_view::npos) name.remove_prefix(name.rfind(' ') + 1);
    if (const std::size_t mark = name.rfind("] "); mark != std::string_view::npos) name.remove_prefix(mark + 2);
    const auto begins = [](char c) { return is_letter(c) || c == '\'' || c == '"' || c == '('; };
    name.remove_prefix(std::ranges::find_if(name, begins) - name.begin());
    if (!name.empty() && name.size() <= kLongestFigure)
      pairs.push_back({std::string(name), std::string(number), {}, {}});
  };
  const bool has_sign = part.find_first_of(":=") != std::string_view::npos;
  std::size_t begin = 0;
  for (std::size_t at = part.find_first_of(has_sign ? ":=" : " ");
       at != std::string_view::npos && pairs.size() < kMaxPairs;
       at = part.find_first_of(has_sign ? ":=" : " ", at + 1)) {
    std::size_t value = at + 1;
    const bool is_rate = trimmed(part.substr(begin, at - begin), " \t:=,-") == "lr";
    const bool is_list = is_rate && value < part.size() && part[value] == '[';
    if (is_list) ++value;  // of the rates of all groups, reads the first
    const std::string_view value_text = part.substr(value);
    const std::size_t length = number_length(is_list ? first_of_list(value_text) : value_text);
    if (length == 0) continue;
    add(part.substr(begin, at - begin), part.substr(value, length));
    begin = value + length;
    at = begin - 1;
  }
}

// Returns the name without the unit of the number before it: "GB grad_norm" of "memory: 10.5 GB grad_norm: 1.1".
std::string_view without_unit(std::string_view name) {
  constexpr std::array<std::string_view, 8> kUnits = {"GB ", "GiB ", "MB ", "MiB ", "ms ", "s ", "sec ", "% "};
  for (const std::string_view unit : kUnits)
    if (name.starts_with(unit)) return name.substr(unit.size());
  return name;
}

constexpr int kDeepestList = 3;

// Returns the end of the list that begins with the text, "[[1, 2], [3, 4]]" of numbers; 0 if it is none.
std::size_t list_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (depth > kDeepestList) return 0;
    if (std::string_view("[]0123456789.,+-eE \t").find(text[i]) == std::string_view::npos) return 0;
    if (depth == 0) return i + 1;
  }
  return 0;
}

// True if a line ends within a dict whose first key is a text.
bool ends_in_dict(std::string_view line) {
  std::size_t begin = line.find('{');
  while (begin != std::string_view::npos && begin + 1 < line.size() && line[begin + 1] != '\'' &&
         line[begin + 1] != '"')
    begin = line.find('{', begin + 1);
  return begin != std::string_view::npos && line.size() < kLongestPiece && bracket_end(line.substr(begin)) == 0;
}

// True if a line ends within a list of numbers.
bool ends_in_list(std::string_view line) {
  std::size_t begin = line.find('[');
  int depth = 0;
  for (std::size_t i = begin; i < line.size(); ++i) {
    if (line[i] == '[' && depth++ == 0) begin = i;
    if (line[i] == ']' && depth > 0) --depth;
  }
  return depth > 0 && line.size() < kLongestPiece &&
         line.find_first_not_of("[]0123456789.,+-eE \t\r", begin) == std::string_view::npos;
}

// Returns the name at the end of a text "loss: 2.5 | load: " before a list; empty if there is none.
std::string name_before(std::string_view text) {
  std::string_view name = trimmed(text, " \t:=");
  const std::size_t last = name.find_last_of("|;,\t");
  name.remove_prefix(last == std::string_view::npos ? 0 : last + 1);
  // A value before it ends its own name: "loss 2.5 load" is "load".
  for (std::size_t blank = name.find(' '); blank != std::string_view::npos; blank = name.find(' ', blank + 1)) {
    const std::size_t value = name.substr(0, blank).find_last_of(" :=") + 1;
    const std::string_view number = name.substr(value, blank - value);
    const bool ends_name = value > 0 && (name[value - 1] == '=' || number.find('.') != std::string_view::npos);
    if (!ends_name || !printed_number(number)) continue;
    name.remove_prefix(blank);
    blank = 0;
  }
  return std::string(trimmed(name, kBlank));
}

// Removes the lists of several numbers and the dicts from the text and adds them to `pairs`, under the name before
// them, else as "unnamed list 1". A list of learning rates stays.
std::string take_lists(std::string_view text, std::vector<Pair>& pairs) {
  std::string outside;
  int unnamed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const auto dict =
            text[i] == '{' && pairs.size() < kMaxPairs ? read_python_dict(text.substr(i)) : std::nullopt) {
      if (std::string name = name_before(outside); !name.empty() && dict->size > 2)
        pairs.push_back({std::move(name), {}, {}, dict->json});
      i += dict->size - 1;
      outside += kBetweenParts;
      continue;
    }
    const std::size_t size = text[i] == '[' ? list_end(text.substr(i)) : 0;
    const std::string_view list = text.substr(i, size);
    const std::string_view before = trimmed(outside, kBlank);
    NamedValue value;
    if (size > 2 && list.find_first_of(", []", 1) == size - 1) {  // a list of one number
      outside += list.substr(1, size - 2);
      i += size - 1;
      continue;
    }
    if (size > 0 && list.find_first_of(", ") != std::string_view::npos && !before.ends_with("lr=") &&
        !before.ends_with("lr:"))
      set_value(list, value);
    if (!value.is_list || pairs.size() == kMaxPairs) {
      outside += text[i];
      continue;
    }
    const bool has_name =
        !before.empty() && (is_letter(before.back()) || before.ends_with(':') || before.ends_with('='));
    std::string name = has_name ? name_before(before) : std::string();
    if (name.empty()) name = "unnamed list " + std::to_string(++unnamed);
    pairs.push_back({std::move(name), {}, std::move(value), {}});
    i += size - 1;
    outside += kBetweenParts;
  }
  return outside;
}

std::vector<Pair> pairs_of(std::string_view unread) {
  std::vector<Pair> pairs;
  const bool is_row = unread.starts_with('|');  // of a table "| loss | 7.10 |"
  std::vector<std::string> parts = parts_of(take_lists(unread, pairs));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view name = trimmed(parts[i], kBlank);
    if (name.empty() || name == kBetweenParts) continue;
    // A number that blanks separate from its name: "loss   7.10".
    std::size_t next = i + 1;
    while (next < parts.size() && (trimmed(parts[next], kBlank).empty() || (is_row && parts[next] == kBetweenParts)))
      ++next;
    const std::string_view number = next < parts.size() ? trimmed(parts[next], kBlank) : std::string_view();
    const std::size_t before = pairs.size();
    add_pairs(name, pairs);
    if (pairs.size() > before || number.empty() || number_length(number) != number.size()) continue;
    add_pairs(std::string(name) + ' ' + std::string(number), pairs);
    i = next;
  }
  for (Pair& pair : pairs) pair.name = std::string(without_unit(pair.name));
  return pairs;
}

// Returns the pairs of a line. The names in "layer 3: max_vio 0.2" and "[block 3] load [12, 14]" begin with the layer.
std::vector<Pair> pairs_of_layer(const std::string_view whole_line) {
  constexpr std::array<std::string_view, 5> kWords = {"layer ", "layer_", "block ", "block_", "moe layer "};
  const std::string_view line = whole_line.substr(whole_line.starts_with('[') ? 1 : 0);
  std::string beginning(line.substr(0, kWords.back().size()));
  std::ranges::transform(beginning, beginning.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; });
  const auto word = std::ranges::find_if(kWords, [&](std::string_view text) { return beginning.starts_with(text); });
  const std::string_view digits = word == kWords.end() ? std::string_view() : digits_at(line.substr(word->size()));
  const std::string_view behind = digits.empty() ? std::string_view() : line.substr(word->size() + digits.size());
  const std::string_view unread = trimmed(behind, " \t");
  if (unread.empty() || std::string_view(":|-,]").find(unread.front()) == std::string_view::npos)
    return pairs_of(whole_line);
  std::vector<Pair> pairs = pairs_of(trimmed(unread.substr(1), " \t:|-,"));
  for (Pair& pair : pairs)
    pair.name = "layer " + std::string(digits) + (pair.name.starts_with("unnamed list") ? "" : ' ' + pair.name);
  return pairs;
}

bool has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// True for the time and the line of source code that a logger writes: "I0105 12:05" and "train.py" of "train.py:120".
bool is_of_logger(std::string_view name) {
  return has(name, ":") || name.ends_with(".py") || name.ends_with(".cc") || name.ends_with(".cpp");
}

MeasuredOn text_of_line(std::string_view line, const StepPlace& place) {
  std::string before(line.substr(0, place.begin));
  std::transform(before.begin(), before.end(), before.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t last = before.find_last_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::size_t space = std::string_view(before).substr(0, last).find_last_not_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::string word = before.substr(space, last - space);  // "Test step: 10"
  if (has(line, "on test set") || word == "test") return MeasuredOn::test;
  if (word == "val") return MeasuredOn::validation;
  const bool validates = has(before, "valid") || has(before, "[val]") || has(before, "eval");
  return validates ? MeasuredOn::validation : MeasuredOn::training;
}

}  // namespace

// The first rank is read, until another one has a loss and it has none. Lines may have a mark in front, or name the
// rank.
bool TextLogReader::is_wanted_rank(std::string_view rank, bool has_loss) {
  RankFilter& filter = rank.empty() || !is_letter(rank[0]) ? marked_ : named_;
  if (!filter.rank || (has_loss && !filter.has_loss)) filter.rank = rank;
  if (*filter.rank == rank) {
    filter.has_loss = filter.has_loss || has_loss;
    return true;
  }
  ++of_other_ranks_;
  return false;
}

// Adds a value of the record. Returns the rule of its name; nullptr if it is not known.
const TagRule* TextLogReader::add_pair(const Pair& pair, LogRecord& record) {
  const TagMatch* const found = runs_->find(pair.name);
  const TagRule* const rule = found ? found->rule : nullptr;
  const std::string_view name = record.keep(pair.name);
  if (!pair.json.empty()) {
    const std::size_t before = record.values.size();
    try {
      for (const JsonFields::Field& field : parser_.parse("{\"dict\":" + pair.json + '}'))
        json_.add(name, field.value, record);
    } catch (const Unreadable&) {
      record.add_text(name, "a dict that cannot be read");
    }
    for (std::size_t i = before; i < record.values.size(); ++i)
      if (const TagMatch* inner = runs_->find(record.values[i].name)) return inner->rule;
    return rule;
  }
  NamedValue& value = record.add(name);
  record.is_part = record.is_part || (found && found->layer >= 0);
  if (int layer = -1; rule && rule->means == TagMeaning::layer_number && read_number(pair.number, layer) &&
                      layer >= 0 && layer <= kLastImportedLayer)
    record.layer = layer;
  if (pair.list.is_list) {
    value = pair.list;
    value.name = name;
  } else {
    const bool is_count = !rule || !is_shown(rule->means) || rule->means == TagMeaning::tokens_per_expert ||
                          rule->step == &TelemetryFrame::tokens_per_s;
    set_printed(pair.number, is_count, value, record);
  }
  return rule;
}

bool TextLogReader::read_step(std::string_view piece, std::string_view rank, const Takers& take) {
  piece = trimmed(piece, kBlank);
  if (piece.starts_with(rank)) piece = trimmed(piece.substr(rank.size()), " \t\r:");
  auto place = find_step(piece);
  std::string printed_step_text;
  auto printed = printed_step(piece, runs_->context().tags.printed_steps());
  const bool is_bar = printed && has(piece.substr(printed->begin, printed->end - printed->begin), "%|");
  if (printed && !(is_bar && place))
    place = StepPlace{"step", printed_step_text = std::to_string(printed->step), printed->begin, printed->end};
  if (!place) return false;
  const MeasuredOn text = text_of_line(piece, *place);
  open_step_ = text == MeasuredOn::training && !piece.starts_with("- ") ? std::string(place->number) : std::string();
  has_values_below_ = false;
  const std::string around = std::string(piece.substr(0, place->begin)) + std::string(piece.substr(place->end));
  const bool is_in_bracket = piece[place->begin] == '[' || (place->begin > 0 && piece[place->begin - 1] == '[');
  is_bare_ = !is_in_bracket && std::ranges::none_of(around, is_letter);
  below_ = is_in_bracket || is_bare_ ? Below::any : Below::known;
  if (is_bar && text != MeasuredOn::training) return false;  // its steps are those of the validation
  LogRecord record;
  record.is_validation = text == MeasuredOn::validation;
  set_printed(place->number, true, record.add(place->word), record);
  bool known = false, has_loss = false, nan_iterations = false;
  std::string of_expert;  // of "layer=3 expert=7 tokens=40": what its loads begin with
  const auto add = [&](Pair pair) {
    nan_iterations = nan_iterations || (pair.name == "number of nan iterations" && pair.number != "0");
    const std::size_t values = record.values.size();
    if (!of_expert.empty() && !runs_->find(pair.name) && runs_->find(of_expert + pair.name))
      pair.name.insert(0, of_expert);
    const TagRule* rule = add_pair(pair, record);
    if (rule && rule->means == TagMeaning::expert_number) of_expert = "expert" + pair.number + '.';
    const bool is_loss = rule && (rule->column == "ce_loss" || rule->column == "val_loss");
    const bool is_figure = rule && is_shown(rule->means);
    if (text != MeasuredOn::training && !is_loss) return record.values.resize(values);
    known = known || is_figure;
    knows_program_ = knows_program_ || (is_figure && rule->certainty == Certainty::known_program);
    has_loss = has_loss || (is_loss && printed_number(pair.number) != -1);  // -1: this rank has none
  };
  for (Pair& pair : pairs_of(piece.substr(0, place->begin)))
    if (runs_->find(pair.name) || !is_of_logger(pair.name)) add(std::move(pair));
  const std::string_view behind = piece.substr(place->end);
  for (Pair& pair : pairs_of(trimmed(behind.substr(behind.starts_with(']') ? 1 : 0), " \t:=,|-"))) {
    if (pair.name.ends_with(" value")) pair.name.resize(pair.name.size() - 6);
    add(std::move(pair));
  }
  if (printed)
    for (auto& [name, number] : printed->values) add({std::move(name), std::move(number), {}, {}});
  // Megatron-LM prints a loss only if it is above 0, which NaN is not.
  if (nan_iterations && !has_loss) {
    record.add("lm loss", std::nan(""));
    known = true;
  }
  if (!known || text == MeasuredOn::test) return false;
  if (!is_in_bracket) below_ = Below::loads;
  if (!is_wanted_rank(rank, has_loss)) {
    open_step_.clear();
    return true;
  }
  ++read_steps_;
  take(record);
  return true;
}

// Returns the step for a dict without one: dicts with a training loss are numbered 1, 2, ..., and any other dict gets
// the number of the last of them. A smaller epoch is a restart, which repeats the numbers from this epoch on.
std::int64_t TextLogReader::number_of(bool trains, double epoch) {
  if (!trains) return epochs_.size();
  if (!epochs_.empty() && epoch < epochs_.back())
    epochs_.erase(std::ranges::lower_bound(epochs_, epoch), epochs_.end());
  const double last_epoch = epochs_.empty() ? 0 : epochs_.back();
  epochs_.push_back(std::isnan(epoch) ? last_epoch : epoch);
  return epochs_.size();
}

TextLogReader::DictKeys TextLogReader::keys_of(const LogRecord& record) {
  DictKeys keys;
  if (const NamedValue* epoch = find_value(record, "epoch"); epoch && is_number(*epoch)) keys.epoch = epoch->numbers[0];
  for (const NamedValue& value : record.values) {
    const TagMatch* const found = value.is_own ? nullptr : runs_->find(value.name);
    if (!found) continue;
    keys.has_step = keys.has_step || found->rule->means == TagMeaning::step_number;
    keys.shows = keys.shows || is_shown(found->rule->means);
    if (!is_number(value) && !(value.is_text && is_like_number(value.text))) continue;
    keys.trains = keys.trains || found->rule->column == "ce_loss";
    keys.validates = keys.validates || found->rule->column == "val_loss";
  }
  return keys;
}

bool TextLogReader::read_dict(std::string_view piece, std::string_view rank, const Takers& take) {
  std::size_t tried = 0;
  bool found = false;
  for (std::size_t at = piece.find('{'); at != std::string_view::npos && tried < kMaxBraces;
       at = piece.find('{', at + 1)) {
    ++tried;
    const auto dict = read_python_dict(piece.substr(at));
    if (!dict) continue;
    try {
      LogRecord record = json_.record_of(parser_.parse(dict->json), 0, dict->json.size());
      const DictKeys keys = keys_of(record);
      if (is_closing(record) || (!keys.trains && !keys.validates && !(keys.has_step && keys.shows))) continue;
      if (!is_wanted_rank(rank, keys.trains)) return true;
      const auto before = keys.has_step ? std::nullopt : find_step(piece.substr(0, at));  // "step 3: {'loss': 2.5}"
      if (before)
        set_printed(before->number, true, record.add("step"), record);
      else if (!keys.has_step)
        record.add("step", static_cast<double>(number_of(keys.trains, keys.epoch)));
      ++read_steps_;
      is_of_trainer_ = is_of_trainer_ || (!keys.has_step && !before && !std::isnan(keys.epoch));
      knows_program_ = knows_program_ || is_of_trainer_;
      take(record);
      found = true;
    } catch (const Unreadable&) {  // not a dict of values
      continue;
    }
    tried = 0;
    at += dict->size - 1;  // further dicts may follow
  }
  return found;
}

// Reads a line below one with the step: "    train/CE loss=2.5", "  - Loss: 2.5", "layer 3 load: [12, 14]". If the line
// of the step has values itself, only loads are read.
bool TextLogReader::read_value_of_step(std::string_view piece, bool is_indented, const Takers& take) {
  const std::string plain = without_types(without_colours(piece));
  const std::string_view rank = rank_of(plain);
  std::string_view unread = trimmed(plain, kBlank);
  if (unread.starts_with(rank)) unread = trimmed(unread.substr(rank.size()), " \t\r:");
  LogRecord record;
  set_printed(open_step_, true, record.add("step"), record);
  record.is_part = true;
  bool has_loads = false, has_figures = false;
  for (const Pair& pair : pairs_of_layer(unread)) {
    const std::size_t before = record.values.size();
    const TagRule* rule = add_pair(pair, record);
    const bool is_of_expert = rule && rule->means <= TagMeaning::expert_bias;
    has_loads = has_loads || is_of_expert;
    has_figures = has_figures || (rule && is_shown(rule->means));
    if (below_ == Below::loads && !is_of_expert) record.values.resize(before);
  }
  const bool is_read = below_ == Below::loads
                           ? has_loads
                           : has_figures || (below_ == Below::any && is_indented && record.values.size() > 1);
  if (!is_read || !is_wanted_rank(rank, false)) return false;
  has_values_below_ = true;
  read_steps_ += has_figures;
  take(record);
  return has_figures;
}

bool TextLogReader::read_piece(std::string_view piece, const Takers& take) {
  if (piece.size() > kLongestPiece) return false;
  const bool may_be = has(piece, "tep") || has(piece, "ter") || has(piece, "TEP") || has(piece, "TER") ||
                      has(piece, "pdate") || may_have_printed_step(piece, runs_->context().tags.printed_steps());
  if (may_be || has(piece, "{")) {
    const std::string plain = without_types(without_colours(piece));
    const std::string_view rank = rank_of(plain);
    if ((has(plain, "{") && read_dict(plain, rank, take)) || (may_be && read_step(plain, rank, take))) return true;
    if (may_be && find_step(plain)) return false;
  }
  if (open_step_.empty() || piece.empty()) return false;
  const bool has_pairs = piece.find_first_of("=:[|") != std::string_view::npos;
  const bool is_indented = std::string_view(" \t-*|").find(piece.front()) != std::string_view::npos;
  if (has_pairs && (below_ == Below::loads ? has(piece, "[") : is_indented || is_bare_))
    return read_value_of_step(piece, is_indented, take);
  const bool is_end = below_ != Below::loads && has_values_below_ && !is_indented;
  const bool is_of_other_text = has(piece, "val") || has(piece, "Val") || has(piece, "test") || has(piece, "Test");
  if (is_end || is_of_other_text) open_step_.clear();
  return false;
}

std::optional<std::string> TextLogReader::wrapped_text(std::string_view line) const {
  constexpr std::array<const char*, 7> kNames = {"log", "message", "msg", "MESSAGE", "text", "textPayload", "line"};
  if (!line.starts_with('{') || line.size() > kLongestPiece) return std::nullopt;
  if (std::ranges::none_of(kNames, [&](const char* name) { return has(line, '"' + std::string(name) + '"'); }))
    return std::nullopt;
  try {
    JsonLines parser;
    const JsonFields fields = parser.parse(line);
    for (const char* name : kNames)
      if (const JsonValue* found = fields.find(name); found && found->is_string())
        return std::string(trimmed(to_text(*found, name), " \t\r\n"));
  } catch (const Unreadable&) {  // no object
  }
  return std::nullopt;
}

bool TextLogReader::wraps_text(std::string_view line) const {
  const auto text = wrapped_text(line);
  return text && TextLogReader(*runs_).read(*text);
}

// Joins the lines of a printed list that goes on in the next line.
bool TextLogReader::read(std::string_view line, const Takers& take) {
  const std::size_t first = std::min(line.find_first_not_of(kBlank), line.size());
  const bool is_below = ends_in_dict(list_)
                            ? first > 0 || line.starts_with('}')
                            : std::string_view("[]-.0123456789").find(line.substr(first, 1)) != std::string_view::npos;
  const bool goes_on = !list_.empty() && first < line.size() && list_.size() + line.size() < kLongestPiece && is_below;
  const std::string before = std::exchange(list_, {});
  const bool found = !before.empty() && !goes_on && read_line(before, take);
  const std::string joined = goes_on ? before + ' ' + std::string(line) : std::string();
  const std::string_view whole = goes_on ? std::string_view(joined) : line;
  if (!ends_in_list(whole) && !ends_in_dict(whole)) return read_line(whole, take) || found;
  list_ = whole;
  return found;
}

bool TextLogReader::read_line(std::string_view line, const Takers& take) {
  if (const auto text = wrapped_text(line); text && !text->starts_with('{')) return read_line(*text, take);
  bool found = false;
  while (!line.empty())  // a progress bar returns to the beginning of its line
    found = read_piece(take_until(line, '\r'), take) || found;
  return found;
}

bool holds_printed_steps(std::string_view text, const TagMap& tags) {
  LogContext context;
  context.tags = tags;
  LogRuns runs(std::move(context));
  TextLogReader reader(runs);
  while (!text.empty() && !reader.is_log()) reader.read(take_until(text, '\n'));
  return reader.is_log();
}

}  // namespace moescope
