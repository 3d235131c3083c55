#include "core/logs/runs/run_builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "core/config/run_settings.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/frame/figures.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/standard_input.h"
#include "core/recording/marks.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxHeldBytes = std::size_t{4} << 20;  // lines of which rows are kept
constexpr std::size_t kMaxHeld = 64;                         // steps before the first load
constexpr std::size_t kMaxNames = 65536;                     // names whose meaning is kept
constexpr std::size_t kKeptRemarks = 100, kLongestShownName = 100;
constexpr std::uint64_t kKeptBytes = std::uint64_t{128} << 20, kKeptOfRead = 16;
constexpr std::size_t kStepBytes = 1024;  // of a step in a map, without its lists
constexpr double kMaxExpertTokens = std::numeric_limits<std::uint32_t>::max();
constexpr const char* kOneNumber = "a single number is not the load of each expert";

std::string in_quotes(const std::string& name) {
  return '"' + printable(name.substr(0, kLongestShownName)) + '"';
}

[[noreturn]] void refuse_value(const std::string& column, const std::string& reason) {
  throw Unreadable(column + ": " + reason);
}

std::string why_no_step(const NamedValue& value) {
  const bool is_large = value.numbers.size() == 1 && value.numbers[0] > kLastStep;
  return "step: " + value_text(value) +
         (is_large ? " is more than " + shortest(kLastStep) : std::string(" is not a whole number from 0 on"));
}

// False for what ranks print that have no loss.
bool is_a_loss(float loss) {
  return !is_missing(loss) && loss != 0 && loss != -1;
}

float RouterFrame::*router_figure(std::string_view column) {
  for (const auto& figure : kRouterFigures)
    if (column == figure.column) return figure.member;
  return nullptr;
}

// Rows of this program's own lines whose repetition shows that a step was logged again.
bool is_own_row(std::string_view name) {
  return is_one_of(name, {"routers", "quants", "gradients", "specialisation", "texts"});
}

std::vector<double>& values_of(const TagRule& rule, auto& experts) {
  if (rule.means == TagMeaning::tokens_per_expert) return experts.counts;
  if (rule.means == TagMeaning::expert_bias) return experts.biases;
  return experts.shares;
}

// Returns the load of an expert as the rule converts it. Throws Unreadable if it is none.
double load_of(const TagRule& rule, double number) {
  const double load = rule.figure_of(number);
  if (rule.means == TagMeaning::expert_bias) return load;
  if (std::isnan(load)) refuse_value(rule.column, "an expert has no value");
  if (!(load >= 0 && std::isfinite(load))) refuse_value(rule.column, shortest(number) + " is no load of an expert");
  return rule.means == TagMeaning::tokens_per_expert && !rule.is_as_logged() ? std::round(load) : load;
}

// Returns why a number is no count, but a mean or a share of the tokens: only its ratio to the others counts; empty: it
// is a count.
std::string why_share(double load) {
  if (load > kMaxExpertTokens) return shortest(load) + " is more than " + shortest(kMaxExpertTokens);
  return load == std::floor(load) ? std::string() : shortest(load) + " is not whole";
}

// Converts whole numbers from 0 to kMaxExpertTokens, which nearly all logs have, several at a time: the lowest bits of
// n + 2^52 are n. Returns none if other numbers are among them.
std::vector<std::uint32_t> counts_of(const TagRule& rule, std::span<const double> numbers) {
  constexpr double kOffset = 0x1p52;
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  std::vector<std::uint32_t> counts(numbers.size());
  std::uint64_t wrong_bits = rule.is_as_logged() ? 0 : 1;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double sum = numbers[i] + kOffset;
    counts[i] = static_cast<std::uint32_t>(bits(sum));
    wrong_bits |= (bits(sum - kOffset) ^ bits(numbers[i])) | (bits(sum) - bits(kOffset)) >> 32;
  }
  for (std::size_t i = 0; i < numbers.size() && wrong_bits != 0; ++i) {
    const double load = load_of(rule, numbers[i]);
    if (!why_share(load).empty()) return {};
    counts[i] = static_cast<std::uint32_t>(load);
  }
  return counts;
}

}  // namespace

RunBuilder::RunBuilder(LogContext& log, const TagMap& tags, std::string name)
    : log_(&log), tags_(&tags), name_(std::move(name)) {
  stated.info.name = name_;
}

