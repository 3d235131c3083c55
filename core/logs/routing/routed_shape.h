// Finds the shape of an array of experts if the file does not give it, and the slots that hold no expert.
//
// SGLang writes routed_experts as a flat int32 array of [tokens, layers, K]. The numbers alone fit many shapes, and the
// array may have fewer tokens than the response (routed_experts_start_len). A shape is used only if no other one fits,
// because the caller states it or because responses of different lengths agree. Otherwise AmbiguousRouting is thrown.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// The experts of a sequence, row-major [tokens, layers, K].
struct RoutedSequence {
  std::vector<int> ids;
  std::size_t layers = 0, top_k = 0;  // 0: not in the file
  std::size_t most_tokens = 0;        // for flat arrays: tokens of the response; the array may leave out the first
  std::size_t ids_of_token = 0;       // layers * K, for an array [tokens, layers * K]; else 0
};

struct RowShape {
  std::size_t layers = 0, top_k = 0;
  std::size_t ids() const { return layers * top_k; }  // experts of a token
};

// Returns the shape of all sequences; `sequences` must not be empty. `source`: the file, for messages. Throws
// std::runtime_error if sequences differ or contradict `stated`; AmbiguousRouting if several shapes fit.
RowShape shape_of_rows(std::span<const RoutedSequence> sequences, const RoutedShape& stated, const std::string& source);

// Tells which numbers stand for a slot without an expert: numbers below 0, and numbers from `experts` on if it is
// stated. Also a filling of engines (255, 65535 or 2^31 - 1), if a row has it twice beside other numbers. The
// constructor throws AmbiguousRouting if `experts` is not stated (0) and a filling occurs once in every row, or is far
// above all other numbers; std::runtime_error if a number is not below the stated experts and not a filling.
class EmptySlots {
 public:
  EmptySlots(std::span<const RoutedSequence> sequences, const RowShape& shape, int experts, const std::string& source);
  bool is_empty(int id) const { return id < 0 || (limit_ > 0 && id >= limit_) || (filling_ && id == *filling_); }

 private:
  int limit_ = 0;  // 0: not stated
  std::optional<int> filling_;
};

}  // namespace moescope
