// How the beginning of a piece of text was routed, for the panel of tokens. A frame has bytes for tokens: every byte of
// a token stands for it, and the first one has its loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoints/stored_experts.h"
#include "core/frame/frame.h"
#include "core/tokenizer/tokenizer.h"

namespace moescope {

class RoutedPassage {
 public:
  // Of the first tokens of `ids`, as many as fill a passage.
  RoutedPassage(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::string domain);

  std::size_t tokens() const { return bytes_.size(); }
  // One layer after the other, of a pass whose first tokens are the passage's. `choice_bias` as StoredExperts'.
  void add_layer(int layer, const RoutedTokens& routed, std::span<const float> choice_bias, bool by_logit);
  void set_loss(std::size_t token, float loss);
  TokenFrame take() { return std::move(frame_); }

 private:
  std::vector<std::size_t> bytes_;  // of each token
  std::vector<std::size_t> first_;  // byte of each token
  TokenFrame frame_;
};

}  // namespace moescope
