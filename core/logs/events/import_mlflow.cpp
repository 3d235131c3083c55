// Reads runs from either of MLflow's local stores, in the order of the times at which the values were logged; and
// databases of Trackio.
//
// A folder for each run, mlruns/EXPERIMENT/RUN (mlflow/store/tracking/file_store.py):
//   metrics/KEY       lines "milliseconds value step"; without a step, the step is 0. A slash in a key is a folder
//   params/KEY        the run's settings
//   tags/mlflow.runName, or run_name in meta.yaml
//                     the run's name. A deleted run (lifecycle_stage) is read if it is opened
// mlflow.db, an SQLite file with all runs (mlflow/store/tracking/dbmodels/models.py):
//   runs              run_uuid, name, lifecycle_stage (only "active" runs are read), start_time (their order)
//   metrics           key, value, timestamp, step, is_nan. Infinity is stored as the greatest number
//   params            key, value: the run's settings

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/sqlite.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_runs.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestMetricLine = 65536;
constexpr std::uint64_t kMaxParamBytes = std::uint64_t{1} << 20;
constexpr std::size_t kBytesOfValue = 24;  // with time and step
constexpr std::size_t kLongestRow = std::size_t{16}
                                    << 20;  // bytes of the metrics of a step, or of a config, of Trackio

struct LoggedValue {
  std::string key;
  std::int64_t place = 0;  // line or row
  std::int64_t step = 0, ms = 0;
  double value = 0;
};

// Throws Unreadable if the value cannot be used.
void take_value(RunBuilder& run, const LoggedValue& value) {
  if (value.step < 0 || value.step > kLastStep) throw Unreadable("step: not from 0 on");
  LogRecord record;
  record.place = value.place;
  record.step = value.step;
  record.wall_s = static_cast<double>(value.ms) / 1000;
  record.add(value.key, value.value);
  run.take(record);
}

// Sets time, value and step of a line "1732400000123 3.25 17". Without a step, the value belongs to step 0.
void set_value(std::string_view line, LoggedValue& value) {
  std::vector<std::string_view> parts;
  while (!(line = trimmed(line, " \t\r")).empty()) parts.push_back(take_until(line, ' '));
  if (parts.size() < 2) throw Unreadable("not a line of time, value and step");
  const auto read = [&](std::size_t part, auto& number, const char* what) {
    if (parts[part].starts_with('+')) parts[part].remove_prefix(1);
    if (!read_number(parts[part], number)) throw Unreadable(std::string(what) + ": not a number");
  };
  if (parts.size() > 2) read(2, value.step, "step");
  read(1, value.value, "value");
  read(0, value.ms, "time");
}

// Returns the files in a part of a run's folder, such as "params". Each has its path in that part, which is the key,
// and its path.
std::vector<std::pair<std::string, fs::path>> keys_in(const fs::path& run, const char* part) {
  std::vector<std::pair<std::string, fs::path>> keys;
  const fs::path folder = run / part;
  if (leads_out_of(run, folder)) return keys;
  visit_files_below(folder, kDeepestMlflowKey, [&](const fs::path& file) {
    keys.emplace_back(file.lexically_relative(folder).string(), file);
    return true;
  });
  std::ranges::sort(keys);
  return keys;
}

// Returns the text of a file of the run; empty if there is none in the run's folder.
std::string text_of(const fs::path& run, const fs::path& name) {
  const fs::path path = run / name;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || leads_out_of(run, path)) return {};
  return std::string(trimmed(read_file(path.string(), kMaxParamBytes, "text of MLflow"), " \t\r\n"));
}

// Returns the value of "run_name: ..." in meta.yaml, which MLflow writes without nesting.
std::string name_in(const std::string& yaml) {
  for (std::string_view unread = yaml; !unread.empty();) {
    const std::string_view line = take_until(unread, '\n');
    if (!line.starts_with("run_name:")) continue;
    const std::string_view name = trimmed(line.substr(9), " \t\r");
    const bool quoted = name.size() > 1 && (name.front() == '\'' || name.front() == '"') && name.back() == name.front();
    return std::string(quoted ? name.substr(1, name.size() - 2) : name);
  }
  return {};
}

