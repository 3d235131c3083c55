// The tensors of a pickle that torch.save wrote, whatever file it lies in (torch_file.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/tensors/pickle.h"
#include "core/tensors/tensor_file.h"

namespace moescope {

// The arguments of a persistent id that are needed here.
struct TorchStorage {
  std::string_view type;  // "FloatStorage"
  std::string_view key;
  std::size_t first_element = 0;  // of a view into another storage, as PyTorch before 1.6 wrote
};
std::optional<TorchStorage> torch_storage(const PickleValue& id);  // nullopt: it is none

std::optional<DType> torch_type(std::string_view name);              // of "FloatStorage" and "float32"
std::optional<std::size_t> torch_type_bytes(std::string_view name);  // also of types that are skipped

struct TorchBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const PartChecksum> checksum;
  std::string missing;  // why they are not there
};
using FindStorage = std::function<TorchBytes(std::string_view key)>;

void collect_torch_tensors(const Pickle& pickle, const FindStorage& find, bool big_endian, MappedTensors& file);

}  // namespace moescope
