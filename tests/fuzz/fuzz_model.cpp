// libFuzzer over checkpoints of transformers: any config.json, index and file of tensors in a folder are refused with a
// std::runtime_error that names a file, or are a model that can process a few tokens. An input is the three files; the
// length of each of the first two precedes it as eight hexadecimal digits. A file of length 0 does not exist. How to
// run: CONTRIBUTING.md.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/checkpoints/checkpoint_model.h"
#include "core/numerics/threads.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kDigits = 8, kMaxParameters = 1 << 20, kMaxPromptTokens = 3;

void write(const fs::path& path, std::string_view content) {
  fs::remove(path);
  if (!content.empty()) std::ofstream(path, std::ios::binary) << content;
}

// Returns the next part of the input, whose length precedes it.
std::string_view part(std::string_view& unread) {
  std::size_t length = 0;
  const std::string_view digits = unread.substr(0, kDigits);
  std::from_chars(digits.data(), digits.data() + digits.size(), length, 16);
  unread.remove_prefix(digits.size());
  const std::string_view content = unread.substr(0, length);
  unread.remove_prefix(content.size());
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  set_num_threads(1);
  const fs::path folder = fs::temp_directory_path() / ("moescope_fuzz_model_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string_view unread(reinterpret_cast<const char*>(data), size);
  write(folder / "config.json", part(unread));
  write(folder / "model.safetensors.index.json", part(unread));
  write(folder / "model.safetensors", unread);
  try {
    const CheckpointModel model(folder.string());
    require(model.parameters() > 0, "a model has parameters");
    std::vector<std::int32_t> ids;
    for (std::size_t t = 0; t < kMaxPromptTokens; ++t)
      ids.push_back(static_cast<std::int32_t>(t) % model.config().vocab);
    PassWatch nobody;
    if (model.parameters() < kMaxParameters) model.forward(ids, 1, std::ssize(ids), nobody);
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find(folder.string()) == 0, "the message names the file");
  }
  fs::remove_all(folder);
  return 0;
}
