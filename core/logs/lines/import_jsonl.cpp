#include "core/logs/lines/import_jsonl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>

#include "core/frame/figures.h"
#include "core/io/input_file.h"
#include "core/io/json_copy.h"
#include "core/io/json_line.h"
#include "core/io/text_encoding.h"
#include "core/logs/lines/frame_json.h"
#include "core/logs/lines/line_names.h"
#include "core/logs/lines/text_log.h"
#include "core/logs/run_choice.h"

namespace moescope {

namespace {

// Steps without a load that wait for the first one with it, and their bytes in all runs of a file.
constexpr std::size_t kMaxHeld = 64, kMaxHeldBytes = std::size_t{64} << 20;
constexpr std::size_t kLongestSettings = std::size_t{1} << 20;
constexpr std::size_t kMaxRemarks = 100;
constexpr std::ptrdiff_t kMostNames = 65536;  // in a line
constexpr std::size_t kMostRuns = 64, kMostRunsRead = 16;
constexpr double kLastStep = 1e15;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// Keys of a step that hold a list with an entry a layer.
constexpr std::initializer_list<const char*> kNestedKeys = {"tokens_per_expert", "utilization", "expert_bias",
                                                            "score_entropy",     "margin",      "aux"};
// What a line may say of its step beside the figures: by these it is seen that a step comes again.
constexpr std::array<const char*, 8> kValuesOfStep = {
    "tokens_per_expert", "utilization", "expert_bias", "routers", "quants", "gradients", "specialisation", "texts"};
constexpr double kCountsOfFairShare = 10000;  // of a log that has shares only

bool has_nested(const JsonFields& json) {
  return std::any_of(kNestedKeys.begin(), kNestedKeys.end(), [&](const char* key) { return member(json, {key}); });
}

// Of a line after the first step: without a step and without these it is a remark of the script, as {"end": true}.
bool has_figures(const NamedLine& line) {
  return has_nested(line.fields) || !line.of_layers.empty() || member(line.fields, {"routers", "layer", "markers"}) ||
         std::ranges::any_of(kFrameFigures, [&](const auto& figure) { return member(line.fields, {figure.column}); });
}

// The last line of Hugging Face's Trainer: totals and means of the whole training.
bool is_closing(const JsonFields& json) {
  return member(json, {"train_runtime", "train/train_runtime"}) && !member(json, {"loss", "train/loss"});
}

// For a model with one MoE layer some programs write the counts without the outer list.
bool is_one_layer(JsonValue load) {
  JsonList list;
  return load.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_number();
}

// The layers and experts that names with numbers speak of.
void add_layers_of(const std::vector<LayerValue>& values, RunInfo& info) {
  std::set<int> layers(info.moe_layers.begin(), info.moe_layers.end());
  for (const LayerValue& each : values) {
    layers.insert(std::max(0, each.match.layer));
    JsonList list;
    const std::size_t listed = each.value.get(list) == simdjson::SUCCESS ? list.size() : 0;
    const auto experts = std::max(listed, static_cast<std::size_t>(each.match.expert + 1));
    info.n_experts = static_cast<int>(std::max<std::size_t>(static_cast<std::size_t>(info.n_experts), experts));
    if (experts > kMaxImportedExperts) throw Unreadable("tokens_per_expert: too many experts");
  }
  info.moe_layers.assign(layers.begin(), layers.end());
}

// How many experts a value that should be their list has, at most one more than there may be; 0: it is no list.
int listed_experts(const JsonValue* load) {
  JsonList list;
  if (!load || load->get(list) != simdjson::SUCCESS) return 0;
  return static_cast<int>(std::min(list.size(), kMaxImportedExperts + 1));
}

// Loads over the fair share, of a log that does not have the tokens.
std::vector<std::uint32_t> counts_of_shares(const std::vector<float>& shares) {
  std::vector<std::uint32_t> counts;
  for (const float share : shares) {
    const double count = std::round(kCountsOfFairShare * static_cast<double>(share));
    if (!(count >= 0 && count <= 4294967295.0)) throw Unreadable("utilization: not a share from 0 on");
    counts.push_back(static_cast<std::uint32_t>(count));
  }
  return counts;
}

std::string list_of_unknown(const std::set<std::string>& names) {
  constexpr std::size_t kListed = 8;
  std::string list;
  std::size_t listed = 0;
  for (const std::string& name : names)
    if (++listed <= kListed) list += (listed > 1 ? ", " : "") + name;
  return names.size() > kListed ? list + ", ..." : list;
}

void require_layer(int layer, const RunInfo& info) {
  if (!std::ranges::binary_search(info.moe_layers, layer))
    throw Unreadable("layer " + std::to_string(layer) + " is not among the MoE layers of the first step");
}

// Values whose names have numbers of layers and experts, put together by layer.
class LayerValues {
 public:
  explicit LayerValues(const RunInfo& info) : info_(&info), experts_(static_cast<std::size_t>(info.n_experts)) {}

