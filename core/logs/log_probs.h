// Reads and compares log-probabilities of the same tokens by a trainer and by an inference engine, as programs for
// reinforcement learning store them.
//
// Tensors are [sequences, tokens] or [tokens]; in JSON each list of numbers is a sequence. Of SGLang a token is
// [log-probability, id, text], of vLLM an object with `logprob`. Sources of the names: verl utils/debug/metrics.py,
// slime backends/megatron_utils/loss.py, AReaL pull request 1207.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/numerics/statistics.h"

namespace moescope {

struct LogProbSequence {
  std::vector<float> values;       // [tokens] ln of the token's probability, at most 0
  std::vector<std::uint8_t> mask;  // [tokens] 1: the token counts; empty: all tokens count
};

struct LogProbs {
  std::vector<LogProbSequence> engine, trainer;
  // Sequences of an unknown side: of an array, of a response, or under a name that both sides use (`log_probs`).
  std::vector<LogProbSequence> unnamed;
};

// Throws std::runtime_error with the path if the file cannot be read, has no log-probabilities or one above 0, or if a
// mask and its sequence have different lengths.
LogProbs read_log_probs(const std::string& path);
// Reads the text of a JSON file. Throws Unreadable if it cannot be read.
LogProbs log_probs_in(std::string_view json);

// Returns the ratios of p, the trainer's probability of a token, and q, the engine's. Uses the trainer's sequences of
// `trainer` and the engine's of `engine`, or the unnamed ones if there are none, and compares sequence i with sequence
// i. If the two have one length, a token counts if both masks count it; otherwise each is reduced by its own mask, and
// the rest must have one length. Leaves out tokens whose values are not finite. Throws std::runtime_error if a side has
// no sequences, lengths or numbers of sequences differ, or no token is left.
LogRatios compare_log_probs(const LogProbs& trainer, const LogProbs& engine);

}  // namespace moescope
