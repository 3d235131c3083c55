// Reads a run of W&B from its offline files, run-ID.wandb; docs/logs.md, "W&B", says which files and steps. Its keys
// are tags (tag_map.h), and its config is the run's settings. Parts are read in the order of their folders' times;
// restart_rule.h describes repeated steps. Sources of the form: wandb/wandb, wandb/sdk/internal/datastore.py and
// wandb/proto/wandb_internal.proto.

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/little_endian.h"
#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/logs/lines/json_record.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_runs.h"
#include "wandb.pb.h"

namespace moescope {
namespace {

constexpr std::string_view kBegin(":W&B\xe1\xbe\0", 7);
constexpr std::size_t kWandbBlock = 32768, kPieceHeader = 7;
constexpr std::size_t kLongestRecord = std::size_t{64} << 20;

enum Part { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Reads the records of a file in order.
class Records {
 public:
  explicit Records(std::string_view bytes) : bytes_(bytes), at_(kBegin.size()) {}
  // Returns nullopt at the end, or if the rest of the record is not written yet. `problem` is empty if the record is
  // complete.
  std::optional<std::string> next(std::string& problem);
  std::size_t remaining_bytes() const { return bytes_.size() - std::min(at_, bytes_.size()); }

 private:
  struct Piece {
    int type;
    std::string_view payload;
    bool intact;
  };
  std::optional<Piece> piece();

  std::string_view bytes_;
  std::size_t at_;
};

std::optional<Records::Piece> Records::piece() {
  if (const std::size_t rest_of_block = kWandbBlock - at_ % kWandbBlock; rest_of_block < kPieceHeader)
    at_ += rest_of_block;
  if (at_ + kPieceHeader > bytes_.size()) return std::nullopt;
  const std::string_view header = bytes_.substr(at_, kPieceHeader);
  const std::size_t length = little_endian(header.substr(4, 2)), room = kWandbBlock - at_ % kWandbBlock - kPieceHeader;
  const int type = static_cast<unsigned char>(header[6]);
  // Some systems append zeros to a file before they write to it; these are not a record.
  if (header.find_first_not_of('\0') == std::string_view::npos) {
    at_ += room + kPieceHeader;
    return piece();
  }
  if (length > room || type < kWhole || type > kLast) {  // the next piece is found only in the next block
    at_ += room + kPieceHeader;
    return Piece{type, {}, false};
  }
  if (at_ + kPieceHeader + length > bytes_.size()) return std::nullopt;
  const std::string_view checked = bytes_.substr(at_ + 6, 1 + length);
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  at_ += kPieceHeader + length;
  return Piece{type, checked.substr(1), crc == little_endian(header.substr(0, 4))};
}

std::optional<std::string> Records::next(std::string& problem) {
  problem.clear();
  std::string record;
  bool begun = false;
  while (const auto found = piece()) {
    if (!found->intact) problem = "wrong checksum of its bytes";
    const bool first = found->type == kWhole || found->type == kFirst;
    if (problem.empty() && first == begun) problem = "parts of a record are missing";
    if (problem.empty() && record.size() + found->payload.size() > kLongestRecord) problem = "longer than 64 MiB";
    if (!problem.empty()) return record;
    begun = true;
    record += found->payload;
    if (found->type == kWhole || found->type == kLast) return record;
  }
  return std::nullopt;
}

// Returns the key of an item; nested keys are joined with dots.
std::string key_of(const wandb::Item& item) {
  if (item.nested_key_size() == 0) return item.key();
  std::string key;
  for (const std::string& label : item.nested_key()) key += (key.empty() ? "" : ".") + label;
  return key;
}

// Called with a record, its size in bytes and the number of bytes that are left. Returns false to stop. If it throws
// Unreadable, the record is counted as bad.
using WandbHandler = std::function<bool(const wandb::Record&, std::size_t size, std::size_t remaining_bytes)>;

// Calls `handler` with each record and returns the number of records. Skips an incomplete last record, because the file
// may still be being written. Records with a wrong checksum are counted in `bad` and skipped.
std::int64_t read_wandb(std::string_view bytes, BadLines& bad, const WandbHandler& handler) {
  std::int64_t number = 0;
  Records records(bytes);
  std::string problem;
  while (const auto record = records.next(problem)) {
    ++number;
    try {
      wandb::Record parsed;
      if (problem.empty() && !parsed.ParseFromString(*record)) problem = "no record of W&B";
      if (!problem.empty()) throw Unreadable(problem);
      if (!handler(parsed, record->size(), records.remaining_bytes())) break;
    } catch (const Unreadable& unreadable) {
      bad.add(number, unreadable.what(), is_in_part(unreadable));
    }
  }
  return number;
}

// Returns a name as in the history, which has a plain dot where definitions of metrics have "\.".
std::string without_escapes(std::string name) {
  for (std::size_t at = 0; (at = name.find("\\.", at)) != std::string::npos; ++at) name.erase(at, 1);
  return name;
}

// Axes over which a run of W&B logged its keys, as defined by define_metric().
class WandbAxes {
 public:
  void define(const wandb::Metric& metric);
  // Returns the axis of a key; empty: _step. Exact names take precedence over patterns, and long patterns over short
  // ones.
  std::string axis_of(std::string_view key) const;
  bool is_axis(const std::string& key) const { return axes_.contains(key); }

