// Finds the shape of rows of experts if the file does not give it, and the slots that hold no expert.
//
// SGLang writes routed_experts as flat int32 of [tokens, layers, K]. The numbers alone fit many shapes, and there may
// be fewer rows than tokens (routed_experts_start_len). A shape is used only if no other one fits: because the caller
// states it, or because responses of different lengths agree. All other cases throw AmbiguousRouting.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// The experts of a sequence: row-major [tokens, layers, K].
struct RoutedSequence {
  std::vector<int> ids;
  std::size_t layers = 0, top_k = 0;  // 0: not in the file
  std::size_t most_tokens = 0;        // flat arrays: tokens of the response; the array may begin later
  std::size_t ids_of_token = 0;       // for an array [tokens, layers * K]
};

struct RowShape {
  std::size_t layers = 0, top_k = 0;
  std::size_t ids() const { return layers * top_k; }  // experts of a token
};

// Returns the shape of all sequences, which must not be empty. `source` begins the messages. Throws std::runtime_error
// if sequences differ or contradict `stated`; AmbiguousRouting if several shapes fit.
RowShape shape_of_rows(std::span<const RoutedSequence> sequences, const RoutedShape& stated, const std::string& source);

// Numbers that are not experts: always below 0; at or above `experts` if that is stated; 255, 65535 and 2^31 - 1, with
// which engines fill slots, if a row has the number twice beside others. Throws AmbiguousRouting if `experts` is not
// stated and every row has such a number, or no other number is close to it; std::runtime_error if a number is above
// the stated experts but is not such a filling.
class EmptySlots {
 public:
  EmptySlots(std::span<const RoutedSequence> sequences, const RowShape& shape, int experts, const std::string& source);
  bool is_empty(int id) const { return id < 0 || (limit_ > 0 && id >= limit_) || (filling_ && id == *filling_); }

 private:
  int limit_ = 0;  // 0: not stated
  std::optional<int> filling_;
};

}  // namespace moescope