// A run without a name gets the name of the file, and its number if it is not 0.
std::string RunBuilder::shown_name() const {
  if (!stated.info.name.empty()) return stated.info.name;
  const std::string stem = std::filesystem::path(named_standard_input(log_->source)).stem().string();
  return number == 0 ? stem : fmt::format("{} run {}", stem, number);
}

RunBuilder::Name& RunBuilder::find(std::string_view name, bool is_own, const char* means) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  Name found;
  found.name = name;
  if (!is_own) found.match = tags_->find(means ? means : name).value_or(TagMatch{});
  const TagRule* const rule = found.match.rule;
  found.is_shown = rule && moescope::is_shown(rule->means);
  const char* note = is_own ? "MoEScope's own values" : "";
  found.is_rank = is_part_of_step(name) && !name.starts_with("micro");
  found.is_part = is_part_of_step(name) || (rule && rule->means == TagMeaning::part_number);
  found.is_perplexity = name.ends_with("ppl") || name.ends_with("perplexity");
  if (found.is_part) note = "Part of a step: loads of parts are added";
  found.counts = log_->book.add(name, rule, place_, note);
  if (names_.size() < kMaxNames) return names_.emplace(name, std::move(found)).first->second;
  found.is_kept = false;
  return overflow_.emplace_back(std::move(found));
}

// Counts the numbers of a value. Long lists of counts are counted when they are read.
void RunBuilder::count(const Name& name, const NamedValue& value, std::int64_t step) {
  if (value.is_own) return;
  if (!value.problem.empty()) return AccountBook::leave_out(name.counts, std::string(value.problem));
  if (value.numbers.empty()) {
    if (!value.text.empty()) AccountBook::take_text(name.counts, step, value.text);
    return;
  }
  if (!value.is_list || value.leaves_out_zeros) {
    for (const double number : value.numbers)
      if (!value.is_list || !std::isnan(number)) AccountBook::take(name.counts, step, number);
    return;
  }
  if (name.is_shown && name.match.rule->means == TagMeaning::tokens_per_expert && !value.in_percent) return;
  std::span<const double> unread(value.numbers);
  for (const std::size_t size : value.rows) {
    AccountBook::take(name.counts, step, unread.first(size));
    unread = unread.subspan(size);
  }
  if (value.rows.empty()) AccountBook::take(name.counts, step, unread);
}

void RunBuilder::count(const LogRecord& record) {
  place_ = record.place;
  // The step is not known: each record has a negative number of its own.
  for (const NamedValue& value : record.values)
    count(find(value.name, value.is_own), value, record.step.value_or(-1 - record.place));
}

// Returns the step of a record. Each record may have another name for it ("step", "global_step"), of which the first in
// the table counts. But if a record has two different numbers (for example a step within the epoch), the name that does
// not count cannot give the step of other records, unless it has the number of the record before.
std::int64_t RunBuilder::step_of(const LogRecord& record) {
  std::vector<std::pair<Name*, const NamedValue*>> steps;
  const NamedValue* first = nullptr;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const TagRule* const rule = value_names_[i]->match.rule;
    if (!rule || rule->means != TagMeaning::step_number || (value.numbers.empty() && value.text.empty())) continue;
    first = first ? first : &value;
    if (step_number(value)) steps.emplace_back(value_names_[i], &value);
  }
  if (!first) throw Unreadable("no step");
  if (steps.empty()) throw Unreadable(why_no_step(*first));
  const auto place_in_table = [](const auto& candidate) { return candidate.first->match.rule->place; };
  const auto& [best_name, best] = *std::ranges::min_element(steps, {}, place_in_table);
  for (const auto& [name, value] : steps) {
    if (name->match.rule->place == best_name->match.rule->place || step_number(*value) == step_number(*best)) continue;
    other_steps_[name->match.rule->place] = {best_name->name, *step_number(*value), *step_number(*best)};
    AccountBook::leave_out(name->counts, "another number than " + best_name->name + ", which gives the step");
  }
  const auto differs = other_steps_.find(best_name->match.rule->place);
  if (differs == other_steps_.end()) return *step_number(*best);
  if (differs->second.number == *step_number(*best)) return differs->second.step;
  throw Unreadable("no " + differs->second.name + ", and " + best_name->name + " differs from it in other lines");
}

