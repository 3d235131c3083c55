// Texts that are routed for display: a probe, a sample that the model writes, a passage of the batch.
//
// Training is not affected: passes use their own activations and random stream, and only read weights and expert_bias.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"
#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

class RoutedTexts {
 public:
  // Whether the settings ask for any texts after `step`.
  static bool due(const TelemetryConfig& config, std::int64_t step);
  // With ranks, call it on one of them, after Learner::gather_experts() on all. Returns the texts that are due after
  // `step`, whose forward pass was on `batch` and whose update is done. After an edit of the probe or the temperature
  // they are due at once.
  std::vector<TokenFrame> collect(const Learner<float>& learner, const Batch& batch, std::int64_t step);

 private:
  // A model for texts of one shape over the learner's weights, with the learner's settings.
  struct Reader {
    RunConfig config;
    std::unique_ptr<Transformer<float>> model;
  };
  const Transformer<float>& read(Reader& reader, const Learner<float>& learner, std::string_view text, int length);
  TokenFrame probe(const Learner<float>& learner, const std::string& text);
  TokenFrame sample(const Learner<float>& learner, std::string_view prompt, std::int64_t step);

  Reader probe_reader_, sample_reader_;
  std::optional<std::string> last_probe_;  // as in the config at the last step
  double last_temperature_ = 0;
};

// Loss and routing of the first bytes (at most 256) of one sequence of the batch, from the learner's last forward pass.
// This rank must hold that sequence.
TokenFrame batch_passage(const Learner<float>& learner, const Batch& batch, int sequence);

}  // namespace moescope
