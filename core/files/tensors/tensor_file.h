// A file of tensors, mapped into memory, as safetensors.h, npy.h and torch_file.h read it. open_tensors.h opens any of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/files/unreadable.h"

namespace moescope {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,  // powers of two
  f4,       // E2M1, two in a byte, the low four bits first
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
inline constexpr int kNumDTypes = 17;
std::size_t dtype_bits(DType dtype);
const char* dtype_name(DType dtype);  // "F32"
bool is_floating(DType dtype);
std::optional<DType> dtype_named(std::string_view name);

// Checksum of a part of a file. It is compared before the first byte is used and not when the file is opened, because
// files of tensors are mapped and only what is shown is read.
class PartChecksum {
 public:
  PartChecksum(std::string part, std::span<const std::byte> bytes, std::uint32_t crc32)
      : part_(std::move(part)), bytes_(bytes), crc32_(crc32) {}
  void require() const;  // throws std::runtime_error "PART: ..."; may be called from any thread

 private:
  std::string part_;
  std::span<const std::byte> bytes_;
  std::uint32_t crc32_;
  mutable std::mutex comparing_;
  mutable std::optional<bool> right_;  // nullopt: not compared yet
};

class CodeScales;  // code_scales.h

struct TensorView {
  std::string name;
  DType dtype;
  std::vector<std::size_t> shape;  // empty for a scalar
  // Points into the mapped file, unaligned. Use it for address and size only: reading the bytes directly ends the
  // program if another program has truncated the file, whereas all methods below throw std::runtime_error.
  std::span<const std::byte> bytes;
  std::vector<std::size_t> strides = {};  // in elements, one per dimension; empty: row by row without gaps
  bool big_endian = false;
  std::shared_ptr<const PartChecksum> checksum = {};  // nullptr if the file has none
  std::shared_ptr<const CodeScales> scales = {};      // factors of the values; nullptr if these are not codes
  // What the tensor holds. values: it may be a weight. scales: those of another tensor. codes: codes whose scales are
  // missing or whose layout is not supported. `note` names the tensor that the scales belong to, or the reason.
  enum class Holds : std::uint8_t { values, scales, codes } holds = Holds::values;
  std::string note = {};

  std::size_t elements() const;
  bool floating() const { return scales || is_floating(dtype); }
  std::string type_text() const;  // "BF16", "F8_E4M3 x F32"
  // Copies values unconverted, row by row: all, or the elements [first, first + count). The second form does not
  // support F4, whose elements are half a byte.
  void copy_bytes(std::byte* out) const;
  void copy_bytes(std::size_t first, std::size_t count, std::byte* out) const;
  // Returns a converted copy of elements [first, first + count). Integers convert exactly where float/double can hold
  // them.
  std::vector<float> floats(std::size_t first, std::size_t count) const;
  std::vector<float> floats() const { return floats(0, elements()); }
  void read_floats(std::size_t first, std::span<float> to) const;  // reads to.size() elements, which must exist
  std::vector<double> doubles() const;
  std::vector<std::int64_t> integers() const;
};

std::string shape_text(const std::vector<std::size_t>& shape);  // "[3, 4]"
// Returns the error of a tensor whose file became shorter while it was mapped.
std::string shortened_text(const TensorView& tensor);

// Limit for damaged files. NumPy allows 64 dimensions.
inline constexpr std::size_t kMaxDimensions = 64;
// Returns the number of bytes of a tensor; nullopt if it is 2^64 or more.
std::optional<std::size_t> tensor_bytes(DType dtype, const std::vector<std::size_t>& shape);

// An entry of a file that cannot be read as a tensor.
struct SkippedEntry {
  std::string name, reason;
  std::size_t untyped_bits = 0;  // bits of a value if only the type is missing (open_tensors.h)
};

// The mapped bytes of a file and the tensors that its reader has found in them.
struct MappedTensors {
  std::string path;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<TensorView> tensors;
  std::vector<SkippedEntry> skipped;
  std::map<std::string, std::string> metadata;
  std::unordered_map<std::string_view, std::size_t> by_name;  // names point into `tensors` or `other_names`
  std::deque<std::pair<std::string, std::size_t>> other_names;
  std::deque<std::vector<std::byte>> unpacked;               // contents of compressed entries
  std::vector<std::shared_ptr<const MappedTensors>> shards;  // files of a checkpoint in several files

  explicit MappedTensors(const std::string& file);  // throws std::runtime_error if the file cannot be read
  MappedTensors() = default;                        // for a file with shards
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  // Throw std::runtime_error "PATH: ..." if the bytes are no longer in the file, two tensors have one name, or more
  // than kMaxKeptBytes would be kept.
  std::string copied(std::size_t first, std::size_t count) const;
  void index_names();
  void add(TensorView tensor);
  void skip(std::string name, std::string reason);
  void keep(std::size_t more);  // counts bytes of memory
  [[noreturn]] void fail(const std::string& what) const { refuse(path, what); }

 private:
  std::size_t list_bytes_ = 0;
};

class TensorFile {
 public:
  explicit TensorFile(std::shared_ptr<const MappedTensors> tensors) : mapped_(std::move(tensors)) {}
  const std::string& path() const { return mapped_->path; }
  std::vector<std::string> files() const;                      // all files that were read
  const std::string& file_of(const TensorView& tensor) const;  // the one of files() that holds this tensor
  const std::vector<TensorView>& tensors() const { return mapped_->tensors; }  // in the order of the file
  const TensorView* find(std::string_view name) const;                         // nullptr if absent
  const TensorView& at(std::string_view name) const;  // throws std::runtime_error that names similar tensors
  const std::map<std::string, std::string>& metadata() const { return mapped_->metadata; }
  const std::vector<SkippedEntry>& skipped() const { return mapped_->skipped; }  // in the order of the file

 private:
  std::shared_ptr<const MappedTensors> mapped_;
};

// Limits the memory for names and shapes, because a small file may describe very many tensors with very long names. The
// largest published checkpoints need 50 MB.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

// Reads a memory-mapped file that another program may shorten at the same time. The system then sends SIGBUS, which
// ends the program unless it is caught.
//
// pread() would need no such protection, but it is slow for a map of block scales, which reads two million values in
// runs of 64: 8 MB in runs of 256 bytes took 90 ms by pread() and 2 ms from mapped pages.
// Runs read(argument), which may access mapped pages. Returns false if the pages no longer exist; read() is then left
// in the middle, so it must own nothing and hold no lock. May be called from any thread. The first call installs a
// handler for SIGBUS, which passes every other SIGBUS to the previous handler.
[[nodiscard]] bool read_mapped(void (*read)(const void*), const void* argument);
template <class Read>
[[nodiscard]] bool read_mapped(const Read& read) {
  return read_mapped([](const void* r) { (*static_cast<const Read*>(r))(); }, &read);
}

// Copies bytes. Returns false if the pages no longer exist; the contents of `to` are then unspecified.
[[nodiscard]] inline bool copy_mapped(const std::byte* from, std::byte* to, std::size_t bytes) {
  return bytes == 0 || read_mapped([=] { std::memcpy(to, from, bytes); });
}

}  // namespace moescope
