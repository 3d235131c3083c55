#include "core/telemetry/logs/import_jsonl.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "core/io/input_file.h"
#include "core/io/json_copy.h"
#include "core/io/json_line.h"
#include "core/io/text_encoding.h"
#include "core/telemetry/frame/change_marker.h"
#include "core/telemetry/logs/frame_json.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxHeld = 64;  // steps without a load that wait for the first one with it
constexpr double kLastStep = 1e15;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// Keys of a step that hold a list with an entry a layer.
constexpr std::initializer_list<const char*> kNestedKeys = {"tokens_per_expert", "expert_bias", "score_entropy",
                                                            "margin", "aux"};

bool has_nested(const JsonFields& json) {
  return std::any_of(kNestedKeys.begin(), kNestedKeys.end(), [&](const char* key) { return member(json, {key}); });
}

// Of a line after the first step: without a step and without these it is a remark of the script, as {"end": true}.
bool has_figures(const JsonFields& json) {
  return has_nested(json) ||
         member(json, {"loss", "ce_loss", "lm_loss", "train_loss", "val_loss", "eval_loss", "validation_loss",
                       "grad_norm", "lr", "learning_rate", "routers", "layer", "markers"});
}

// For a model with one MoE layer some programs write the counts without the outer list.
bool is_one_layer(JsonValue load) {
  JsonList list;
  return load.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_number();
}

// How many experts a value that should be their list has, at most one more than there may be; 0: it is no list.
int listed_experts(const JsonValue* load) {
  JsonList list;
  if (!load || load->get(list) != simdjson::SUCCESS) return 0;
  return static_cast<int>(std::min(list.size(), kMaxImportedExperts + 1));
}

void check_shape(std::size_t layers, std::size_t experts) {
  if (layers > kMaxImportedLayers) throw Unreadable("tokens_per_expert: too many layers");
  if (experts > kMaxImportedExperts || layers * experts > kMaxImportedLoads)
    throw Unreadable("tokens_per_expert: too many experts");
}

}  // namespace

struct LogReader::State {
  struct HeldStep {
    std::int64_t line, step;
    std::string text;
  };
  struct Run {
    std::optional<nlohmann::json> settings;
    RunInfo stated;  // in the line of settings
    float aux_coeff = kNoValue;
    int dense_layers = 0;
    std::unique_ptr<ImportedRun> imported;
    std::optional<TelemetryFrame> part;  // of a step given layer by layer
    std::vector<HeldStep> held;
  };

  State(std::string source, const ImportOptions* options) : source(std::move(source)), options(options) {}

  ImportOptions own_options;
  std::string source;
  const ImportOptions* options;
  std::map<int, Run> runs;  // by their number in the file
  std::vector<int> order;   // of appearance
  std::int64_t lines = 0;
  BadLines bad;
  JsonLines parser;
  std::string_view line;  // that is being read

  void parse_line();
  void describe(Run& run, const JsonFields& json);
  void step(Run& run, int number, const JsonFields& json);
  void add_layer(Run& run, int number, const JsonFields& json);
  void add_collected_step(Run& run, int number);
  void add_held_steps(Run& run, int number);
  RunInfo info_from_first_step(const Run& run, const JsonFields& first_step) const;
  void open(Run& run, int number, RunInfo info, std::int64_t first_step);
  TelemetryFrame frame_of(const Run& run, const JsonFields& json, const RunInfo& info) const;
  void read_nested(const Run& run, const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) const;
  void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) const;
  void take(Run& run, const JsonFields& json);
};

void LogReader::State::describe(Run& run, const JsonFields& json) {
  if (run.imported || run.part || !run.held.empty()) {
    if (has_figures(json)) throw Unreadable("no step");
    return;
  }
  if (run.settings) throw Unreadable("no step, and the settings came before");
  run.stated = run_info_from_json(json);
  if (const JsonValue* coeff = member(json, {"aux_coeff"})) run.aux_coeff = to_float(*coeff, "aux_coeff");
  if (const JsonValue* dense = member(json, {"dense_layers", "n_dense_layers", "first_k_dense_replace"}))
    run.dense_layers = to_index(*dense, "dense_layers", 0, static_cast<int>(kMaxImportedLayers));
  run.settings = copy_of(json);
}

