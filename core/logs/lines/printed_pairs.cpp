#include "core/logs/lines/printed_pairs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/files/text/json_line.h"
#include "core/files/text/words.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxPairs = 4096;

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

bool is_throughput(std::string_view unit) {
  return is_one_of(trimmed(unit, kBlank), {"tok/s", "tokens/s", "tok/sec", "tokens/sec"});
}

// Returns the length of a number with an unknown unit, "9.8f0" or "7.8nats"; 0 if the text does not begin with one.
std::size_t odd_number_length(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t,()[]{}"));
  const std::size_t digits = std::min(word.find_first_not_of("0123456789.-"), word.size());
  return !word.empty() && is_digit(word[0]) && digits < word.size() && is_letter(word[digits]) ? word.size() : 0;
}

// Adds the names and numbers in "loss:2.5", "loss 2.5" or "loss=2.5 lr=0.1".
void add_pairs(std::string_view part, std::vector<PrintedPair>& pairs) {
  const auto add = [&](std::string_view name, std::string_view number) {
    name = trimmed(name, " \t:=,-");
    // The name follows a value that is no number in "caller=train loss=2.5", and the rest of one in "10 / 400
    // loss=2.5".
    if (name.find('=') != std::string_view::npos) name.remove_prefix(name.rfind(' ') + 1);
    if (const std::size_t mark = name.rfind("] "); mark != std::string_view::npos) name.remove_prefix(mark + 2);
    // What a bracket or a unit separates from the name: "loss 9.9 (ce 9.8)", "(56.12%) tgs", "103.7/s/gpu LR".
    const std::size_t open = name.rfind('('), closed = name.find(") "),
                      unit = !name.empty() && is_digit(name[0]) ? name.find('/') : 0;
    if (open != name.npos && name.find(')', open) == name.npos)
      name.remove_prefix(open + 1);
    else if (name.starts_with('(') && closed != name.npos)
      name.remove_prefix(closed + 2);
    else if (unit < name.find(' ') && unit > 0)
      name.remove_prefix(std::min(name.find(' ', unit), name.size()));
    const auto begins = [](char c) {
      const bool is_foreign = (c >= '\xc3' && c <= '\xe1') || (c >= '\xe3' && c <= '\xed');  // in UTF-8, no symbol
      return is_letter(c) || is_foreign || c == '\'' || c == '"' || c == '(';
    };
    name.remove_prefix(std::ranges::find_if(name, begins) - name.begin());
    if (!name.empty() && name.size() <= kLongestFigure)
      pairs.push_back({std::string(name), std::string(number), {}, {}});
  };
  if (const std::size_t length = number_length(part), unit = part.find_first_not_of(' ', length);
      length > 0 && unit < part.size() && is_throughput(part.substr(unit)))
    return add("tokens/s", part.substr(0, length));
  // The sign at the end of "loss 2.5 load=" is that of a list.
  const bool has_sign = trimmed(part, " \t:=").find_first_of(":=") != std::string_view::npos;
  std::size_t begin = 0;
  for (std::size_t at = part.find_first_of(has_sign ? ":=" : " ");
       at != std::string_view::npos && pairs.size() < kMaxPairs;
       at = part.find_first_of(has_sign ? ":=" : " ", at + 1)) {
    const std::size_t value = at + 1, number = number_length(part.substr(value));
    std::size_t length = number;
    if (number == 0 && has_sign) length = odd_number_length(part.substr(value));
    if (length == 0) continue;
    const std::size_t before = pairs.size();
    add(part.substr(begin, at - begin), part.substr(value, length));
    if (number == 0 && pairs.size() > before) pairs.back().is_odd = true;
    begin = value + length;
    at = begin - 1;
  }
  // The sign of "train: loss 2.5" is none of a value.
  const std::size_t sign = has_sign && begin == 0 ? part.find_first_of(":=") + 1 : part.size();
  if (sign < part.size() && is_letter(part[sign]) && part.find_first_of(":=", sign) == part.npos)
    add_pairs(std::string(part.substr(0, sign - 1)) + ' ' + std::string(part.substr(sign)), pairs);
}

// Returns the name without the unit of the number before it: "GB grad_norm" of "memory: 10.5 GB grad_norm: 1.1".
std::string_view without_unit(std::string_view name) {
  const std::size_t end = name.find(' ');
  return end != name.npos && is_unit(name.substr(0, end)) ? name.substr(end + 1) : name;
}

