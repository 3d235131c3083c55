// Tokens of several bytes in a routed text.
//
// A TokenFrame has a row for each byte. If a checkpoint's tokenizer has split the text, every byte of a token has the
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

// Returns the tokens of the text in order, without gaps. A byte continues the token before it if it has no loss
// although other bytes of the text have one, and its experts and scores in every layer are those of the byte before it.
std::vector<TokenSpan> token_spans(const TokenFrame& text);
bool has_long_tokens(const std::vector<TokenSpan>& spans);  // true if a token has several bytes
// Returns the span that contains `position`, a byte of the text.
TokenSpan span_at(const std::vector<TokenSpan>& spans, std::size_t position);

}  // namespace moescope