  void take(const LayerValue& each) {
    const int layer = std::max(0, each.match.layer);
    require_layer(layer, *info_);
    const TagRule& rule = *each.match.rule;
    Layer& of = layers_.try_emplace(layer).first->second;
    const char* name = rule.column.c_str();
    if (rule.means == TagMeaning::router_figure) {
      of.router.*rule.router = scaled(to_float(each.value, name), rule);
      return;
    }
    std::vector<float>& list = rule.means == TagMeaning::tokens_per_expert ? of.counts
                               : rule.means == TagMeaning::utilization     ? of.shares
                                                                           : of.bias;
    if (each.match.expert < 0) {
      list = to_floats(each.value, name, experts_);
      for (float& value : list) value = scaled(value, rule);
      return;
    }
    if (each.match.expert >= info_->n_experts) throw Unreadable(rule.column + ": more experts than in the first step");
    list.resize(experts_, kNoValue);
    list[static_cast<std::size_t>(each.match.expert)] = scaled(to_float(each.value, name), rule);
  }

  void join(TelemetryFrame& frame) {
    if (layers_.empty()) return;
    TelemetryFrame more;
    more.aux_loss = more.z_loss = kNoValue;
    for (auto& [layer, of] : layers_) {
      of.router.layer = layer;
      if (!of.counts.empty()) of.router.tokens_per_expert = whole_counts(of.counts);
      if (of.counts.empty() && is_complete(of.shares, "utilization"))
        of.router.tokens_per_expert = counts_of_shares(of.shares);
      if (is_complete(of.bias, "expert_bias")) of.router.expert_bias = std::move(of.bias);
      more.routers.push_back(std::move(of.router));
    }
    join_frames(frame, std::move(more));
  }

 private:
  struct Layer {
    std::vector<float> counts, shares, bias;
    RouterFrame router;
  };
  static float scaled(float value, const TagRule& rule) {
    return is_missing(value) || rule.scale == 1 ? value : static_cast<float>(rule.scale * static_cast<double>(value));
  }
  static bool is_complete(const std::vector<float>& list, const char* name) {
    if (std::ranges::any_of(list, is_missing)) throw Unreadable(std::string(name) + ": not of all experts");
    return !list.empty();
  }
  static std::vector<std::uint32_t> whole_counts(const std::vector<float>& list) {
    is_complete(list, "tokens_per_expert");
    std::vector<std::uint32_t> counts;
    for (const float value : list) {
      if (!(value >= 0 && value < 4294967296.0f && value == std::floor(value)))
        throw Unreadable("tokens_per_expert: " + std::to_string(value) + " is not a whole number from 0 on");
      counts.push_back(static_cast<std::uint32_t>(value));
    }
    return counts;
  }

  const RunInfo* info_;
  std::size_t experts_;
  std::map<int, Layer> layers_;
};

// What a step given layer by layer sums up to.
void sum_up(TelemetryFrame& frame) {
  for (const auto& [field, sum] :
       {std::pair{&RouterFrame::aux_loss, &frame.aux_loss}, std::pair{&RouterFrame::z_loss, &frame.z_loss}}) {
    for (const RouterFrame& router : frame.routers)
      if (!is_missing(router.*field)) *sum = is_missing(*sum) ? router.*field : *sum + router.*field;
  }
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
    std::optional<bool> is_read;  // decided at its first step
    std::unique_ptr<ImportedRun> imported;
    // Of the step in work: one given layer by layer, or what further lines say of a step that was added.
    std::optional<TelemetryFrame> part;
    bool joins = false;
    std::int64_t part_line = 0, newest = -1;
    RestartRule restarts;
    std::vector<HeldStep> held;
  };