 private:
  std::map<std::string, std::string, std::less<>> by_name_, by_beginning_;
  std::set<std::string> axes_;
};

void WandbAxes::define(const wandb::Metric& metric) {
  std::string axis = without_escapes(metric.step_metric());
  if (axis.empty() && !metric.control().overwrite()) return;
  if (axis == "_step") axis.clear();
  if (!axis.empty()) axes_.insert(axis);
  if (!metric.name().empty()) {
    by_name_[without_escapes(metric.name())] = axis;
  } else if (!metric.glob_name().empty()) {
    std::string beginning = without_escapes(metric.glob_name());
    if (beginning.ends_with('*')) beginning.pop_back();
    by_beginning_[beginning] = axis;
  }
}

std::string WandbAxes::axis_of(std::string_view key) const {
  if (const auto named = by_name_.find(key); named != by_name_.end()) return named->second;
  for (std::size_t length = key.size() + 1; length-- > 0;)
    if (const auto found = by_beginning_.find(key.substr(0, length)); found != by_beginning_.end())
      return found->second;
  return {};
}

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = std::uint64_t{8} << 30;
constexpr std::int64_t kRecordsBetweenProgress = 256;

// Takes rows of the history apart, whose values are JSON texts.
class HistoryRows {
 public:
  explicit HistoryRows(LogRuns& runs) : json_(runs) {}
  LogRecord record_of(const wandb::History& history) {
    LogRecord record;
    for (const wandb::Item& item : history.item()) add(record.keep(key_of(item)), item.value_json(), record);
    return record;
  }

 private:
  void add(std::string_view key, const std::string& json, LogRecord& record) {
    const std::size_t before = record.values.size();
    try {
      const JsonFields item = lines_.parse("{\"value\":" + json + "}");
      json_.add(key, *item.find("value"), record);
    } catch (const Unreadable& unreadable) {
      record.values.resize(before);
      record.add(key).problem = record.keep(unreadable.what());
    }
  }

  JsonRecords json_;
  JsonLines lines_;
};

// Description of a run: all of its files except the values of the history. Later records replace earlier ones.
struct WandbHead {
  std::string run_id, name;
  std::map<std::string, std::string> config;  // JSON by key
  WandbAxes axes;
  std::set<std::string> fractional_axes;  // axes with values that are not whole numbers
  std::set<std::string> keys;             // keys of the history that the mapping knows
  std::string loss_key;                   // first key that means ce_loss

  void take(const wandb::Record& record, LogRuns& runs, HistoryRows& rows);
  std::string main_axis() const;

