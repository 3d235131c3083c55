#include "core/logs/lines/log_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/frame/figures.h"
#include "core/logs/lines/frame_json.h"
#include "core/logs/lines/line_names.h"
#include "core/logs/lines/line_parts.h"
#include "core/logs/lines/split_step.h"
#include "core/logs/lines/step_fields.h"
#include "core/logs/lines/text_log.h"
#include "core/logs/run_choice.h"

namespace moescope {

namespace {

// Steps before the first load are held until it is read. Limits: steps of a run, and bytes in all runs of a file.
constexpr std::size_t kMaxHeld = 64, kMaxHeldBytes = std::size_t{64} << 20;
constexpr std::size_t kLongestSettings = std::size_t{1} << 20, kLongestRunName = 200;
constexpr std::size_t kMaxRemarks = 100, kMostLinesOfObject = 10000;
constexpr std::ptrdiff_t kMostNames = 65536;  // names in a line
constexpr std::size_t kMostRuns = 64, kMostRunsRead = 16;
constexpr int kFirstNamedRun = 1 << 21;
constexpr double kLastStep = 1e15;

// The line could be read in part: its readable figures were taken.
struct UnreadablePart : Unreadable {
  using Unreadable::Unreadable;
};

}  // namespace

struct LogReader::State {
  struct HeldStep {
    std::int64_t line, step;
    std::string text;
    bool in_part;  // only readable_part() is read
  };
  struct Run {
    int number = 0;                       // in the file; named runs are numbered from kFirstNamedRun
    std::string name;                     // {"run": "a"}
    std::optional<std::string> settings;  // JSON; empty: the settings are in `config` or in a marker
    RunInfo stated;                       // values of the line of settings
    float aux_coeff = kNoValue;
    int dense_layers = 0;
    std::optional<bool> is_read;  // decided at its first step
    std::unique_ptr<ImportedRun> imported;
    // The current step if it may be incomplete: layers of a step that is given layer by layer, or, if `joins`, further
    // values of a step that was added before.
    std::optional<TelemetryFrame> part;
    bool joins = false, part_is_added = false;  // part_is_added: its loads are those of further ranks
    std::set<std::pair<int, int>> parts;        // ranks with a line of the step parts_step, by layer (-1: all)
    std::int64_t parts_step = -1;
    std::int64_t part_line = 0, newest = -1;
    RestartRule restarts;
    std::size_t to_new_steps = 0;  // restarts to a step that was not logged before
    std::int64_t first_step = -1;
    double first_epoch = -1;   // epoch of the first step that has one
    double epoch = -1;         // epoch of the newest step
    bool begins_anew = false;  // true if a later epoch began at the first step again
    std::vector<HeldStep> held;
    int sparse_experts = 0;  // highest number of an expert in loads by expert, and one
    SplitStep split;
  };

  State(std::string source, ImportOptions given)
      : source(std::move(source)),
        options(std::move(given)),
        tags(TagMap::of_log(options, this->source)),
        names(tags, book),
        router_names(tags, book, "routers."),
        text(&tags) {}

  std::string source;
  const ImportOptions options;
  std::deque<Run> runs;            // in the order of their first lines
  std::optional<int> unnamed_run;  // number of the run whose lines have no name
  std::vector<std::string> remarks;
  std::size_t held_bytes = 0;
  std::int64_t lines = 0, lines_of_text = 0;  // all lines; lines of printed text that have figures of a step
  std::int64_t last_bad_line = 0;
  bool has_values = false;
  BadLines bad;
  JsonLines parser, named_parser, split_parser;
  TagMap tags;
  AccountBook book;
  LineNames names;
  mutable LineNames router_names;  // for the entries of "routers"; caches names while reading
  TextLogReader text;
  enum class Form { unknown, json, text } form = Form::unknown;
  std::string_view line;  // the current line
  std::string object;     // lines of an indented object
  std::size_t object_lines = 0;

  std::optional<std::string_view> whole_object(std::string_view read);

  bool is_of_training(const JsonFields& json) const;
  void read_json(std::string_view json);
  void read_unknown(std::string_view read);

