// Tokens of several bytes in a routed text.
//
// A TokenFrame has a row for each byte. Of a text that a checkpoint's tokenizer has cut, every byte of a token has the
// token's routing, and only its first byte has a loss.
#pragma once

#include <cstddef>
#include <vector>

#include "core/frame/frame.h"

namespace moescope {

struct TokenSpan {
  std::size_t begin = 0, end = 0;  // bytes
  std::size_t size() const { return end - begin; }
};

// In order, covering the text. A byte continues the token before it where other bytes of the text have a loss and it
// has none, and where its experts and scores are those of the byte before it in every layer.
std::vector<TokenSpan> token_spans(const TokenFrame& text);
bool has_long_tokens(const std::vector<TokenSpan>& spans);  // one has several bytes
// The one that holds `position`, which is a byte of the text.
TokenSpan span_at(const std::vector<TokenSpan>& spans, std::size_t position);

}  // namespace moescope
