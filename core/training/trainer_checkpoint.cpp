// Checkpoint file: safetensors.
//
//   metadata  moescope_checkpoint  version of this layout: 1
//             crc32                checksum of all bytes of the file (checkpoint_folder.h)
//             kernels              kernels that computed the state (core/numerics/processor.h)
//             config               the run config with live changes, TOML
//             steps_taken, tokens_seen
//   tensors   NAME, moment1.NAME, moment2.NAME  F32, every weight with AdamW's moments
//             layers.I.moe.expert_bias          F32 [E]
//             layers.I.moe.bias_momentum        F32 [E], of the rule smebu; absent if empty
//             window.layers.I                   U32 [steps, E], tokens_per_expert of the last steps, oldest first
//             placement.layers.I.LOAD           U64 [E], LOAD: planned_of, since (core/cluster/ranks/placement.h);
//             absent
//                                               if empty
//             specialisation.layers.I.TABLE     U32, TABLE: domain [D, E], together [E, E], byte [256, E] (absent where
//                                               tokens are not bytes); counts since the last frame with
//                                               specialisation; absent if there are none
// The file needs no further state, because initial weights and batches are pure functions of the config and the step.
#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <span>

#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/numerics/processor.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/trainer.h"
#include "core/training/trainer_state.h"

namespace moescope {
namespace {

constexpr const char* kVersionKey = "moescope_checkpoint";
constexpr const char* kKernelsKey = "kernels";
constexpr const char* kVersion = "1";

struct SavedArena {
  const char* prefix;
  std::span<float> Parameters<float>::*arena;
  std::vector<float> TrainerSnapshot::*values;
};
constexpr SavedArena kArenas[] = {{"", &Parameters<float>::weights, &TrainerSnapshot::weights},
                                  {"moment1.", &Parameters<float>::moment1, &TrainerSnapshot::moment1},
                                  {"moment2.", &Parameters<float>::moment2, &TrainerSnapshot::moment2}};

struct SavedTable {
  const char* name;
  std::vector<std::uint32_t> SpecialisationFrame::*table;
};
constexpr SavedTable kTables[] = {{"domain", &SpecialisationFrame::domain_DE},
                                  {"together", &SpecialisationFrame::together_EE},
                                  {"byte", &SpecialisationFrame::byte_256E}};

std::string layer_name(const RunConfig& config, std::size_t moe) {
  return fmt::format("layers.{}", config.model.n_dense_layers + moe);
}

std::string table_name(const RunConfig& config, std::size_t moe, const SavedTable& saved) {
  return std::string("specialisation.").append(layer_name(config, moe)).append(".").append(saved.name);
}

const std::string& meta(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    refuse(file.path(), "not a MoEScope checkpoint: its metadata has no \"" + key + "\"");
  return found->second;
}

std::int64_t meta_count(const SafetensorsFile& file, const std::string& key) {
  const std::string text = meta(file, key);
  std::int64_t value = -1;
  if (!read_number(text, value) || value < 0)
    refuse(file.path(), "damaged checkpoint: " + key + " is \"" + text + "\"; allowed: whole numbers from 0");
  return value;
}

// Throws std::runtime_error if the version or the checksum is wrong.
void check_file(const SafetensorsFile& file) {
  const std::string version = meta(file, kVersionKey);
  if (version != kVersion)
    refuse(file.path(), "checkpoint of version \"" + version + "\"; this program reads version " + kVersion);
  require_checksum(file.path());
}

RunConfig saved_config(const SafetensorsFile& file) {
  const ParsedConfig parsed = parse_config(meta(file, "config"), file.path() + " (config)");
  if (!parsed.problems.empty())
    refuse(file.path(), "damaged checkpoint: its config cannot be used:\n  " +
                            joined(parsed.problems, "\n  ", &ConfigProblem::text));
  return parsed.config;
}

std::string shape_text(std::span<const std::size_t> shape) {
  return '[' + joined(shape, ", ", [](std::size_t extent) { return std::to_string(extent); }) + ']';
}

const TensorView& checked_tensor(const SafetensorsFile& file, const std::string& name, DType dtype,
                                 const std::vector<std::size_t>& shape) {
  const TensorView* view = file.find(name);
  if (!view) refuse(file.path(), "damaged checkpoint: it has no tensor \"" + name + "\"");
  if (view->dtype != dtype || view->shape != shape)
    refuse(file.path(), "damaged checkpoint: " + name + " is " + dtype_name(view->dtype) + " " +
                            shape_text(view->shape) + ", expected " + dtype_name(dtype) + " " + shape_text(shape));
  return *view;
}

template <class V>
std::vector<V> raw_values(const TensorView& view) {
  std::vector<V> values(view.elements());
  view.copy_bytes(reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// Checks shapes before memory of the model's size is allocated, because a damaged config can claim any size.
void check_tensors(const SafetensorsFile& file, const ModelConfig& model) {
  std::size_t arena_size = 0;
  for (const ParameterTensor& tensor : parameter_layout(model, arena_size))
    for (const SavedArena& saved : kArenas) checked_tensor(file, saved.prefix + tensor.name, DType::f32, tensor.shape);
}

void load_window(const SafetensorsFile& file, const std::string& name, int n_experts, LoadWindow& window) {
  const TensorView* view = file.find(name);
  const std::size_t experts = n_experts;
  if (!view || view->dtype != DType::u32 || view->shape.size() != 2 || view->shape[1] != experts)
    refuse(file.path(), fmt::format("damaged checkpoint: {} must be U32 [steps, {}]", name, n_experts));
  const std::vector<std::uint32_t> counts = raw_values<std::uint32_t>(*view);
  for (std::size_t at = 0; at < counts.size(); at += experts) window.push({counts.data() + at, experts});
}

struct SavedLoad {
  const char* name;
  std::vector<std::uint64_t> LoadPlanner::*load;
};
constexpr SavedLoad kLoads[] = {{"planned_of", &LoadPlanner::planned_of}, {"since", &LoadPlanner::load_since_plan}};

std::string load_name(const RunConfig& config, std::size_t moe, const SavedLoad& saved) {
  return std::string("placement.").append(layer_name(config, moe)).append(".").append(saved.name);
}

void load_planner(const SafetensorsFile& file, const RunConfig& config, std::size_t moe, LoadPlanner& planner) {
  for (const SavedLoad& saved : kLoads)
    if (const std::string name = load_name(config, moe, saved); file.find(name))
      planner.*saved.load = raw_values<std::uint64_t>(
          checked_tensor(file, name, DType::u64, {static_cast<std::size_t>(config.model.n_experts)}));
}

// Returns the number of rows of a table; 0: any number.
std::size_t rows_of(const SavedTable& saved, std::size_t experts) {
  if (saved.table == &SpecialisationFrame::domain_DE) return 0;
  return saved.table == &SpecialisationFrame::byte_256E ? 256 : experts;
}

// Returns the counts of each MoE layer; empty if the file has no counts.
std::vector<SpecialisationFrame> load_specialisation(const SafetensorsFile& file, const RunConfig& config) {
  const std::size_t experts = config.model.n_experts;
  std::vector<SpecialisationFrame> counts(config.model.n_layers - config.model.n_dense_layers);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i].layer = config.model.n_dense_layers + to_int(i);
    counts[i].experts = config.model.n_experts;
    for (const SavedTable& saved : kTables) {
      if (saved.table == &SpecialisationFrame::byte_256E && !config.reads_bytes()) continue;
      const std::string name = table_name(config, i, saved);
      const TensorView* view = file.find(name);
      if (!view && i == 0 && &saved == kTables) return {};
      std::size_t rows = rows_of(saved, experts);
      if (rows == 0 && view && view->shape.size() == 2)
        rows = i == 0 ? view->shape[0] : counts[0].domain_DE.size() / experts;
      counts[i].*saved.table = raw_values<std::uint32_t>(checked_tensor(file, name, DType::u32, {rows, experts}));
    }
  }
  return counts;
}

}  // namespace

void TrainerSnapshot::save(const std::string& path) const {
  std::size_t arena_size = 0;
  const std::vector<ParameterTensor> tensors = parameter_layout(config.model, arena_size);
  SafetensorsWriter writer;
  writer.set_metadata(kVersionKey, kVersion);
  writer.set_metadata(kChecksumKey, kChecksumToCome);
  writer.set_metadata(kKernelsKey, kernels_text(config.portable));
  writer.set_metadata("config", to_toml(config));
  writer.set_metadata("steps_taken", std::to_string(steps_taken));
  writer.set_metadata("tokens_seen", std::to_string(tokens_seen));
  for (const SavedArena& saved : kArenas)
    for (const ParameterTensor& tensor : tensors) {
      const std::vector<float> values = gather_tensor<float>(tensor, this->*saved.values);
      writer.add(saved.prefix + tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(values)));
    }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto& bias = expert_bias[i];
    writer.add(layer_name(config, i) + ".moe.expert_bias", DType::f32, {bias.size()}, std::as_bytes(std::span(bias)));
    if (const auto& momentum = bias_momentum[i]; !momentum.empty())
      writer.add(layer_name(config, i) + ".moe.bias_momentum", DType::f32, {momentum.size()},
                 std::as_bytes(std::span(momentum)));
    std::vector<std::uint32_t> counts;
    for (int step = 0; step < windows[i].steps(); ++step) {
      const auto row = windows[i].step(step);
      counts.insert(counts.end(), row.begin(), row.end());
    }
    writer.add("window." + layer_name(config, i), DType::u32,
               {static_cast<std::size_t>(windows[i].steps()), bias.size()}, std::as_bytes(std::span(counts)));
    for (const SavedLoad& saved : kLoads)
      if (const auto& load = planners[i].*saved.load; !load.empty())
        writer.add(load_name(config, i, saved), DType::u64, {load.size()}, std::as_bytes(std::span(load)));
  }
  const std::size_t experts = config.model.n_experts;
  for (std::size_t i = 0; i < specialisation.size(); ++i)
    for (const SavedTable& saved : kTables) {
      const auto& table = specialisation[i].*saved.table;
      if (table.empty()) continue;
      writer.add(table_name(config, i, saved), DType::u32, {table.size() / experts, experts},
                 std::as_bytes(std::span(table)));
    }
  writer.write(path);
  write_checksum(path);
}

