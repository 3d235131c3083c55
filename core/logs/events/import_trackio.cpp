#include "core/logs/events/import_trackio.h"

#include <optional>
#include <string>
#include <string_view>

#include "core/files/text/json_line.h"
#include "core/logs/lines/json_record.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestRow = std::size_t{16} << 20;  // bytes of the metrics of a step, or of a config

bool has_table(Connection& database, std::string_view name) {
  Statement table(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
  table.bind(name);
  return table.next();
}

// Gives the objects of runs to a log: a line each.
class TrackioRows {
 public:
  explicit TrackioRows(LogRuns& runs) : runs_(&runs), json_(runs) {}

  // `step`: of the metrics; nullopt: the object is the run's config.
  void read(const std::string& run, std::optional<std::int64_t> step, std::string_view object) {
    ++rows_;
    try {
      const JsonFields fields = parser_.parse(object);
      LogRecord record = json_.record_of(fields, rows_, object.size());
      record.step = step;
      if (step) record.add("step", static_cast<double>(*step));
      std::erase_if(record.values, [](const NamedValue& value) { return value.name == "run_name"; });
      record.add_text("run_name", run);
      if (step)
        runs_->take(record);
      else
        runs_->describe(record, [&] { return JsonRecords::stated_run(fields); });
    } catch (const Unreadable& unreadable) {
      runs_->count_bad(rows_, unreadable);
    }
  }
  void refuse(const char* reason) { runs_->count_bad(++rows_, Unreadable(reason)); }
  std::int64_t rows() const { return rows_; }

 private:
  LogRuns* runs_;
  JsonRecords json_;
  JsonLines parser_;
  std::int64_t rows_ = 0;
};

}  // namespace

bool is_trackio(Connection& database) {
  return has_table(database, "metrics") && !has_table(database, "runs");
}

Imported import_trackio(Connection& database, const ImportOptions& options) {
  LogRuns runs(database.path(), options, false, "row");
  TrackioRows log(runs);
  if (has_table(database, "configs")) {
    Statement configs(database, "SELECT run_name, config FROM configs ORDER BY rowid");
    while (configs.next()) {
      const std::string run = configs.get_text("a run's name");
      log.read(run, std::nullopt, configs.get_text("a config", kLongestRow));
    }
  }
  Statement metrics(database, "SELECT run_name, step, metrics FROM metrics ORDER BY rowid");
  while (metrics.next()) {
    const std::string run = metrics.get_text("a run's name");
    std::int64_t step = 0;
    if (metrics.get_whole(step))
      log.read(run, step, metrics.get_text("metrics", kLongestRow));
    else
      log.refuse("step: not a whole number");
  }
  return runs.finish(log.rows());
}

}  // namespace moescope
