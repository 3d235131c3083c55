// One model in training: batch -> forward -> loss -> backward -> clip -> expert_bias update -> AdamW -> frame.
//
// Semantics: TorchTitan's DeepSeek-V3 (torchtitan/models/deepseek_v3, components/optimizer); departures are options.
// Bit-identical for any number of threads and ranks: tiles and reduction orders are fixed by the config alone.
// As one of several ranks a trainer takes the steps that all take; its frame has arrays on rank 0 only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/data/dataset.h"
#include "core/frame/frame.h"
#include "core/model/layer_routing.h"
#include "core/training/trainer_snapshot.h"

namespace moescope {

// Of settings that say how often, such as telemetry.quant_every; 0: never.
inline bool is_due(std::int64_t step, int every) {
  return every > 0 && step % every == 0;
}

class Ranks;

class OperandTap;
struct OperandScan;

class Trainer {
 public:
  // Requires a config that passed validate(), and check_ranks() if there are `ranks`, which must outlive the trainer.
  explicit Trainer(const RunConfig& config, Ranks* ranks = nullptr);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // One step on `batch`; the frame's wall_s, run and tokens_per_s are the caller's. `tap`, if given, captures its
  // operand; the frame then has quantization statistics, whatever their cadence.
  TelemetryFrame step(const Batch& batch, OperandTap* tap = nullptr);
  // Where config().router.replay: the experts of the next step's tokens, [MoE layer][T, K] as run A's routing() has
  // them after that step. They must outlive the step, which without them throws std::runtime_error. Forgotten after it.
  void replay(const std::vector<std::vector<std::int32_t>>& experts);
  // Captures an operand of the next step on `batch` without taking the step: a forward and a backward pass that change
  // nothing except routing(), which is then that of `batch`.
  void compute_ahead(const Batch& batch, OperandTap& tap);

  // Mean cross-entropy of batches like those of the steps, by the present weights and without gate noise. Nothing of
  // the training changes; routing() is that of the last of them. Collective.
  float held_out_loss(const std::vector<Batch>& held_out);

  // What rounding one operand alone would do to a step on `batch` (operand_scan.h). Nothing of the training changes.
  std::optional<OperandScan> scan_operands(const Batch& batch, std::optional<Recipe> recipe,
                                           const std::function<bool(int done, int of)>& progress);

  const RunConfig& config() const;  // with live changes applied
  std::int64_t steps_taken() const;
  void apply(
      const LiveChange& change);  // a live field; throws std::invalid_argument on a value that validate() refuses

  std::vector<LayerRouting> routing() const;  // of the last step, until the next one

  // Checkpoint: one safetensors file with weights, moments, expert_bias, counters and the config as TOML. Collective:
  // ranks gather their experts, and rank 0 writes.
  void save(const std::string& path) const;
  // What save() writes; nullptr on ranks other than 0. The only collective part of it.
  std::shared_ptr<const TrainerSnapshot> gather() const;
  // Throws std::runtime_error: not a checkpoint, truncated, wrong checksum, another version, unfit for so many ranks.
  static Trainer resume(const std::string& path, Ranks* ranks = nullptr);

  // The same in memory: a copy of 12 bytes per parameter.
  std::shared_ptr<const TrainerSnapshot> snapshot() const;
  void restore(const TrainerSnapshot& snapshot);  // from this trainer, or one with the same model
  // A trainer that continues from the snapshot with another config, which may differ in live keys and the name only.
  static Trainer resume(const TrainerSnapshot& snapshot, const RunConfig& config);

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  TelemetryFrame take_step(const Batch& batch, OperandTap* tap);
  std::unique_ptr<State> state_;
};

// Throws std::runtime_error: not a checkpoint of this version, or wrong checksum.
void check_checkpoint(const std::string& path);
// The kernels that computed a checkpoint, as Kernels::text(). Throws std::runtime_error: not a checkpoint.
std::string checkpoint_kernels(const std::string& path);

RunInfo run_info(const RunConfig& config, int run, std::vector<std::string> domains = {});

}  // namespace moescope