// Takes the settings that stand beside the values of the first step, as Ray Tune writes them: "config/top_k"; also
// "top_k" beside "num_experts" or loads, which differs from the top_k of a sampler.
void RunBuilder::find_settings(const LogRecord& record) {
  constexpr std::string_view kConfig = "config";
  if (has_steps() || !stated.settings.empty()) return;
  const auto is_load = [](const Name* name) { return name->match.rule && moescope::is_list(name->match); };
  const auto states = [](const NamedValue& value, std::string_view setting) {
    const auto name = std::ranges::find(log_names(), value.name, &LogName::name);
    return !value.is_own && is_number(value) && name != log_names().end() && name->setting == setting;
  };
  const bool has_experts =
      std::ranges::any_of(record.values, [&](const NamedValue& value) { return states(value, "experts"); }) ||
      std::ranges::any_of(value_names_, is_load);
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const bool is_config = !value.is_own && !value.is_list && value.name.starts_with(kConfig) &&
                           value.name.substr(kConfig.size()).find_first_of("./") == 0;
    const bool is_shape = has_experts && (states(value, "experts") || states(value, "top_k"));
    if ((!is_config && !is_shape) || value_names_[i]->match.rule) continue;
    if (is_shape && states(value, "experts") && value.numbers[0] >= 1 && value.numbers[0] <= kMaxImportedExperts)
      stated.info.n_experts = static_cast<int>(value.numbers[0]);
    stated.settings +=
        (stated.settings.empty() ? "{" : ",") +
        json_string(is_config ? value.name.substr(kConfig.size() + 1) : value.name) + ':' +
        (is_number(value) && std::isfinite(value.numbers[0]) ? json_number(value.numbers[0]) : json_string(value.text));
    AccountBook::leave_out(value_names_[i]->counts, "a setting of the run");
  }
  if (!stated.settings.empty()) stated.settings += '}';
}

// Drops NaN that stands for an empty cell of a table: one loss beside a number of the other loss, all values beside
// a loss of the validation alone, and a single NaN in place of a list. If a row has both losses, NaN is a training
// loss, and if two rows in succession have both, it is a validation loss, too.
void RunBuilder::drop_no_values(LogRecord& record) {
  const auto is_nan = [](const NamedValue& value) { return is_number(value) && std::isnan(value.numbers[0]); };
  if (!record.is_row) return;
  const auto rule_of = [&](std::size_t i) { return value_names_[i]->match.rule; };
  const auto has = [&](auto loss) {
    for (std::size_t i = 0; i < record.values.size(); ++i)
      if (rule_of(i) && rule_of(i)->step == loss && is_number(record.values[i]) && !is_nan(record.values[i]))
        return true;
    return false;
  };
  const bool has_loss = has(&TelemetryFrame::ce_loss), has_validation = has(&TelemetryFrame::val_loss);
  const bool had_both = std::exchange(last_has_both_, has_loss && has_validation);
  if (last_has_both_) rows_with_both_ = had_both ? 2 : std::max(rows_with_both_, 1);
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    NamedValue& value = record.values[i];
    const bool is_none =
        (has_validation && !has_loss && rows_with_both_ == 0) ||
        (rule_of(i) && ((has_loss && rule_of(i)->step == &TelemetryFrame::val_loss && rows_with_both_ < 2) ||
                        (is_list(value_names_[i]->match) && value_names_[i]->match.expert < 0)));
    if (!is_none || !is_nan(value)) continue;
    value.numbers.clear();
    value.text = {};
  }
}

// Drops the steps of an earlier attempt if values of the record were logged before (RestartRule).
void RunBuilder::go_back(const LogRecord& record, int part, std::int64_t step) {
  std::optional<Restart> restart;
  std::string key;
  const bool is_validation = measured_on(record) != MeasuredOn::training;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const Name& name = *value_names_[i];
    const bool has_figure = name.is_shown && (value.is_list || !value.numbers.empty());
    if (!(value.is_own ? value.is_list || is_own_row(value.name) : has_figure)) continue;
    if (is_validation && !(name.match.rule && is_loss(*name.match.rule))) continue;
    key.assign(part < 0 ? "" : fmt::format("{} ", part))
        .append(value.name)
        .append(is_validation ? " of a validation" : "");
    for (const auto& [index_name, index] :
         {std::pair(" of layer ", std::max(record.layer, value.layer)), std::pair(" of expert ", value.expert)})
      if (index >= 0) key.append(index_name).append(std::to_string(index));
    const bool is_judged = !record.is_drawn_again && name.match.rule &&
                           (is_loss(*name.match.rule) || name.match.rule->means < TagMeaning::expert_bias);
    const std::span<const double> numbers = is_judged ? std::span(value.numbers) : std::span<const double>();
    if (const auto found = restarts_.take(key, step, numbers); found && !restart) restart = found;
  }
  if (restart) drop(*restart);
}

