// Collects the tensors of a pickle that torch.save wrote, for every kind of file (torch_file.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/tensors/pickle.h"
#include "core/files/tensors/tensor_file.h"

namespace moescope {

// The parts of a persistent id that readers need.
struct TorchStorage {
  std::string_view type;  // "FloatStorage"
  std::string_view key;
  std::size_t first_element = 0;  // for views into another storage, which PyTorch before 1.6 wrote
};
std::optional<TorchStorage> torch_storage(const PickleValue& id);  // nullopt if it is not a storage

// Returns the bytes of an element for names such as "FloatStorage" and "float32", also for types that are skipped;
// nullopt for unknown names.
std::optional<std::size_t> torch_type_bytes(std::string_view name);

struct TorchBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const PartChecksum> checksum;
  std::string missing;  // why the bytes are missing; empty if they are not
};
using FindStorage = std::function<TorchBytes(std::string_view key)>;

void collect_torch_tensors(const Pickle& pickle, const FindStorage& find, bool big_endian, MappedTensors& file);

}  // namespace moescope
