// Finds the lines of printed logs that say that a checkpoint was saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moescope {

// A line by which a trainer says that it saves a checkpoint:
//   saving checkpoint at iteration     500 to /kept in torch_dist format        Megatron-LM
//   Saving the checkpoint (or staging if async is enabled).                     TorchTitan: that of the newest step
//   Saving model checkpoint to out/checkpoint-500                               transformers
struct SavedCheckpoint {
  std::string name;                  // "iteration 500", "checkpoint-500"; empty: none
  std::optional<std::int64_t> step;  // nullopt: not stated
};
std::optional<SavedCheckpoint> saved_checkpoint(std::string_view line);

}  // namespace moescope
