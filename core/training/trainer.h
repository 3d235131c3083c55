// One model in training: batch -> forward -> loss -> backward -> clip -> expert_bias update -> AdamW -> frame.
//
// Semantics: TorchTitan's DeepSeek-V3 (torchtitan/models/deepseek_v3, components/optimizer); departures are options.
// Bit-identical for any number of threads and ranks: tiles and reduction orders are fixed by the config alone.
// As one of several ranks a trainer takes the steps that all take; its frame has arrays on rank 0 only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/data/dataset.h"
#include "core/model/layer_routing.h"
#include "core/telemetry/frame/frame.h"
#include "core/training/trainer_snapshot.h"

namespace moescope {

class Ranks;

class OperandTap;

class Trainer {
 public:
  // The config passed validate(), and check_ranks() where there are `ranks`, which outlive this.
  explicit Trainer(const RunConfig& config, Ranks* ranks = nullptr);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // One step on `batch`; the frame's wall_s, run and tokens_per_s are the caller's.
  // `tap`, if given, takes its operand; the frame then has quantization statistics, whatever their cadence.
  TelemetryFrame step(const Batch& batch, OperandTap* tap = nullptr);
  // The same operand of the step to come on `batch`, which is not taken: a forward and a backward pass, after which all
  // is as before except routing(), which is that of `batch`.
  void compute_ahead(const Batch& batch, OperandTap& tap);

  const RunConfig& config() const;  // with live changes applied
  std::int64_t steps_taken() const;
  void apply(
      const LiveChange& change);  // a live field; throws std::invalid_argument on a value that validate() refuses

  std::vector<LayerRouting> routing() const;  // of the last step that was taken here, until the next

  // Checkpoint: one safetensors file with weights, moments, expert_bias, counters and the config as TOML.
  // Collective: ranks bring their experts together, and rank 0 writes.
  void save(const std::string& path) const;
  // What save() writes; nullptr on ranks other than 0. Collective, and the only part of it that is.
  std::shared_ptr<const TrainerSnapshot> gather() const;
  // Throws std::runtime_error: not ours, truncated, its bytes are not those that were written, other version, not for
  // so many ranks.
  static Trainer resume(const std::string& path, Ranks* ranks = nullptr);

  // The same in memory: a copy of 12 bytes per parameter.
  std::shared_ptr<const TrainerSnapshot> snapshot() const;
  void restore(const TrainerSnapshot& snapshot);  // of this trainer, or of one with the same model
  // A trainer that goes on from there with another config, of which only live keys and the name may differ.
  static Trainer resume(const TrainerSnapshot& snapshot, const RunConfig& config);

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Throws std::runtime_error: not a checkpoint of this version, or its bytes are not those that were written. Files of
// before they had a checksum pass.
void check_checkpoint(const std::string& path);
// By which it was computed, Kernels::text(); empty: of before they were stored. Throws std::runtime_error.
std::string checkpoint_kernels(const std::string& path);

RunInfo run_info(const RunConfig& config, int run, std::vector<std::string> domains = {});

}  // namespace moescope