void Trainer::save(const std::string& path) const {
  if (const auto current = snapshot()) current->save(path);
}

std::shared_ptr<const TrainerSnapshot> Trainer::snapshot() const {
  Learner<float>& learner = state_->learner;
  learner.gather_experts();
  std::vector<SpecialisationFrame> counts = state_->specialisation.snapshot(learner.ranks());
  if (learner.ranks() && learner.ranks()->rank() != 0) return nullptr;
  auto result = std::make_shared<TrainerSnapshot>();
  result->config = learner.config;
  result->steps_taken = learner.steps_taken;
  result->tokens_seen = state_->tokens_seen;
  for (const SavedArena& saved : kArenas) {
    const std::span<const float> arena = learner.parameters.*saved.arena;
    ((*result).*saved.values).assign(arena.begin(), arena.end());
  }
  result->expert_bias = learner.expert_bias;
  result->bias_momentum = learner.bias_momentum;
  result->windows = state_->windows;
  result->planners = state_->planners;
  result->specialisation = std::move(counts);
  return result;
}

void Trainer::restore(const TrainerSnapshot& snapshot) {
  State& s = *state_;
  s.learner.config = snapshot.config;
  s.learner.steps_taken = snapshot.steps_taken;
  s.tokens_seen = snapshot.tokens_seen;
  for (const SavedArena& saved : kArenas) {
    const std::vector<float>& values = snapshot.*saved.values;
    assert(values.size() == s.learner.parameters.size());
    std::ranges::copy(values, (s.learner.parameters.*saved.arena).begin());
  }
  s.learner.expert_bias = snapshot.expert_bias;
  s.learner.bias_momentum = snapshot.bias_momentum;
  s.windows = snapshot.windows;
  s.planners = snapshot.planners;
  s.specialisation.restore(snapshot.specialisation, s.learner.ranks());
}