void RunBuilder::go_back_to(std::int64_t step) {
  if (const auto restart = restarts_.go_back_to(step)) drop(*restart);
}

void RunBuilder::drop(const Restart& restart) {
  if (!log_->is_collected && imported_) show_steps();
  to_new_steps_ += !open_.contains(restart.step) && !(imported_ && imported_->has(restart.step));
  const auto first = open_.lower_bound(restart.step);
  std::size_t dropped = std::distance(first, open_.end());
  open_.erase(first, open_.end());
  if (imported_) dropped += imported_->drop_from(restart.step);
  dropped_ += dropped;
  restarted_ += dropped > 0;
  newest_ = std::min(newest_, restart.step - 1);
  if (dropped == 0) return;
  note(fmt::format("{} ({}{}", restart_text(restart), dropped, dropped == 1 ? " step)" : " logged steps)"),
       restart.step);
}

void RunBuilder::note(std::string text, std::int64_t step) {
  if (remarks_.size() >= kKeptRemarks) {
    ++more_notes_;
    return;
  }
  remarks_.push_back(text);
  const std::int64_t newest = open_.empty() ? 0 : open_.rbegin()->first;
  add_event(std::move(text), step >= 0 ? step : newest);
}

void RunBuilder::add_checkpoint(const std::string& name, std::optional<std::int64_t> step) {
  if (newest_ >= 0)
    add_event(std::string(kCheckpointSaved) + (name.empty() ? "" : ": " + name), step.value_or(newest_));
}

void RunBuilder::add_event(std::string text, std::int64_t step) {
  add_marker(Marker{0, step, "event", std::move(text)});
}

void RunBuilder::add_marker(Marker marker) {
  if (imported_ && !log_->is_collected)
    imported_->add(std::move(marker));
  else
    markers_.push_back(std::move(marker));
}

// Returns true if the values of the name are shown. Of several names of one meaning, that whose rule is first in the
// table is shown.
bool RunBuilder::choose(Name& name, bool is_validation) {
  if (is_validation) {  // where only the losses are read
    Name*& best = shown_.try_emplace({"loss of a validation", -1, -1}, &name).first->second;
    if (name.match.rule->place < best->match.rule->place) best = &name;
    if (name.is_shown) AccountBook::show(name.counts, true);
    return best->match.rule->place == name.match.rule->place;
  }
  if (std::exchange(name.has_value, true)) return name.is_shown;
  AccountBook::show(name.counts, true);
  if (!name.is_kept) return true;
  const TagMatch& match = name.match;
  const bool is_of_layers = match.layer >= 0 || match.rule->means <= TagMeaning::expert_bias;
  (match.rule->layers_as_text ? layers_as_text_ : layers_as_numbers_) |= is_of_layers;
  const auto [place, is_first] = shown_.try_emplace({match.rule->column, match.layer, match.expert}, &name);
  Name& other = *place->second;
  are_totals_ = are_totals_ || match.rule->column == kLoadsSoFar;
  if (is_first || spelled_alike(other.name) == spelled_alike(name.name)) return true;
  const bool is_better = match.rule->place < other.match.rule->place;
  Name& worse = is_better ? other : name;
  worse.is_shown = false;
  AccountBook::show(worse.counts, false);
  AccountBook::leave_out(worse.counts, "another name of the log has this meaning");
  if (log_->is_collected)
    note(in_quotes(worse.name) + " is not shown: " + in_quotes((is_better ? name : other).name) +
         " has the same meaning");
  if (!is_better) return false;
  forget(other.match);
  place->second = &name;
  return true;
}

// Deletes the values of a name that is no longer shown.
void RunBuilder::forget(const TagMatch& match) {
  const TagRule& rule = *match.rule;
  for (auto& [number, step] : open_) {
    if (rule.step) step.frame.*rule.step = kNoValue;
    for (RouterFrame& router : step.frame.routers) {
      if (router.layer != match.layer && (match.layer >= 0 || rule.router)) continue;
      if (rule.router) router.*rule.router = kNoValue;
      if (rule.means == TagMeaning::tokens_per_expert && match.expert < 0) router.tokens_per_expert.clear();
      if (rule.means == TagMeaning::expert_bias && match.expert < 0) router.expert_bias.clear();
    }
    for (auto& [layer, experts] : step.experts) {
      if (is_figure(match) || (match.layer >= 0 && layer != match.layer)) continue;
      std::vector<double>& values = values_of(rule, experts);
      if (match.expert < 0)
        values.clear();
      else if (static_cast<std::size_t>(match.expert - first_expert_) < values.size())
        values[match.expert - first_expert_] = std::nan("");
    }
  }
}

