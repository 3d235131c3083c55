#include "core/telemetry/import_jsonl.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "core/telemetry/router_stats.h"

namespace moescope {

namespace {

using Json = nlohmann::json;

constexpr int kWindow = 50;  // steps of max_vio_window and dead_fraction
constexpr std::size_t kMostExperts = 65536, kMostLayers = 4096;
constexpr std::size_t kProgressLines = 64;

// What is wrong with a line.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Python writes NaN, Infinity and -Infinity, which JSON has not: outside of strings they become strings.
std::string with_quoted_non_numbers(std::string_view line) {
  std::string out;
  out.reserve(line.size() + 16);
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_string = !in_string;
    if (in_string && line[i] == '\\' && i + 1 < line.size()) out += line[i++];
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (in_string || line.substr(i, word.size()) != word) continue;
      out.append("\"").append(word).append("\"");
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (!replaced) out += line[i];
  }
  return out;
}

Json parse(std::string_view line) {
  const bool non_numbers =
      line.find("NaN") != std::string_view::npos || line.find("Infinity") != std::string_view::npos;
  Json json = non_numbers ? Json::parse(with_quoted_non_numbers(line), nullptr, false)
                          : Json::parse(line.begin(), line.end(), nullptr, false);
  if (json.is_discarded()) throw Unreadable("not JSON, or cut off");
  if (!json.is_object()) throw Unreadable("not an object");
  return json;
}

const Json* member(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = json.find(key);
    if (found != json.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

float to_float(const Json& value, const char* key) {
  if (value.is_null()) return kNoValue;
  if (value.is_number()) return static_cast<float>(value.get<double>());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN") return std::numeric_limits<float>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<float>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<float>::infinity();
  }
  throw Unreadable(std::string(key) + ": not a number");
}

std::int64_t to_count(const Json& value, const char* key, double limit) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= limit && number == std::floor(number))) {
    throw Unreadable(std::string(key) + ": not a whole number from 0 on");
  }
  return static_cast<std::int64_t>(number);
}

const Json& array_of(const Json& value, const char* key, std::size_t size, const char* of_what) {
  if (!value.is_array()) throw Unreadable(std::string(key) + ": not a list");
  if (size && value.size() != size) {
    throw Unreadable(std::string(key) + ": " + std::to_string(value.size()) + " " + of_what + ", not " +
                     std::to_string(size));
  }
  return value;
}

std::vector<std::uint32_t> to_counts(const Json& list, const char* key, std::size_t n_experts) {
  std::vector<std::uint32_t> counts;
  counts.reserve(n_experts);
  for (const Json& value : array_of(list, key, n_experts, "experts")) {
    counts.push_back(static_cast<std::uint32_t>(to_count(value, key, 4294967295.0)));
  }
  return counts;
}

std::vector<float> to_floats(const Json& list, const char* key, std::size_t size, const char* of_what) {
  std::vector<float> values;
  values.reserve(size);
  for (const Json& value : array_of(list, key, size, of_what)) values.push_back(to_float(value, key));
  return values;
}

// What the settings line tells. 0: not said.
struct Settings {
  std::string run;
  int layers = 0, top_k = 0, dim = 0;
  std::int64_t tokens = 0;
  float aux_coeff = kNoValue;
  std::vector<std::string> domains;
};

int setting(const Json& json, std::initializer_list<const char*> keys, double limit) {
  const Json* value = member(json, keys);
  return value ? static_cast<int>(to_count(*value, *keys.begin(), limit)) : 0;
}

Settings read_settings(const Json& json) {
  Settings settings;
  if (const Json* name = member(json, {"run", "name", "run_name"}); name && name->is_string()) settings.run = *name;
  settings.layers = setting(json, {"layers", "n_layers", "num_layers", "num_hidden_layers"}, kMostLayers);
  settings.top_k = setting(json, {"top_k", "topk", "num_experts_per_tok", "moe_router_topk"}, kMostExperts);
  settings.dim = setting(json, {"dim", "hidden_size", "d_model"}, 1e6);
  const int seq = setting(json, {"seq", "seq_len", "seq_length"}, 1e8);
  const int batch = setting(json, {"batch", "batch_size", "global_batch_size"}, 1e8);
  settings.tokens = std::int64_t{seq} * batch;
  if (const Json* tokens = member(json, {"tokens_per_step"})) settings.tokens = to_count(*tokens, "tokens", 1e12);
  if (const Json* coeff = member(json, {"aux_coeff"})) settings.aux_coeff = to_float(*coeff, "aux_coeff");
  if (const Json* domains = member(json, {"domains"}); domains && domains->is_array()) {
    for (const Json& domain : *domains) {
      if (domain.is_string()) settings.domains.push_back(domain);
    }
  }
  return settings;
}

}  // namespace

