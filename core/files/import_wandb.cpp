#include "core/files/import_wandb.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/files/tagged_run.h"
#include "core/files/wandb_log.h"
#include "core/io/input_file.h"
#include "core/io/json_line.h"
#include "core/io/json_text.h"
#include "core/io/text_escape.h"

namespace moescope {

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{8} << 30;
constexpr double kMaxStep = 1e15;

// The values of one key at one step and their shape: one, [E] or [L][E].
struct Values {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

void add(JsonValue value, std::size_t depth, Values& to) {
  if (!value.is_array()) {
    if (depth != to.shape.size()) throw Unreadable("lists of different depth");
    to.values.push_back(static_cast<double>(to_float(value, "value")));
    return;
  }
  const JsonList list = list_of(value, "value", 0, "");
  if (depth == to.shape.size()) to.shape.push_back(list.size());
  if (depth > 1) throw Unreadable("lists deeper than layers and experts");
  if (list.size() != to.shape[depth]) throw Unreadable("lists of different length");
  if (to.values.size() + list.size() > kMaxImportedLoads) throw Unreadable("too many values");
  for (const JsonValue each : list) add(each, depth + 1, to);
}

class Reader {
 public:
  explicit Reader(const TagMap& tags) : tagged_(tags) {}
  // Throws Unreadable after all that can be read was taken.
  void take(const std::map<std::string, std::string>& row) {
    const auto number = [&](const char* key) {
      const auto found = row.find(key);
      return found == row.end() ? std::nan("") : static_cast<double>(parsed(found->second).values.at(0));
    };
    const double step = row.contains("_step") ? whole(row.at("_step")) : static_cast<double>(last_step_ + 1);
    if (!(step >= 0) || step > kMaxStep) throw Unreadable("_step: not from 0 on");
    last_step_ = static_cast<std::int64_t>(step);
    double wall = number("_runtime");
    if (std::isnan(wall)) wall = 0;
    std::string problem;
    for (const auto& [key, json] : row) {
      if (key.starts_with('_')) continue;
      try {
        const TagMatch* match = tagged_.find(key);
        if (!match) continue;
        Values values = parsed(json);
        tagged_.take(last_step_, wall, *match, std::move(values.shape), std::move(values.values));
      } catch (const Unreadable& unreadable) {  // the other values of the step are good
        problem = printable(key.substr(0, 200)) + ": " + unreadable.what();
      }
    }
    if (!problem.empty()) throw Unreadable(problem);
  }
  TaggedRun& tagged() { return tagged_; }

 private:
  Values parsed(const std::string& json) {
    Values values;
    add(*lines_.parse("{\"value\":" + json + "}").find("value"), 0, values);
    if (values.values.empty()) throw Unreadable("an empty list");
    return values;
  }
  // As a whole number: float has not the digits of large steps.
  double whole(const std::string& json) {
    return static_cast<double>(to_count(*lines_.parse("{\"value\":" + json + "}").find("value"), "_step", kMaxStep));
  }
  JsonLines lines_;
  TaggedRun tagged_;
  std::int64_t last_step_ = -1;
};

std::string settings_of(const WandbLog& log) {
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [key, text] : log.config) {
    if (key.starts_with("_wandb")) continue;  // of the library itself
    try {
      settings[key] = parse_json(text);
    } catch (const BadJson&) {
      settings[key] = text;
    }
  }
  return settings.empty() ? std::string() : settings.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::shared_ptr<History> history_of(const WandbLog& log, const TagMap& tags, RunInfo info, const ImportOptions& options,
                                    BadLines& bad, std::set<std::string>& unknown) {
  Reader reader(tags);
  std::int64_t row_number = 0;
  for (const auto& row : log.history) {
    ++row_number;
    try {
      reader.take(row);
    } catch (const Unreadable& unreadable) {
      bad.add(row_number, std::string("history: ") + unreadable.what());
    }
  }
  unknown = reader.tagged().unknown();
  if (!reader.tagged().understood()) return nullptr;
  const auto history = reader.tagged().build(std::move(info), options, bad);
  if (const std::string settings = settings_of(log); !settings.empty()) add_settings(*history, options, settings);
  return history;
}

}  // namespace

Imported import_wandb(const std::string& path, const ImportOptions& options) {
  Imported imported;
  imported.bad = BadLines("record");
  const std::string bytes = read_file(path, kMaxBytes, "file of W&B");
  if (!begins_like_wandb(bytes)) throw std::runtime_error(path + ": does not begin like a file of W&B");
  bool stopped = false;
  const WandbLog log = read_wandb(bytes, imported.bad, [&](std::size_t left) {
    stopped = options.progress && !options.progress(1 - static_cast<double>(left) / static_cast<double>(bytes.size()));
    return !stopped;
  });
  if (stopped) return {};
  imported.lines = log.records;
  RunInfo info;
  info.run = options.run;
  info.name = !log.name.empty() ? log.name : std::filesystem::path(path).stem().string();
  if (info.name.size() > kLongestImportedName) info.name.resize(kLongestImportedName);
  info.source = path;
  const TagMap tags = options.tags.empty() ? TagMap::built_in() : TagMap::load(options.tags);
  std::set<std::string> unknown;
  const auto history = history_of(log, tags, std::move(info), options, imported.bad, unknown);
  if (!history) throw std::runtime_error(no_known_tags(path, unknown, imported.bad));
  imported.runs.push_back(history);
  if (options.progress) options.progress(1);
  return imported;
}

bool read_wandb_bytes(std::string_view bytes, BadLines& bad) {
  if (!begins_like_wandb(bytes)) return false;
  std::set<std::string> unknown;
  return history_of(read_wandb(bytes, bad), TagMap::built_in(), {}, {}, bad, unknown) != nullptr;
}

}  // namespace moescope
