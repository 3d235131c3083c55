// Log-probabilities of the same tokens by a trainer and by an inference engine, as reinforcement learning keeps them.
//
//   verl    a batch of tensors [sequences, tokens], .pt, .safetensors or .npz: rollout_log_probs (engine),
//           old_log_probs (trainer), response_mask
//   slime   JSON with lists: rollout_log_probs (engine), log_probs (trainer), loss_mask
//   AReaL   logprobs (engine), prox_logp (trainer), loss_mask
//   vLLM    responses with logprobs.token_logprobs, or logprobs.content[].logprob
//   SGLang  responses with meta_info.output_token_logprobs: [[log-probability, id, text], ...]
//   .npy    one array [tokens] or [sequences, tokens]
// JSON: an object, a list of objects, or one object per line; each list of numbers is a sequence. Sources: verl
// utils/debug/metrics.py, slime backends/megatron_utils/loss.py, AReaL pull request 1207.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/numerics/statistics/divergence.h"

namespace moescope {

struct LogProbSequence {
  std::vector<float> values;       // [tokens] ln of the token's probability, at most 0
  std::vector<std::uint8_t> mask;  // [tokens] 1: counts; empty: all count
};

struct LogProbs {
  std::vector<LogProbSequence> engine, trainer;
  std::vector<LogProbSequence> unnamed;  // under a name that both sides use: of an array, a response, or `log_probs`
};

// Throws std::runtime_error with the path: no log-probabilities, values above 0, lists of several lengths.
LogProbs read_log_probs(const std::string& path);
LogProbs log_probs_in(std::string_view json);  // of a JSON text; throws Unreadable

// p is the trainer's, q the engine's. Of `trainer` the trainer's or unnamed sequences, of `engine` the engine's or
// unnamed ones; sequence i is compared with sequence i. A token counts if both masks count it; if only one side has a
// mask and the other one as many tokens as it counts, these are the tokens. Throws std::runtime_error: a side has none,
// or lengths differ.
LogRatios compare_log_probs(const LogProbs& trainer, const LogProbs& engine);

}  // namespace moescope
