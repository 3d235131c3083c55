// Reading (memory-mapped) and writing of .safetensors: 8-byte little-endian header length, JSON header, raw tensors.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/whole_file.h"

namespace moescope {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};
std::size_t dtype_bytes(DType dtype);
const char* dtype_name(DType dtype);  // "F32"

struct TensorView {
  std::string name;
  DType dtype;
  std::vector<std::size_t> shape;  // empty: a scalar
  // Points into the mapped file, unaligned. Use it for address and size only: reading the bytes directly kills the
  // program if another one has truncated the file, which all methods below turn into std::runtime_error.
  std::span<const std::byte> bytes;

  std::size_t elements() const;
  void copy_bytes(std::byte* out) const;  // all, unconverted
  // Converted copy of elements [first, first + count); integers convert exactly where float/double can hold them.
  std::vector<float> floats(std::size_t first, std::size_t count) const;
  std::vector<float> floats() const { return floats(0, elements()); }
  std::vector<double> doubles() const;
  std::vector<std::int64_t> integers() const;
};

// Throws std::runtime_error naming the file, what is wrong, what was found and what is allowed.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  const std::string& path() const;
  const std::vector<TensorView>& tensors() const;       // in file order
  const TensorView* find(std::string_view name) const;  // nullptr: absent
  const TensorView& at(std::string_view name) const;    // throws, naming similar ones
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<std::size_t> shape;
};

// Writes a file whose tensors do not fit into memory together: all are declared first, then appended in that order. The
// file is complete after finish(); until then nothing changes (whole_file.h). Throws std::runtime_error.
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

// The same from memory.
class SafetensorsWriter {
 public:
  void add(std::string name, DType dtype, std::vector<std::size_t> shape, std::span<const std::byte> bytes);  // copied
  void set_metadata(std::string key, std::string value);
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