 private:
  void settle(const wandb::Config& changes) {
    for (const wandb::Item& item : changes.update()) config[key_of(item)] = item.value_json();
    for (const wandb::Item& item : changes.remove()) config.erase(key_of(item));
  }
};

void WandbHead::take(const wandb::Record& record, LogRuns& runs, HistoryRows& rows) {
  if (record.has_metric()) axes.define(record.metric());
  settle(record.config());
  settle(record.run().config());
  if (!record.run().run_id().empty()) run_id = record.run().run_id();
  if (!record.run().display_name().empty()) name = record.run().display_name();
  if (!record.has_history()) return;
  const LogRecord row = rows.record_of(record.history());
  for (const NamedValue& value : row.values) {
    const std::string key(value.name);
    if (axes.is_axis(key) && !step_number(value)) fractional_axes.insert(key);
    const TagMatch* match = runs.find(key);
    if (!match) continue;
    keys.insert(key);
    if (loss_key.empty() && match->rule->step == &TelemetryFrame::ce_loss) loss_key = key;
  }
}

// Returns the axis of the loss, else of the first key that has an axis.
std::string WandbHead::main_axis() const {
  if (!loss_key.empty()) return axes.axis_of(loss_key);
  for (const std::string& key : keys)
    if (const std::string axis = axes.axis_of(key); !axis.empty()) return axis;
  return {};
}

// Reads the rows of the history of all parts of a run, in their order.
class WandbRows {
 public:
  WandbRows(LogRuns& runs, RunBuilder& run, const WandbHead& head)
      : rows_(runs), run_(&run), run_id_(head.run_id), axis_(head.main_axis()) {
    if (head.fractional_axes.contains(axis_))
      run_->note("Steps are calls of log(): " + std::exchange(axis_, {}) +
                 ", the step metric of the run, is not a whole number everywhere");
    else if (!axis_.empty())
      run_->note("Steps are the values of " + axis_ + ", the step metric of the run");
  }
  // Reads all values that can be read before it throws Unreadable for another one.
  void take(const wandb::Record& record, std::size_t size) {
    ++records_;
    run_->has_read(size);
    if (record.has_run()) begin_part(record.run());
    if (record.has_history()) take(record.history());
  }

 private:
  void begin_part(const wandb::Run& run);
  void take(const wandb::History& history);
  // Returns nullopt if the axis has no value yet.
  std::optional<std::int64_t> step_of(const wandb::History& history, const LogRecord& record);

