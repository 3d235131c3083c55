// The routing of the beginning of a text, for the panel of tokens. The rows of a TokenFrame are bytes: every byte of a
// token has the experts of the token; the token's first byte has its loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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
                std::size_t most_bytes = kPassageBytes) {
    frame_.kind = kind;
    for (const std::int32_t id : ids) {
      const std::string text = text_of(tokenizer, id);
      if (text.empty() || frame_.text.size() + text.size() > most_bytes) break;
      bytes_.push_back(text.size());
      first_.push_back(frame_.text.size());
      frame_.text += text;
    }
    frame_.loss_T.assign(frame_.text.size(), kNoValue);
  }

  std::size_t tokens() const { return bytes_.size(); }
  // Adds a layer of a pass over tokens that begin with the passage. `choice_bias`: StoredExperts::choice_bias.
  // `by_logit`: CheckpointRouter::choose_by_logit.
  void add_layer(int layer, const RoutedTokens& routed, std::span<const float> choice_bias, bool by_logit) {
    const std::size_t experts = size(routed.experts), top_k = size(routed.top_k);
    TokenLayer out;
    out.layer = layer;
    out.top_k = routed.top_k;
    std::vector<std::int32_t> ids(top_k);
    for (std::size_t t = 0; t < tokens(); ++t) {
      const float* scores = routed.scores.data() + t * experts;
      const float* judged = (by_logit ? routed.logits : routed.scores).data() + t * experts;
      std::copy_n(routed.ids.data() + t * top_k, top_k, ids.begin());
      std::ranges::stable_sort(ids, std::ranges::greater(), [&](std::int32_t e) {
        return judged[e] + (choice_bias.empty() ? 0.0f : choice_bias[size(e)]);
      });
      for (std::size_t byte = 0; byte < bytes_[t]; ++byte) {
        for (const std::int32_t e : ids) {
          out.experts_TK.push_back(static_cast<std::uint16_t>(e));
          out.scores_TK.push_back(scores[e]);
        }
        out.margin_T.push_back(std::isnan(routed.margin[t]) ? kNoValue : routed.margin[t]);
      }
    }
    frame_.layers.push_back(std::move(out));
  }

  void set_loss(std::size_t token, float loss) {
    if (token < tokens()) frame_.loss_T[first_[token]] = loss;
  }
  void set_domain(std::string domain) { frame_.domain = std::move(domain); }
  // Marks the first `tokens` tokens as the prompt; the model wrote the others.
  void set_prompt(std::size_t tokens) {
    frame_.prompt = tokens < first_.size() ? to_int(first_[tokens]) : to_int(frame_.text.size());
  }
  TokenFrame take() { return std::move(frame_); }

 private:
  static std::string text_of(const Tokenizer* tokenizer, std::int32_t id) {
    if (!tokenizer) return std::string(1, static_cast<char>(id));
    const std::string text = tokenizer->bytes(id).value_or("");
    return text.empty() ? tokenizer->spelling(id).value_or("?") : text;
  }

  std::vector<std::size_t> bytes_;  // length of each token
  std::vector<std::size_t> first_;  // first byte of each token
  TokenFrame frame_;
};

}  // namespace moescope
