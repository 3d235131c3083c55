#include "core/logs/runs/log_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/files/text/text_escape.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxLogRuns = 64, kMaxRunsRead = 16, kLongestRunName = 200, kMaxMatches = 65536, kListedRuns = 20,
                      kLongestListedRun = 100;
constexpr int kFirstNamedRun = 1 << 21, kLastRun = 1 << 20;

const NamedValue* run_key(const LogRecord& record) {
  for (const char* name : {"run", "run_name", "run_id"})
    if (const NamedValue* key = find_value(record, name)) return key;
  return nullptr;
}

std::string list_of_runs(const std::vector<std::string>& names) {
  return first_names(names, kListedRuns, kLongestListedRun);
}

}  // namespace

TooManyRuns::TooManyRuns(const std::string& path, std::vector<std::string> run_names, std::size_t max_runs)
    : std::runtime_error(
          fmt::format("{}: holds {} runs; at most {} can be open side by side. --run NAME chooses one of: {}", path,
                      run_names.size(), max_runs, list_of_runs(run_names))),
      names(std::move(run_names)) {}

bool is_wanted(const ImportOptions& options, const std::string& name) {
  return options.only.empty() || std::ranges::find(options.only, name) != options.only.end();
}

void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options) {
  for (const std::string& chosen : options.only)
    if (std::ranges::find(names, chosen) == names.end())
      refuse(path, "holds no run named " + printable(chosen) + ". There are: " + list_of_runs(names));
  const std::ptrdiff_t chosen =
      std::ranges::count_if(names, [&](const std::string& name) { return is_wanted(options, name); });
  if (static_cast<std::size_t>(chosen) > options.most_runs) throw TooManyRuns(path, names, options.most_runs);
}

LogRuns::LogRuns(std::string source, ImportOptions options, bool is_collected, const char* unit)
    : log_{source, options, TagMap::for_log(options, source), is_collected, {}, BadLines(unit)} {}

RunBuilder& LogRuns::run(const std::string& name, const TagMap* tags) {
  const auto known = std::ranges::find(runs_, name, [](const RunBuilder& run) { return run.name(); });
  if (known != runs_.end()) return *known;
  RunBuilder& run = runs_.emplace_back(log_, tags ? *tags : log_.tags, name);
  run.is_read = true;
  return run;
}

void LogRuns::end(RunBuilder& run) {
  run.shown_number =
      to_int(std::ranges::count_if(runs_, [](const RunBuilder& other) { return other.imported() != nullptr; }));
  run.finish();
}

const TagMatch* LogRuns::find(std::string_view name) {
  auto found = matches_.find(name);
  if (found == matches_.end()) {
    if (matches_.size() >= kMaxMatches) matches_.clear();
    found = matches_.emplace(name, log_.tags.find(name).value_or(TagMatch{})).first;
  }
  return found->second.rule ? &found->second : nullptr;
}

Commas LogRuns::commas_in(std::string_view text, std::string_view name) {
  const TagMatch* const match = text.find(',') == text.npos ? nullptr : find(name);
  if (match && is_list(*match)) return Commas::between_entries;
  return match && match->rule->is_large() ? Commas::between_groups : Commas::may_be_decimal;
}

bool LogRuns::has_step(const LogRecord& record) {
  return record.step || std::ranges::any_of(record.values, [this](const NamedValue& value) {
           const TagMatch* match = value.is_own || value.is_list ? nullptr : find(value.name);
           return match && match->rule->means == TagMeaning::step_number && has_value(value);
         });
}

bool LogRuns::has_loss(const LogRecord& record) {
  return std::ranges::any_of(record.values, [this](const NamedValue& value) {
    const TagMatch* match = is_number(value) ? find(value.name) : nullptr;
    return match && is_loss(*match->rule);
  });
}

bool LogRuns::is_chosen(const RunBuilder& run) const {
  return is_wanted(log_.options, run.shown_name());
}

// Returns the index of the run among those that are read, in the order of their first records.
int LogRuns::place_of(const RunBuilder& run) const {
  const auto end = std::ranges::find(runs_, &run, [](const RunBuilder& other) { return &other; });
  return to_int(std::count_if(runs_.begin(), end, [this](const RunBuilder& other) { return is_chosen(other); }));
}

// Returns the run of a record, by number or name. A record without either belongs to run 0, or to a named run if the
// record of its settings precedes the first such record.
RunBuilder& LogRuns::run_of(const LogRecord& record, bool has_step) {
  const NamedValue* key = run_key(record);
  const bool has_number = key && is_number(*key) && !key->is_text;
  const std::string name = key && !has_number && key->is_text ? std::string(key->text.substr(0, kLongestRunName)) : "";
  if (has_number &&
      !(key->numbers[0] >= 0 && key->numbers[0] <= kLastRun && key->numbers[0] == static_cast<int>(key->numbers[0])))
    throw Unreadable(fmt::format("run: not a whole number from 0 to {}", kLastRun));
  const int number = has_number ? static_cast<int>(key->numbers[0]) : 0;
  const bool is_unnamed = name.empty() && !has_number;
  if (is_unnamed && has_step && !unnamed_run_) {
    const bool has_settings_only = !runs_.empty() && !runs_.back().name().empty() && !runs_.back().is_read;
    unnamed_run_ = has_settings_only ? runs_.back().number : 0;
  }
  const auto known = std::ranges::find_if(runs_, [&](const RunBuilder& run) {
    if (is_unnamed && unnamed_run_.value_or(0) != 0) return run.number == *unnamed_run_;
    return run.name() == name && (!name.empty() || run.number == number);
  });
  if (known != runs_.end()) return *known;
  if (runs_.size() >= kMaxLogRuns) throw Unreadable("run: more than 64 runs in one file");
  RunBuilder& run = runs_.emplace_back(log_, log_.tags, name);
  run.number = name.empty() ? number : kFirstNamedRun + to_int(runs_.size());
  return run;
}

