// Reads statistics of TransformerEngine's debug features (nvidia-dlfw-inspect); docs/logs.md, "TransformerEngine debug
// statistics", has the form. Source: TransformerEngine, transformer_engine/debug/features/.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/files/folder_walk.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/import.h"
#include "core/logs/log_readers.h"
#include "core/logs/restart_rule.h"
#include "core/logs/runs/log_record.h"
#include "core/numerics/number_format.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestStatistic = 65536;
constexpr const char* kStatisticsFolder = "nvdlfw_inspect_statistics_logs";
constexpr std::string_view kAnyFormat = "";  // statistics of the tensor before quantization

// cur_amax, min and max are all read as amax, which is the largest magnitude among them.
enum class Statistic { amax, mean, deviation, underflow, overflow, squared_error };

struct StatisticName {
  std::string_view name;
  Statistic statistic;
};
constexpr std::array<StatisticName, 8> kStatistics = {{{"underflows%", Statistic::underflow},
                                                       {"overflows%", Statistic::overflow},
                                                       {"mse", Statistic::squared_error},
                                                       {"cur_amax", Statistic::amax},
                                                       {"min", Statistic::amax},
                                                       {"max", Statistic::amax},
                                                       {"mean", Statistic::mean},
                                                       {"std", Statistic::deviation}}};

bool is_of_quantization(Statistic statistic) {  // the others are of the tensor before it
  return statistic >= Statistic::underflow;
}

// TransformerEngine's name of a tensor, and the GEMM that reads it.
struct TensorName {
  std::string_view name;
  OperandRole operand;
  Direction direction, columnwise;
};
constexpr std::array<TensorName, 3> kTensors = {{{"activation", OperandRole::x, Direction::forward, Direction::wgrad},
                                                 {"weight", OperandRole::w, Direction::forward, Direction::dgrad},
                                                 {"gradient", OperandRole::dy, Direction::dgrad, Direction::wgrad}}};

// TransformerEngine's name of a recipe, and its format; nullopt: that of the training, which the file does not name.
struct FormatName {
  std::string_view prefix;
  std::optional<OperandFormat> format;
};
constexpr OperandFormat kNvfp4OfTransformerEngine{
    .scheme = QuantScheme::nvfp4, .element = ElementFormat::e2m1, .nvfp4 = {.rule = Nvfp4Rule::transformer_engine}};
constexpr std::array<FormatName, 6> kFormats = {{{"fp8_delayed_scaling_", fp8_format(ScaleGranularity::tensor)},
                                                 {"fp8_current_scaling_", fp8_format(ScaleGranularity::tensor)},
                                                 {"fp8_block_scaling_", fp8_format(ScaleGranularity::block_1x128)},
                                                 {"mxfp8_", mx_format(ElementFormat::e4m3)},
                                                 {"nvfp4_", kNvfp4OfTransformerEngine},
                                                 {"", std::nullopt}}};

struct Reading {
  std::int64_t iteration = 0;
  OperandPlace place;
  Statistic statistic = Statistic::amax;
  std::string_view recipe = kAnyFormat;  // FormatName::prefix
  double value = 0;
};

struct PlaceOrder {
  bool operator()(const OperandPlace& a, const OperandPlace& b) const {
    return std::tuple(a.layer, a.gemm, a.operand, a.direction) < std::tuple(b.layer, b.gemm, b.operand, b.direction);
  }
};

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Returns layer and GEMM of a module: layer 3, w1 of the routed experts for "model.layers.3.mlp.experts.linear_fc1".
std::optional<OperandPlace> operand_place(std::string_view layer) {
  OperandPlace place{-1, Gemm::expert_w1, OperandRole::x, Direction::forward};
  if (const std::size_t digit = layer.find_first_of("0123456789"); digit != std::string_view::npos) {
    const auto [end, error] = std::from_chars(layer.data() + digit, layer.data() + layer.size(), place.layer);
    if (error != std::errc() || place.layer >= to_int(kMaxImportedLayers)) return std::nullopt;
  }
  const auto has = [&](std::string_view word) { return layer.find(word) != std::string_view::npos; };
  const bool shared = has("shared_expert"), routed = has("experts") && !shared;
  const auto block_gemm = [&](Gemm shared_gemm, Gemm expert_gemm, Gemm dense_gemm) {
    if (shared) return shared_gemm;
    return routed ? expert_gemm : dense_gemm;
  };
  if (has("fc1") || has("gate_up_proj") || has("gate_proj"))
    place.gemm = block_gemm(Gemm::shared_w1, Gemm::expert_w1, Gemm::dense_w1);
  else if (has("fc2") || has("down_proj"))
    place.gemm = block_gemm(Gemm::shared_w2, Gemm::expert_w2, Gemm::dense_w2);
  else if (has("up_proj"))
    place.gemm = block_gemm(Gemm::shared_w3, Gemm::expert_w3, Gemm::dense_w3);
  else if (has("qkv") || has("q_proj"))
    place.gemm = Gemm::wq;
  else if (has("proj"))
    place.gemm = Gemm::wo;
  else if (has("output_layer") || has("lm_head"))
    place.gemm = Gemm::output;
  else
    return std::nullopt;
  return place;
}