Trainer Trainer::resume(const TrainerSnapshot& snapshot, const RunConfig& config) {
  Trainer trainer(std::make_unique<State>(config, Weights::zero, nullptr));
  trainer.restore(snapshot);
  trainer.state_->learner.config = config;
  if (config.parallel.placement != snapshot.config.parallel.placement)
    trainer.state_->planners.assign(snapshot.planners.size(), {});
  return trainer;
}

std::string checkpoint_kernels(const std::string& path) {
  return meta(SafetensorsFile(path), kKernelsKey);
}

void check_checkpoint(const std::string& path) {
  check_file(SafetensorsFile(path));
}

Trainer Trainer::resume(const std::string& path, Ranks* ranks) {
  const SafetensorsFile file(path);
  check_file(file);
  RunConfig config = saved_config(file);
  if (ranks) {
    check_ranks(config, ranks->size());
    // The ranks may differ from the saved ones, which has no effect on training.
    config.parallel = {ranks->size(), ranks->ranks_per_node()};
  }
  check_tensors(file, config.model);
  auto state = std::make_unique<State>(config, Weights::zero, ranks);
  Learner<float>& learner = state->learner;
  for (const SavedArena& saved : kArenas)
    for (const ParameterTensor& tensor : learner.parameters.tensors()) {
      const TensorView view = checked_tensor(file, saved.prefix + tensor.name, DType::f32, tensor.shape);
      learner.parameters.scatter(tensor, raw_values<float>(view), learner.parameters.*saved.arena);
    }
  for (std::size_t i = 0; i < state->windows.size(); ++i) {
    auto& bias = learner.expert_bias[i];
    bias = raw_values<float>(
        checked_tensor(file, layer_name(learner.config, i) + ".moe.expert_bias", DType::f32, {bias.size()}));
    if (const std::string name = layer_name(learner.config, i) + ".moe.bias_momentum"; file.find(name))
      learner.bias_momentum[i] = raw_values<float>(checked_tensor(file, name, DType::f32, {bias.size()}));
    load_window(file, "window." + layer_name(learner.config, i), learner.config.model.n_experts, state->windows[i]);
    load_planner(file, learner.config, i, state->planners[i]);
  }
  learner.steps_taken = meta_count(file, "steps_taken");
  state->tokens_seen = meta_count(file, "tokens_seen");
  state->specialisation.restore(load_specialisation(file, learner.config), ranks);
  return Trainer(std::move(state));
}

}  // namespace moescope