void RunBuilder::keep(std::size_t bytes) {
  kept_bytes_ += bytes;
  if (kept_bytes_ <= kKeptBytes + kKeptOfRead * read_bytes_) return;
  const std::string text = fmt::format("its values take {} MB", kept_bytes_ >> 20);
  if (!log_->is_collected) throw Unreadable(text + ": more than can be shown");
  refuse(log_->source, fmt::format("{}, of the first {} bytes of the file: more than can be shown", text, read_bytes_));
}

RunBuilder::Step& RunBuilder::step_at(std::int64_t step) {
  if (const auto found = open_.find(step); found != open_.end()) return found->second;
  Step& opened = open_[step];
  opened.frame.wall_s = wall_s_;
  opened.place = place_;
  opened.is_late = imported_ && step <= newest_;
  opened.is_added = is_added_;
  logged_ += !(opened.is_late && imported_->has(step));
  newest_ = std::max(newest_, step);
  keep(kStepBytes);
  return opened;
}

// Finds the list of layers in a record with lists by layer: {"moe_layer_ids": [1, 3, 5], "expert_counts": [[...],
// ...]}.
void RunBuilder::find_listed_layers(const LogRecord& record) {
  listed_layers_.clear();
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const std::vector<double>& numbers = value.numbers;
    const auto is_layer = [](double n) { return n >= 0 && n <= kLastImportedLayer && n == std::floor(n); };
    if (!value.is_list || numbers.empty() || !value.rows.empty() || value_names_[i]->match.rule ||
        spelled_alike(value.name).find("layer") == std::string::npos || std::ranges::any_of(value.name, is_digit) ||
        !std::ranges::all_of(numbers, is_layer) ||
        std::ranges::adjacent_find(numbers, std::greater_equal{}) != numbers.end())
      continue;
    listed_layers_.assign(numbers.begin(), numbers.end());
    AccountBook::leave_out(value_names_[i]->counts, "the layers of the lists beside it");
  }
}

// Returns the layers to which a list with `rows` entries belongs: those that its record lists, the MoE layers that the
// log states, else the last of its layers.
std::vector<int> RunBuilder::layers_of(std::size_t rows, const std::string& column) const {
  const RunInfo& info = imported_ ? imported_->info() : stated.info;
  if (rows > kMaxImportedLayers) refuse_value(column, "too many layers");
  if (rows == listed_layers_.size()) return listed_layers_;
  if (rows == info.moe_layers.size()) return info.moe_layers;
  if (imported_ && info.moe_layers.empty()) refuse_value(column, "the number of layers is not known");
  if (imported_) refuse_value(column, fmt::format("{} layers, not {}", rows, info.moe_layers.size()));
  const int first = std::max(0, info.n_layers - to_int(rows));
  std::vector<int> layers;
  for (std::size_t i = 0; i < rows; ++i) layers.push_back(first + to_int(i));
  return layers;
}

void RunBuilder::check_experts(std::size_t experts, const std::string& column) {
  if (experts > kMaxImportedExperts) refuse_value(column, "too many experts");
  if (log_->is_collected || experts == 0) return;
  experts *= ranks_of_list(experts);
  const std::size_t known = imported_ ? static_cast<std::size_t>(imported_->listed_experts()) : list_size_;
  if (experts != known && (imported_ || known > 0))
    refuse_value(column, fmt::format("{} experts, not {}", experts, known));
  list_size_ = experts;
}

