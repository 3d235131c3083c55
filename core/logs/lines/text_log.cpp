#include "core/logs/lines/text_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/files/text/json_text.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/lines/printed_step.h"
#include "core/logs/lines/python_dict.h"
#include "core/logs/table/table_cells.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestPiece = 65536, kLongestFigure = 200, kMostPairs = 4096, kMaxBraces = 16,
                      kLongestNumber = 64;
constexpr std::ptrdiff_t kMaxDigitsOfStep = 15;
constexpr std::string_view kBlank = " \t\r";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
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

// Returns the prefix of a line by which launchers mark the rank: "[rank0]:", "[default3]:", "2: ", "(Worker pid=12,
// ip=...)"; empty if there is none.
std::string_view rank_of(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(kBlank), line.size());
  const std::string_view text = line.substr(begin);
  if (text.starts_with('(')) {
    const std::size_t end = text.find(')');
    const bool is_worker = end != std::string_view::npos && text.substr(0, end).find("pid=") != std::string_view::npos;
    return is_worker ? text.substr(0, end + 1) : std::string_view();
  }
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return {};
    const bool has_colon = text.substr(end + 1).starts_with(':');
    const std::string_view name = text.substr(1, end - 1);
    const std::size_t number = std::min(name.find_first_of("0123456789"), name.size());
    const std::string_view word = name.substr(0, number);
    const bool is_number =
        number < name.size() && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(number), name.end(), is_digit);
    const bool is_rank = word == "rank" || word == "rank " || word == "Rank " || word == "RANK ";
    return is_number && (is_rank || (has_colon && (word.empty() || word == "default")))
               ? text.substr(0, end + (has_colon ? 2 : 1))
               : std::string_view();
  }
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits > 0 && text.substr(digits).starts_with(": ") ? text.substr(0, digits + 1) : std::string_view();
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
  constexpr std::array<std::string_view, 5> kWords = {"global_step", "train_step", "iteration", "step", "iter"};
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
      StepPlace place{word, number, at, end};
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

struct Pair {
  std::string name, number;  // the number as it is printed
  NamedValue list;           // or a list of numbers
};

// Returns the number of "32.8K" or "2.1M"; nullopt for other texts.
std::optional<double> with_factor(std::string_view text) {
  constexpr std::string_view kFactors = "KMGBT";
  constexpr std::array<double, 5> kValues = {1e3, 1e6, 1e9, 1e9, 1e12};
  const std::size_t factor = text.empty() ? std::string_view::npos : kFactors.find(text.back());
  double number = 0;
  if (factor == std::string_view::npos || !read_number(text.substr(0, text.size() - 1), number)) return std::nullopt;
  return number * kValues[factor];
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
  return printed_number(word) || with_factor(word) || is_like_number(word) ? word.size() : 0;
}

// Sets a printed number, which stays a text if it is no number or its comma may be a decimal point: "2,345" is 2345 if
// it is a count, but no program prints a loss so.
void set_printed(std::string_view number, bool is_count, NamedValue& value, LogRecord& record) {
  auto read = is_count || !may_have_decimal_comma(number) ? printed_number(number) : std::nullopt;
  if (!read) read = with_factor(number);
  if (read) {
    value.numbers = {*read};
    return;
  }
  value.text = record.keep(std::string(number));
  value.is_text = true;
}

// Adds a value of the record. Returns the rule of its name; nullptr if it is not known.
const TagRule* add_pair(const Pair& pair, const TagMap& tags, LogRecord& record) {
  const auto found = tags.find(pair.name);
  const TagRule* rule = found ? found->rule : nullptr;
  NamedValue& value = record.add(record.keep(pair.name));
  if (pair.list.is_list) {
    const std::string_view name = value.name;
    value = pair.list;
    value.name = name;
  } else {
    const bool is_count = !rule || rule->means == TagMeaning::step_number ||
                          rule->means == TagMeaning::tokens_per_expert || rule->step == &TelemetryFrame::tokens_per_s;
    set_printed(pair.number, is_count, value, record);
  }
  return rule;
}