std::string name_of(const fs::path& folder) {
  for (std::string name : {text_of(folder, "tags/mlflow.runName"), name_in(text_of(folder, "meta.yaml"))})
    if (!name.empty() && name != "null") return name;
  return folder.filename().string();
}

// Reads a value. Counts it as bad if it cannot be read. `folder`: of its key, for messages.
template <class Read>
void attempt(BadLines& bad, const char* folder, const LoggedValue& value, Read read) {
  try {
    read();
  } catch (const Unreadable& unreadable) {
    bad.add(value.place, folder + printable(value.key) + ": " + unreadable.what());
  }
}

// Merges the files of all keys by time, because each key has its own file.
Imported import_folder(const fs::path& folder, const ImportOptions& options) {
  const std::string name = name_of(folder);
  LogRuns runs(folder.string(), options, true, "line");
  RunBuilder& run = runs.run(name);
  BadLines& bad = runs.context().bad;
  constexpr const char* kFolder = "of metrics/";
  std::vector<LoggedValue> values;
  std::int64_t lines = 0;
  const auto metrics = keys_in(folder, "metrics");
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (options.progress && !options.progress(static_cast<double>(i) / metrics.size())) return {};
    const auto& [key, path] = metrics[i];
    InputFile file(path.string());
    LoggedValue value{key};
    for (std::string line; file.read_line(line, kLongestMetricLine); value.step = 0) {
      run.has_read(line.size() + 1);
      ++value.place;
      attempt(bad, kFolder, value, [&] {
        set_value(line, value);
        values.push_back(value);
      });
    }
    lines += value.place;
  }
  std::ranges::stable_sort(values, {}, [](const LoggedValue& value) { return std::pair(value.ms, value.place); });
  for (const LoggedValue& value : values) attempt(bad, kFolder, value, [&] { take_value(run, value); });
  nlohmann::json settings;
  for (const auto& [key, path] : keys_in(folder, "params"))
    settings[key] = text_of(folder, path.lexically_relative(folder));
  run.stated.settings = json_text(settings);
  if (run.has_steps()) check_choice(folder.string(), {name}, options);
  runs.end(run);
  return runs.finish(lines);
}

using DatabaseRun = std::pair<std::string, std::string>;  // id and name

std::vector<DatabaseRun> runs_in(Connection& database) {
  std::vector<DatabaseRun> runs;
  Statement rows(database, "SELECT run_uuid, name FROM runs WHERE lifecycle_stage = 'active' ORDER BY start_time");
  while (rows.next()) {
    std::string id = rows.get_text("a run's id"), name = rows.get_text("a run's name");
    runs.emplace_back(id, name.empty() ? id : std::move(name));
  }
  std::set<std::string> names;
  for (auto& [id, name] : runs)  // names are made unique, because the user chooses by name
    if (!names.insert(name).second) name += " (" + id + ")";
  return runs;
}

bool has_known_key(Connection& database, const std::string& id, RunBuilder& run) {
  Statement keys(database, "SELECT DISTINCT key FROM metrics WHERE run_uuid = ?");
  keys.bind(id);
  bool known = false;
  while (keys.next()) known |= run.is_known(keys.get_text("a key"));
  return known;
}

// Reads the metrics of a run in the order in which they were logged.
void read_metrics(Connection& database, const std::string& id, RunBuilder& run, BadLines& bad, std::int64_t& lines) {
  Statement rows(
      database, "SELECT key, timestamp, is_nan, value, step FROM metrics WHERE run_uuid = ? ORDER BY timestamp, rowid");
  rows.bind(id);
  while (rows.next()) {
    ++lines;
    LoggedValue value{rows.get_text("a key"), lines};
    run.has_read(value.key.size() + kBytesOfValue);
    attempt(bad, "", value, [&] {
      if (!rows.get_whole(value.ms)) throw Unreadable("timestamp: not a whole number");
      const bool is_nan = rows.get_integer() != 0;
      if (!rows.get_number(value.value) && !is_nan) throw Unreadable("value: not a number");
      if (is_nan) value.value = std::nan("");
      if (!rows.get_whole(value.step)) throw Unreadable("step: not a whole number");
      take_value(run, value);
    });
  }
}

