// Texts that are routed for show: a probe, a sample that the model writes, a passage of the batch.
//
// The training is not touched: passes go through activations of their own, draw from a random stream of their own, and
// only read weights and expert_bias.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"
#include "core/model/learner.h"
#include "core/telemetry/frame/frame.h"

namespace moescope {

class RoutedTexts {
 public:
  // Whether collect() will have any after `step`, as far as the settings say.
  static bool due(const TelemetryConfig& config, std::int64_t step);
  // Among ranks this is one's alone, after all have brought their experts together: Learner::gather_experts().
  // Those due after `step`, whose update has been made; its forward pass was on `batch`. A probe that was edited, or
  // another temperature, is due at once.
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

// Loss and routing of the first bytes (at most 256) of one sequence of the batch that `learner` has just passed
// through; of those that it held.
TokenFrame batch_passage(const Learner<float>& learner, const Batch& batch, int sequence);

}  // namespace moescope
