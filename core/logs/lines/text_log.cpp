#include "core/logs/lines/text_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"

namespace moescope {

namespace {

// Places at which a form is looked for, and those at which the texts behind all its {*} are.
constexpr std::size_t kMaxTries = 64, kMaxTriesOfForm = 512;
constexpr std::int64_t kMaxSteps = 1'000'000'000;

struct Numbers {
  std::int64_t step = -1, epoch = -1, epoch0 = -1, steps = -1;
  std::vector<std::pair<std::string, std::string>> values;
};

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

bool take_number(std::string_view& text, std::int64_t& number) {
  skip_blanks(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMaxSteps) return false;
  text.remove_prefix(end - text.data());
  return true;
}

// Removes the matched part of `text`.
bool matches(std::string_view form, std::string_view& text, Numbers& numbers, std::size_t& tries) {
  const std::array<std::pair<std::string_view, std::int64_t*>, 4> places = {{{"{step}", &numbers.step},
                                                                             {"{epoch}", &numbers.epoch},
                                                                             {"{epoch0}", &numbers.epoch0},
                                                                             {"{steps}", &numbers.steps}}};
  constexpr std::string_view kAny = "{*}";
  while (!form.empty()) {
    const auto place =
        std::ranges::find_if(places, [&](const auto& candidate) { return form.starts_with(candidate.first); });
    if (place != places.end()) {
      if (!take_number(text, *place->second)) return false;
      form.remove_prefix(place->first.size());
    } else if (form.starts_with(kAny)) {
      form.remove_prefix(kAny.size());
      for (std::size_t at = 0; at <= text.size() && tries < kMaxTriesOfForm; ++at) {
        if (!form.empty() && (at == text.size() || text[at] != form.front())) continue;
        ++tries;
        std::string_view unread = text.substr(at);
        if (!matches(form, unread, numbers, tries)) continue;
        text = unread;
        return true;
      }
      return false;
    } else if (form.front() == '{') {
      skip_blanks(text);
      const std::string_view number = text.substr(0, number_length(text));
      if (number.empty()) return false;
      const std::string_view name = form.substr(1, form.find('}') - 1);
      numbers.values.emplace_back(name, number);
      form.remove_prefix(std::min(name.size() + 2, form.size()));
      text.remove_prefix(number.size());
    } else if (form.front() == ' ') {
      form.remove_prefix(1);
      skip_blanks(text);
    } else {
      if (!text.starts_with(form.front())) return false;
      form.remove_prefix(1);
      text.remove_prefix(1);
    }
  }
  return true;
}

// Returns the next place from `at` on at which the form may begin; npos: there is none.
std::size_t next_place(std::string_view line, std::string_view form, std::size_t at) {
  const bool is_at_begin = form.starts_with('^');
  if (is_at_begin) form.remove_prefix(1);
  const std::string_view beginning = form.substr(0, form.find_first_of("{ "));
  if (!is_at_begin) return beginning.empty() ? std::string_view::npos : line.find(beginning, at);
  const bool fits = beginning.empty() ? !line.empty() && line[0] >= '0' && line[0] <= '9' : line.starts_with(beginning);
  return at == 0 && fits ? 0 : std::string_view::npos;
}

// True if a line may have a step in one of the forms: it has the text with which the form begins.
bool may_have_printed_step(std::string_view line, const std::vector<std::string>& forms) {
  return std::ranges::any_of(forms, [&](std::string_view form) { return next_place(line, form, 0) != line.npos; });
}

struct StepPlace {
  std::string_view word;
  std::string number;                                       // as it is printed
  std::size_t begin = 0, end = 0;                           // begin of the word; end of the number and its total
  bool is_epoch = false;                                    // the form has no {step}: the epoch counts
  std::vector<std::pair<std::string, std::string>> values;  // that the form has: name and number, as it is printed
  std::string_view total = {};                              // of the steps; empty: none is printed
  bool is_of_part = false;                                  // "micro step 1/4"
};

// Finds the step in a printed line by a form of a mapping file (docs/logs.md). With an epoch and the steps of an epoch,
// the step is counted on over the epochs: "Epoch:[2/3](100/45125)" is step 45,225.
std::optional<StepPlace> printed_step(std::string_view line, const std::vector<std::string>& forms) {
  for (const std::string_view form : forms) {
    std::size_t at = next_place(line, form, 0), tries_of_form = 0;
    for (std::size_t tries = 0; at != line.npos && tries < kMaxTries; ++tries) {
      Numbers numbers;
      std::string_view unread = line.substr(at);
      const bool is_word = at == 0 || !is_letter(form[0]) || !is_letter(line[at - 1]);  // "batch_in_epoch: 3"
      const bool fits = is_word && matches(form.substr(form.starts_with('^') ? 1 : 0), unread, numbers, tries_of_form);
      if (fits && numbers.step < 0 && numbers.epoch >= 0 && !unread.starts_with('.'))
        return StepPlace{"step", std::to_string(numbers.epoch), at, line.size() - unread.size(), true, {}};
      if (fits && numbers.step >= 0) {
        const std::int64_t epochs = numbers.epoch0 >= 0 ? numbers.epoch0 : std::max<std::int64_t>(0, numbers.epoch - 1);
        const std::int64_t before = numbers.steps > 0 ? epochs * numbers.steps : 0;
        if (numbers.steps <= 0 && numbers.epoch + numbers.epoch0 > -2)  // the steps may begin again in every epoch
          numbers.values.emplace_back("epoch", std::to_string(epochs));
        return StepPlace{"step", std::to_string(before + numbers.step),
                         at,     line.size() - unread.size(),
                         false,  std::move(numbers.values)};
      }
      at = next_place(line, form, at + 1);
    }
  }
  return std::nullopt;
}

constexpr std::size_t kMaxBraces = 16, kMaxLinesAbove = 4096;
constexpr std::ptrdiff_t kMaxDigitsOfStep = 15;

// Returns the number behind the word "epoch" in a line; -1: there is none.
double epoch_in(std::string_view line) {
  const std::size_t word = line.find("poch"),
                    begin = line.find_first_not_of(" :=[(#", word == line.npos ? word : word + 4);
  double epoch = -1;
  if (begin < line.size()) read_number(digits_at(line.substr(begin)), epoch);
  return epoch;
}

// Returns the number of a step with which the text begins, which may have a unit: "1,000" of "1,000/2,000", "1.2k",
// "1e3", "-5". Empty if it has none, or another number, such as "2.5" and "12%".
std::string_view whole_number_at(std::string_view text) {
  if (text.starts_with('-')) {
    const std::string_view number = whole_number_at(text.substr(1));
    return text.substr(0, number.empty() ? 0 : number.size() + 1);
  }
  std::string_view number = text.substr(0, text.find_first_not_of("0123456789,._'eEkKM+"));
  while (number.find_last_of(",._'+") + 1 == number.size() && !number.empty()) number.remove_suffix(1);
  const std::string_view behind = text.substr(number.size());
  const bool is_sentence = behind.starts_with(". ");  // "Step 3. Loss = 2.5"
  if (!behind.empty() && (is_letter(behind[0]) || (behind[0] == '.' && !is_sentence) || behind[0] == '%')) return {};
  const auto step = number.find_first_of(".eEkKM+") == number.npos ? 0 : printed_number(number);
  return is_digit(text.empty() ? ' ' : text[0]) && step && *step == std::floor(*step) ? number : std::string_view();
}

// Returns the length of the word with which the text begins if it is `word`, "GlobalStep" for "global_step"; else 0.
std::size_t word_length(std::string_view text, std::string_view word) {
  std::size_t at = 0;
  for (const char c : word) {
    const char next = at < text.size() ? text[at] : ' ';
    if (c == '_' ? next == '_' : c == (next | 0x20))
      ++at;
    else if (c != '_')
      return 0;
  }
  return at;
}

// True for "Epoch 2/10, " and "epoch: 2 | ", in which a batch is counted behind it.
bool ends_in_epoch(std::string_view text) {
  text = trimmed(text, " ,|;:-[]");
  text = trimmed(text.substr(0, text.find_last_not_of("0123456789/") + 1), " :=#[");
  return text.ends_with("poch") || text.ends_with("POCH");
}

// Finds a step that begins at a place: "step:  12", "iteration   100/ 250000", "global_step=7"; "steps: 12" only at the
// beginning of the line, because elsewhere it may be the number of all steps.
std::optional<StepPlace> step_at(std::string_view line, std::size_t at) {
  constexpr std::array<std::string_view, 11> kWords = {"global_step", "train_step",  "opt_step", "optimizer_step",
                                                       "iteration",   "num_updates", "step",     "iter",
                                                       "it",          "update",      "batch"};
  for (const std::string_view word : kWords) {
    const std::size_t word_end = at + word_length(line.substr(at), word);
    if (word_end == at || (word == "batch" && !ends_in_epoch(line.substr(0, at)))) continue;
    const bool is_plural = at == 0 && word == "step" && line.substr(word_end).starts_with("s:");
    std::size_t digits = line.find_first_not_of(" \t", word_end + (is_plural ? 1 : 0));
    if (digits != std::string_view::npos && std::string_view(":=|").find(line[digits]) != line.npos)
      digits = line.find_first_not_of(" \t[", digits + 1);
    if (digits == std::string_view::npos || digits == word_end) continue;
    const std::string_view number = whole_number_at(line.substr(digits));
    const std::size_t end = digits + number.size();
    if (number.empty() || std::ranges::count_if(number, is_digit) > kMaxDigitsOfStep) continue;
    StepPlace place{word == "update" || word == "batch" ? "step" : word, std::string(number), at, end, false, {}};
    const std::size_t slash = line.find_first_not_of(' ', end);
    if (slash != std::string_view::npos && line[slash] == '/') {  // the total follows
      const std::size_t total = line.find_first_not_of(' ', slash + 1);
      if (total != std::string_view::npos && is_digit(line[total])) {
        place.end = std::min(line.find_first_not_of("0123456789.kKM", total), line.size());
        place.total = line.substr(total, place.end - total);
      }
    }
    return place;
  }
  return std::nullopt;
}

// Finds the step of a line. A "global iter" counts more than an "iter" before it, and a part of a step less.
std::optional<StepPlace> find_step(std::string_view line) {
  const bool may_have_better = has_any(line, {"lobal", "icro", "ini", "ub", "cc"});
  std::optional<StepPlace> best;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (at > 0 && (is_letter(line[at - 1]) || is_digit(line[at - 1]))) continue;
    std::optional<StepPlace> place = step_at(line, at);
    if (!place) continue;
    const std::string before = in_lower_case(trimmed(line.substr(0, at), " -"));
    const std::string word = before.substr(before.find_last_not_of("abcdefghijklmnopqrstuvwxyz") + 1);
    place->is_of_part = is_one_of(word, {"micro", "mini", "sub", "accum", "accumulation"});
    if (!best || best->is_of_part || word == "global") best = place;
    if (!may_have_better || word == "global") break;
    at = place->end - 1;
  }
  return best;
}

void set_printed(std::string_view number, bool is_count, NamedValue& value, LogRecord& record) {
  set_value(number, value, is_count ? Commas::between_groups : Commas::may_be_decimal);
  if (value.is_text) value.text = record.keep(std::string(number));
}

bool has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// True for the time and the line of source code that a logger writes: "I0105 12:05" and "train.py" of "train.py:120".
bool is_of_logger(std::string_view name) {
  return has(name, ":") || name.ends_with(".py") || name.ends_with(".cc") || name.ends_with(".cpp");
}

MeasuredOn text_of_line(std::string_view line, const StepPlace& place) {
  const std::string before = in_lower_case(line.substr(0, place.begin));
  const std::size_t last = before.find_last_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::size_t space = std::string_view(before).substr(0, last).find_last_not_of("abcdefghijklmnopqrstuvwxyz") + 1;
  const std::string word = before.substr(space, last - space);  // "Test step: 10"
  if (has(line, "on test set") || word == "test") return MeasuredOn::test;
  if (word == "val") return MeasuredOn::validation;
  // "saving dict" is of TensorFlow's evaluation.
  return has_any(before, {"valid", "[val]", "eval", "saving dict"}) ? MeasuredOn::validation : MeasuredOn::training;
}

// True for a name of values that follow in the next lines: "layer 1 load:", "expert_load=".
bool ends_in_name(std::string_view line) {
  return line.ends_with(':') || (line.ends_with('=') && line.size() > 1 && is_letter(line[line.size() - 2]));
}

// True for a row of numbers that blanks separate.
bool are_numbers(std::string_view line) {
  NamedValue value;
  if (line.find_first_not_of("0123456789.%eE+- \t\r") == line.npos) set_value(trimmed(line), value);
  return value.is_list && value.rows.empty();
}

// True for "Expert 3: 12.5 %", of which the lines of the other experts follow.
bool begins_with_expert(std::string_view line) {
  constexpr std::size_t kLongestWord = 8;
  const std::size_t digits = std::min(line.find_first_of("0123456789"), line.size());
  const std::string_view word = trimmed(line.substr(0, digits), " _[#"),
                         sign = line.substr(digits).substr(digits_at(line.substr(digits)).size());
  const bool has_bar = !sign.empty() && is_like_number(trimmed(without_colours(sign)));  // "E03 \u2588\u2588\u2588 12"
  return digits < line.size() && word.size() < kLongestWord && counted_before(word) == Counted::expert &&
         (has_bar || (word.size() > 1 && sign.find_first_of(":=|") < 3));
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
  ++other_rank_lines_;
  return false;
}

// Adds a value of the record. Returns the rule of its name; nullptr if it is not known. Behind "layer=3 expert=7", the
// name of "tokens=40" begins with that of the expert.
const TagRule* TextLogReader::add_pair(PrintedPair& pair, LogRecord& record, std::string& expert_prefix) {
  if (!expert_prefix.empty() && !runs_->find(pair.name) && runs_->find(expert_prefix + pair.name))
    pair.name.insert(0, expert_prefix);
  const TagMatch* const found = runs_->find(pair.name);
  const TagRule* const rule = found ? found->rule : nullptr;
  if (pair.is_odd && !rule) return nullptr;
  if (rule && rule->means == TagMeaning::expert_number) expert_prefix = "expert" + pair.number + '.';
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
  if (pair.list.is_list && rule && rule->step == &TelemetryFrame::lr) {
    value.numbers = {pair.list.numbers.front()};  // of the rates of all groups, reads the first
    if (pair.number.find_first_of(".e ") == std::string::npos) value.problem = "its comma may be a decimal point";
  } else if (!pair.list.problem.empty()) {
    value.problem = pair.list.problem;
  } else if (pair.list.is_list) {
    value = pair.list;
    value.name = name;
  } else {
    set_printed(pair.number, !rule || rule->is_large(), value, record);
  }
  return rule;
}

bool TextLogReader::read_step(std::string_view piece, std::string_view rank, const Takers& take) {
  piece = trimmed(piece, kBlank);
  if (piece.starts_with(rank)) piece = trimmed(piece.substr(rank.size()), " \t\r:");
  auto place = find_step(piece);
  auto printed = printed_step(piece, runs_->context().tags.printed_steps());
  if (printed && printed->is_epoch && (place || has_steps_)) printed.reset();
  const bool is_bar = printed && has(piece.substr(printed->begin, printed->end - printed->begin), "%|");
  if (printed && !(is_bar && place)) place = printed;
  if (!place) return false;
  const MeasuredOn text = text_of_line(piece, *place);
  // "eval step 3/20" counts the batches of an evaluation.
  const bool is_other_total = !place->total.empty() && place->total != total_;
  if (place->is_of_part || (text != MeasuredOn::training && is_other_total)) {
    ++part_lines_;
    return false;
  }
  const bool is_rounded = place->number == open_step_ && place->number.find_first_of("kKM") != std::string::npos;
  open_step_ = text == MeasuredOn::training && !piece.starts_with("- ") ? place->number : std::string();
  if (text == MeasuredOn::training) total_ = place->total;
  const std::vector<std::string> above = std::exchange(above_, {});
  has_values_below_ = false;
  const std::string around = std::string(piece.substr(0, place->begin)) + std::string(piece.substr(place->end));
  const bool is_in_bracket = piece[place->begin] == '[' || (place->begin > 0 && piece[place->begin - 1] == '[');
  is_bare_ = !is_in_bracket && std::ranges::none_of(around, is_letter);
  below_ = is_in_bracket || is_bare_ ? Below::any : Below::known;
  if (is_bar && text != MeasuredOn::training) return false;  // its steps are those of the validation
  LogRecord record;
  record.text = text;
  record.is_drawn_again = has(piece, "%|");
  record.epoch = epoch_in(piece);
  set_printed(place->number, true, record.add(place->word), record);
  bool known = false, has_loss = false, has_loads = false, nan_iterations = false;
  std::string expert_prefix, loss_name;
  const auto add = [&](PrintedPair pair) {
    nan_iterations = nan_iterations || (pair.name == "number of nan iterations" && pair.number != "0");
    const std::size_t values = record.values.size();
    const TagRule* rule = add_pair(pair, record, expert_prefix);
    const bool is_loss = rule && (rule->column == "ce_loss" || rule->column == "val_loss");
    const bool is_figure = rule && is_shown(rule->means);
    if (text != MeasuredOn::training && !is_loss) return record.values.resize(values);
    known = known || is_figure || pair.is_numbered;
    has_loads = has_loads || (rule && rule->means <= TagMeaning::load_share);
    if (rule && rule->column == "ce_loss") loss_name = pair.name;
    knows_program_ = knows_program_ || (is_figure && rule->certainty == Certainty::known_program);
    has_loss = has_loss || (is_loss && printed_number(pair.number) != -1);  // -1: this rank has none
  };
  for (PrintedPair& pair : pairs_of(piece.substr(0, place->begin)))
    if (runs_->find(pair.name) || !is_of_logger(pair.name)) add(std::move(pair));
  const std::string_view behind = piece.substr(place->end);
  for (PrintedPair& pair : pairs_of(trimmed(behind.substr(behind.starts_with(']') ? 1 : 0), " \t:=,|-"))) {
    if (pair.name.ends_with(" value")) pair.name.resize(pair.name.size() - 6);
    add(std::move(pair));
  }
  if (printed)
    for (auto& [name, number] : printed->values) add({std::move(name), std::move(number), {}, {}, false});
  // Megatron-LM prints a loss only if it is above 0, which NaN is not.
  if (nan_iterations && !has_loss) {
    record.add("lm loss", std::nan(""));
    known = true;
  }
  if (!known && read_steps_ > 1 && piece.find_first_of(":=", place->end) != piece.npos) {
    record.step = step_number(record.values[0]);
    runs_->count(record);
  }
  if (!known || text == MeasuredOn::test) return false;
  if (!is_in_bracket) below_ = Below::loads;
  const std::size_t digit = rank.find_last_of("0123456789");
  if (has_loads && digit != rank.npos && !has(rank, "|")) {  // of its own tokens or experts, which RunBuilder joins
    const std::size_t begin = rank.find_last_not_of("0123456789", digit) + 1;
    set_printed(rank.substr(begin, digit + 1 - begin), true, record.add("rank"), record);
  } else if (!is_wanted_rank(rank, has_loss)) {
    open_step_.clear();
    return true;
  }
  const bool is_epoch = printed && printed->is_epoch;
  if (is_epoch) {
    const std::int64_t epoch = std::stoll(printed->number), number = number_in_epoch(epoch, loss_name);
    record.values[0].numbers = {static_cast<double>(number)};
    if (!open_step_.empty()) open_step_ = std::to_string(number);
    read_steps_ += (is_numbered_ && epochs_.size() > 4) || follows(epoch);
  }
  read_steps_ += !is_epoch;
  has_steps_ = has_steps_ || !is_epoch;
  rounded_step_lines_ += is_rounded && has_loss;
  take(record);
  for (const std::string& loads : above) read_value_of_step(loads, false, take);
  are_loads_above_ = are_loads_above_ || !above.empty();
  return true;
}

// Returns the number of a line with an epoch and no step: the epoch, until a loss is logged again in one. From then on
// the lines with a loss are numbered in their order.
std::int64_t TextLogReader::number_in_epoch(std::int64_t epoch, const std::string& loss_name) {
  const bool trains = !loss_name.empty();
  const bool is_again = trains && !epochs_.empty() && epochs_.back() == epoch && loss_name == loss_of_epoch_;
  const std::int64_t number = number_of(trains, static_cast<double>(epoch));
  if (trains) loss_of_epoch_ = loss_name;
  if (is_again && !is_numbered_) before_numbers_ = epoch + 1 - number;
  runs_->context().book.are_steps_numbered = is_numbered_ = is_numbered_ || is_again;
  return is_numbered_ ? before_numbers_ + number : epoch;
}

// True if a line has loads by a known name.
bool TextLogReader::has_loads(std::string_view piece) {
  return std::ranges::any_of(pairs_of_layer(piece), [&](const PrintedPair& pair) {
    const TagMatch* const found = runs_->find(pair.name);
    return found && found->rule->means < TagMeaning::expert_bias && (pair.list.is_list || !pair.json.empty());
  });
}

// True if an epoch follows the one before. Those in a text that is no log do not.
bool TextLogReader::follows(std::int64_t epoch) {
  const std::int64_t before = std::exchange(epoch_, epoch);
  if (before < 0 || epoch == before) return before < 0 && epoch <= 1;
  return epoch - before == std::exchange(epochs_between_, epoch - before);
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
    const auto dict = python_dict(piece.substr(at));
    if (!dict) continue;
    try {
      LogRecord record = json_.record_of(parser_.parse(dict->json), 0, dict->json.size());
      const DictKeys keys = keys_of(record);
      if (is_closing(record) || (!keys.trains && !keys.validates && !(keys.has_step && keys.shows))) continue;
      if (!is_wanted_rank(rank, keys.trains)) return true;
      const auto before = keys.has_step ? std::nullopt : find_step(piece.substr(0, at));  // "step 3: {'loss': 2.5}"
      part_lines_ += before && before->is_of_part;
      if (before && before->is_of_part) return true;
      if (before)
        set_printed(before->number, true, record.add("step"), record);
      else if (!keys.has_step)
        record.add("step", static_cast<double>(number_of(keys.trains, keys.epoch)));
      is_numbered_ = is_numbered_ || (!keys.has_step && !before);
      runs_->context().book.are_steps_numbered = is_numbered_;
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
  std::string_view unread = trimmed(without_logger(plain), kBlank);
  const std::string_view rank = rank_of(unread);
  if (unread.starts_with(rank)) unread = trimmed(unread.substr(rank.size()), " \t\r:");
  LogRecord record;
  set_printed(open_step_, true, record.add("step"), record);
  record.is_part = true;
  bool has_loads = false, has_figures = false;
  std::string expert_prefix;
  for (PrintedPair& pair : pairs_of_layer(unread)) {
    const std::size_t before = record.values.size();
    const TagRule* rule = add_pair(pair, record, expert_prefix);
    // A list of an unknown name may be the loads of a layer, which the account lists.
    const bool may_be_loads = pair.is_numbered || ((pair.list.is_list || !pair.json.empty()) &&
                                                   (has(pair.name, "layer ") || has(pair.name, "xp")));
    const bool is_of_expert = rule ? rule->means <= TagMeaning::expert_bias : may_be_loads;
    has_loads = has_loads || is_of_expert;
    has_figures = has_figures || (rule && is_shown(rule->means));
    const bool is_validation = rule && rule->step == &TelemetryFrame::val_loss;
    if (below_ == Below::validation ? !is_validation : below_ == Below::loads && !is_of_expert)
      record.values.resize(before);
  }
  const bool is_read = below_ == Below::loads ? has_loads
                                              : has_loads || has_figures ||
                                                    (below_ == Below::any && is_indented && record.values.size() > 1);
  // A line without a rank is of the rank of the line with the step.
  if (!is_read || (!rank.empty() && !is_wanted_rank(rank, false))) return false;
  has_values_below_ = true;
  read_steps_ += has_figures;
  take(record);
  return has_figures;
}

bool TextLogReader::read_piece(std::string_view piece, const Takers& take) {
  if (piece.size() > kLongestPiece) return false;
  if (has(piece, "\u2502") || has(piece, "\u2503")) return read_piece(without_colours(piece), take);
  const bool may_be = has_any(piece, {"tep", "ter", "TEP", "TER", "pdate", "it ", "it:"}) ||
                      may_have_printed_step(piece, runs_->context().tags.printed_steps());
  if (may_be || has(piece, "{")) {
    const std::string whole = without_types(without_colours(piece));
    const std::string_view plain = without_logger(whole), rank = rank_of(plain);
    if ((has(plain, "{") && read_dict(plain, rank, take)) || (may_be && read_step(plain, rank, take))) return true;
    if (may_be && find_step(plain)) return false;
  }
  const bool is_of_layer = layer_length(trimmed(piece, kBlank)) > 0;
  const bool may_be_loads = is_of_layer || has_any(piece, {"[", "0:", "0=", " 1:", "1="});
  const bool is_above = may_be_loads && above_.size() < kMaxLinesAbove &&
                        (are_loads_above_ || (!has_steps_ && open_step_.empty())) && has_loads(piece);
  if (is_above) above_.emplace_back(piece);
  if (!is_above && !are_loads_above_) above_.clear();
  if (is_above || open_step_.empty() || piece.empty()) return false;
  // "  train loss      2.5" below a line with nothing but the step.
  const bool has_columns = is_bare_ && has(piece, "  ") && piece.find_first_of("0123456789") != std::string_view::npos;
  const bool has_pairs = has_columns || is_of_layer || piece.find_first_of("=:[|") != std::string_view::npos;
  const bool is_indented = std::string_view(" \t-*|").find(piece.front()) != std::string_view::npos;
  if (has_pairs && (below_ == Below::loads ? may_be_loads : is_indented || is_bare_ || is_of_layer))
    return read_value_of_step(piece, is_indented, take);
  const bool is_end = below_ != Below::loads && has_values_below_ && !is_indented;
  if (has_any(piece, {"val", "Val"}))
    below_ = Below::validation;
  else if (is_end || has_any(piece, {"test", "Test"}))
    open_step_.clear();
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
  // Rows of numbers below a name are those of a list of lists.
  const bool may_go_on = !list_.empty() && list_.size() + line.size() < kLongestPiece;
  if (may_go_on && (is_matrix_ || (!open_step_.empty() && ends_in_name(list_))) && are_numbers(line)) {
    list_ += (std::exchange(is_matrix_, true) ? " [" : "[[") + std::string(trimmed(line)) + ']';
    return false;
  }
  const bool ends_matrix = std::exchange(is_matrix_, false);
  if (ends_matrix) list_ += ']';
  const std::size_t first = std::min(line.find_first_not_of(kBlank), line.size());
  const std::string_view text = line.substr(first);
  // "[step 20]" and "[12:05:00]" begin no list.
  const bool begins_list = text.starts_with('[') && text.find_first_not_of("[]0123456789.,+-eE \t\r") >= text.find(']');
  bool is_below = ends_in_name(list_) ? begins_list
                                      : ends_in_list(list_) && first < line.size() &&
                                            std::string_view("[],-.0123456789").find(text[0]) != text.npos;
  if (ends_in_dict(list_)) is_below = first > 0 || line.starts_with('}');
  const bool is_of_expert = !open_step_.empty() && begins_with_expert(line.substr(first));
  is_below = is_below || (is_of_expert && (is_of_expert_ || list_.ends_with(':')));
  const bool goes_on = may_go_on && !ends_matrix && first < line.size() && is_below;
  const std::string before = std::exchange(list_, {});
  const bool found = !before.empty() && !goes_on && read_line(before, take);
  std::string joined = goes_on ? before : std::string();  // without a blank in a number that a terminal has wrapped
  if (goes_on) joined.append(has(before, ",") && is_digit(before.back()) && is_digit(line[0]) ? "" : " ").append(line);
  const std::string_view whole = goes_on ? std::string_view(joined) : line;
  is_of_expert_ = is_of_expert;
  const bool is_name = !open_step_.empty() && ends_in_name(trimmed(whole));
  if (!is_name && !is_of_expert && !ends_in_list(whole) && !ends_in_dict(whole)) return read_line(whole, take) || found;
  list_ = is_name ? trimmed(whole) : whole;
  return found;
}

bool TextLogReader::read_line(std::string_view line, const Takers& take) {
  if (const auto text = wrapped_text(line); text && !text->starts_with('{')) return read_line(*text, take);
  bool found = false;
  while (!line.empty())  // a progress bar returns to the beginning of its line
    found = read_piece(take_until(line, '\r'), take) || found;
  return found;
}

std::optional<SavedCheckpoint> saved_checkpoint(std::string_view line) {
  // Words of the line, and those before the step in the name of the checkpoint.
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"saving checkpoint at iteration", "iteration "},
                                                                      {"saved checkpoint from iteration", "iteration "},
                                                                      {"Saving the checkpoint (or staging", ""},
                                                                      {"Saving model checkpoint to ", "checkpoint-"}};
  if (line.size() > kLongestPiece || !has(line, "checkpoint")) return std::nullopt;
  for (const auto& [words, name] : kWords) {
    const std::size_t at = line.rfind(words);
    if (at == line.npos || line.substr(0, at).ends_with("not ")) continue;
    std::string_view behind = line.substr(at + words.size());
    if (const std::size_t in_path = behind.rfind(name); words.ends_with(' '))
      behind = in_path == behind.npos ? std::string_view() : behind.substr(in_path + name.size());
    std::int64_t step = 0;
    if (!name.empty() && read_number(digits_at(trimmed(behind)), step) && step <= kLastStep)
      return SavedCheckpoint{fmt::format("{}{}", name, step), step};
    if (!name.starts_with("iteration")) return SavedCheckpoint{};
  }
  return std::nullopt;
}

std::string TextLogReader::count(std::string_view line, std::int64_t place) {
  const std::string plain = without_types(without_colours(line));
  LogRecord record;
  record.place = place;
  std::string expert_prefix;
  for (PrintedPair& pair : pairs_of(without_logger(plain)))
    if (!is_of_logger(pair.name)) add_pair(pair, record, expert_prefix);
  std::string names;
  for (const NamedValue& value : record.values) (names += value.name) += '\n';
  if (!names.empty()) runs_->count(record);
  return names;
}

bool repeats_names(std::string_view text) {
  LogRuns runs(LogContext{});
  TextLogReader reader(runs);
  std::set<std::string> all;
  while (!text.empty())
    if (std::string names = reader.count(take_until(text, '\n'), 0);
        !names.empty() && !all.insert(std::move(names)).second)
      return true;
  return false;
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
