// The routing of the beginning of a text, for the panel of tokens. The rows of a TokenFrame are bytes: every byte of a
// token has the experts of the token; the token's first byte has its loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoints/stored_experts.h"
#include "core/frame/frame.h"
#include "core/model/tokenizer/tokenizer.h"

namespace moescope {

inline constexpr std::size_t kPassageBytes = 256;  // limit of a passage of the data

class RoutedPassage {
 public:
  // Takes the first tokens of `ids`, whose text has at most `most_bytes` bytes. `tokenizer`: nullptr if ids are bytes.
  RoutedPassage(const Tokenizer* tokenizer, std::span<const std::int32_t> ids, TextKind kind,
                std::size_t most_bytes = kPassageBytes);

  std::size_t tokens() const { return bytes_.size(); }
  // Adds a layer of a pass over tokens that begin with the passage. `choice_bias`: StoredExperts::choice_bias.
  // `by_logit`: CheckpointRouter::choose_by_logit.
  void add_layer(int layer, const RoutedTokens& routed, std::span<const float> choice_bias, bool by_logit);
  void set_loss(std::size_t token, float loss);
  void set_domain(std::string domain) { frame_.domain = std::move(domain); }
  // Marks the first `tokens` tokens as the prompt; the model wrote the others.
  void set_prompt(std::size_t tokens);
  TokenFrame take() { return std::move(frame_); }

 private:
  std::vector<std::size_t> bytes_;  // length of each token
  std::vector<std::size_t> first_;  // first byte of each token
  TokenFrame frame_;
};

}  // namespace moescope
