// Limits the work and the memory for one text. A small tokenizer.json can describe steps whose product is huge: thirty
// steps that each double the text, or an expression that takes long on every piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace moescope {

// All functions that throw throw std::runtime_error. Steps are those of a regular expression, about 10 ns each.
class TextBudget {
 public:
  // Published tokenizers need less than a tenth of these limits.
  static constexpr std::size_t kStepsPerByte = 10'000, kMaxGrowth = 64;
  static constexpr std::size_t kFreeSteps = 100'000'000, kFreeBytes = std::size_t{1} << 20;

  explicit TextBudget(std::size_t text_bytes)
      : steps_left_(kFreeSteps + kStepsPerByte * std::min(text_bytes, kMaxBytes)),
        most_bytes_(kFreeBytes + kMaxGrowth * std::min(text_bytes, kMaxBytes)) {}

  void spend(std::size_t steps) {
    if (steps > steps_left_) throw std::runtime_error(kBudgetMessage);
    steps_left_ -= steps;
  }
  std::size_t steps_left() const { return steps_left_; }
  // Throws if a step made the text longer than a text of its length should become.
  void require_size(std::size_t bytes) const {
    if (bytes > most_bytes_)
      throw std::runtime_error("the steps of the tokenizer make the text more than " + std::to_string(kMaxGrowth) +
                               " times longer");
  }

  static constexpr const char* kBudgetMessage = "the tokenizer takes too many steps on this text";

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  std::size_t steps_left_, most_bytes_;
};

}  // namespace moescope
