// A file of tensors, mapped into memory: what safetensors.h, npy.h and torch_file.h read. open_tensors.h opens any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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
inline constexpr int kNumDTypes = 15;
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

std::string shape_text(const std::vector<std::size_t>& shape);  // "[3, 4]"

// Of a tensor; nullopt: 2^64 bytes or more, which no file holds.
std::optional<std::size_t> tensor_bytes(DType dtype, const std::vector<std::size_t>& shape);

struct MappedTensors;

class TensorFile {
 public:
  explicit TensorFile(std::shared_ptr<const MappedTensors> tensors) : mapped_(std::move(tensors)) {}
  const std::string& path() const;
  const std::vector<TensorView>& tensors() const;       // in file order
  const TensorView* find(std::string_view name) const;  // nullptr: absent
  const TensorView& at(std::string_view name) const;    // throws std::runtime_error, naming similar ones
  const std::map<std::string, std::string>& metadata() const;

 private:
  std::shared_ptr<const MappedTensors> mapped_;
};

// For the readers: the mapped bytes, and the tensors in them as they are found.
struct MappedTensors {
  std::string path;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
  std::unordered_map<std::string_view, std::size_t> by_name;  // names are those of `tensors`

  explicit MappedTensors(const std::string& file);  // throws std::runtime_error: cannot be read
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  // Throw std::runtime_error "PATH: ...": what is asked for is not in the file any more; two tensors of one name.
  std::string copied(std::size_t first, std::size_t count) const;
  void index_names();
  [[noreturn]] void fail(const std::string& what) const;
};

}  // namespace moescope
