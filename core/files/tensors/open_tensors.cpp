#include "core/files/tensors/open_tensors.h"

#include <stdexcept>

#include "core/files/tensors/npy.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/tensors/torch_file.h"
#include "core/io/input_file.h"

namespace moescope {
namespace {

constexpr std::size_t kFirstBytes = 16;

// torch.save before PyTorch 1.6, or pickle.dump.
bool begins_like_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

}  // namespace

bool begins_like_npy(std::string_view bytes) {
  return bytes.starts_with("\x93NUMPY");
}

bool begins_like_zip(std::string_view bytes) {
  return bytes.starts_with("PK\x03\x04");
}

TensorFile open_tensors(const std::string& path) {
  std::string bytes(kFirstBytes, '\0');
  bytes.resize(InputFile(path).read(bytes.data(), bytes.size()));
  if (begins_like_npy(bytes)) return read_npy(path);
  if (begins_like_zip(bytes)) return read_torch(path);
  // A header of safetensors would begin so if it had 128 to 133 + 256 n bytes; then an opening brace follows its
  // length.
  if (begins_like_pickle(bytes) && (bytes.size() < 9 || bytes[8] != '{'))
    throw std::runtime_error(path +
                             ": is a bare pickle, as PyTorch before 1.6 wrote; nothing in a file is run here: load it "
                             "there and torch.save it again, or save .safetensors");
  return SafetensorsFile(path);
}

}  // namespace moescope