// The description of a run, completed from its first step.
RunInfo LogReader::State::info_from_first_step(const Run& run, const JsonFields& first_step) const {
  RunInfo info = run.stated;
  std::size_t layers = 0;
  if (const JsonValue* load = member(first_step, {"tokens_per_expert"}); load && !first_step.find("layer")) {
    const JsonList list = list_of(*load, "tokens_per_expert", 0, "layers");
    const bool one_layer = is_one_layer(*load);
    layers = one_layer ? 1 : list.size();
    const JsonValue one = one_layer || layers == 0 ? *load : *list.begin();
    const std::size_t experts = layers ? list_of(one, "tokens_per_expert", 0, "experts").size() : 0;
    check_shape(layers, experts);
    info.n_experts = static_cast<int>(experts);
  }
  JsonList routers;
  if (const JsonValue* list = member(first_step, {"routers"}); list && list->get(routers) == simdjson::SUCCESS) {
    check_shape(routers.size(), 0);
    for (const JsonValue each : routers) {
      const JsonFields router = fields_of(each, "routers", "no layer");
      if (!router.find("layer")) throw Unreadable("routers: no layer");
      const int layer = to_index(*router.find("layer"), "layer", 0, static_cast<int>(kMaxImportedLayers));
      if (run.stated.moe_layers.empty()) info.moe_layers.push_back(layer);
      const JsonValue* load = member(router, {"tokens_per_expert"});
      if (load && load->is_array()) info.n_experts = listed_experts(load);
    }
    check_shape(info.moe_layers.size(), static_cast<std::size_t>(info.n_experts));
  }
  if (layers == 0 && info.moe_layers.empty() && info.n_experts > 0)
    layers = static_cast<std::size_t>(std::max(0, info.n_layers - run.dense_layers));
  if (layers > 0 && info.moe_layers.size() != layers) {
    info.n_layers = std::max(info.n_layers, static_cast<int>(layers));
    info.moe_layers.clear();
    for (std::size_t i = 0; i < layers; ++i) info.moe_layers.push_back(info.n_layers - static_cast<int>(layers - i));
  }
  check_shape(info.moe_layers.size(), static_cast<std::size_t>(info.n_experts));
  return info;
}