bool RunBuilder::add(Name& name, const NamedValue& value, const LogRecord& record, std::int64_t step) {
  if (name.is_shown && !value.problem.empty())
    refuse_value(printable(name.name.substr(0, kLongestShownName)), std::string(value.problem));
  const auto is_of_validation = [&] {  // where the loss may have a name of its own
    return name.match.rule && is_loss(*name.match.rule) && measured_on(record) == MeasuredOn::validation;
  };
  if (value.is_own || !(name.is_shown || is_of_validation()) ||
      (!value.is_list && value.numbers.empty() && value.text.empty()))
    return false;
  if (log_->is_collected) keep(sizeof(double) * value.numbers.size());
  const TagMatch& match = name.match;
  int layer = match.layer;
  if (value.layer >= 0) layer = value.layer;
  if (record.layer >= 0) layer = record.layer;
  const int expert = value.expert >= 0 ? value.expert : match.expert;
  if (is_figure(match)) return add_figure(name, value, record, layer, step);
  if (expert >= 0 || value.leaves_out_zeros) return add_experts(name, value, layer, expert, step);
  if (value.is_list) return add_list(name, value, layer, step);
  if (value.numbers.empty()) refuse_value(match.rule->column, value_text(value) + " is not a list");
  if (match.layer >= 0 && match.rule->pattern.ends_with("expert/{layer}"))  // one number of "tokens_per_expert/3"
    return add_experts(name, value, -1, match.layer, step);
  AccountBook::leave_out(name.counts, kOneNumber);
  if (log_->is_collected && std::exchange(name.is_shown, false))
    note(in_quotes(name.name) + " is not shown: " + kOneNumber);
  return false;
}

bool RunBuilder::add_figure(Name& name, const NamedValue& value, const LogRecord& record, int layer,
                            std::int64_t step) {
  const TagRule& rule = *name.match.rule;
  const MeasuredOn text = measured_on(record);
  if (text == MeasuredOn::test) return false;
  float RouterFrame::*router = rule.router;
  if (!router && (record.layer >= 0 || value.is_list)) router = router_figure(rule.column);
  const bool is_of_layers = router && layer < 0 && value.is_list && value.rows.empty() && !value.numbers.empty();
  if (value.is_list && !is_of_layers)
    refuse_value(rule.column, fmt::format("is a single figure, but has {} values", value.numbers.size()));
  if (value.numbers.empty())
    refuse_value(rule.column, value_text(value) + " is not a number" +
                                  (value.text.find(',') != std::string_view::npos
                                       ? "; is its comma a decimal point? Write 3.5, not 3,5"
                                       : ""));
  const std::vector<int> layers = is_of_layers ? layers_of(value.numbers.size(), rule.column) : std::vector{layer};
  if (router && layer >= 0) check_layer(layer);
  if (!choose(name, text == MeasuredOn::validation)) return false;
  Step& target = step_at(step);
  if (!router && !rule.step) {
    add_tokens(rule, value.numbers[0], step);
    return true;
  }
  target.has_sums = target.has_sums || record.layer >= 0 || (is_of_layers && router == &RouterFrame::aux_loss);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double number = value.numbers[i];
    const bool is_none = is_missing(static_cast<float>(number));
    const bool is_in_bits = is_loss(rule) && loss_unit_ == kNatsOfBit && rule.is_as_logged();
    if (is_in_bits) AccountBook::leave_out(name.counts, "2 to its power is the perplexity: read as bits");
    const double unit = is_in_bits ? kNatsOfBit : 1;
    const float figure = is_none ? kNoValue : static_cast<float>(rule.figure_of(number) * unit);
    if (router) {
      router_at(target.frame.routers, layers[i]).*router = figure;
      continue;
    }
    float& place = target.frame.*(text == MeasuredOn::validation ? &TelemetryFrame::val_loss : rule.step);
    if (is_none || (is_loss(rule) && !is_a_loss(figure) && !is_missing(place))) continue;  // this rank has no loss
    int& parts = target.loss_parts[&place == &target.frame.val_loss];
    place = is_loss(rule) && is_added_ && is_a_loss(place) ? place + (figure - place) / static_cast<float>(++parts)
                                                           : figure;
  }
  return true;
}

// Tokens so far are those of a step once two steps have them, if each step has as many.
void RunBuilder::add_tokens(const TagRule& rule, double tokens, std::int64_t step) {
  double step_tokens = tokens;
  if (rule.means == TagMeaning::tokens_so_far) {
    if (tokens > 0) step_at(step).frame.tokens = std::llround(tokens);
    if (!first_tokens_) first_tokens_ = {step, tokens};
    step_tokens = step > first_tokens_->first ? (tokens - first_tokens_->second) / (step - first_tokens_->first) : 0;
  }
  const bool is_number = step_tokens >= 1 && step_tokens <= kLastStep && step_tokens == std::floor(step_tokens);
  if (is_number && tokens_per_step_ == 0) tokens_per_step_ = static_cast<std::int64_t>(step_tokens);
}