// Parses the name of a statistic. Returns nullopt if it is not shown, or if no GEMM reads the tensor.
std::optional<Reading> reading_of(std::string_view name) {
  Reading reading;
  const bool columnwise = take_suffix(name, "_columnwise");
  const auto statistic =
      std::ranges::find_if(kStatistics, [&](const StatisticName& known) { return take_suffix(name, known.name); });
  if (statistic == kStatistics.end()) return std::nullopt;
  reading.statistic = statistic->statistic;
  for (const TensorName& tensor : kTensors) {
    const std::size_t at = name.rfind('_' + std::string(tensor.name) + '_');
    if (at == std::string_view::npos) continue;
    const std::string_view recipe = name.substr(at + tensor.name.size() + 2);
    const auto format = std::ranges::find(kFormats, recipe, &FormatName::prefix);
    const auto place = operand_place(name.substr(0, at));
    const bool has_format = is_of_quantization(reading.statistic);
    if (format == kFormats.end() || !place || (!has_format && !recipe.empty())) return std::nullopt;
    reading.place = *place;
    reading.place.operand = tensor.operand;
    reading.place.direction = columnwise ? tensor.columnwise : tensor.direction;
    reading.recipe = has_format ? format->prefix : kAnyFormat;
    return reading;
  }
  return std::nullopt;
}

double number_in(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) throw Unreadable("no " + std::string(key.substr(0, key.size() - 1)));
  std::string_view text = line.substr(at + key.size());
  text = text.substr(0, text.find_first_of(" \t\r"));
  double value = 0;
  if (!read_number(text, value)) throw Unreadable(std::string(key) + ": not a number");
  return value;
}

class Statistics {
 public:
  void read_line(std::string_view line);  // throws Unreadable
  void end_rank();                        // to be called after the last line of each rank
  bool understood() const { return !recipes_.empty(); }
  const std::set<std::string>& passed_over() const { return passed_over_; }
  const std::map<std::int64_t, std::string>& restarts() const { return restarts_; }  // restart_text() by step
  // Adds a run for each recipe.
  void add_to(Imported& imported, const RunInfo& info, const ImportOptions& options) const;

 private:
  struct Mean {
    double sum = 0, largest = 0;  // `largest`: in magnitude
    int ranks = 0;
  };
  // Keys: statistic and recipe.
  using Values = std::map<std::pair<Statistic, std::string_view>, Mean>;
  static std::optional<double> value_of(const Values& values, Statistic statistic, std::string_view recipe);
  static QuantFrame quant_of(const OperandPlace& place, const Values& values, const Values& tensor_values,
                             const FormatName& format);

  using Steps = std::map<std::int64_t, std::map<OperandPlace, Values, PlaceOrder>>;

  Steps steps_, rank_steps_;  // `rank_steps_`: steps of the rank that is being read
  RestartRule rule_;          // restarts of this rank
  std::map<std::int64_t, std::string> restarts_;
  std::map<std::string, std::optional<Reading>> names_;
  std::set<std::string_view> recipes_;
  std::set<std::string> passed_over_;
};

void Statistics::read_line(std::string_view line) {
  constexpr std::string_view kBefore = "INFO - ";
  const std::size_t at = line.find(kBefore);
  if (at == std::string_view::npos || line.find("iteration=") == std::string_view::npos) return;  // a message
  line.remove_prefix(at + kBefore.size());
  const std::string name(line.substr(0, line.find(' ')));
  const auto [known, is_new] = names_.try_emplace(name);
  if (is_new) known->second = reading_of(name);
  if (!known->second) {
    if (passed_over_.size() < 1000) passed_over_.insert(name);
    return;
  }
  Reading reading = *known->second;
  const double iteration = number_in(line, "iteration=");
  if (!(iteration >= 0) || iteration > kLastStep) throw Unreadable("iteration: not from 0 on");
  reading.iteration = static_cast<std::int64_t>(iteration);
  reading.value = number_in(line, "value=");
  if (is_of_quantization(reading.statistic)) recipes_.insert(reading.recipe);
  if (const auto restart = rule_.take(name, reading.iteration)) {
    rank_steps_.erase(rank_steps_.lower_bound(restart->step), rank_steps_.end());
    restarts_.emplace(restart->step, restart_text(*restart));
  }
  Mean& mean = rank_steps_[reading.iteration][reading.place][{reading.statistic, reading.recipe}];
  mean = {reading.value, std::max(mean.largest, std::abs(reading.value)), 1};  // min and max are one statistic
}

void Statistics::end_rank() {
  for (const auto& [step, places] : rank_steps_)
    for (const auto& [place, values] : places)
      for (const auto& [key, value] : values) {
        Mean& mean = steps_[step][place][key];
        mean.sum += value.sum;
        mean.largest = std::max(mean.largest, value.largest);
        ++mean.ranks;
      }
  rank_steps_.clear();
  rule_ = {};
}