void LogReader::State::open(Run& run, int number, RunInfo info, std::int64_t first_step) {
  std::sort(info.moe_layers.begin(), info.moe_layers.end());
  info.moe_layers.erase(std::unique(info.moe_layers.begin(), info.moe_layers.end()), info.moe_layers.end());
  if (!info.moe_layers.empty()) info.n_layers = std::max(info.n_layers, info.moe_layers.back() + 1);
  if (info.name.empty()) info.name = std::filesystem::path(source).stem().string();
  info.source = source;
  const auto place = std::find(order.begin(), order.end(), number) - order.begin();
  info.run = options->run + static_cast<int>(place);
  run.imported = std::make_unique<ImportedRun>(std::move(info), *options);
  // This program's own lines have settings elsewhere: for its trainings as `config`, for imported runs as a marker.
  const bool own = run.settings && run.settings->contains("source") && run.settings->contains("moe_layers");
  const bool with_config = run.settings && run.settings->contains("config") && (*run.settings)["config"].is_string();
  if (!run.settings || own || with_config) return;
  run.imported->add(Marker{0, first_step, kSettingsMarker,
                           run.settings->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
}

void LogReader::State::read_nested(const Run& run, const JsonFields& json, const RunInfo& info,
                                   TelemetryFrame& frame) const {
  const std::size_t layers = info.moe_layers.size();
  const auto n_experts = static_cast<std::size_t>(info.n_experts);
  frame.routers.resize(layers);
  for (std::size_t i = 0; i < layers; ++i) frame.routers[i].layer = info.moe_layers[i];
  if (const JsonValue* load = member(json, {"tokens_per_expert"})) {
    if (is_one_layer(*load) && layers == 1) {
      frame.routers[0].tokens_per_expert = to_counts(*load, "tokens_per_expert", n_experts);
    } else {
      const JsonList list = list_of(*load, "tokens_per_expert", layers, "layers");
      if (list.size() != layers) throw Unreadable("tokens_per_expert: not a list a layer");
      for (auto router = frame.routers.begin(); const JsonValue of_layer : list)
        (router++)->tokens_per_expert = to_counts(of_layer, "tokens_per_expert", n_experts);
    }
  }
  if (const JsonValue* bias = member(json, {"expert_bias"})) {
    const JsonList list = list_of(*bias, "expert_bias", layers, "layers");
    if (list.size() != layers) throw Unreadable("expert_bias: the number of layers is not known");
    for (auto router = frame.routers.begin(); const JsonValue of_layer : list)
      (router++)->expert_bias = to_floats(of_layer, "expert_bias", n_experts);
  }
  const auto scalars = [&](const char* key, float RouterFrame::*field, float factor) {
    const JsonValue* list = member(json, {key});
    if (!list || is_missing(factor)) return;
    const std::vector<float> values = to_floats(*list, key, layers, "layers");
    for (std::size_t i = 0; i < std::min(layers, values.size()); ++i)
      frame.routers[i].*field = is_missing(values[i]) ? kNoValue : factor * values[i];
  };
  scalars("score_entropy", &RouterFrame::score_entropy, 1);
  scalars("margin", &RouterFrame::margin, 1);
  scalars("aux", &RouterFrame::aux_loss, run.aux_coeff);
  if (is_missing(frame.aux_loss) && !frame.routers.empty() && !is_missing(frame.routers.front().aux_loss)) {
    frame.aux_loss = 0;
    for (const RouterFrame& router : frame.routers) frame.aux_loss += router.aux_loss;
  }
}

void LogReader::State::read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) const {
  const JsonValue* table = member(json, {"domain_expert"});
  if (!table || info.domains.empty() || info.n_experts == 0) return;
  const JsonFields by_domain = fields_of(*table, "domain_expert", "not an object of lists");
  SpecialisationFrame special;
  const JsonValue* layer = member(json, {"domain_expert_layer"});
  if (!layer) throw Unreadable("domain_expert without domain_expert_layer");
  special.layer = to_index(*layer, "domain_expert_layer", 0, static_cast<int>(kMaxImportedLayers));
  special.experts = info.n_experts;
  const auto n_experts = static_cast<std::size_t>(info.n_experts);
  for (const std::string& domain : info.domains) {
    const JsonValue* found = by_domain.find(domain);
    const auto counts = found ? to_counts(*found, "domain_expert", n_experts) : std::vector<std::uint32_t>(n_experts);
    special.domain_DE.insert(special.domain_DE.end(), counts.begin(), counts.end());
  }
  frame.specialisation.push_back(std::move(special));
}

TelemetryFrame LogReader::State::frame_of(const Run& run, const JsonFields& json, const RunInfo& info) const {
  TelemetryFrame frame = frame_from_json(json, info);
  for (const RouterFrame& router : frame.routers) {
    if (std::find(info.moe_layers.begin(), info.moe_layers.end(), router.layer) == info.moe_layers.end())
      throw Unreadable("layer " + std::to_string(router.layer) + " is not among the MoE layers of the first step");
  }
  if (frame.routers.empty() && has_nested(json)) read_nested(run, json, info, frame);
  read_domains(json, info, frame);
  return frame;
}

// The frame of a line that holds a whole step, and what was noted at it.
void LogReader::State::take(Run& run, const JsonFields& json) {
  run.imported->add(frame_of(run, json, run.imported->info()));
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
    if (marker.key.empty()) read_change_text(marker);
    const JsonValue* step = member(fields, {"step"});
    marker.step = to_count(step ? *step : *member(json, {"step"}), "markers: step", kLastStep);
    run.imported->add(std::move(marker));
  }
}