  void parse_line(JsonLines& parser);
  void read_split(Run& run);
  void describe(Run& run, const JsonFields& json);
  void step(Run& run, const JsonFields& json);
  void add_part(Run& run);
  void add_held_steps(Run& run);
  void open(Run& run, RunInfo info, std::int64_t first_step);
  Run& run_of(const JsonFields& json, bool has_step);
  std::string name_of(const Run& run, const RunInfo& info) const;
  bool is_chosen(const Run& run) const;
  int place_of(const Run& run) const;
  TelemetryFrame frame_of(const Run& run, const NamedLine& line, const RunInfo& info) const;
  TelemetryFrame layer_frame_of(const Run& run, const NamedLine& named) const;
  void take(Run& run, const NamedLine& line);
  void take_or_hold(Run& run, const NamedLine& line, bool in_part);
  void count_bad(std::int64_t number, const Unreadable& why);
  static bool is_further_part(Run& run, int part, int layer, std::int64_t step);
  void watch_epoch(Run& run, const NamedLine& line, std::int64_t step);
  void go_back(Run& run, const NamedLine& line, std::int64_t step);
  void place(Run& run, TelemetryFrame frame, bool whole, bool is_added);
  void take_markers(Run& run, const JsonFields& json);
};

// True if a line without a step has a loss, so that it is a line of a training and not one of settings.
bool LogReader::State::is_of_training(const JsonFields& json) const {
  return std::ranges::any_of(json, [&](const JsonFields::Field& field) {
    const auto found = tags.find(field.key);
    return found && (found->rule->column == "ce_loss" || found->rule->column == "val_loss") &&
           holds_number(field.value);
  });
}

void LogReader::State::describe(Run& run, const JsonFields& json) {
  const bool is_further = run.settings && !run.imported && !run.part && run.held.empty() && run.split.empty();
  const bool trains = form == Form::unknown && (is_of_training(json) || text.wraps_text(line));
  if (trains || is_further) names.read(json, lines);  // for the account: one of its names may be the step
  if (trains) throw Unreadable("no step");
  if (run.imported || run.part || !run.held.empty() || !run.split.empty()) {
    if (!is_closing(json) && has_figures(names.read(json, lines, false))) throw Unreadable("no step");
    return;
  }
  if (line.size() > kLongestSettings) throw Unreadable("settings of more than 1 MB");
  if (is_further) throw Unreadable("no step, and the settings of the run were read before");
  run.stated = run_info_from_json(json);
  if (options.routed.experts > 0 && run.stated.n_experts == 0) run.stated.n_experts = options.routed.experts;
  if (run.stated.name.empty()) run.stated.name = run.name;
  if (const JsonValue* coeff = member(json, {"aux_coeff"})) run.aux_coeff = to_float(*coeff, "aux_coeff");
  run.dense_layers = setting(json, "dense_layers", kMaxImportedLayers);
  // This program's lines have the settings elsewhere: in `config` for its trainings, in a marker for imported runs.
  const JsonValue* config = json.find("config");
  const bool elsewhere = (json.find("source") && json.find("moe_layers")) || (config && config->is_string());
  run.settings = elsewhere ? std::string() : settings_text(json);
}

// Returns the name of a run. A run without a name gets the name of the file, and its number if it is not 0.
std::string LogReader::State::name_of(const Run& run, const RunInfo& info) const {
  if (!info.name.empty()) return info.name;
  const std::string stem = std::filesystem::path(source).stem().string();
  return run.number == 0 ? stem : stem + " run " + std::to_string(run.number);
}

bool LogReader::State::is_chosen(const Run& run) const {
  return is_wanted(options, name_of(run, run.stated));
}

// Returns the index of the run among those that are read, in the order of their first lines.
int LogReader::State::place_of(const Run& run) const {
  const auto end = std::ranges::find(runs, run.number, &Run::number);
  return std::count_if(runs.begin(), end, [this](const Run& each) { return is_chosen(each); });
}

// Returns the run of a line, by number or name. A line without either belongs to run 0, or to a named run if the line
// of its settings precedes the first such line.
LogReader::State::Run& LogReader::State::run_of(const JsonFields& json, bool has_step) {
  const JsonValue* key = member(json, {"run", "run_name", "run_id"});
  const std::string name = key && key->is_string() ? to_text(*key, "run").substr(0, kLongestRunName) : std::string();
  const int number = key && key->is_number() ? to_index(*key, "run", 0, 1 << 20) : 0;
  const bool is_unnamed = name.empty() && !(key && key->is_number());
  if (is_unnamed && has_step && !unnamed_run) {
    const bool has_settings_only = !runs.empty() && !runs.back().name.empty() && !runs.back().is_read;
    unnamed_run = has_settings_only ? runs.back().number : 0;
  }
  if (is_unnamed && unnamed_run.value_or(0) != 0) return *std::ranges::find(runs, *unnamed_run, &Run::number);
  const auto known = std::ranges::find_if(
      runs, [&](const Run& run) { return run.name == name && (!name.empty() || run.number == number); });
  if (known != runs.end()) return *known;
  if (runs.size() >= kMostRuns) throw Unreadable("run: more than 64 runs in one file");
  Run& run = runs.emplace_back();
  run.number = name.empty() ? number : kFirstNamedRun + static_cast<int>(runs.size());
  run.name = run.stated.name = name;
  return run;
}

void LogReader::State::open(Run& run, RunInfo info, std::int64_t first_step) {
  std::sort(info.moe_layers.begin(), info.moe_layers.end());
  info.moe_layers.erase(std::unique(info.moe_layers.begin(), info.moe_layers.end()), info.moe_layers.end());
  if (!info.moe_layers.empty()) info.n_layers = std::max(info.n_layers, info.moe_layers.back() + 1);
  info.name = name_of(run, info);
  info.source = source;
  info.run = options.run + place_of(run);
  run.imported = std::make_unique<ImportedRun>(std::move(info), options);
  if (text.log())
    run.imported->add(Marker{0, first_step, "event", std::string("Read as ") + text_log_name(*text.log())});
  if (run.settings && !run.settings->empty()) run.imported->add(Marker{0, first_step, kSettingsMarker, *run.settings});
}

TelemetryFrame LogReader::State::frame_of(const Run& run, const NamedLine& named, const RunInfo& info) const {
  const JsonFields& json = named.fields;
  LineBudget budget(line.size());
  TelemetryFrame frame =
      frame_from_json(json, info, budget, [this](const JsonFields& entry) { return router_names.read(entry).fields; });
  for (const RouterFrame& router : frame.routers)
    if (router.layer >= 0) require_layer(router.layer, info);
  std::ranges::stable_sort(frame.routers, {}, &RouterFrame::layer);
  if (frame.routers.empty() && has_nested(json)) read_nested(json, info, run.aux_coeff, frame);
  read_domains(json, info, frame);
  join_layer_values(named.of_layers, info, frame);
  for (const TagRule* rule : named.converted) {
    if (rule->step && !is_missing(frame.*rule->step))
      frame.*rule->step = static_cast<float>(rule->figure_of(frame.*rule->step));
    if (rule->means == TagMeaning::tokens_per_expert)
      for (RouterFrame& router : frame.routers)
        for (std::uint32_t& count : router.tokens_per_expert)
          count = static_cast<std::uint32_t>(std::clamp(std::round(rule->figure_of(count)), 0.0, 4294967295.0));
  }
  return frame;
}

// Reads a line of one layer.
TelemetryFrame LogReader::State::layer_frame_of(const Run& run, const NamedLine& named) const {
  const JsonFields& json = named.fields;
  RunInfo info = run.imported ? run.imported->info() : run.stated;
  if (const JsonValue* load = member(json, {"tokens_per_expert"}); load && load->is_array() && !run.imported) {
    for (const RouterFrame& router : run.part ? run.part->routers : std::vector<RouterFrame>())
      info.n_experts = std::max(info.n_experts, static_cast<int>(router.tokens_per_expert.size()));
    if (info.n_experts == 0) info.n_experts = listed_experts(load);
  }
  LineBudget budget(line.size());
  TelemetryFrame frame = frame_from_json(json, info, budget);
  frame.routers.push_back(router_from_json(json, info, budget));
  if (frame.routers.back().layer < 0) throw Unreadable("layer: not a whole number from 0 on");
  if (run.imported) require_layer(frame.routers.back().layer, info);
  add_loads_by_expert(named.of_layers, info, frame.routers.back());
  check_imported_shape(run.part ? run.part->routers.size() + 1 : 1, info.n_experts);
  return frame;
}

// Adds the markers in a line.
void LogReader::State::take_markers(Run& run, const JsonFields& json) {
  const JsonValue* markers = member(json, {"markers"});
  if (!markers) return;
  for (const JsonValue each : list_of(*markers, "markers", 0, "entries")) {
    const JsonFields fields = fields_of(each, "markers", "not objects");
    const auto text = [&](const char* key, const char* otherwise) {
      const JsonValue* found = fields.find(key);
      return found ? to_text(*found, key) : otherwise;
    };
    Marker marker{run.imported->info().run, 0, text("kind", "event"), text("text", ""), text("key", ""),
                  text("value", "")};
    const JsonValue* step = member(fields, {"step"});
    marker.step = to_count(step ? *step : *member(json, {"step"}), "markers: step", kLastStep);
    const bool taken_back = marker.kind == kNoteKind && marker.text.empty();
    if (!taken_back) run.imported->add(std::move(marker));
  }
}

// Detects steps that are counted within the epoch: they begin again in a later epoch. After a restart the epoch is not
// a later one.
void LogReader::State::watch_epoch(Run& run, const NamedLine& named, std::int64_t step) {
  const JsonValue* found = named.fields.find("epoch");
  if (run.first_step < 0) run.first_step = step;
  if (!found || !holds_number(*found)) return;
  const double epoch = to_float(*found, "epoch");
  run.begins_anew = run.begins_anew || (step <= run.first_step && step < run.newest && epoch > run.epoch);
  run.epoch = epoch;
  if (run.first_epoch < 0) run.first_epoch = epoch;
}

// Drops the steps of an earlier attempt if values of the line were logged before (RestartRule).
void LogReader::State::go_back(Run& run, const NamedLine& named, std::int64_t step) {
  std::optional<Restart> restart;
  const auto take_key = [&](std::string_view key) {
    const std::string of_part = named.part < 0 ? "" : std::to_string(named.part) + ' ' + std::string(key);
    if (const auto found = run.restarts.take(of_part.empty() ? key : std::string_view(of_part), step);
        found && !restart)
      restart = found;
  };
  const JsonValue* layer = named.fields.find("layer");
  if (layer && layer->is_number()) {
    take_key("layer " + std::to_string(to_index(*layer, "layer", 0, kLastImportedLayer)));
  } else {
    for (const auto& figure : kFrameFigures)
      if (member(named.fields, {figure.column})) take_key(figure.column);
    for (const char* key : kValuesOfStep)
      if (member(named.fields, {key})) take_key(key);
  }
  for (const NamedLayerValue& each : named.of_layers)
    take_key(each.match.rule->column + " of layer " + std::to_string(each.match.layer) + ", expert " +
             std::to_string(each.match.expert));
  if (!restart) return;
  add_part(run);
  run.to_new_steps += run.imported && !run.imported->has(restart->step);
  const std::string said = run.imported ? run.imported->drop(*restart) : std::string();
  if (!said.empty() && remarks.size() < kMaxRemarks) remarks.push_back(said);
  run.newest = std::min(run.newest, restart->step - 1);
}

// True if a line of another rank or microbatch came before at this step, so that their loads are added.
bool LogReader::State::is_further_part(Run& run, int part, int layer, std::int64_t step) {
  if (part < 0) return false;
  if (std::exchange(run.parts_step, step) != step) run.parts.clear();
  const bool is_new = run.parts.emplace(layer, part).second;
  return is_new && std::ranges::count(run.parts, layer, &std::pair<int, int>::first) > 1;
}

// Adds a new, complete step to the run. Keeps any other in `part` until the next step, because more may follow.
void LogReader::State::place(Run& run, TelemetryFrame frame, bool whole, bool is_added) {
  if (run.part && run.part->step == frame.step) return join_frames(*run.part, std::move(frame), is_added);
  add_part(run);
  if (run.imported)  // add_part() may have opened the run
    for (const RouterFrame& router : frame.routers)
      if (router.layer >= 0) require_layer(router.layer, run.imported->info());
  if (whole && frame.step > run.newest) {
    run.newest = frame.step;
    return run.imported->add(std::move(frame));
  }
  run.joins = frame.step <= run.newest;
  run.part_is_added = is_added;
  run.newest = std::max(run.newest, frame.step);
  run.part = std::move(frame);
  run.part_line = lines;
}

void LogReader::State::take(Run& run, const NamedLine& named) {
  const bool of_layer = named.fields.find("layer") && !named.fields.find("routers");
  if (run.part && !of_layer && !run.imported) add_part(run);
  TelemetryFrame frame = of_layer ? layer_frame_of(run, named) : frame_of(run, named, run.imported->info());
  has_values = has_values || has_figures(named) || holds_other_values(named.fields);
  watch_epoch(run, named, frame.step);
  go_back(run, named, frame.step);
  names.count_loads(frame);
  router_names.count_loads(frame);
  const int layer = of_layer && !frame.routers.empty() ? frame.routers.back().layer : -1;
  const bool is_added = is_further_part(run, named.part, layer, frame.step);
  place(run, std::move(frame), !of_layer, is_added);
  if (!of_layer) take_markers(run, named.fields);
}

// Adds the step in `part` to the run.
void LogReader::State::add_part(Run& run) {
  if (!run.part) return;
  TelemetryFrame frame = std::move(*run.part);
  run.part.reset();
  if (run.joins) {
    const std::int64_t step = frame.step;
    if (!run.imported->join(std::move(frame), run.part_is_added))
      bad.add(run.part_line, "step " + std::to_string(step) + ": these values come after too many later steps");
    return;
  }
  sum_up(frame);
  if (!run.imported) {
    RunInfo info = run.stated;
    info.moe_layers.clear();
    for (const RouterFrame& router : frame.routers) {
      info.moe_layers.push_back(router.layer);
      if (!router.tokens_per_expert.empty()) info.n_experts = router.tokens_per_expert.size();
    }
    open(run, std::move(info), frame.step);
  }
  run.imported->add(std::move(frame));
}

void LogReader::State::add_held_steps(Run& run) {
  JsonLines held_lines;  // `parser` still holds the current line
  for (const HeldStep& held : std::exchange(run.held, {})) {
    held_bytes -= held.text.size();
    try {
      NamedLine named = names.read(held_lines.parse(held.text), held.line, false);
      if (held.in_part) named = *readable_part(named);
      if (!run.imported) {
        RunInfo info = info_of_first_step(run.stated, run.dense_layers, named, router_names);
        info.n_experts = std::max(info.n_experts, run.sparse_experts);
        open(run, info, frame_of(run, named, info).step);
      }
      take(run, named);
    } catch (const Unreadable& unreadable) {
      bad.add(held.line, unreadable.what());
    }
  }
}

void LogReader::State::count_bad(std::int64_t number, const Unreadable& why) {
  bad.add(number, why.what(), dynamic_cast<const UnreadablePart*>(&why) != nullptr);
}

void LogReader::State::step(Run& run, const JsonFields& json) {
  if (is_closing(json)) return;
  const NamedLine named = names.read(json, lines);
  try {
    take_or_hold(run, named, false);
  } catch (const Unreadable& why) {
    const auto rest = readable_part(named);
    if (!rest) throw;
    take_or_hold(run, *rest, true);
    throw UnreadablePart(why.what());
  }
}

void LogReader::State::take_or_hold(Run& run, const NamedLine& named, bool in_part) {
  const bool of_layer = named.fields.find("layer") && !named.fields.find("routers");
  if (run.imported || run.part || of_layer) return take(run, named);
  RunInfo info = info_of_first_step(run.stated, run.dense_layers, named, router_names);
  info.n_experts = std::max(info.n_experts, run.sparse_experts);
  TelemetryFrame frame = frame_of(run, named, info);
  for (const NamedLayerValue& load : named.of_layers)
    if (load.is_sparse) run.sparse_experts = std::max(run.sparse_experts, load.match.expert + 1);
  // Experts without tokens are left out of loads by expert: their number is the highest of several steps.
  const bool is_open = run.sparse_experts > 0 && run.stated.n_experts == 0;
  const bool no_load = is_open || info.moe_layers.empty() || (info.n_experts == 0 && !named.of_layers.empty());
  if (no_load && run.held.size() < kMaxHeld && held_bytes + line.size() <= kMaxHeldBytes) {
    held_bytes += line.size();
    run.held.push_back({lines, frame.step, std::string(line), in_part});
    return;
  }
  const std::int64_t first_step = run.held.empty() ? frame.step : run.held.front().step;
  open(run, info, first_step);
  add_held_steps(run);
  take(run, named);
}

// Reads the joined lines of a split step as one line. While they are read, they replace the current line.
void LogReader::State::read_split(Run& run) {
  if (run.split.empty()) return;
  const std::string_view current = std::exchange(line, run.split.text());
  const std::int64_t current_line = std::exchange(lines, run.split.line());
  try {
    step(run, split_parser.parse(line));
  } catch (const Unreadable& unreadable) {
    count_bad(lines, unreadable);
  }
  run.split.clear();
  line = current;
  lines = current_line;
}

void LogReader::State::parse_line(JsonLines& parser) {
  const JsonFields json = parser.parse(line);
  if (const auto named = named_value(json, tags)) {
    line = *named;
    return parse_line(named_parser);
  }
  if (json.end() - json.begin() > kMostNames) throw Unreadable("more than 65536 names");
  const bool has_step = names.has_step(json);
  Run& run = run_of(json, has_step);
  if (!has_step) return describe(run, json);
  form = form == Form::unknown ? Form::json : form;
  // Only as many runs are read as can be shown. The names of all runs are known at the end of the file only.
  if (!run.is_read)
    run.is_read =
        is_chosen(run) && static_cast<std::size_t>(place_of(run)) < std::min(options.most_runs, kMostRunsRead);
  if (!*run.is_read) return;
  if (!run.split.empty() && run.split.is_other_step(json, names)) read_split(run);
  if (!run.split.take(json, line, lines, names)) step(run, json);
}

LogReader::LogReader(std::string source, ImportOptions options)
    : state_(std::make_unique<State>(std::move(source), std::move(options))) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

void LogReader::State::read_json(std::string_view json) {
  line = json;
  try {
    parse_line(parser);
  } catch (const Unreadable& unreadable) {  // counts the first bad object of a line
    if (std::exchange(last_bad_line, lines) != lines) count_bad(lines, unreadable);
  }
}

// Reads a line while the form of the log is unknown: as JSON, and if that fails, as printed text.
void LogReader::State::read_unknown(std::string_view read) {
  const std::int64_t bad_before = bad.count();
  read_json(read);
  if (form == Form::json || bad.count() == bad_before) return;
  lines_of_text += text.read(read, [&](std::string_view json) {
    if (form != Form::text) bad = {}, last_bad_line = 0;  // discards errors of the lines before the first step
    form = Form::text;
    read_json(json);
  });
}

// Joins the lines of an indented object, which begins with a line "{" and ends with a line "}". Returns the whole
// object, or a line that is outside such objects; nullopt if the object is not complete yet.
std::optional<std::string_view> LogReader::State::whole_object(std::string_view read) {
  const std::size_t end = read.find_last_not_of(" \t\r,");
  const std::string_view plain = end == std::string_view::npos ? read : read.substr(0, end + 1);
  if (form == Form::text || (object_lines == 0 && plain != "{")) return read;
  if (object_lines > 0 && !read.starts_with(' ') && !read.starts_with('\t') && !read.starts_with('}')) {
    object_lines = 0;
    bad.add(lines - 1, "not JSON, or cut off");
    return read;
  }
  if (object_lines == 0) object.clear();
  object += read;
  const bool ends = plain == "}";
  if (!ends && ++object_lines < kMostLinesOfObject && object.size() < kLongestSettings) return std::nullopt;
  object_lines = 0;
  if (ends) object.resize(object.rfind('}') + 1);
  return object;
}

void LogReader::read_line(std::string_view line) {
  State& state = *state_;
  if (++state.lines == 1) line = without_byte_order_mark(line);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (const auto whole = state.whole_object(line))
    line = *whole;
  else
    return;
  if (state.form == State::Form::unknown)
    state.read_unknown(line);
  else if (state.form == State::Form::json)
    state.read_json(line);
  else
    state.lines_of_text += state.text.read(line, [&](std::string_view json) { state.read_json(json); });
}

void LogReader::refuse_line(std::string why) {
  state_->bad.add(++state_->lines, std::move(why));
}

void LogReader::finish_step() {
  for (State::Run& run : state_->runs) {
    state_->read_split(run);
    state_->add_part(run);
    state_->add_held_steps(run);
    state_->add_part(run);
  }
}

Imported LogReader::finish() {
  finish_step();
  Imported imported{histories(), lines(), bad()};
  imported.remarks = remarks();
  imported.account = account();
  return imported;
}

ImportAccount LogReader::account() const {
  ImportAccount account;
  const auto opened = std::ranges::find_if(state_->runs, [](const State::Run& run) { return run.imported != nullptr; });
  if (opened != state_->runs.end()) account = opened->imported->found(opened->stated);
  account.path = state_->source;
  account.add(state_->book.account("line"));
  if (state_->text.of_other_ranks() > 0)
    account.left_out.push_back({std::to_string(state_->text.of_other_ranks()) + " lines",
                                "they are of other ranks than the one whose values are read"});
  return account;
}

std::vector<std::string> LogReader::run_names() const {
  std::vector<std::string> names;
  for (const State::Run& run : state_->runs)
    if (run.is_read) names.push_back(state_->name_of(run, run.stated));
  return names;
}

std::vector<std::shared_ptr<History>> LogReader::histories() const {
  std::vector<std::shared_ptr<History>> out;
  for (const State::Run& run : state_->runs)
    if (run.imported && run.imported->steps() > 0) out.push_back(run.imported->history());
  return out;
}
std::shared_ptr<History> LogReader::history() const {
  const auto all = histories();
  return all.empty() ? nullptr : all.front();
}
std::int64_t LogReader::lines() const {
  return state_->lines;
}
std::int64_t LogReader::steps() const {
  std::int64_t steps = 0;
  for (const State::Run& run : state_->runs) steps += run.imported ? run.imported->steps() : 0;
  return steps;
}

bool LogReader::is_whole(std::string_view line) const {
  if (line.find('\r') != std::string_view::npos || state_->text.is_numbered()) return false;
  if (state_->form == State::Form::text) return TextLogReader(&state_->tags).read(line, [](std::string_view) {});
  try {
    JsonLines().parse(line);
    return true;
  } catch (const Unreadable&) {
    return false;
  }
}

namespace {

bool have_same_shape(const RunInfo& a, const RunInfo& b) {
  const bool same_experts = a.n_experts == b.n_experts || a.n_experts == 0 || b.n_experts == 0;
  return same_experts && (a.moe_layers == b.moe_layers || a.moe_layers.empty() || b.moe_layers.empty());
}

}  // namespace

bool LogReader::goes_on_from(const LogReader& earlier) const {
  return std::ranges::all_of(state_->runs, [&](const State::Run& run) {
    if (!run.imported) return true;
    const auto before = std::ranges::find_if(earlier.state_->runs, [&](const State::Run& other) {
      return other.imported && other.number == run.number && other.name == run.name;
    });
    if (before == earlier.state_->runs.end() || !have_same_shape(run.imported->info(), before->imported->info()))
      return false;
    if (state_->text.is_numbered()) return run.first_epoch >= 0 && run.first_epoch >= before->epoch;
    return run.imported->history()->steps().first > before->imported->history()->steps().last;
  });
}

std::vector<std::string> LogReader::remarks() const {
  std::vector<std::string> remarks = state_->remarks;
  for (const State::Run& run : state_->runs) {
    if (run.imported) std::ranges::copy(run.imported->remarks(), std::back_inserter(remarks));
    if (run.sparse_experts > 0 && run.stated.n_experts == 0)
      remarks.push_back(unknown_experts_text(run.sparse_experts));
  }
  const TextLogReader& text = state_->text;
  if (state_->form == State::Form::text) {
    remarks.push_back("read as " + std::string(text_log_name(*text.log())) + ": " +
                      std::to_string(state_->lines_of_text) + " of " + std::to_string(state_->lines) +
                      " lines have figures of a step");
    if (text.of_other_ranks() > 0)
      remarks.push_back(std::to_string(text.of_other_ranks()) + " lines of other ranks are left out");
    if (text.is_numbered())
      remarks.push_back("its lines have no step: they are numbered 1, 2, ... in their order" +
                        std::string(text.log() == TextLog::trainer ? " (trainer_state.json has the steps)" : ""));
  }
  const std::set<std::string> not_shown = state_->book.not_shown();
  for (const State::Run& run : state_->runs)
    if (std::string again = run.restarts.again_text(); !again.empty()) remarks.push_back(std::move(again));
  if (!not_shown.empty()) remarks.push_back(not_shown_text(not_shown));
  return remarks;
}
std::string LogReader::refusal() const {
  for (const State::Run& run : state_->runs) {
    if (!run.imported) continue;
    const std::size_t logged = run.imported->steps(), dropped = logged - run.imported->kept_steps();
    if (is_shuffled(run.to_new_steps, dropped, logged)) return no_order_text(run.to_new_steps, dropped, logged);
    if (run.begins_anew)
      return "its steps begin at " + std::to_string(run.first_step) +
             " again in every epoch, so that the step of the run is not known: log a step that never restarts, such as "
             "global_step";
  }
  const bool has_runs =
      std::ranges::any_of(state_->runs, [](const State::Run& run) { return run.imported != nullptr; });
  return has_runs && !state_->has_values ? no_known_names(state_->book.not_shown()) : std::string();
}
const BadLines& LogReader::bad() const {
  return state_->bad;
}

}  // namespace moescope