  State(std::string source, const ImportOptions* options)
      : source(std::move(source)),
        options(options),
        names(options && !options->tags.empty() ? TagMap::load(options->tags) : TagMap::built_in()),
        router_names(names.tags()),
        text(&names.tags()) {}

  ImportOptions own_options;
  std::string source;
  const ImportOptions* options;
  std::map<int, Run> runs;  // by their number in the file
  std::vector<int> order;   // of appearance
  std::vector<std::string> remarks;
  std::size_t held_bytes = 0;
  std::int64_t lines = 0;
  BadLines bad;
  JsonLines parser;
  LineNames names;
  mutable LineNames router_names;  // of the entries of "routers"; learns names as it reads them
  TextLogReader text;
  enum class Form { unknown, json, text } form = Form::unknown;
  std::string_view line;  // that is being read

  void read_json(std::string_view json);
  void read_unknown(std::string_view read);

  void parse_line();
  void describe(Run& run, const JsonFields& json);
  void step(Run& run, int number, const JsonFields& json);
  void add_part(Run& run, int number);
  void add_held_steps(Run& run, int number);
  RunInfo info_from_first_step(const Run& run, const NamedLine& first_step) const;
  void open(Run& run, int number, RunInfo info, std::int64_t first_step);
  std::string name_of(int number, const RunInfo& info) const;
  bool is_chosen(int number) const;
  int place_of(int number) const;
  TelemetryFrame frame_of(const Run& run, const NamedLine& line, const RunInfo& info) const;
  TelemetryFrame layer_frame_of(const Run& run, const JsonFields& json) const;
  void read_nested(const Run& run, const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) const;
  void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) const;
  void take(Run& run, int number, const NamedLine& line);
  void go_back(Run& run, int number, const NamedLine& line, std::int64_t step);
  void place(Run& run, int number, TelemetryFrame frame, bool whole);
  void take_markers(Run& run, const JsonFields& json);
};

void LogReader::State::describe(Run& run, const JsonFields& json) {
  if (run.imported || run.part || !run.held.empty()) {
    if (!is_closing(json) && has_figures(names.read(json))) throw Unreadable("no step");
    return;
  }
  if (line.size() > kLongestSettings) throw Unreadable("settings of more than 1 MB");
  if (run.settings) throw Unreadable("no step, and the settings came before");
  run.stated = run_info_from_json(json);
  if (const JsonValue* coeff = member(json, {"aux_coeff"})) run.aux_coeff = to_float(*coeff, "aux_coeff");
  if (const JsonValue* dense = member(json, {"dense_layers", "n_dense_layers", "first_k_dense_replace"}))
    run.dense_layers = to_index(*dense, "dense_layers", 0, static_cast<int>(kMaxImportedLayers));
  run.settings = copy_of(json);
}

// The description of a run, completed from its first step.
RunInfo LogReader::State::info_from_first_step(const Run& run, const NamedLine& line) const {
  const JsonFields& first_step = line.fields;
  RunInfo info = run.stated;
  std::size_t layers = 0;
  if (const JsonValue* load = member(first_step, {"tokens_per_expert", "utilization"});
      load && !first_step.find("layer")) {
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
      const JsonFields router = router_names.read(fields_of(each, "routers", "no layer")).fields;
      if (!router.find("layer")) throw Unreadable("routers: no layer");
      const int layer = to_index(*router.find("layer"), "layer", 0, kLastImportedLayer);
      if (run.stated.moe_layers.empty()) info.moe_layers.push_back(layer);
      const JsonValue* load = member(router, {"tokens_per_expert"});
      if (load && load->is_array()) info.n_experts = listed_experts(load);
    }
    check_shape(info.moe_layers.size(), static_cast<std::size_t>(info.n_experts));
  }
  if (run.stated.moe_layers.empty()) add_layers_of(line.of_layers, info);
  if (layers == 0 && info.moe_layers.empty() && info.n_experts > 0)
    layers = static_cast<std::size_t>(std::max(0, info.n_layers - run.dense_layers));
  if (layers > 0 && info.moe_layers.size() != layers) {
    info.n_layers = std::max(info.n_layers, static_cast<int>(layers));
    info.moe_layers.clear();
    for (std::size_t i = 0; i < layers; ++i) info.moe_layers.push_back(info.n_layers - static_cast<int>(layers - i));
  }
  check_shape(info.moe_layers.size(), static_cast<std::size_t>(info.n_experts));
  std::ranges::sort(info.moe_layers);
  return info;
}