struct LogReader::State {
  std::string source;
  std::size_t budget;
  std::shared_ptr<History> history;
  std::optional<Settings> settings;
  RunInfo info;
  std::map<int, LoadWindow> windows;  // by layer
  std::int64_t lines = 0, steps = 0, bad = 0;
  std::int64_t last_step = -1, tokens = 0;
  std::vector<BadLine> first_bad;

  void understand(std::string_view line);
  void open(const Json& first_step);
  TelemetryFrame frame_of(const Json& json);
  void read_routers(const Json& json, TelemetryFrame& frame);
  void read_domains(const Json& json, TelemetryFrame& frame) const;
  void judge(RouterFrame& router, std::int64_t steps_since);
};

void LogReader::State::open(const Json& first_step) {
  const Settings known = settings.value_or(Settings{});
  std::size_t moe_layers = 0, n_experts = 0;
  if (const Json* load = member(first_step, {"tokens_per_expert"})) {
    moe_layers = array_of(*load, "tokens_per_expert", 0, "layers").size();
    if (moe_layers > kMostLayers) throw Unreadable("tokens_per_expert: too many layers");
    if (moe_layers) n_experts = array_of(load->front(), "tokens_per_expert", 0, "experts").size();
    if (n_experts > kMostExperts) throw Unreadable("tokens_per_expert: too many experts");
  }
  info.name = known.run.empty() ? std::filesystem::path(source).stem().string() : known.run;
  info.source = source;
  info.moe_layers.clear();
  info.n_layers = std::max(known.layers, static_cast<int>(moe_layers));
  for (std::size_t i = 0; i < moe_layers; ++i) {
    info.moe_layers.push_back(info.n_layers - static_cast<int>(moe_layers - i));
  }
  info.n_experts = static_cast<int>(n_experts);
  info.top_k = known.top_k;
  info.tokens_per_step = known.tokens;
  info.dim = known.dim;
  info.window = kWindow;
  info.domains = known.domains;
  history = std::make_shared<History>(info, budget);
}

void LogReader::State::judge(RouterFrame& router, std::int64_t steps_since) {
  router.max_vio = max_vio(router.tokens_per_expert);
  router.cv = coefficient_of_variation(router.tokens_per_expert);
  router.entropy_norm = entropy_norm(router.tokens_per_expert);
  router.padding_fraction = padding_fraction(router.tokens_per_expert, 32);
  LoadWindow& window = windows.try_emplace(router.layer, info.n_experts, kWindow).first->second;
  const std::vector<std::uint32_t> not_recorded(router.tokens_per_expert.size());
  for (std::int64_t i = 1; i < std::min<std::int64_t>(steps_since, kWindow); ++i) window.push(not_recorded);
  window.push(router.tokens_per_expert);
  router.max_vio_window = max_vio(window.counts());
  router.dead_fraction = dead_fraction(window.counts());
}

void LogReader::State::read_routers(const Json& json, TelemetryFrame& frame) {
  const std::size_t layers = info.moe_layers.size();
  const auto n_experts = static_cast<std::size_t>(info.n_experts);
  frame.routers.resize(layers);
  for (std::size_t i = 0; i < layers; ++i) frame.routers[i].layer = info.moe_layers[i];
  if (const Json* load = member(json, {"tokens_per_expert"})) {
    array_of(*load, "tokens_per_expert", layers, "layers");
    for (std::size_t i = 0; i < layers; ++i) {
      frame.routers[i].tokens_per_expert = to_counts((*load)[i], "tokens_per_expert", n_experts);
    }
  }
  if (const Json* bias = member(json, {"expert_bias"})) {
    array_of(*bias, "expert_bias", layers, "layers");
    for (std::size_t i = 0; i < layers; ++i) {
      frame.routers[i].expert_bias = to_floats((*bias)[i], "expert_bias", n_experts, "experts");
    }
  }
  const auto scalars = [&](const char* key, float RouterFrame::*field, float factor) {
    const Json* list = member(json, {key});
    if (!list || is_missing(factor)) return;
    const std::vector<float> values = to_floats(*list, key, layers, "layers");
    for (std::size_t i = 0; i < layers; ++i) {
      frame.routers[i].*field = is_missing(values[i]) ? kNoValue : factor * values[i];
    }
  };
  scalars("score_entropy", &RouterFrame::score_entropy, 1);
  scalars("margin", &RouterFrame::margin, 1);
  scalars("aux", &RouterFrame::aux_loss, settings ? settings->aux_coeff : kNoValue);
}

