#include "core/training/export_weights.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/files/text/words.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

bool is_state_of_training(std::string_view name) {
  return name.starts_with("moment1.") || name.starts_with("moment2.") || name.starts_with("window.") ||
         name.starts_with("specialisation.") || name.starts_with("placement.") || name.ends_with(".bias_momentum");
}

}  // namespace

int export_weights(const std::string& checkpoint, const std::string& path) {
  const SafetensorsFile file(checkpoint);
  check_checkpoint(checkpoint);
  std::vector<const TensorView*> exported;
  std::vector<TensorSpec> specs;
  for (const TensorView& tensor : file.tensors()) {
    if (is_state_of_training(tensor.name)) continue;
    exported.push_back(&tensor);
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {"source", "MoEScope"}};
  for (const char* key : {"config", "steps_taken", "tokens_seen"})
    if (const auto found = file.metadata().find(key); found != file.metadata().end()) metadata.insert(*found);
  SafetensorsStream out(path, specs, metadata);
  std::vector<std::byte> bytes;  // copy of a tensor, because the mapped file may become shorter meanwhile
  for (const TensorView* tensor : exported) {
    bytes.resize(tensor->bytes.size());
    tensor->copy_bytes(bytes.data());
    out.append(bytes);
  }
  out.finish();
  return exported.size();
}

std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step) {
  const std::string folder = checkpoints_of(recording);
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (steps.empty())
    throw std::runtime_error(folder +
                             ": no checkpoint is kept beside the recording; if the training kept its checkpoints in "
                             "another folder (--checkpoint), give a file of that folder in place of the recording");
  const std::int64_t chosen_step = step.value_or(steps.back());
  if (std::find(steps.begin(), steps.end(), chosen_step) == steps.end())
    throw std::runtime_error(folder + ": no checkpoint of step " + std::to_string(chosen_step) + "; there are " +
                             joined(steps, ", ", [](std::int64_t kept_step) { return std::to_string(kept_step); }));
  for (const std::string& file : checkpoint_files(folder, chosen_step))
    if (run_name.empty() || std::filesystem::path(file).stem() == run_name) return file;
  throw std::runtime_error(folder + ": no checkpoint of the run " + run_name + " at step " +
                           std::to_string(chosen_step));
}

}  // namespace moescope
