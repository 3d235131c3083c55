#include "core/files/import_mlflow.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/files/tagged_run.h"
#include "core/io/input_file.h"
#include "core/io/sqlite.h"
#include "core/io/text_escape.h"
#include "core/io/trimmed.h"
#include "core/io/unreadable.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLatestStep = 1'000'000'000'000'000;
constexpr std::size_t kLongestMetricLine = 65536;
constexpr std::uint64_t kMaxParamBytes = std::uint64_t{1} << 20;

struct LoggedValue {
  std::int64_t step = 0;
  double value = 0, wall_s = 0;
};

// What both stores say of a run.
class MlflowRun {
 public:
  explicit MlflowRun(const TagMap& tags) : tagged_(tags) {}

  const TagMatch* find(const std::string& key) { return tagged_.find(key); }
  void take(const TagMatch& match, const LoggedValue& value) {  // throws Unreadable
    if (value.step < 0 || value.step > kLatestStep) throw Unreadable("step: not from 0 on");
    tagged_.take(value.step, value.wall_s, match, {}, {value.value});
  }
  void set(const std::string& key, const std::string& value) { settings_[key] = value; }
  bool understood() const { return tagged_.understood(); }
  const std::set<std::string>& unknown() const { return tagged_.unknown(); }

  void add_to(Imported& imported, RunInfo info, const ImportOptions& options) {
    info.run = options.run + static_cast<int>(imported.runs.size());
    if (info.name.size() > kLongestImportedName) info.name.resize(kLongestImportedName);
    const auto history = tagged_.build(std::move(info), options, imported.bad);
    if (!settings_.empty())
      add_settings(*history, options, settings_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    imported.runs.push_back(history);
  }

 private:
  TaggedRun tagged_;
  nlohmann::json settings_ = nlohmann::json::object();
};

template <class Number>
Number number_of(std::string_view text, const char* what) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) throw Unreadable(std::string(what) + ": not a number");
  return number;
}

// "1732400000123 3.25 17"; without a step: 0.
LoggedValue value_of(std::string_view line) {
  std::vector<std::string_view> parts;
  while (!(line = trimmed(line, " \t\r")).empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    parts.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  if (parts.size() < 2) throw Unreadable("not a line of time, value and step");
  return {parts.size() > 2 ? number_of<std::int64_t>(parts[2], "step") : 0, number_of<double>(parts[1], "value"),
          static_cast<double>(number_of<std::int64_t>(parts[0], "time")) / 1000};
}

// The files below a folder by their path in it, which is their key.
std::vector<std::pair<std::string, fs::path>> keys_in(const fs::path& folder) {
  std::vector<std::pair<std::string, fs::path>> keys;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error))
    if (entry->is_regular_file(error)) keys.emplace_back(fs::relative(entry->path(), folder).string(), entry->path());
  std::ranges::sort(keys);
  return keys;
}

std::string text_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  return std::string(trimmed(read_file(path.string(), kMaxParamBytes, "text of MLflow"), " \t\r\n"));
}

Imported import_folder(const fs::path& folder, const TagMap& tags, const ImportOptions& options) {
  Imported imported;
  MlflowRun run(tags);
  const auto metrics = keys_in(folder / "metrics");
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const auto& [key, path] = metrics[i];
    if (options.progress && !options.progress(static_cast<double>(i) / static_cast<double>(metrics.size()))) return {};
    const TagMatch* match = run.find(key);
    if (!match) continue;
    InputFile file(path.string());
    std::int64_t number = 0;
    for (std::string line; file.read_line(line, kLongestMetricLine);) {
      ++number, ++imported.lines;
      try {
        run.take(*match, value_of(line));
      } catch (const Unreadable& unreadable) {
        imported.bad.add(number, "of metrics/" + printable(key) + ": " + unreadable.what());
      }
    }
  }
  if (!run.understood()) throw std::runtime_error(no_known_tags(folder.string(), run.unknown(), imported.bad));
  for (const auto& [key, path] : keys_in(folder / "params")) run.set(key, text_of(path));
  RunInfo info;
  info.name = text_of(folder / "tags" / "mlflow.runName");
  if (info.name.empty()) info.name = folder.filename().string();
  info.source = folder.string();
  run.add_to(imported, std::move(info), options);
  return imported;
}

void read_metrics(Connection& database, const std::string& id, MlflowRun& run, Imported& imported) {
  Statement rows(database,
                 "SELECT key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp");
  rows.bind(std::string_view(id));
  while (rows.next()) {
    ++imported.lines;
    const std::string key = rows.get_text("a key");
    LoggedValue value;
    rows.get_real(value.value);
    value.wall_s = static_cast<double>(rows.get_integer()) / 1000;
    value.step = rows.get_integer();
    if (rows.get_integer() != 0) value.value = std::nan("");
    const TagMatch* match = run.find(key);
    if (!match) continue;
    try {
      run.take(*match, value);
    } catch (const Unreadable& unreadable) {
      imported.bad.add(imported.lines, printable(key) + ": " + unreadable.what());
    }
  }
}

Imported import_database(const std::string& path, const TagMap& tags, const ImportOptions& options) {
  Imported imported;
  imported.bad = BadLines("row");
  Connection database(path, SQLITE_OPEN_READONLY);
  bool cancelled = false;
  if (options.progress)
    database.on_progress([&] {
      cancelled = cancelled || !options.progress(0);
      return !cancelled;
    });
  std::set<std::string> unknown;
  try {
    std::vector<std::pair<std::string, std::string>> runs;
    Statement rows(database, "SELECT run_uuid, name FROM runs WHERE lifecycle_stage = 'active' ORDER BY start_time");
    while (rows.next()) {
      std::string id = rows.get_text("a run's id"), name = rows.get_text("a run's name");
      runs.emplace_back(std::move(id), std::move(name));
    }
    for (const auto& [id, name] : runs) {
      MlflowRun run(tags);
      read_metrics(database, id, run, imported);
      unknown.insert(run.unknown().begin(), run.unknown().end());
      if (!run.understood()) continue;
      Statement params(database, "SELECT key, value FROM params WHERE run_uuid = ?");
      params.bind(std::string_view(id));
      while (params.next()) {
        const std::string key = params.get_text("a key");
        run.set(key, params.get_text("a value", kMaxParamBytes));
      }
      RunInfo info;
      info.name = name.empty() ? id : name;
      info.source = path;
      run.add_to(imported, std::move(info), options);
    }
  } catch (const std::runtime_error&) {
    if (cancelled) return {};
    throw;
  }
  if (imported.runs.empty()) throw std::runtime_error(no_known_tags(path, unknown, imported.bad));
  return imported;
}

}  // namespace

bool is_mlflow_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "meta.yaml", error) && fs::is_directory(folder / "metrics", error);
}

Imported import_mlflow(const std::string& path, const ImportOptions& options) {
  const TagMap tags = options.tags.empty() ? TagMap::built_in() : TagMap::load(options.tags);
  Imported imported =
      fs::is_directory(path) ? import_folder(path, tags, options) : import_database(path, tags, options);
  if (options.progress && !imported.runs.empty()) options.progress(1);
  return imported;
}

}  // namespace moescope
