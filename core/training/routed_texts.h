// Texts that are routed for display: a probe, a sample that the model writes, a passage of the batch.
//
// Training is not affected: these passes have their own activations and random stream, and only read weights and
// expert_bias.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"
#include "core/model/text/dataset.h"

namespace moescope {

// True if `step` is a multiple of an interval setting, or the last step of the schedule: a finished run has texts and
// tables of its end. Always false if the interval is 0.
inline bool is_due_or_last(std::int64_t step, int interval, const RunConfig& config) {
  return interval > 0 && (step % interval == 0 || step + 1 == config.optimizer.total_steps);
}

class RoutedTexts {
 public:
  // True if the settings ask for a text after `step`.
  static bool due(const RunConfig& config, std::int64_t step);
  // Returns the texts that are due after `step`. The learner's last forward pass must have been that of `step` on
  // `batch`, and the update must be done. With ranks, call it on one of them, after all have called
  // Learner::gather_experts(). After a change of the probe or the temperature, texts are due immediately.
  std::vector<TokenFrame> collect(const Learner<float>& learner, const Batch& batch, std::int64_t step);
  // Returns the routing of telemetry.probe with the present weights; nullopt without a probe, MoE layers or
  // texts_every.
  std::optional<TokenFrame> probe(const Learner<float>& learner, const Tokenizer* tokenizer);

 private:
  // A model for texts of one shape, with the learner's weights and settings.
  struct Reader {
    RunConfig config;
    std::unique_ptr<Transformer<float>> model;
  };
  const Transformer<float>& read(Reader& reader, const Learner<float>& learner, std::span<const std::int32_t> ids,
                                 int length);
  TokenFrame sample(const Learner<float>& learner, const Tokenizer* tokenizer, std::string_view prompt,
                    std::int64_t step);

  Reader probe_reader_, sample_reader_;
  std::optional<std::string> last_probe_;  // probe in the config at the last step
  double last_temperature_ = 0;
};

// Counts over several batches how often each expert is chosen, by domain and by byte, and how often two experts are
// chosen for the same token. Legend: T tokens, E experts, K top_k, D domains of the data.
class SpecialisationCounter {
 public:
  // Adds the routing of the learner's last forward pass, which must have been on `batch`. Counts nothing if
  // telemetry.specialisation_every is 0.
  void add(const Batch& batch, const Learner<float>& learner);
  // Returns the counts since the last restart, per MoE layer, summed over `ranks`, and counts from 0 if it restarts.
  std::vector<SpecialisationFrame> take(Ranks* ranks, bool restarts);

  // For checkpoints: snapshot() returns the present counts, summed over `ranks`, without resetting them; empty if
  // nothing was counted. restore() gives all counts to rank 0.
  std::vector<SpecialisationFrame> snapshot(Ranks* ranks) const;
  void restore(std::vector<SpecialisationFrame> counts, Ranks* ranks);

 private:
  std::vector<SpecialisationFrame> counts_;  // together_EE: upper triangle only
};

}  // namespace moescope
