// The runs of a log: gives each record to its run, keeps what the log states about its runs, and reports what was read.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/runs/run_builder.h"

namespace moescope {

// Thrown if more runs of a file are chosen than can be open together. Without a choice, all its runs count.
struct TooManyRuns : std::runtime_error {
  TooManyRuns(const std::string& path, std::vector<std::string> run_names, std::size_t max_runs);
  std::vector<std::string> names;
};

bool is_wanted(const ImportOptions& options, const std::string& name);

// Throws TooManyRuns if `options` choose more than options.most_runs of the runs `names`; std::runtime_error if
// options.only has a run that is not in `names`.
void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options);

class LogRuns {
 public:
  // `unit`: what LogRecord::place counts: "line", "record". `is_collected`: LogContext::is_collected.
  LogRuns(std::string source, ImportOptions options, bool is_collected, const char* unit);
  explicit LogRuns(LogContext log) : log_(std::move(log)) {}

  LogContext& context() { return log_; }
  const LogContext& context() const { return log_; }
  // The run with a name, for formats that know their runs before their values. `tags`: if the run has names of its own.
  RunBuilder& run(const std::string& name, const TagMap* tags = nullptr);

  void end(RunBuilder& run);  // to be called if no more values of a run() follow

  // Gives a record to the run that it names under run, run_name or run_id. Throws Unreadable, as RunBuilder::take().
  void take(LogRecord& record);
  // Takes a record without a step: the settings of its run, if it comes before the first step. Throws Unreadable.
  void describe(const LogRecord& record, const std::function<StatedRun()>& stated);
  bool has_step(const LogRecord& record);
  bool has_loss(const LogRecord& record);  // true if it is of a training, although it may have no step
  RunInfo info_for(const LogRecord& record) { return run_of(record, has_step(record)).info(); }
  const StatedRun& stated_for(const LogRecord& record) { return run_of(record, has_step(record)).stated; }
  const TagMatch* find(std::string_view name);                     // nullptr: no meaning is known
  Commas commas_in(std::string_view text, std::string_view name);  // in a value of the name
  void count(const LogRecord& record);                             // counts the values of a record that cannot be read
  void count_bad(std::int64_t place, const Unreadable& problem);

  void show_steps();
  std::deque<RunBuilder>& runs() { return runs_; }
  const std::deque<RunBuilder>& runs() const { return runs_; }
  std::vector<std::shared_ptr<History>> histories() const;
  std::vector<std::string> remarks(const std::vector<std::string>& preface = {}) const;  // preface: on the file
  std::string refusal() const;  // why the log is refused, after its last record; empty: it is accepted
  ImportAccount account() const;
  // Ends the log, and returns its runs, remarks and account. `lines`: number of lines or records that were read. Throws
  // RefusedLog if there is no run, or if the log is not growing and has a refusal(), to which `hint` is added;
  // TooManyRuns.
  Imported finish(std::int64_t lines, const std::string& hint = {});

 private:
  RunBuilder& run_of(const LogRecord& record, bool has_step);
  bool is_chosen(const RunBuilder& run) const;
  int place_of(const RunBuilder& run) const;

  LogContext log_;
  std::deque<RunBuilder> runs_;     // in the order of their first records
  std::optional<int> unnamed_run_;  // number of the run whose records have no name
  NameMap<TagMatch> matches_;
};

}  // namespace moescope