  HistoryRows rows_;
  RunBuilder* run_;
  std::string run_id_, axis_;
  std::int64_t last_row_ = -1, records_ = 0;
  std::optional<std::int64_t> last_step_;
};

void WandbRows::begin_part(const wandb::Run& run) {
  if (run.starting_step() > 0) last_row_ = run.starting_step() - 1;
  const wandb::BranchPoint& from = run.branch_point();
  const bool rewound = from.run() == run_id_ && !run_id_.empty() && from.metric() == "_step" && axis_.empty();
  if (rewound && from.value() >= 0 && from.value() < kLastStep)
    run_->go_back_to(static_cast<std::int64_t>(from.value()) + 1);
}

std::optional<std::int64_t> WandbRows::step_of(const wandb::History& history, const LogRecord& record) {
  std::optional<std::int64_t> row = last_row_ + 1;
  if (const NamedValue* stated_row = find_value(record, "_step"))
    row = step_number(*stated_row);
  else if (history.has_step())
    row = history.step().num();
  if (!row || *row < 0 || *row > kLastStep) throw Unreadable("_step: not a whole number from 0 on");
  last_row_ = *row;
  if (axis_.empty()) return last_step_ = *row;
  const NamedValue* on_axis = find_value(record, axis_);
  if (const auto step = on_axis ? step_number(*on_axis) : std::nullopt) last_step_ = *step;
  return last_step_;
}

void WandbRows::take(const wandb::History& history) {
  LogRecord record = rows_.record_of(history);
  record.place = records_;
  record.step = step_of(history, record);
  for (const char* key : {"_runtime", "_timestamp"})
    if (const NamedValue* time = find_value(record, key); time && is_number(*time)) record.wall_s = time->numbers[0];
  std::erase_if(record.values, [](const NamedValue& value) { return value.name.starts_with('_'); });
  if (record.step) return run_->take(record);
  run_->count(record);
  for (const NamedValue& value : record.values)
    if (run_->is_known(value.name))
      throw Unreadable(printable(std::string(value.name.substr(0, 200))) + ": comes before the first value of " +
                       axis_);
}

// Returns a JSON object; empty if there are no settings.
std::string settings_of(const WandbHead& head) {
  nlohmann::json settings;
  for (const auto& [key, text] : head.config) {
    if (key.starts_with("_wandb")) continue;  // settings of the library
    try {
      settings[key] = parse_json(text);
    } catch (const BadJson&) {
      settings[key] = text;
    }
  }
  return json_text(settings);
}

std::string wandb_bytes(const std::string& path) {
  std::string bytes = read_file(path, kMaxBytes, "file of W&B");
  if (!begins_like_wandb(bytes)) refuse(path, "does not begin like a file of W&B");
  return bytes;
}

// Returns the name of the file's folder from "run-" on, which begins with the time: "run-20250218_134501-f2yl6k90" for
// "offline-run-20250218_134501-f2yl6k90".
std::string time_of(const fs::path& file) {
  const std::string folder = file.parent_path().filename().string();
  const std::size_t run = folder.find("run-");
  return run == std::string::npos ? folder : folder.substr(run);
}

// Sorts files by time and removes duplicates, which occur because wandb/latest-run is a link to a run's folder.
void sort_parts(std::vector<std::string>& files) {
  std::error_code error;
  for (std::string& file : files)
    if (const fs::path real = fs::canonical(file, error); !error) file = real.string();
  std::ranges::sort(files, {}, [](const std::string& file) { return std::pair(time_of(file), file); });
  files.erase(std::unique(files.begin(), files.end()), files.end());
}

// Levels from a folder of projects down to the folders of runs, and from the folder "wandb".
constexpr int kDeepestRun = 3, kDeepestOfRuns = 1;

bool is_wandb_file(const fs::path& file) {
  return file.extension() == ".wandb";
}

// Returns the files of each run at `path`. Files of one run have equal names, which end in the run's id.
std::vector<std::vector<std::string>> runs_at(const std::string& path) {
  if (!fs::is_directory(path)) return {wandb_files(path)};
  std::map<std::string, std::vector<std::string>> by_name;
  visit_files_below(path, kDeepestRun, [&](const fs::path& file) {
    if (is_wandb_file(file)) by_name[file.filename().string()].push_back(file.string());
    return true;
  });
  std::vector<std::vector<std::string>> runs;
  for (auto& [name, files] : by_name) {
    sort_parts(files);
    runs.push_back(files.size() == 1 ? wandb_files(files[0]) : std::move(files));
  }
  std::ranges::sort(runs, {}, [](const auto& files) { return time_of(files.front()); });
  return runs;
}

// All parts of a run, read as one file.
class WandbRun {
 public:
  WandbRun(std::vector<std::string> files, LogRuns& runs) : files_(std::move(files)), runs_(&runs) {}