constexpr int kDeepestList = 3;

// Returns the end of the list that begins with the text, "[[1, 2], [3, 4]]" of numbers; 0 if it is none.
std::size_t list_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[') - (text[i] == ']');
    if (depth > kDeepestList) return 0;
    if (std::string_view("[]0123456789.,+-eEkKM% \t").find(text[i]) == std::string_view::npos) return 0;
    if (depth == 0) return i + 1;
  }
  return 0;
}

// Sets the numbers of a list, "[12, 14]" or "12 14 9".
void set_list(std::string_view text, NamedValue& value) {
  set_value(text, value);
  value.in_percent = value.is_list && text.find('%') != text.npos;
  if (!value.is_list && text.find("...") != text.npos)
    value.problem = "the program printed only some of its entries (torch.set_printoptions, numpy.set_printoptions)";
}

// Adds "load 12 14 9" as a list. Returns false if the part is no name with more than two numbers.
bool add_bare_list(std::string_view part, std::vector<PrintedPair>& pairs) {
  std::size_t begin = part.find_last_not_of("0123456789.+-%kKM ") + 1;
  while (begin < part.size() && is_letter(part[begin])) ++begin;  // the end of a name: "topk 3 5"
  const std::string_view name = trimmed(part.substr(0, begin), " :="), numbers = trimmed(part.substr(begin));
  if (name.empty() || name.find_first_of("0123456789:=") != name.npos || numbers.find(' ') == numbers.npos ||
      (part[begin] != ' ' && part[begin - 1] != ':' && part[begin - 1] != '='))
    return false;
  PrintedPair pair{std::string(name), std::string(numbers), {}, {}};
  set_list(numbers, pair.list);
  if (!pair.list.is_list) return false;
  pairs.push_back(std::move(pair));
  return true;
}

// Returns the name at the end of a text "loss: 2.5 | load: " before a list; empty if there is none.
std::string name_before(std::string_view text) {
  std::string_view name = trimmed(text, " \t:=");
  const std::size_t last = name.find_last_of("|;,\t");
  name.remove_prefix(last == std::string_view::npos ? 0 : last + 1);
  if (name.starts_with(']')) name.remove_prefix(1);
  // A value before it ends its own name: "loss 2.5 load" is "load".
  for (std::size_t blank = name.find(' '); blank != std::string_view::npos; blank = name.find(' ', blank + 1)) {
    const std::size_t value = name.substr(0, blank).find_last_of(" :=") + 1;
    const std::string_view number = name.substr(value, blank - value);
    const bool is_sure = number.find('.') != number.npos || number.find_first_of("0123456789") == number.npos;  // "nan"
    const bool ends_name = value > 0 && (name[value - 1] == '=' || is_sure);
    if (!ends_name || !printed_number(number)) continue;
    name.remove_prefix(blank);
    blank = 0;
  }
  return std::string(trimmed(name, kBlank));
}

// Reads values that are numbered from 0 on: "0:12.5% 1:11.3% 2:9%", "e0=12 e1=11 e2=9", "[0] 12 [1] 11 [2] 9". Returns
// the length of the text; 0: there are not three of them.
std::size_t take_numbered(std::string_view text, NamedValue& value) {
  constexpr std::size_t kLongestLabel = 12, kLongestUnit = 40;  // "tokens (12.5 %)"
  std::size_t at = 0, end = 0;
  for (std::size_t index = 0;; ++index) {
    const std::string_view label = text.substr(at, kLongestLabel);
    const std::string_view word = label.substr(0, label.find_first_of("0123456789"));
    const std::size_t digit = at + word.size();
    const std::string_view number = digits_at(text.substr(digit));
    const std::string_view name = trimmed(word, " [(#_");
    const bool is_of_expert =
        !name.empty() && name.find_first_of(":=") == name.npos && counted_by(spelled_alike(name)) == Counted::expert;
    if (index == 0 && number == "1" && is_of_expert) index = 1;  // experts that are numbered from 1
    if (std::size_t read = 0; !read_number(number, read) || read != index ||
                              (word.ends_with(' ') && is_letter(word.front()) && !is_of_expert))
      break;
    if (!name.empty() && !is_of_expert) break;
    const std::size_t sign = digit + number.size(), begin = text.find_first_not_of("])=: ", sign);
    if (begin == text.npos || (!is_of_expert && text.substr(sign, begin - sign).find_first_not_of(' ') == text.npos))
      break;
    const std::string_view token = text.substr(begin, text.find_first_of(" \t,|;)]", begin) - begin);
    const std::optional<double> entry = printed_number(token);
    if (!entry) break;
    value.numbers.push_back(*entry);
    value.in_percent = token.ends_with('%');
    end = begin + token.size();
    at = std::min(text.find_first_not_of(" \t,|;)", end), text.size());
    const std::string_view zero = number.size() > 1 && index < 9 ? "0" : "";  // "E01"
    const std::string next_label = std::string(word).append(zero) + std::to_string(index + 1);
    const std::size_t next = name.empty() ? text.npos : text.find(next_label, end);
    if (next < end + kLongestUnit) at = next;
  }
  value.is_list = value.numbers.size() > 2;
  return value.is_list ? end : 0;
}