// In a file of several runs those without a name are told apart by their number.
std::string LogReader::State::name_of(int number, const RunInfo& info) const {
  if (!info.name.empty()) return info.name;
  const std::string stem = std::filesystem::path(source).stem().string();
  return number == 0 ? stem : stem + " run " + std::to_string(number);
}

bool LogReader::State::is_chosen(int number) const {
  return is_wanted(*options, name_of(number, runs.at(number).stated));
}

// Among the runs that are read, by their first lines.
int LogReader::State::place_of(int number) const {
  const auto end = std::ranges::find(order, number);
  return static_cast<int>(std::count_if(order.begin(), end, [this](int each) { return is_chosen(each); }));
}

void LogReader::State::open(Run& run, int number, RunInfo info, std::int64_t first_step) {
  std::sort(info.moe_layers.begin(), info.moe_layers.end());
  info.moe_layers.erase(std::unique(info.moe_layers.begin(), info.moe_layers.end()), info.moe_layers.end());
  if (!info.moe_layers.empty()) info.n_layers = std::max(info.n_layers, info.moe_layers.back() + 1);
  info.name = name_of(number, info);
  info.source = source;
  info.run = options->run + place_of(number);
  run.imported = std::make_unique<ImportedRun>(std::move(info), *options);
  if (text.log())
    run.imported->add(Marker{0, first_step, "event", std::string("Read as ") + text_log_name(*text.log())});
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
  // A list a layer; of one layer it may be missing around it.
  const auto by_layer = [&](const char* key, auto take) {
    const JsonValue* value = member(json, {key});
    if (!value) return false;
    if (is_one_layer(*value) && layers == 1) return take(frame.routers[0], *value), true;
    const JsonList list = list_of(*value, key, layers, "layers");
    if (list.size() != layers) throw Unreadable(std::string(key) + ": the number of layers is not known");
    for (auto router = frame.routers.begin(); const JsonValue of_layer : list) take(*router++, of_layer);
    return true;
  };
  const bool has_counts = by_layer("tokens_per_expert", [&](RouterFrame& router, JsonValue list) {
    router.tokens_per_expert = to_counts(list, "tokens_per_expert", n_experts);
  });
  if (!has_counts)
    by_layer("utilization", [&](RouterFrame& router, JsonValue list) {
      router.tokens_per_expert = counts_of_shares(to_floats(list, "utilization", n_experts));
    });
  by_layer("expert_bias", [&](RouterFrame& router, JsonValue list) {
    router.expert_bias = to_floats(list, "expert_bias", n_experts);
  });
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
  special.layer = to_index(*layer, "domain_expert_layer", 0, kLastImportedLayer);
  special.experts = info.n_experts;
  const auto n_experts = static_cast<std::size_t>(info.n_experts);
  for (const std::string& domain : info.domains) {
    const JsonValue* found = by_domain.find(domain);
    const auto counts = found ? to_counts(*found, "domain_expert", n_experts) : std::vector<std::uint32_t>(n_experts);
    special.domain_DE.insert(special.domain_DE.end(), counts.begin(), counts.end());
  }
  frame.specialisation.push_back(std::move(special));
}

TelemetryFrame LogReader::State::frame_of(const Run& run, const NamedLine& named, const RunInfo& info) const {
  const JsonFields& json = named.fields;
  LineBudget budget(line.size());
  TelemetryFrame frame =
      frame_from_json(json, info, budget, [this](const JsonFields& entry) { return router_names.read(entry).fields; });
  for (const RouterFrame& router : frame.routers) require_layer(router.layer, info);
  std::ranges::stable_sort(frame.routers, {}, &RouterFrame::layer);
  if (frame.routers.empty() && has_nested(json)) read_nested(run, json, info, frame);
  read_domains(json, info, frame);
  LayerValues values(info);
  for (const LayerValue& each : named.of_layers) values.take(each);
  values.join(frame);
  return frame;
}