std::optional<double> Statistics::value_of(const Values& values, Statistic statistic, std::string_view recipe) {
  const auto found = values.find({statistic, recipe});
  if (found == values.end()) return std::nullopt;
  const Mean& mean = found->second;
  return statistic == Statistic::amax ? mean.largest : mean.sum / mean.ranks;
}

// `tensor_values`: statistics of the tensor before quantization, from any GEMM.
QuantFrame Statistics::quant_of(const OperandPlace& place, const Values& values, const Values& tensor_values,
                                const FormatName& format) {
  const auto tensor = [&](Statistic statistic) { return value_of(tensor_values, statistic, kAnyFormat); };
  const auto quant = [&](Statistic statistic) { return value_of(values, statistic, format.prefix); };
  QuantFrame frame;
  static_cast<OperandPlace&>(frame) = place;
  frame.format = format.format ? quant_format(*format.format) : quant_format(traits(ElementFormat::e4m3).name);
  if (const auto amax = tensor(Statistic::amax)) frame.amax = static_cast<float>(*amax);
  if (const auto share = quant(Statistic::underflow)) frame.underflow = static_cast<float>(*share / 100);
  if (const auto share = quant(Statistic::overflow)) frame.clipped = static_cast<float>(*share / 100);
  const auto error = quant(Statistic::squared_error), mean = tensor(Statistic::mean),
             deviation = tensor(Statistic::deviation);
  if (error && mean && deviation)
    frame.sqnr_db = static_cast<float>(10 * std::log10((*mean * *mean + *deviation * *deviation) / *error));
  return frame;
}

void Statistics::add_to(Imported& imported, const RunInfo& stated_info, const ImportOptions& options) const {
  for (const FormatName& format : kFormats) {
    if (!recipes_.contains(format.prefix)) continue;
    RunInfo info = stated_info;
    info.run = options.run + to_int(imported.runs.size());
    if (recipes_.size() > 1)
      info.name += " " + (format.prefix.empty() ? std::string("in use")
                                                : std::string(format.prefix.substr(0, format.prefix.size() - 1)));
    for (const auto& [step, places] : steps_)
      for (const auto& [place, values] : places) info.n_layers = std::max(info.n_layers, place.layer + 1);
    ImportedRun run(std::move(info), options);
    for (const auto& [step, places] : steps_) {
      TelemetryFrame frame;
      frame.step = step;
      frame.aux_loss = frame.z_loss = kNoValue;
      for (const auto& [place, values] : places) {
        const bool quantized = std::ranges::any_of(values, [&](const auto& value) {
          return value.first.second == format.prefix && is_of_quantization(value.first.first);
        });
        OperandPlace tensor = place;
        tensor.direction = place.operand == OperandRole::dy ? Direction::dgrad : Direction::forward;
        const auto found = places.find(tensor);
        if (quantized)
          frame.quants.push_back(quant_of(place, values, found == places.end() ? Values{} : found->second, format));
      }
      if (!frame.quants.empty()) run.add(std::move(frame));
    }
    imported.runs.push_back(run.history());
  }
}

std::vector<fs::path> statistics_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  const fs::path inside = path / kStatisticsFolder;
  return files_in(fs::is_directory(inside) && !leads_out_of(path, inside) ? inside : path, is_te_statistics_name);
}

}  // namespace

bool is_te_statistics_name(std::string_view file_name) {
  return file_name.starts_with("nvdlfw_inspect_globalrank-") && file_name.ends_with(".log");
}

bool is_te_statistics_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder / kStatisticsFolder, error) && !leads_out_of(folder, folder / kStatisticsFolder))
    return true;
  if (folder.filename() != kStatisticsFolder && folder.parent_path().filename() != kStatisticsFolder) return false;
  return !statistics_files(folder).empty();
}

Imported import_te_statistics(const std::string& path, const ImportOptions& options) {
  Imported imported;
  Statistics statistics;
  const auto read_line = [&](std::string_view line) { statistics.read_line(line); };
  const std::vector<fs::path> ranks = statistics_files(path);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ImportOptions rank_options = options;
    if (options.progress)
      rank_options.progress = [&](double share) { return options.progress((rank + share) / ranks.size()); };
    if (!take_lines({ranks[rank]}, kLongestStatistic, read_line, rank_options, imported)) return {};
    statistics.end_rank();
  }
  for (const auto& [step, text] : statistics.restarts()) imported.remarks.push_back(text);
  if (!statistics.understood()) {
    std::string other_names;
    for (const std::string& name : statistics.passed_over())
      if (other_names.size() < 300) other_names += (other_names.empty() ? ", but " : ", ") + printable(name);
    refuse(path, "holds no underflows%, overflows% or mse of a GEMM's operand" + other_names + imported.bad.also());
  }
  RunInfo info;
  info.name = "TransformerEngine";
  info.source = path;
  statistics.add_to(imported, info, options);
  if (options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