void LogReader::State::read_domains(const Json& json, TelemetryFrame& frame) const {
  const Json* table = member(json, {"domain_expert"});
  if (!table || info.domains.empty() || info.n_experts == 0) return;
  if (!table->is_object()) throw Unreadable("domain_expert: not an object of lists");
  SpecialisationFrame special;
  const Json* layer = member(json, {"domain_expert_layer"});
  if (!layer) throw Unreadable("domain_expert without domain_expert_layer");
  special.layer = static_cast<int>(to_count(*layer, "domain_expert_layer", kMostLayers));
  for (const std::string& domain : info.domains) {
    const auto found = table->find(domain);
    const auto counts = found == table->end()
                            ? std::vector<std::uint32_t>(static_cast<std::size_t>(info.n_experts))
                            : to_counts(*found, "domain_expert", static_cast<std::size_t>(info.n_experts));
    special.domain_DE.insert(special.domain_DE.end(), counts.begin(), counts.end());
  }
  frame.specialisation.push_back(std::move(special));
}

TelemetryFrame LogReader::State::frame_of(const Json& json) {
  TelemetryFrame frame;
  frame.step = to_count(*member(json, {"step"}), "step", 1e15);
  const auto scalar = [&](std::initializer_list<const char*> keys, float TelemetryFrame::*field) {
    if (const Json* value = member(json, keys)) frame.*field = to_float(*value, *keys.begin());
  };
  scalar({"loss", "ce_loss"}, &TelemetryFrame::ce_loss);
  scalar({"grad_norm"}, &TelemetryFrame::grad_norm);
  scalar({"lr"}, &TelemetryFrame::lr);
  scalar({"tokens_per_s"}, &TelemetryFrame::tokens_per_s);
  // What the log does not have is missing, not 0.
  frame.aux_loss = kNoValue;
  frame.z_loss = kNoValue;
  read_routers(json, frame);
  read_domains(json, frame);
  return frame;
}

void LogReader::State::understand(std::string_view line) {
  const Json json = parse(line);
  if (!member(json, {"step"})) {
    if (steps > 0) throw Unreadable("no step");
    if (settings) throw Unreadable("no step, and the settings came before");
    settings = read_settings(json);
    return;
  }
  if (steps == 0) open(json);  // anew where an unreadable first step had told it wrong
  TelemetryFrame frame = frame_of(json);
  if (frame.step <= last_step) windows.clear();  // it went back to a checkpoint
  float aux = 0;
  for (RouterFrame& router : frame.routers) {
    if (!router.tokens_per_expert.empty()) judge(router, frame.step - last_step);
    aux += router.aux_loss;
  }
  if (!frame.routers.empty() && !is_missing(frame.routers.front().aux_loss)) frame.aux_loss = aux;
  last_step = frame.step;
  frame.tokens = info.tokens_per_step * (frame.step + 1);
  history->append(std::make_shared<const TelemetryFrame>(std::move(frame)));
  ++steps;
}

LogReader::LogReader(std::string source, std::size_t array_budget_bytes) : state_(std::make_unique<State>()) {
  state_->source = std::move(source);
  state_->budget = array_budget_bytes;
}

LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

void LogReader::read_line(std::string_view line) {
  ++state_->lines;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const auto refuse = [&](const char* why) {
    ++state_->bad;
    if (state_->first_bad.size() < kKeptBadLines) state_->first_bad.push_back({state_->lines, why});
  };
  try {
    state_->understand(line);
  } catch (const Unreadable& unreadable) {
    refuse(unreadable.what());
  } catch (const Json::exception& unreadable) {
    refuse(unreadable.what());
  }
}

std::shared_ptr<History> LogReader::history() const {
  return state_->steps ? state_->history : nullptr;
}
std::int64_t LogReader::lines() const {
  return state_->lines;
}
std::int64_t LogReader::steps() const {
  return state_->steps;
}
std::int64_t LogReader::bad_lines() const {
  return state_->bad;
}
const std::vector<BadLine>& LogReader::first_bad_lines() const {
  return state_->first_bad;
}

ImportedLog import_jsonl(const std::string& path, const std::function<bool(double)>& progress,
                         std::size_t array_budget_bytes) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!file || error) throw std::runtime_error(path + ": cannot be read");
  LogReader reader(path, array_budget_bytes);
  std::string line;
  double read = 0;
  while (std::getline(file, line)) {
    reader.read_line(line);
    read += static_cast<double>(line.size() + 1);
    if (progress && reader.lines() % kProgressLines == 0 && !progress(read / static_cast<double>(size))) return {};
  }
  if (file.bad()) throw std::runtime_error(path + ": cannot be read to its end");
  if (!reader.history()) {
    const auto& bad = reader.first_bad_lines();
    throw std::runtime_error(
        path + ": holds no training step" +
        (bad.empty() ? std::string() : "; line " + std::to_string(bad[0].number) + ": " + bad[0].why));
  }
  if (reader.bad_lines() > 0) {
    const BadLine& first = reader.first_bad_lines().front();
    reader.history()->append(Marker{0, reader.history()->steps().last, "event",
                                    std::to_string(reader.bad_lines()) + " lines could not be read, the first: line " +
                                        std::to_string(first.number) + ": " + first.why});
  }
  return {reader.history(), reader.lines(), reader.bad_lines(), reader.first_bad_lines()};
}

}  // namespace moescope
