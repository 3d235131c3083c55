// Stores the logits of a checkpoint's forward passes in their order.
#pragma once

#include <vector>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {

class KeptLogits : public PassWatch {
 public:
  void logits(Index, ConstMatrix<float> part) override { all.insert(all.end(), part.data, part.data + part.size()); }
  std::vector<float> all;
};

}  // namespace moescope