// Adds the value of an expert, or a list in which experts without a value have no tokens.
bool RunBuilder::add_experts(Name& name, const NamedValue& value, int layer, int expert, std::int64_t step) {
  const TagRule& rule = *name.match.rule;
  if (value.is_list && expert >= 0)
    refuse_value(rule.column, fmt::format("belongs to one expert, but has {} values", value.numbers.size()));
  if (value.numbers.empty()) refuse_value(rule.column, value_text(value) + " is not a number");
  check_layer(layer = std::max(0, layer));
  std::vector<double> loads = value.numbers;
  std::string reason_of_shares;
  for (double& load : loads) {
    if (value.is_list && std::isnan(load)) continue;
    load = load_of(rule, load);
    if (rule.means == TagMeaning::tokens_per_expert && reason_of_shares.empty()) reason_of_shares = why_share(load);
  }
  const bool has_expert_0 = expert <= 0 && !std::isnan(loads[0]);
  has_expert_0_ = has_expert_0_ || has_expert_0;
  const int begin = std::max(0, expert) - first_expert_, end = begin + to_int(loads.size());
  if ((begin < 0 && has_expert_0) || (imported_ && end > imported_->listed_experts() && !log_->is_collected))
    refuse_value(rule.column, "other experts than in the first step");
  if (!choose(name)) return false;
  if (!reason_of_shares.empty()) AccountBook::leave_out(name.counts, reason_of_shares + ": read as shares of the step");
  Step& target = step_at(step);
  target.is_part = target.is_part || !value.leaves_out_zeros;
  is_open_ended_ = is_open_ended_ || (value.leaves_out_zeros && !value.has_all_experts);
  Experts& experts = target.experts[layer];
  experts.leaves_out_zeros |= value.leaves_out_zeros && rule.means != TagMeaning::expert_bias;
  std::vector<double>& values = values_of(rule, experts);
  if (const std::size_t size = end; size > values.size()) {
    keep(sizeof(double) * (size - values.size()));
    values.resize(size, std::nan(""));
  }
  for (int e = std::max(0, begin); e < end; ++e)
    if (const double load = loads[e - begin]; !std::isnan(load))
      values[e] = is_added_ && !std::isnan(values[e]) ? values[e] + load : load;
  return true;
}

// Adds a list by expert, or a list of such lists by layer.
bool RunBuilder::add_list(Name& name, const NamedValue& value, int layer, std::int64_t step) {
  const TagRule& rule = *name.match.rule;
  if (value.numbers.empty() && !value.text.empty())
    refuse_value(rule.column, value_text(value) + " is not a list of numbers");
  const std::vector<std::size_t> rows = value.rows.empty() ? std::vector{value.numbers.size()} : value.rows;
  if (layer >= 0 && rows.size() > 1) refuse_value(rule.column, "lists of several layers, not of one");
  if (rows.size() * *std::ranges::max_element(rows) > kMaxImportedLoads) refuse_value(rule.column, "too many experts");
  const std::vector<int> layers = layer >= 0 ? std::vector{layer} : layers_of(rows.size(), rule.column);
  if (layer >= 0) check_layer(layer);
  for (const std::size_t size : rows) check_experts(size, rule.column);
  const bool may_be_counts = rule.means == TagMeaning::tokens_per_expert;
  std::vector<std::uint32_t> counts;
  std::vector<double> loads;
  if (may_be_counts && !value.in_percent) counts = counts_of(rule, value.numbers);
  const bool are_counts = may_be_counts && counts.size() == value.numbers.size();
  std::string reason_of_shares = "in percent";
  for (std::size_t i = 0; i < value.numbers.size() && !are_counts; ++i) {
    loads.push_back(load_of(rule, value.numbers[i]));
    if (std::string reason = why_share(loads[i]); !value.in_percent && !reason.empty())
      reason_of_shares = std::move(reason);
  }
  if (are_counts && rows.size() == 1 && differ_from_others(name, layers[0], counts, step)) other_loads_ = name.name;
  if (!choose(name)) return false;
  if (may_be_counts && !are_counts) {
    if (!value.in_percent) name.counts.counts->take_list(step, std::span<const double>(value.numbers));
    AccountBook::leave_out(name.counts, reason_of_shares + ": read as shares of the step");
    const double sum = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(rows.size());
    const bool is_certain = value.in_percent || sum > static_cast<double>(rows[0]) ||  // means of counts
                            (sum > 0.5 && std::abs(sum - std::round(sum)) <= 0.01 * sum);
    if (!is_certain) AccountBook::ask(name.counts, "load_share", "they do not add up to 1: are they shares of tokens?");
  }
  Step& target = step_at(step);
  target.frame.routers.reserve(rows.size());
  for (std::size_t i = 0, first = 0; i < rows.size(); first += rows[i++]) {
    if (!are_counts) {
      set_list(rule, layers[i], std::span(loads).subspan(first, rows[i]), target);
      continue;
    }
    const std::span<const std::uint32_t> row = std::span(counts).subspan(first, rows[i]);
    name.counts.counts->take_list(step, row);
    set_counts(target, layers[i], row);
  }
  return true;
}

