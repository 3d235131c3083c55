// One model in training: batch -> forward -> loss -> backward -> clip -> expert_bias update -> AdamW -> frame.
//
// The semantics are those of TorchTitan's DeepSeek-V3 (torchtitan/models/deepseek_v3, components/optimizer); deviations
// are options. Results are bit-identical for any number of threads and ranks, because the config alone determines tiles
// and reduction orders. A trainer that is one of several ranks takes steps together with the others; only the frame of
// rank 0 has arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "core/model/non_finite.h"
#include "core/model/routing_flips.h"
#include "core/model/text/dataset.h"

namespace moescope {

// The complete state of a training between two steps; immutable, so that threads can share it.
struct TrainerSnapshot {
  RunConfig config;  // with live changes
  std::int64_t steps_taken = 0, tokens_seen = 0;
  std::vector<float> weights, moment1, moment2;   // Parameters' arenas
  std::vector<std::vector<float>> expert_bias;    // [MoE layer][E]
  std::vector<std::vector<float>> bias_momentum;  // [MoE layer][E]; a layer has no values unless the rule is smebu
  std::vector<LoadWindow> windows;                // per MoE layer
  std::vector<LoadPlanner> planners;              // per MoE layer
  // Counts since the last specialisation frame, per MoE layer (routed_texts.h); empty: no counts.
  std::vector<SpecialisationFrame> specialisation;

  std::size_t bytes() const {
    std::size_t values = weights.size() + moment1.size() + moment2.size();
    for (const SpecialisationFrame& counts : specialisation)
      values += counts.domain_DE.size() + counts.together_EE.size() + counts.byte_256E.size();
    return values * sizeof(float);
  }
  // Writes one safetensors file (trainer_checkpoint.cpp). Throws std::runtime_error.
  void save(const std::string& path) const;
};

// True if `step` is a multiple of an interval setting such as telemetry.quant_every; always false if that is 0.
inline bool is_due(std::int64_t step, int interval) {
  return interval > 0 && step % interval == 0;
}

class OperandTap;
class Ranks;
class Tokenizer;
struct OperandScan;

class Trainer {
 public:
  // `config` must have passed validate(), and check_ranks() if there are `ranks`, which must outlive the trainer.
  // Throws std::runtime_error if model.initial_weights cannot be read or is of another shape.
  explicit Trainer(const RunConfig& config, Ranks* ranks = nullptr);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // Takes one step on `batch`. The caller sets the frame's wall_s, run and tokens_per_s. If `tap` is given, it captures
  // its operand, and the frame has quantization statistics even if they are not due.
  TelemetryFrame step(const Batch& batch, OperandTap* tap = nullptr);
  // With config().router.replay: sets the experts of the next step's tokens, [MoE layer][T, K], as run A's routing()
  // returns them after that step. They must outlive the step and are forgotten after it; step() throws
  // std::runtime_error without them.
  void replay(const std::vector<std::vector<std::int32_t>>& experts);
  // Captures an operand of the next step on `batch` without taking the step. Runs a forward and a backward pass, which
  // affect only routing(): it then returns the routing of `batch`.
  void compute_ahead(const Batch& batch, OperandTap& tap);
  // Returns the routing of telemetry.probe with the present weights (routed_texts.h). Does not affect training.
  std::optional<TokenFrame> route_probe(const Tokenizer* tokenizer);

  // Returns the mean cross-entropy of `held_out` (batches like those of the steps) with the present weights and without
  // gate noise. Does not affect training; routing() then returns the routing of the last of these batches. Collective.
  float held_out_loss(const std::vector<Batch>& held_out);

  // Returns the effect of rounding one operand alone on a step on `batch` (operand_scan.h). Does not affect training.
  std::optional<OperandScan> scan_operands(const Batch& batch, std::optional<Recipe> recipe,
                                           const std::function<bool(int done, int total)>& progress);

  const RunConfig& config() const;  // includes live changes
  std::int64_t steps_taken() const;
  // Changes a live field. Throws std::invalid_argument if validate() refuses the value.
  void apply(const LiveChange& change);

  // Returns the place at which the first NaN or infinity of the last step arose (core/model/non_finite.h); nullopt if
  // all values are finite.
  std::optional<NonFinitePlace> first_non_finite() const;
  std::vector<LayerRouting> routing() const;  // of the last step; valid until the next pass

  // Writes a checkpoint: one safetensors file with weights, moments, expert_bias, counters and the config as TOML.
  // Collective like snapshot(); rank 0 writes the file.
  void save(const std::string& path) const;
  // Throws std::runtime_error if the file is not a checkpoint, is truncated, has a wrong checksum or another version,
  // or does not fit the number of ranks.
  static Trainer resume(const std::string& path, Ranks* ranks = nullptr);

  // Returns a checkpoint in memory: a copy of 12 bytes per parameter. Collective: ranks gather their experts; nullptr
  // on ranks other than 0.
  std::shared_ptr<const TrainerSnapshot> snapshot() const;
  void restore(const TrainerSnapshot& snapshot);  // of this trainer, or of one with the same model
  // Returns a trainer that continues from the snapshot with another config, which may differ in live keys and the name
  // only.
  static Trainer resume(const TrainerSnapshot& snapshot, const RunConfig& config);

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  TelemetryFrame take_step(const Batch& batch, OperandTap* tap);
  std::unique_ptr<State> state_;
};

// Throws std::runtime_error if the file is not a checkpoint of this version, or its checksum is wrong.
void check_checkpoint(const std::string& path);
// Returns the kernels that computed a checkpoint, as Kernels::text(). Throws std::runtime_error if it is not a
// checkpoint.
std::string checkpoint_kernels(const std::string& path);

RunInfo run_info(const RunConfig& config, int run, std::vector<std::string> domains = {});

}  // namespace moescope