// Returns the numbers in "614,480,702" as a list "[614,480,702]"; empty if the text does not begin with one.
std::string quoted_list(std::string_view text) {
  const std::string_view inner = text.substr(1, text.find('"', 1) - 1);
  const std::string list = '[' + std::string(inner) + ']';
  return text.starts_with('"') && std::ranges::count(inner, ',') > 1 && list_end(list) == list.size() ? list
                                                                                                      : std::string();
}

// Removes the lists of several numbers and the dicts from the text and adds them to `pairs`, under the name before
// them, else as "unnamed list 1".
std::string take_lists(std::string_view text, std::vector<PrintedPair>& pairs) {
  std::string outside;
  int unnamed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const auto dict = pairs.size() < kMaxPairs ? python_dict(text.substr(i)) : std::nullopt) {
      if (std::string name = name_before(outside); !name.empty() && dict->size > 2)
        pairs.push_back({std::move(name), {}, {}, dict->json});
      i += dict->size - 1;
      outside += kBetweenParts;
      continue;
    }
    if (const std::string list = i > 0 && text[i - 1] == '=' ? quoted_list(text.substr(i)) : ""; !list.empty()) {
      NamedValue value;
      set_list(list, value);
      pairs.push_back({name_before(outside), list, std::move(value), {}});
      i += list.size() - 1;
      outside += kBetweenParts;
      continue;
    }
    const bool may_begin = i == 0 || std::string_view(" \t:=|,(").find(text[i - 1]) != std::string_view::npos;
    if (!may_begin && text[i] != '[') {
      outside += text[i];
      continue;
    }
    NamedValue value;
    const std::size_t numbered = may_begin ? take_numbered(text.substr(i), value) : 0;
    const std::size_t size = numbered == 0 && text[i] == '[' ? list_end(text.substr(i)) : numbered;
    const std::string_view list = text.substr(i, size);
    const std::string_view before = trimmed(outside, " \t\r\"");
    if (numbered == 0) value = {};
    if (numbered == 0 && size > 2 && list.find_first_of(", []", 1) == size - 1) {  // a list of one number
      outside += list.substr(1, size - 2);
      i += size - 1;
      continue;
    }
    if (numbered == 0 && size > 0 && list.find_first_of(", ") != std::string_view::npos) set_list(list, value);
    if ((!value.is_list && value.problem.empty()) || pairs.size() == kMaxPairs) {
      outside += text[i];
      continue;
    }
    const bool has_name =
        !before.empty() && (is_letter(before.back()) || before.ends_with(':') || before.ends_with('='));
    std::string name = has_name ? name_before(before) : std::string();
    if (name.empty()) name = fmt::format("unnamed list {}", ++unnamed);
    pairs.push_back({std::move(name), std::string(list), std::move(value), {}, numbered > 0});
    i += size - 1;
    outside += kBetweenParts;
  }
  return outside;
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

std::size_t bracket_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth +=
        (text[i] == '(' || text[i] == '[' || text[i] == '{') - (text[i] == ')' || text[i] == ']' || text[i] == '}');
    if (depth <= 0) return depth == 0 && i > 0 ? i + 1 : 0;
  }
  return 0;
}

bool ends_in_dict(std::string_view line) {
  std::size_t begin = line.find('{');
  while (begin != std::string_view::npos && begin + 1 < line.size() && line[begin + 1] != '\'' &&
         line[begin + 1] != '"')
    begin = line.find('{', begin + 1);
  return begin != std::string_view::npos && line.size() < kLongestPiece && bracket_end(line.substr(begin)) == 0;
}

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