// A line that is one layer of a step.
void LogReader::State::add_layer(Run& run, int number, const JsonFields& json) {
  if (run.part && run.part->step != to_count(*member(json, {"step"}), "step", kLastStep))
    add_collected_step(run, number);
  RunInfo info = run.imported ? run.imported->info() : run.stated;
  if (const JsonValue* load = member(json, {"tokens_per_expert"}); load && load->is_array() && !run.imported) {
    if (run.part && !run.part->routers.empty())
      info.n_experts = static_cast<int>(run.part->routers.front().tokens_per_expert.size());
    else if (info.n_experts == 0)
      info.n_experts = listed_experts(load);
    check_shape(1, static_cast<std::size_t>(info.n_experts));
  }
  TelemetryFrame frame = frame_from_json(json, info);
  RouterFrame router = router_from_json(json, info);
  if (run.imported && std::find(info.moe_layers.begin(), info.moe_layers.end(), router.layer) == info.moe_layers.end())
    throw Unreadable("layer " + std::to_string(router.layer) + " is not among those of the first step");
  if (!run.part) {
    run.part = std::move(frame);
  } else {
    if (is_missing(run.part->ce_loss)) run.part->ce_loss = frame.ce_loss;
    if (is_missing(run.part->grad_norm)) run.part->grad_norm = frame.grad_norm;
    if (is_missing(run.part->lr)) run.part->lr = frame.lr;
    if (is_missing(run.part->tokens_per_s)) run.part->tokens_per_s = frame.tokens_per_s;
    run.part->wall_s = std::max(run.part->wall_s, frame.wall_s);
    run.part->tokens = std::max(run.part->tokens, frame.tokens);
    std::move(frame.quants.begin(), frame.quants.end(), std::back_inserter(run.part->quants));
    std::move(frame.specialisation.begin(), frame.specialisation.end(), std::back_inserter(run.part->specialisation));
  }
  auto& routers = run.part->routers;
  const auto place = std::lower_bound(routers.begin(), routers.end(), router.layer,
                                      [](const RouterFrame& r, int layer) { return r.layer < layer; });
  if (place != routers.end() && place->layer == router.layer)
    *place = std::move(router);
  else
    check_shape(routers.size() + 1, static_cast<std::size_t>(info.n_experts)), routers.insert(place, std::move(router));
}

void LogReader::State::add_collected_step(Run& run, int number) {
  if (!run.part) return;
  TelemetryFrame frame = std::move(*run.part);
  run.part.reset();
  for (const auto& [field, sum] :
       {std::pair{&RouterFrame::aux_loss, &frame.aux_loss}, std::pair{&RouterFrame::z_loss, &frame.z_loss}}) {
    for (const RouterFrame& router : frame.routers)
      if (!is_missing(router.*field)) *sum = is_missing(*sum) ? router.*field : *sum + router.*field;
  }
  if (!run.imported) {
    RunInfo info = run.stated;
    info.moe_layers.clear();
    for (const RouterFrame& router : frame.routers) {
      info.moe_layers.push_back(router.layer);
      if (!router.tokens_per_expert.empty()) info.n_experts = static_cast<int>(router.tokens_per_expert.size());
    }
    open(run, number, std::move(info), frame.step);
  }
  run.imported->add(std::move(frame));
}

void LogReader::State::add_held_steps(Run& run, int number) {
  JsonLines held_lines;  // that of the line in work is in use
  for (const HeldStep& held : std::exchange(run.held, {})) {
    try {
      const JsonFields json = held_lines.parse(held.text);
      if (!run.imported) {
        const RunInfo info = info_from_first_step(run, json);
        open(run, number, info, frame_of(run, json, info).step);
      }
      take(run, json);
    } catch (const Unreadable& unreadable) {
      bad.add(held.line, unreadable.what());
    }
  }
}

void LogReader::State::step(Run& run, int number, const JsonFields& json) {
  if (json.find("layer") && !json.find("routers")) return add_layer(run, number, json);
  add_collected_step(run, number);
  if (run.imported) return take(run, json);
  const RunInfo info = info_from_first_step(run, json);
  TelemetryFrame frame = frame_of(run, json, info);
  if (info.moe_layers.empty() && run.held.size() < kMaxHeld) {
    run.held.push_back({lines, frame.step, std::string(line)});
    return;
  }
  const std::int64_t first_step = run.held.empty() ? frame.step : run.held.front().step;
  open(run, number, info, first_step);
  add_held_steps(run, number);
  take(run, json);
}