std::string params_of(Connection& database, const std::string& id) {
  nlohmann::json settings;
  Statement params(database, "SELECT key, value FROM params WHERE run_uuid = ?");
  params.bind(id);
  while (params.next()) {
    const std::string key = params.get_text("a key");
    settings[key] = params.get_text("a value", kMaxParamBytes);
  }
  return json_text(settings);
}

Imported read_database(Connection& database, const ImportOptions& options) {
  const std::string& path = database.path();
  LogRuns log(path, options, true, "row"), all_runs(path, options, true, "row");
  std::vector<DatabaseRun> runs = runs_in(database);
  std::erase_if(runs, [&](const auto& run) { return !has_known_key(database, run.first, all_runs.run(run.second)); });
  if (runs.empty()) return all_runs.finish(0);  // refuses it
  ImportOptions chosen = options;
  std::vector<std::string> names;
  for (const auto& [id, name] : runs) {
    std::ranges::replace(chosen.only, id, name);
    names.push_back(name);
  }
  check_choice(path, names, chosen);
  std::int64_t lines = 0;
  for (const auto& [id, name] : runs) {
    if (!is_wanted(chosen, name)) continue;
    RunBuilder& run = log.run(name);
    read_metrics(database, id, run, log.context().bad, lines);
    run.stated.settings = params_of(database, id);
    log.end(run);
  }
  return log.finish(lines);
}

bool has_table(Connection& database, std::string_view name) {
  Statement table(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
  table.bind(name);
  return table.next();
}

// Reads a database of Trackio, PROJECT.db: the config of each run, and the metrics of each step, are JSON objects.
Imported read_trackio(Connection& database, const ImportOptions& options) {
  LogReader log(database.path(), options);
  JsonLines parser;
  const auto read = [&](const std::string& run, std::optional<std::int64_t> step, const std::string& object) {
    const bool is_empty = object.find(':') == std::string::npos;
    try {
      log.read_object(parser.parse("{\"run_name\":" + json_string(run) + (is_empty ? "}" : ',' + object.substr(1))),
                      step);
    } catch (const Unreadable& unreadable) {
      log.refuse_line(unreadable.what());
    }
  };
  if (has_table(database, "configs")) {
    Statement configs(database, "SELECT run_name, config FROM configs ORDER BY rowid");
    while (configs.next()) {
      const std::string run = configs.get_text("a run's name");
      read(run, std::nullopt, configs.get_text("a config", kLongestRow));
    }
  }
  Statement metrics(database, "SELECT run_name, step, metrics FROM metrics ORDER BY rowid");
  while (metrics.next()) {
    const std::string run = metrics.get_text("a run's name");
    std::int64_t step = 0;
    if (metrics.get_whole(step))
      read(run, step, metrics.get_text("metrics", kLongestRow));
    else
      log.refuse_line("step: not a whole number");
  }
  return log.finish();
}

Imported import_database(const std::string& path, const ImportOptions& options) {
  Connection database(path, SQLITE_OPEN_READONLY);
  bool cancelled = false;
  if (options.progress)
    database.on_progress([&] {
      cancelled = cancelled || !options.progress(0);
      return !cancelled;
    });
  try {
    const bool is_trackio = has_table(database, "metrics") && !has_table(database, "runs");
    return (is_trackio ? read_trackio : read_database)(database, options);
  } catch (const TooManyRuns&) {
    throw;
  } catch (const std::runtime_error&) {
    if (cancelled) return {};
    throw;
  }
}

}  // namespace

bool is_mlflow_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "meta.yaml", error) && fs::is_directory(folder / "metrics", error);
}

Imported import_mlflow(const std::string& path, const ImportOptions& options) {
  return fs::is_directory(path) ? import_folder(path, options) : import_database(path, options);
}

}  // namespace moescope