void LogRuns::count(const LogRecord& record) {
  run_of(record, false).count(record);
}

void LogRuns::take(LogRecord& record) {
  RunBuilder& run = run_of(record, true);
  // Only as many runs are read as can be shown. The names of all runs are known at the end of the file only.
  if (!run.is_read) {
    run.shown_number = place_of(run);
    run.is_read =
        is_chosen(run) && static_cast<std::size_t>(run.shown_number) < std::min(log_.options.most_runs, kMaxRunsRead);
  }
  if (*run.is_read) run.take(record);
}

void LogRuns::describe(const LogRecord& record, const std::function<StatedRun()>& stated) {
  RunBuilder& run = run_of(record, false);
  if (run.has_steps()) {
    bool has_figures = false;
    for (const NamedValue& value : record.values)
      has_figures = (value.is_own ? value.name == "layer" || value.name == "routers" || value.name == "markers"
                                  : run.is_known(value.name) && (value.is_list || !value.numbers.empty())) ||
                    has_figures;
    if (has_figures) throw Unreadable("no step");
    return;
  }
  if (run.is_stated) {
    run.count(record);  // for the account: one of its names may be the step
    throw Unreadable("no step, and the settings of the run were read before");
  }
  try {
    run.stated = stated();
  } catch (const Unreadable& unreadable) {
    throw Unreadable(std::string("no step, and no settings of a run: ") + unreadable.what());
  }
  std::vector<int>& layers = run.stated.info.moe_layers;
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  if (log_.options.routed.experts > 0 && run.stated.info.n_experts == 0)
    run.stated.info.n_experts = log_.options.routed.experts;
  if (run.stated.info.name.empty()) run.stated.info.name = run.name();
  run.is_stated = true;
}

void LogRuns::count_bad(std::int64_t place, const Unreadable& problem) {
  log_.bad.add(place, problem.what(), is_in_part(problem));
}

void LogRuns::show_steps() {
  for (RunBuilder& run : runs_) run.show_steps();
}

std::vector<std::shared_ptr<History>> LogRuns::histories() const {
  std::vector<std::shared_ptr<History>> histories;
  for (const RunBuilder& run : runs_)
    if (run.steps() > 0) histories.push_back(run.imported()->history());
  return histories;
}

std::vector<std::string> LogRuns::remarks(const std::vector<std::string>& preface) const {
  std::vector<std::string> remarks;
  for (const RunBuilder& run : runs_) std::ranges::copy(run.remarks(), std::back_inserter(remarks));
  std::ranges::copy(preface, std::back_inserter(remarks));
  const std::set<std::string> names = log_.book.not_shown(log_.is_collected);
  if (!names.empty()) remarks.push_back(not_shown_text(names));
  return remarks;
}

std::string LogRuns::refusal() const {
  bool has_runs = false, has_values = false;
  for (const RunBuilder& run : runs_) {
    if (const std::string reason = run.imported() ? run.refusal() : std::string(); !reason.empty()) return reason;
    has_runs = has_runs || run.imported();
    has_values = has_values || run.has_values();
  }
  const std::set<std::string> names = log_.book.not_shown(false);
  const bool is_unknown = log_.is_collected ? !has_runs && !names.empty() : has_runs && !has_values;
  return is_unknown ? no_known_names(names) : std::string();
}

ImportAccount LogRuns::account() const {
  ImportAccount account;
  const auto opened = std::ranges::find_if(runs_, [](const RunBuilder& run) { return run.imported() != nullptr; });
  if (opened != runs_.end()) {
    account = opened->imported()->found(opened->stated.info);
    account.tokens_per_step.question = opened->question_of_totals();
    for (const std::string& question : {opened->question_of_ranks(), opened->question_of_rows(),
                                        opened->question_of_names(), opened->question_of_first_expert()})
      if (account.experts.question.empty()) account.experts.question = question;
    FoundNumber& repeated = account.experts.value.empty() ? account.steps : account.experts;
    if (repeated.question.empty()) repeated.question = opened->question_of_repeats();
  }
  account.path = log_.source;
  account.add(log_.book.account(log_.bad.unit()));
  return account;
}

Imported LogRuns::finish(std::int64_t lines, const std::string& hint) {
  if (!log_.is_collected) show_steps();
  Imported imported{histories(), lines, log_.bad};
  imported.remarks = remarks();
  imported.account = account();
  std::vector<std::string> names;  // of all runs with steps, also of those that were not read
  for (const RunBuilder& run : runs_)
    if (run.is_read) names.push_back(run.shown_name());
  if (!names.empty() && !log_.is_collected) check_choice(log_.source, names, log_.options);
  std::string reason = log_.options.growing && !imported.runs.empty() ? std::string() : refusal();
  const bool has_settings = std::ranges::any_of(runs_, [](const RunBuilder& run) { return run.is_stated; });
  if (imported.runs.empty() && reason.empty())
    reason = "holds no training step" + log_.bad.first_reason() +
             (has_settings ? "; a line without a step is read as the settings of a run" : "");
  if (!reason.empty()) throw RefusedLog(log_.source, reason + hint, std::move(imported.account));
  if (log_.options.progress) log_.options.progress(1);
  return imported;
}

}  // namespace moescope