void LogReader::State::parse_line() {
  const JsonFields json = parser.parse(line);
  const JsonValue* run_key = member(json, {"run"});
  const int number = run_key && run_key->is_number() ? to_index(*run_key, "run", 0, 1 << 20) : 0;
  const bool is_step = member(json, {"step"}) != nullptr;
  if (!runs.contains(number) && runs.size() >= 16) throw Unreadable("run: more than 16 runs in one file");
  Run& run = runs[number];
  if (std::find(order.begin(), order.end(), number) == order.end()) order.push_back(number);
  is_step ? step(run, number, json) : describe(run, json);
}

LogReader::LogReader(std::string source, const ImportOptions& options)
    : state_(std::make_unique<State>(std::move(source), &options)) {}
LogReader::LogReader(std::string source) : state_(std::make_unique<State>(std::move(source), nullptr)) {
  state_->options = &state_->own_options;
}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

void LogReader::read_line(std::string_view line) {
  if (++state_->lines == 1) line = without_byte_order_mark(line);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  state_->line = line;
  try {
    state_->parse_line();
  } catch (const Unreadable& unreadable) {
    state_->bad.add(state_->lines, unreadable.what());
  }
}

void LogReader::refuse_line(std::string why) {
  state_->bad.add(++state_->lines, std::move(why));
}

void LogReader::finish_step() {
  for (auto& [number, run] : state_->runs) {
    state_->add_collected_step(run, number);
    state_->add_held_steps(run, number);
  }
}

std::vector<std::shared_ptr<History>> LogReader::histories() const {
  std::vector<std::shared_ptr<History>> out;
  for (const int number : state_->order) {
    const State::Run& run = state_->runs.at(number);
    if (run.imported && run.imported->steps() > 0) out.push_back(run.imported->history());
  }
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
  for (const auto& [number, run] : state_->runs) steps += run.imported ? run.imported->steps() : 0;
  return steps;
}
const BadLines& LogReader::bad() const {
  return state_->bad;
}

void LineSplitter::add(std::string_view chunk, LogReader& reader) {
  for (;;) {
    const std::size_t end = chunk.find('\n');
    const std::string_view piece = chunk.substr(0, end);
    const bool whole = end != std::string_view::npos && !holds_part() && piece.size() <= kLongestLine;
    if (whole)
      reader.read_line(piece);
    else
      add_part(piece);
    if (end == std::string_view::npos) return;
    if (!whole) finish(reader);
    chunk.remove_prefix(end + 1);
  }
}

void LineSplitter::add_part(std::string_view piece) {
  too_long_ = too_long_ || part_.size() + piece.size() > kLongestLine;
  if (too_long_)
    part_ = {};
  else
    part_ += piece;
}

void LineSplitter::finish(LogReader& reader) {
  if (too_long_)
    reader.refuse_line("longer than " + std::to_string(kLongestLine >> 20) + " MB");
  else
    reader.read_line(part_);
  part_.clear();
  too_long_ = false;
}

Imported import_jsonl(const std::string& path, const ImportOptions& options) {
  InputFile file(path);
  const auto size = static_cast<double>(file.size());
  LogReader reader(path, options);
  LineSplitter lines;
  std::string chunk(kReadBytes, '\0');
  double read = 0;
  while (const std::size_t got = file.read(chunk.data(), chunk.size())) {
    const std::string problem = read == 0 ? encoding_problem({chunk.data(), got}) : std::string();
    if (!problem.empty()) throw std::runtime_error(path + ": " + problem);
    lines.add(std::string_view(chunk).substr(0, got), reader);
    read += static_cast<double>(got);
    if (options.progress && !options.progress(std::min(1.0, read / std::max(1.0, size)))) return {};
  }
  if (lines.holds_part()) lines.finish(reader);
  reader.finish_step();
  Imported imported{reader.histories(), reader.lines(), reader.bad()};
  if (imported.runs.empty()) {
    const auto& bad = reader.first_bad_lines();
    throw std::runtime_error(
        path + ": holds no training step" +
        (bad.empty() ? std::string() : "; line " + std::to_string(bad[0].number) + ": " + bad[0].why));
  }
  return imported;
}

}  // namespace moescope
