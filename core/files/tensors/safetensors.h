// Reads (memory-mapped) and writes .safetensors: 8-byte little-endian header length, JSON header, raw tensors.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/tensors/tensor_file.h"
#include "core/files/whole_file.h"

namespace moescope {

// Tensors whose type cannot be read are skipped and listed by name. Both throw a std::runtime_error that names the
// file, the problem, what was found and what is allowed.
std::shared_ptr<MappedTensors> read_safetensors(const std::string& path);
class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path) : TensorFile(read_safetensors(path)) {}
};

struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<std::size_t> shape;
};

// Writes a file whose tensors do not fit into memory together: all tensors are declared first, then their bytes are
// appended in this order. The file exists after finish(), not before (whole_file.h). Throws std::runtime_error.
class SafetensorsStream {
 public:
  SafetensorsStream(const std::string& path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata);

  void append(std::span<const std::byte> bytes);
  void finish();

 private:
  std::string path_;
  WholeFile file_;
  std::size_t declared_ = 0, written_ = 0;
};

// Writes a file whose tensors fit into memory.
class SafetensorsWriter {
 public:
  // Copies.
  void add(std::string name, DType dtype, std::vector<std::size_t> shape, std::span<const std::byte> bytes) {
    entries_.push_back({{std::move(name), dtype, std::move(shape)}, {bytes.begin(), bytes.end()}});
  }
  void set_metadata(std::string key, std::string value) { metadata_[std::move(key)] = std::move(value); }
  void write(const std::string& path) const;  // throws std::runtime_error

 private:
  struct Entry {
    TensorSpec spec;
    std::vector<std::byte> bytes;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace moescope