void RunBuilder::set_list(const TagRule& rule, int layer, std::span<const double> values, Step& step) {
  RouterFrame& router = router_at(step.frame.routers, layer);
  if (rule.means == TagMeaning::expert_bias) {
    router.expert_bias.assign(values.begin(), values.end());
  } else if (!values.empty()) {
    std::vector<double>& shares = step.experts[layer].shares;
    if (rank_ && !shares.empty())
      AccountBook::leave_out(rank_->counts, "shares of ranks cannot be added: those of the last are read");
    keep(sizeof(double) * (std::max(values.size(), shares.size()) - shares.size()));
    shares.assign(values.begin(), values.end());
  }
}

void RunBuilder::take(LogRecord& record) {
  place_ = record.place;
  overflow_.clear();
  value_names_.clear();
  rank_ = nullptr;
  const NamedValue* perplexity = nullptr;
  for (const NamedValue& value : record.values) {
    value_names_.push_back(&find(value.name, value.is_own, value.means));
    if (value_names_.back()->is_perplexity) perplexity = &value;
  }
  find_listed_layers(record);
  find_settings(record);
  drop_no_values(record);
  const std::int64_t logged_step = record.step ? *record.step : step_of(record);
  const std::int64_t step = step_of_run(record, logged_step);
  const int part = find_parts(record);
  const bool is_training = measured_on(record) == MeasuredOn::training;
  std::string problem = record.problem;
  bool has_taken = false;
  if (perplexity && loss_unit_ == 0 && is_number(*perplexity)) find_base(record, perplexity->numbers[0]);
  go_back(record, part, step);
  if (part < 0) watch_layers(record, step);
  is_added_ = is_further_part(part, record.layer, step);
  wall_s_ = std::isfinite(record.wall_s) ? record.wall_s : 0;
  if (!log_->is_collected && !open_.contains(step) && (imported_ || open_.size() >= kMaxHeld || can_open()))
    show_steps();  // the steps before it are complete
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    Name& name = *value_names_[i];
    count(name, value, step);
    if (name.match.rule && name.match.rule->means == TagMeaning::step_number && step_number(value) == logged_step)
      AccountBook::show(name.counts, true);
    if (!is_training && !(name.match.rule && is_loss(*name.match.rule))) continue;
    try {
      has_taken = add(name, value, record, step) || has_taken;
    } catch (const Unreadable& unreadable) {
      AccountBook::leave_out(name.counts, unreadable.what());
      AccountBook::show(name.counts, true);
      if (problem.empty()) problem = unreadable.what();
    }
  }
  bool has_own = record.own_frame.has_value();
  try {
    if (has_own)
      for (const RouterFrame& router : record.own_frame->routers)
        if (router.layer >= 0) check_layer(router.layer);
  } catch (const Unreadable& unreadable) {
    has_own = false;
    if (problem.empty()) problem = unreadable.what();
  }
  const bool has_values = has_taken || (has_own && record.has_own_rows);
  has_values_ = has_values_ || has_values;
  if (!has_values && !problem.empty()) throw Unreadable(problem);
  if (!has_values && log_->is_collected) return;
  Step& target = step_at(step);
  target.is_part = target.is_part || record.is_part || record.layer >= 0 || part >= 0;
  if (has_own && is_training) {
    if (record.own_loads.counts)
      for (const RouterFrame& router : record.own_frame->routers)
        record.own_loads.counts->take_list(step, std::span<const std::uint32_t>(router.tokens_per_expert));
    join_frames(target.frame, std::move(*record.own_frame), is_added_);
    held_bytes_ += record.own_bytes;
  }
  for (Marker& marker : record.markers) {
    if (marker.step < 0) marker.step = step;
    add_marker(std::move(marker));
  }
  if (!log_->is_collected && ((!target.is_part && !target.is_late && can_open()) || held_bytes_ > kMaxHeldBytes))
    show_steps();
  if (!problem.empty()) throw UnreadablePart(problem);
}

}  // namespace moescope