// Of a line that is one layer.
TelemetryFrame LogReader::State::layer_frame_of(const Run& run, const JsonFields& json) const {
  RunInfo info = run.imported ? run.imported->info() : run.stated;
  if (const JsonValue* load = member(json, {"tokens_per_expert"}); load && load->is_array() && !run.imported) {
    if (run.part && !run.part->routers.empty())
      info.n_experts = static_cast<int>(run.part->routers.front().tokens_per_expert.size());
    else if (info.n_experts == 0)
      info.n_experts = listed_experts(load);
  }
  LineBudget budget(line.size());
  TelemetryFrame frame = frame_from_json(json, info, budget);
  frame.routers.push_back(router_from_json(json, info, budget));
  if (run.imported) require_layer(frame.routers.back().layer, info);
  check_shape(run.part ? run.part->routers.size() + 1 : 1, static_cast<std::size_t>(info.n_experts));
  return frame;
}

// What was noted at the step of a line.
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

// Drops what an earlier attempt logged, if these values were there before.
void LogReader::State::go_back(Run& run, int number, const NamedLine& named, std::int64_t step) {
  std::optional<Restart> restart;
  const auto take_key = [&](std::string_view key) {
    if (const auto found = run.restarts.take(key, step); found && !restart) restart = found;
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
  for (const LayerValue& each : named.of_layers)
    take_key(each.match.rule->column + " of layer " + std::to_string(each.match.layer) + ", expert " +
             std::to_string(each.match.expert));
  if (!restart) return;
  add_part(run, number);
  const std::string said = run.imported ? run.imported->drop(*restart) : std::string();
  if (!said.empty() && remarks.size() < kMaxRemarks) remarks.push_back(said);
  run.newest = std::min(run.newest, restart->step - 1);
}

// A step that is whole is shown at once; what may be a part of one waits for the next step.
void LogReader::State::place(Run& run, int number, TelemetryFrame frame, bool whole) {
  if (run.part && run.part->step == frame.step) return join_frames(*run.part, std::move(frame));
  add_part(run, number);
  if (run.imported)  // perhaps by the part that was added just now
    for (const RouterFrame& router : frame.routers) require_layer(router.layer, run.imported->info());
  if (whole && frame.step > run.newest) {
    run.newest = frame.step;
    return run.imported->add(std::move(frame));
  }
  run.joins = frame.step <= run.newest;
  run.newest = std::max(run.newest, frame.step);
  run.part = std::move(frame);
  run.part_line = lines;
}

void LogReader::State::take(Run& run, int number, const NamedLine& named) {
  const bool of_layer = named.fields.find("layer") && !named.fields.find("routers");
  if (run.part && !of_layer && !run.imported) add_part(run, number);
  TelemetryFrame frame = of_layer ? layer_frame_of(run, named.fields) : frame_of(run, named, run.imported->info());
  go_back(run, number, named, frame.step);
  place(run, number, std::move(frame), !of_layer);
  if (!of_layer) take_markers(run, named.fields);
}

// Takes the step in work as complete.
void LogReader::State::add_part(Run& run, int number) {
  if (!run.part) return;
  TelemetryFrame frame = std::move(*run.part);
  run.part.reset();
  if (run.joins) {
    const std::int64_t step = frame.step;
    if (!run.imported->join(std::move(frame)))
      bad.add(run.part_line, "step " + std::to_string(step) + ": too many steps came before these values of it");
    return;
  }
  sum_up(frame);
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
    held_bytes -= held.text.size();
    try {
      const NamedLine named = names.read(held_lines.parse(held.text));
      if (!run.imported) {
        const RunInfo info = info_from_first_step(run, named);
        open(run, number, info, frame_of(run, named, info).step);
      }
      take(run, number, named);
    } catch (const Unreadable& unreadable) {
      bad.add(held.line, unreadable.what());
    }
  }
}

void LogReader::State::step(Run& run, int number, const JsonFields& json) {
  if (is_closing(json)) return;
  const NamedLine named = names.read(json);
  const bool of_layer = named.fields.find("layer") && !named.fields.find("routers");
  if (run.imported || run.part || of_layer) return take(run, number, named);
  const RunInfo info = info_from_first_step(run, named);
  TelemetryFrame frame = frame_of(run, named, info);
  const bool no_load = info.moe_layers.empty() || (info.n_experts == 0 && !named.of_layers.empty());
  if (no_load && run.held.size() < kMaxHeld && held_bytes + line.size() <= kMaxHeldBytes) {
    held_bytes += line.size();
    run.held.push_back({lines, frame.step, std::string(line)});
    return;
  }
  const std::int64_t first_step = run.held.empty() ? frame.step : run.held.front().step;
  open(run, number, info, first_step);
  add_held_steps(run, number);
  take(run, number, named);
}