// Splits a line at "|", ";", two blanks, tabs, " - " and commas before a blank.
std::vector<std::string> parts_of(std::string_view text) {
  std::string joined;  // without blanks after : and =
  for (std::size_t i = 0; i < text.size(); ++i) {
    joined += text[i];
    if (text[i] == ':' || text[i] == '=') i = std::min(text.find_first_not_of(" \t", i + 1), text.size()) - 1;
  }
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    const char next = i + 1 < joined.size() ? joined[i + 1] : ' ';
    const bool ends = joined[i] == '|' || joined[i] == '\t' || joined[i] == ';' || (joined[i] == ',' && next == ' ') ||
                      (joined[i] == ' ' && (next == ' ' || std::string_view(joined).substr(i).starts_with(" - ")));
    if (ends && parts.size() < kMostPairs) {
      if (joined[i] == ' ' && next == '-') i += 2;
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
    if (!name.empty() && name.size() <= kLongestFigure) pairs.push_back({std::string(name), std::string(number), {}});
  };
  const bool has_sign = part.find_first_of(":=") != std::string_view::npos;
  std::size_t begin = 0;
  for (std::size_t at = part.find_first_of(has_sign ? ":=" : " ");
       at != std::string_view::npos && pairs.size() < kMostPairs;
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
    if (!has_sign) return;
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

// Removes the lists of several numbers from the text and adds them to `pairs`, under the name before them, else as
// "unnamed list 1". A list of learning rates stays.
std::string take_lists(std::string_view text, std::vector<Pair>& pairs) {
  std::string outside;
  int unnamed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
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
    if (!value.is_list || pairs.size() == kMostPairs) {
      outside += text[i];
      continue;
    }
    std::string_view name;
    if (before.ends_with(':') || before.ends_with('=')) {
      name = trimmed(before, " \t:=");
      name.remove_prefix(name.find_last_of("|;,\t") == std::string_view::npos ? 0 : name.find_last_of("|;,\t") + 1);
      name = trimmed(name, kBlank);
    }
    pairs.push_back(
        {name.empty() ? "unnamed list " + std::to_string(++unnamed) : std::string(name), {}, std::move(value)});
    i += size - 1;
  }
  return outside;
}

std::vector<Pair> pairs_of(std::string_view unread) {
  std::vector<Pair> pairs;
  const std::string numbers = take_lists(unread, pairs);
  for (const std::string& part : parts_of(numbers)) add_pairs(part, pairs);
  for (Pair& pair : pairs) pair.name = std::string(without_unit(pair.name));
  return pairs;
}

bool has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

TextLog log_of(std::string_view line, const StepPlace& place) {
  if (has(line, "elapsed time per iteration") || has(line, "validation loss at iteration")) return TextLog::megatron;
  if (has(line, "memory:") && (has(line, "tps:") || has(line, "wps:"))) return TextLog::torchtitan;
  if (line.substr(place.end).starts_with(" | epoch ")) return TextLog::automodel;
  if (line.substr(place.end).starts_with(" - ") && (has(line, " - actor/") || has(line, " - train/")))
    return TextLog::verl;
  return TextLog::other;
}

// Kind of text on which the numbers of a line were measured. Numbers of a test set are not shown.
enum class Text { training, validation, test };
Text text_of_line(std::string_view line, const StepPlace& place) {
  std::string before(line.substr(0, place.begin));
  std::transform(before.begin(), before.end(), before.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t last = before.find_last_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::size_t space = std::string_view(before).substr(0, last).find_last_not_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::string word = before.substr(space, last - space);  // "Test step: 10"
  if (has(line, "on test set") || word == "test") return Text::test;
  if (word == "val") return Text::validation;
  const bool validates = has(before, "valid") || has(before, "[val]") || has(before, "eval");
  return validates ? Text::validation : Text::training;
}

}  // namespace

const char* text_log_name(TextLog log) {
  switch (log) {
    case TextLog::torchtitan:
      return "stdout of TorchTitan";
    case TextLog::megatron:
      return "stdout of Megatron-LM";
    case TextLog::trainer:
      return "stdout of Hugging Face's Trainer";
    case TextLog::automodel:
      return "stdout of NeMo Automodel";
    case TextLog::verl:
      return "stdout of verl";
    case TextLog::other:
      return "text log";
  }
  return "";
}

// The first rank is read, until another one has a loss and it has none.
bool TextLogReader::is_wanted_rank(std::string_view rank, bool has_loss) {
  if (!rank_ || (has_loss && !rank_has_loss_)) rank_ = rank;
  if (*rank_ == rank) {
    rank_has_loss_ = rank_has_loss_ || has_loss;
    return true;
  }
  ++of_other_ranks_;
  return false;
}

void TextLogReader::count(TextLog log) {
  if (!log_ || *log_ == TextLog::other) log_ = log;
  ++taken_;
}

bool TextLogReader::read_step(std::string_view piece, std::string_view rank, const Takers& take) {
  piece = trimmed(piece, kBlank);
  if (piece.starts_with(rank)) piece = trimmed(piece.substr(rank.size()), kBlank);
  auto place = find_step(piece);
  std::string printed_step_text;
  if (const auto printed = printed_step(piece, tags_->printed_steps()))
    place = StepPlace{"step", printed_step_text = std::to_string(printed->step), printed->begin, printed->end};
  if (!place) return false;
  if (place->begin > 0 && piece[place->begin - 1] == '[') open_step_ = std::string(place->number);
  const Text text = text_of_line(piece, *place);
  LogRecord record;
  record.is_validation = text == Text::validation;
  set_printed(place->number, true, record.add(place->word), record);
  bool known = false, has_loss = false, nan_iterations = false;
  for (Pair& pair : pairs_of(trimmed(piece.substr(place->end), " \t:=,|-"))) {
    if (pair.name.ends_with(" value")) pair.name.resize(pair.name.size() - 6);
    nan_iterations = nan_iterations || (pair.name == "number of nan iterations" && pair.number != "0");
    const TagRule* rule = add_pair(pair, *tags_, record);
    const bool is_loss = rule && (rule->column == "ce_loss" || rule->column == "val_loss");
    if (text != Text::training && !is_loss) {
      record.values.pop_back();
      continue;
    }
    known = known || (rule && is_shown(rule->means));
    has_loss = has_loss || (is_loss && printed_number(pair.number) != -1);  // -1: this rank has none
  }
  // Megatron-LM prints a loss only if it is above 0, which NaN is not.
  if (nan_iterations && !has_loss) record.add("lm loss", std::nan("")), known = true;
  if (!known || text == Text::test) return false;
  if (!is_wanted_rank(rank, has_loss)) return true;
  count(log_of(piece, *place));
  take.record(record);
  return true;
}

// Returns the step for a dict without one: dicts with a training loss are numbered 1, 2, ..., and any other dict gets
// the number of the last of them. A smaller epoch is a restart, which repeats the numbers from this epoch on.
std::int64_t TextLogReader::number_of(bool trains, double epoch) {
  if (!trains) return epochs_.size();
  if (!epochs_.empty() && epoch < epochs_.back())
    epochs_.erase(std::ranges::lower_bound(epochs_, epoch), epochs_.end());
  epochs_.push_back(std::isnan(epoch) ? (epochs_.empty() ? 0 : epochs_.back()) : epoch);
  return epochs_.size();
}

TextLogReader::DictKeys TextLogReader::keys_of(const std::string& json) {
  DictKeys keys;
  try {
    const JsonFields fields = parser_.parse(json);
    const bool closing = fields.find("train_runtime") != nullptr;
    if (const JsonValue* epoch = fields.find("epoch"); epoch && epoch->is_number())
      keys.epoch = to_float(*epoch, "epoch");
    for (const JsonFields::Field& field : fields) {
      const auto found = tags_->find(field.key);
      if (!found) continue;
      keys.has_step = keys.has_step || found->rule->means == TagMeaning::step_number;
      keys.shows = keys.shows || is_shown(found->rule->means);
      if (!(holds_number(field.value) || (field.value.is_string() && is_like_number(to_text(field.value, "")))))
        continue;
      keys.trains = keys.trains || (found->rule->column == "ce_loss" && !closing);
      keys.validates = keys.validates || found->rule->column == "val_loss";
    }
  } catch (const Unreadable&) {  // not a dict
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
    const DictKeys keys = keys_of(dict->json);
    if (!keys.trains && !keys.validates && !(keys.has_step && keys.shows)) continue;
    if (!is_wanted_rank(rank, keys.trains)) return true;
    std::string json = dict->json;
    const auto before = keys.has_step ? std::nullopt : find_step(piece.substr(0, at));  // "step 3: {'loss': 2.5}"
    if (before) json = "{\"step\":" + json_string(before->number) + ',' + json.substr(1);
    if (!keys.has_step && !before)
      json = "{\"step\":" + std::to_string(number_of(keys.trains, keys.epoch)) + ',' + json.substr(1);
    count(keys.has_step || before || std::isnan(keys.epoch) ? TextLog::other : TextLog::trainer);
    take.dict(json);
    found = true;
    tried = 0;
    at += dict->size - 1;  // further dicts may follow
  }
  return found;
}

// Reads a line "    train/CE loss=2.5", which follows a line with the step.
bool TextLogReader::read_value_of_step(std::string_view piece, const Takers& take) {
  std::vector<Pair> pairs;
  add_pairs(trimmed(without_colours(piece), kBlank), pairs);
  if (pairs.size() != 1) return false;
  LogRecord record;
  set_printed(open_step_, true, record.add("step"), record);
  const TagRule* rule = add_pair(pairs.front(), *tags_, record);
  count(TextLog::other);
  take.record(record);
  return rule && is_shown(rule->means);
}

bool TextLogReader::read_piece(std::string_view piece, const Takers& take) {
  if (piece.size() > kLongestPiece) return false;
  if (!open_step_.empty() && piece.starts_with("  ") && has(piece, "=")) return read_value_of_step(piece, take);
  open_step_.clear();
  const bool may_be = has(piece, "tep") || has(piece, "ter") || has(piece, "TEP") || has(piece, "TER") ||
                      may_have_printed_step(piece, tags_->printed_steps());
  if (!may_be && !has(piece, "{")) return false;
  const std::string plain = without_colours(piece);
  const std::string_view rank = rank_of(plain);
  return (has(plain, "{") && read_dict(plain, rank, take)) || (may_be && read_step(plain, rank, take));
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
  return text && TextLogReader(tags_).read(*text);
}

bool TextLogReader::read(std::string_view line, const Takers& take) {
  if (const auto text = wrapped_text(line); text && !text->starts_with('{')) return read(*text, take);
  bool found = false;
  while (!line.empty())  // a progress bar returns to the beginning of its line
    found = read_piece(take_until(line, '\r'), take) || found;
  return found;
}

std::optional<SavedCheckpoint> saved_checkpoint(std::string_view line) {
  // Returns the number that follows `words`, and is the end of the line or followed by no letter or point.
  const auto number_after = [&](std::string_view words) -> std::optional<std::int64_t> {
    const std::size_t found = line.rfind(words);
    if (found == std::string_view::npos || line.substr(0, found).ends_with("not ")) return std::nullopt;
    std::string_view text = trimmed(line.substr(found + words.size()), kBlank);
    text = text.substr(0, std::ranges::find_if_not(text, is_digit) - text.begin());
    std::int64_t step = 0;
    if (std::ssize(text) > kMaxDigitsOfStep || !read_number(text, step)) return std::nullopt;
    return step;
  };
  if (line.size() > kLongestPiece || !has(line, "checkpoint")) return std::nullopt;
  for (const char* words : {"saving checkpoint at iteration", "saved checkpoint from iteration"})
    if (const auto step = number_after(words)) return SavedCheckpoint{"iteration " + std::to_string(*step), step};
  if (has(line, "Saving the checkpoint (or staging")) return SavedCheckpoint{};
  if (!has(line, "Saving model checkpoint to ")) return std::nullopt;
  const auto step = number_after("checkpoint-");
  return SavedCheckpoint{step ? "checkpoint-" + std::to_string(*step) : "", step};
}

std::optional<TextLog> text_log_kind(std::string_view beginning, const TagMap& tags) {
  TextLogReader reader(&tags);
  while (!beginning.empty()) {
    reader.read(take_until(beginning, '\n'));
    if (reader.log() && (*reader.log() != TextLog::other || reader.taken() > 1)) return reader.log();
  }
  return std::nullopt;
}

}  // namespace moescope