  // Returns false if cancelled. Does not count bad records, because read_rows() counts them.
  bool read_head(const std::function<bool(double)>& progress) {
    BadLines second_bad("record");
    HistoryRows rows(*runs_);
    return read(second_bad, 0, progress,
                [&](const wandb::Record& record, std::size_t) { head_.take(record, *runs_, rows); });
  }
  bool read_rows(const std::string& name, const std::function<bool(double)>& progress) {
    RunBuilder& run = runs_->run(name);
    run.stated.settings = settings_of(head_);
    run.stated.info.source = files_.front();
    WandbRows rows(*runs_, run, head_);
    if (files_.size() > 1)
      run.note(fmt::format("The run has {} parts, of which the first is {}", files_.size(),
                           fs::path(files_.front()).parent_path().filename().string()));
    const bool is_whole = read(runs_->context().bad, 0.5, progress,
                               [&](const wandb::Record& record, std::size_t size) { rows.take(record, size); });
    if (is_whole) runs_->end(run);
    return is_whole;
  }
  std::string name() const {
    const std::string name = !head_.name.empty() ? head_.name : fs::path(files_.front()).stem().string();
    return name.substr(0, kLongestImportedName);
  }
  const std::string& run_id() const { return head_.run_id; }
  std::int64_t records() const { return records_; }

 private:
  template <class Take>
  bool read(BadLines& bad, double from, const std::function<bool(double)>& progress, Take take) {
    bool stopped = false;
    std::int64_t record_count = 0;
    records_ = 0;
    for (std::size_t i = 0; i < files_.size() && !stopped; ++i) {
      const std::string bytes = wandb_bytes(files_[i]);
      records_ += read_wandb(bytes, bad, [&](const wandb::Record& record, std::size_t size, std::size_t unread) {
        take(record, size);
        if (++record_count % kRecordsBetweenProgress != 0) return true;
        const double file_share = 1 - static_cast<double>(unread) / bytes.size();
        stopped = progress && !progress(from + (i + file_share) / (2 * std::ssize(files_)));
        return !stopped;
      });
    }
    return !stopped;
  }
  std::vector<std::string> files_;
  LogRuns* runs_;
  WandbHead head_;
  std::int64_t records_ = 0;
};

bool holds_wandb_files(const std::string& folder, int deepest) {
  return !visit_files_below(folder, deepest, [](const fs::path& file) { return !is_wandb_file(file); });
}

}  // namespace

std::vector<std::string> wandb_files(const std::string& file) {
  const fs::path path = fs::absolute(file).lexically_normal();
  const std::string stem = path.stem().string();  // run-ID
  const std::string end = stem.starts_with("run-") ? stem.substr(3) : std::string();
  std::vector<std::string> parts = {file};
  if (end.empty() || !path.parent_path().filename().string().ends_with(end)) return parts;
  const fs::path folder = path.parent_path().parent_path();
  std::error_code none;
  for (const std::string& name : names_in(folder)) {
    const fs::path part = folder / name / path.filename();
    if (name.ends_with(end) && fs::is_regular_file(part, none) && !fs::equivalent(part, path, none) &&
        !leads_out_of(folder, part))
      parts.push_back(part.string());
  }
  if (parts.size() > 1) sort_parts(parts);
  return parts;
}

bool is_wandb_folder(const std::string& folder) {
  return holds_wandb_files(folder, kDeepestOfRuns);
}

bool holds_wandb_runs(const std::string& folder) {
  return holds_wandb_files(folder, kDeepestRun);
}

bool begins_like_wandb(std::string_view bytes) {
  return bytes.starts_with(kBegin);
}

Imported import_wandb(const std::string& path, const ImportOptions& options) {
  LogRuns log(path, options, true, "record");
  std::vector<WandbRun> runs;
  for (auto& files : runs_at(path)) runs.emplace_back(std::move(files), log);
  const auto share = [&](double run_share, std::size_t i) {
    return !options.progress || options.progress((i + run_share) / runs.size());
  };
  std::vector<std::string> names;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].read_head([&](double run_share) { return share(run_share, i); })) return {};
    const bool twice = std::ranges::find(names, runs[i].name()) != names.end();
    names.push_back(twice ? runs[i].name() + " (" + runs[i].run_id() + ")" : runs[i].name());
  }
  check_choice(path, names, options);
  std::int64_t records = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!is_wanted(options, names[i])) continue;
    if (!runs[i].read_rows(names[i], [&](double run_share) { return share(run_share, i); })) return {};
    records += runs[i].records();
  }
  return log.finish(records);
}

}  // namespace moescope