void LogReader::State::parse_line() {
  const JsonFields json = parser.parse(line);
  if (json.end() - json.begin() > kMostNames) throw Unreadable("more than 65536 names");
  const JsonValue* run_key = member(json, {"run"});
  const int number = run_key && run_key->is_number() ? to_index(*run_key, "run", 0, 1 << 20) : 0;
  if (!runs.contains(number) && runs.size() >= kMostRuns) throw Unreadable("run: more than 64 runs in one file");
  Run& run = runs[number];
  if (std::ranges::find(order, number) == order.end()) order.push_back(number);
  if (!names.has_step(json)) return describe(run, json);
  form = form == Form::unknown ? Form::json : form;
  // As many as can be shown are read: that there are more is known at the end, with all their names.
  if (!run.is_read)
    run.is_read =
        is_chosen(number) && static_cast<std::size_t>(place_of(number)) < std::min(options->most_runs, kMostRunsRead);
  if (*run.is_read) step(run, number, json);
}

LogReader::LogReader(std::string source, const ImportOptions& options)
    : state_(std::make_unique<State>(std::move(source), &options)) {}
LogReader::LogReader(std::string source) : state_(std::make_unique<State>(std::move(source), nullptr)) {
  state_->options = &state_->own_options;
}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

void LogReader::State::read_json(std::string_view json) {
  line = json;
  try {
    parse_line();
  } catch (const Unreadable& unreadable) {
    bad.add(lines, unreadable.what());
  }
}

// Until a line of JSON has a step: such lines, or what a program printed among its other output.
void LogReader::State::read_unknown(std::string_view read) {
  const std::int64_t bad_before = bad.count();
  read_json(read);
  if (form == Form::json || bad.count() == bad_before) return;
  text.read(read, [&](std::string_view json) {
    if (form != Form::text) bad = {};  // of lines that are no steps and need not be
    form = Form::text;
    read_json(json);
  });
}

void LogReader::read_line(std::string_view line) {
  State& state = *state_;
  if (++state.lines == 1) line = without_byte_order_mark(line);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (state.form == State::Form::unknown)
    state.read_unknown(line);
  else if (state.form == State::Form::json)
    state.read_json(line);
  else
    state.text.read(line, [&](std::string_view json) { state.read_json(json); });
}

void LogReader::refuse_line(std::string why) {
  state_->bad.add(++state_->lines, std::move(why));
}

void LogReader::finish_step() {
  for (auto& [number, run] : state_->runs) {
    state_->add_part(run, number);
    state_->add_held_steps(run, number);
    state_->add_part(run, number);
  }
}

std::vector<std::string> LogReader::run_names() const {
  std::vector<std::string> names;
  for (const int number : state_->order) {
    const State::Run& run = state_->runs.at(number);
    if (run.is_read) names.push_back(state_->name_of(number, run.stated));
  }
  return names;
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
std::vector<std::string> LogReader::remarks() const {
  std::vector<std::string> remarks = state_->remarks;
  const TextLogReader& text = state_->text;
  if (state_->form == State::Form::text) {
    remarks.push_back("read as " + std::string(text_log_name(*text.log())) + ": " + std::to_string(text.taken()) +
                      " of " + std::to_string(state_->lines) + " lines have figures of a step");
    if (text.of_other_ranks() > 0)
      remarks.push_back(std::to_string(text.of_other_ranks()) + " lines of other ranks are left out");
    if (text.is_numbered())
      remarks.push_back(
          "its lines have no step: they are numbered 1, 2, ... in their order (trainer_state.json has the steps)");
  }
  std::set<std::string> not_shown = state_->names.unknown();
  not_shown.insert(state_->router_names.unknown().begin(), state_->router_names.unknown().end());
  if (const std::string unknown = list_of_unknown(not_shown); !unknown.empty())
    remarks.push_back("not shown: " + unknown);
  return remarks;
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
  if (!reader.run_names().empty()) check_choice(path, reader.run_names(), options);
  Imported imported{reader.histories(), reader.lines(), reader.bad()};
  imported.remarks = reader.remarks();
  if (imported.runs.empty()) {
    const auto& bad = reader.first_bad_lines();
    throw std::runtime_error(
        path + ": holds no training step" +
        (bad.empty() ? std::string() : "; line " + std::to_string(bad[0].number) + ": " + bad[0].why));
  }
  return imported;
}

}  // namespace moescope