namespace {

// Returns where the layers begin in a line of several, "layer=0 load=[1, 2] layer=1 load=[3, 4]"; else nothing.
std::vector<std::size_t> layers_in(std::string_view line) {
  std::vector<std::size_t> begins;
  std::set<std::string_view> layers;
  for (std::size_t i = 0; i < line.size() && begins.size() < kMaxPairs; ++i) {
    if (!is_letter(line[i]) || (i > 0 && (is_letter(line[i - 1]) || is_digit(line[i - 1]) || line[i - 1] == '/')))
      continue;
    const std::string_view layer = line.substr(i, layer_length(line.substr(i)));
    const bool ends = line.substr(i + layer.size(), 1).find_first_of(" =:,|]") == 0;
    if (layer.size() < 4 || layer.find('_') != layer.npos || !ends) continue;
    layers.insert(layer);
    begins.push_back(i);
    i += layer.size() - 1;
  }
  return layers.size() > 1 ? begins : std::vector<std::size_t>();
}

}  // namespace

std::vector<PrintedPair> pairs_of(std::string_view unread) {
  std::vector<PrintedPair> pairs;
  if (const std::vector<std::size_t> begins = layers_in(unread); !begins.empty()) {
    pairs = pairs_of(unread.substr(0, begins[0]));
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : unread.size(),
                        length = layer_length(unread.substr(begins[i]));
      std::string layer(unread.substr(begins[i], end - begins[i]));
      std::ranges::move(pairs_of_layer(layer.insert(length, ":")), std::back_inserter(pairs));
    }
    return pairs;
  }
  const bool is_row = unread.starts_with('|') || std::ranges::count(unread, '|') == 1;  // "| loss | 7.10 |"
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
    if (!add_bare_list(name, pairs)) add_pairs(name, pairs);
    if (pairs.size() > before || number.empty() || number_length(number) != number.size()) continue;
    add_pairs(std::string(name) + ' ' + std::string(number), pairs);
    i = next;
  }
  for (PrintedPair& pair : pairs) pair.name = std::string(without_unit(pair.name));
  return pairs;
}

std::size_t layer_length(std::string_view line) {
  constexpr std::size_t kLongestLayer = 12;  // "decoder layer 3"
  const std::size_t digits = line.substr(0, kLongestLayer).find_first_of("0123456789");
  if (digits == line.npos) return 0;
  if (counted_before(trimmed(line.substr(0, digits), "= ")) != Counted::layer) return 0;
  const std::size_t end = digits + digits_at(line.substr(digits)).size();
  const std::string_view all = line.substr(end).starts_with('/') ? digits_at(line.substr(end + 1)) : "";  // "3/61"
  return end + (all.empty() ? 0 : 1 + all.size());
}

std::vector<PrintedPair> pairs_of_layer(std::string_view line) {
  if (!layers_in(line).empty()) return pairs_of(line);
  const std::size_t length = layer_length(line);
  std::string_view unread = trimmed(line.substr(length), " \t");
  const bool has_sign = !unread.empty() && std::string_view(":|-,]").find(unread.front()) != unread.npos;
  if (has_sign) unread = trimmed(unread.substr(1), " \t:|-,");
  // Numbers without brackets: "Layer 3: 12 14 9", "load: 12 14 9".
  const std::size_t sign = unread.find(':');
  PrintedPair bare{"unnamed list 1", std::string(trimmed(unread.substr(sign == unread.npos ? 0 : sign + 1))), {}, {}};
  if (!bare.number.starts_with('[')) set_list(bare.number, bare.list);
  if (sign != unread.npos) bare.name = unread.substr(0, sign);
  const bool is_bare = bare.list.is_list && (length > 0 || sign != unread.npos);
  if (!is_bare && (length == 0 || !has_sign)) return pairs_of(line);
  std::vector<PrintedPair> pairs = is_bare ? std::vector{bare} : pairs_of(unread);
  for (PrintedPair& pair : pairs)
    if (length > 0)
      pair.name = "layer " + std::string(digits_at(line.substr(line.find_first_of("0123456789")))) +
                  (pair.name.starts_with("unnamed list") ? "" : ' ' + pair.name);
  return pairs;
}

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
