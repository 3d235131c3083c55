// Faults and quiet changes that are put into a run at a known step, for the regression gate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/findings/comparison/regression_gate.h"
#include "core/lessons/lesson.h"
#include "core/training/engine/engine.h"
#include "tests/support/engine_frames.h"

namespace moescope {

struct GateFault {
  std::string name;
  RunConfig right, wrong;  // equal: no fault
};

inline RunConfig with_setting(RunConfig config, const std::string& key, const std::string& value) {
  const ConfigField& field = *find_field(key);
  field.set(config, parse_value(field, value));
  return config;
}

inline RunConfig gate_config() {
  RunConfig config = load_preset("nano").config;
  config.telemetry.specialisation_every = config.telemetry.texts_every = 0;
  return config;
}

inline std::vector<GateFault> exhibits_as_faults() {
  std::vector<GateFault> faults;
  for (const std::string& name : exhibit_names()) {
    const Lesson exhibit = find_lesson(name).lesson;
    const RunConfig& right = exhibit.runs.at(0);
    for (std::size_t run = 1; run < exhibit.runs.size(); ++run)
      if (!is_noise_twin(right, exhibit.runs[run]))
        faults.push_back({exhibit.title + ": " + exhibit.runs[run].name, right, exhibit.runs[run]});
  }
  return faults;
}

// Changes that leave the loss nearly as it was, or that a person makes without saying so.
inline std::vector<GateFault> quiet_changes() {
  const std::pair<const char*, const char*> kChanges[] = {
      {"optimizer.lr", "2e-3"},
      {"optimizer.lr", "8e-3"},
      {"optimizer.router_lr_factor", "0.1"},
      {"optimizer.weight_decay", "1"},
      {"optimizer.warmup_steps", "1"},
      {"optimizer.warmup_steps", "100"},
      {"optimizer.beta2", "0.999"},
      {"optimizer.clip", "0.1"},
      {"optimizer.clip", "1000"},
      {"router.top_k", "1"},
      {"router.top_k", "3"},
      {"router.bias_update_rate", "0"},
      {"router.bias_update_rate", "0.0001"},
      {"router.bias_update_rate", "0.01"},
      {"router.bias_centring", "false"},
      {"router.pinned_bias", "1:0=0, 1:1=0, 1:2=0, 1:3=0, 1:4=0, 1:5=0, 1:6=0, 1:7=0"},
      {"router.aux_mode", "batch"},
      {"router.z_coeff", "0.01"},
      {"router.score_func", "softmax"},
      {"router.route_norm", "false"},
      {"router.route_scale", "2.5"},
      {"router.frozen", "true"},
      {"router.killed_experts", "1:3"},
      {"router.gate_noise", "1"},
      {"data.batch", "3"},
      {"data.microbatches", "2"},
      {"data.mixture", "prose=1"},
      {"precision.experts", "mxfp8_rceil"},
      {"precision.experts", "mxfp4"},
      {"precision.attention", "mxfp4"},
      {"precision.head", "mxfp4"},
      {"precision.router_gate", "bf16"},
      {"model.n_shared", "0"},
  };
  std::vector<GateFault> faults;
  for (const auto& [key, value] : kChanges) {
    const RunConfig right = gate_config();
    const std::string value_text = key == std::string("router.pinned_bias") ? "0 in layer 1" : value;
    faults.push_back({key + (" = " + value_text), right, with_setting(right, key, value)});
  }
  return faults;
}

// A fault is put in at a step only if all its settings may change in a run; else the run has it from its start.
inline bool is_live(const GateFault& fault) {
  const auto changes = difference(fault.right, fault.wrong);
  return std::ranges::all_of(changes, [](const ConfigDifference& change) { return change.setting.field().live; });
}

// By what equal runs differ: the seed, or with one seed a perturbation in the last place, so that they have equal
// batches and nearly equal first weights.
struct GateChance {
  std::int64_t seed = 0, perturbation = 0;
};

// Trains a run that has the fault from step `from` on; nullopt: never.
inline HistoryPtr train_with_fault(const GateFault& fault, GateChance chance, std::int64_t steps,
                                   std::optional<std::int64_t> from) {
  RunConfig config = from && !is_live(fault) ? fault.wrong : fault.right;
  config.seed = chance.seed;
  config.perturbation = chance.perturbation;
  config.name = "seed-" + std::to_string(chance.seed) + "-" + std::to_string(chance.perturbation);
  std::vector<Trainer> trainers;
  trainers.emplace_back(config);
  Engine engine(std::move(trainers));
  if (from && is_live(fault)) {
    train_until(engine, *from);
    for (const ConfigDifference& change : difference(fault.right, fault.wrong)) {
      const ConfigField& field = change.setting.field();
      engine.find(0)->apply({0, change.setting, parse_value(field, change.b)});
      if (change.setting == &DataConfig::mixture) engine.set_mixture(*from, change.b);
      engine.sink().publish(change_marker(0, *from, field.key, change.a, change.b));
    }
  }
  train_until(engine, steps);
  engine.sink().flush();
  return engine.histories().front();
}

}  // namespace moescope
