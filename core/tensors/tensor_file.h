// A file of tensors, mapped into memory: what safetensors.h, npy.h and torch_file.h read. open_tensors.h opens any.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Of a part of a file, which a checksum vouches for. It is compared before the first byte is used and not when the file
// is opened: files of tensors are mapped, and only what is shown is read.
class PartChecksum {
 public:
  PartChecksum(std::string part, std::span<const std::byte> bytes, std::uint32_t crc32)
      : part_(std::move(part)), bytes_(bytes), crc32_(crc32) {}
  void require() const;  // throws std::runtime_error "PART: ..."; any thread

 private:
  enum class State : std::uint8_t { unknown, right, wrong };
  std::string part_;
  std::span<const std::byte> bytes_;
  std::uint32_t crc32_;
  mutable std::mutex comparing_;
  mutable State state_ = State::unknown;
};

class CodeScales;  // code_scales.h

struct TensorView {
  std::string name;
  DType dtype;
  std::vector<std::size_t> shape;  // empty: a scalar
  // Points into the mapped file, unaligned. Use it for address and size only: reading the bytes directly kills the
  // program if another one has truncated the file, which all methods below turn into std::runtime_error.
  std::span<const std::byte> bytes;
  std::vector<std::size_t> strides = {};  // in elements, as many as dimensions; empty: row by row without gaps
  bool big_endian = false;
  std::shared_ptr<const PartChecksum> checksum = {};  // nullptr: the file has none
  std::shared_ptr<const CodeScales> scales = {};      // the values are codes times these; nullptr: as they are stored
  // What the values are. Scales belong to other tensors; of codes the scales are missing or of a layout that is not
  // read here, so they are no weight. `note` says whose scales, why they are codes, or what of.
  enum class Holds : std::uint8_t { values, scales, codes } holds = Holds::values;
  std::string note = {};

  std::size_t elements() const;
  bool floating() const { return scales || is_floating(dtype); }
  std::string type_text() const;          // "BF16", "F8_E4M3 x F32"
  void copy_bytes(std::byte* out) const;  // all, unconverted, row by row
  // Converted copy of elements [first, first + count); integers convert exactly where float/double can hold them.
  std::vector<float> floats(std::size_t first, std::size_t count) const;
  std::vector<float> floats() const { return floats(0, elements()); }
  std::vector<double> doubles() const;
  std::vector<std::int64_t> integers() const;
};

std::string shape_text(const std::vector<std::size_t>& shape);  // "[3, 4]"

// More dimensions than any program makes: NumPy allows 64.
inline constexpr std::size_t kMostDimensions = 64;
// Of a tensor; nullopt: 2^64 bytes or more, which no file holds.
std::optional<std::size_t> tensor_bytes(DType dtype, const std::vector<std::size_t>& shape);

// An entry of a file that is no tensor which can be read here.
struct SkippedEntry {
  std::string name, why;
  std::size_t untyped_bits = 0;  // of a value, where only its type is missing (open_tensors.h)
};

struct MappedTensors;

class TensorFile {
 public:
  explicit TensorFile(std::shared_ptr<const MappedTensors> tensors) : mapped_(std::move(tensors)) {}
  const std::string& path() const;
  std::vector<std::string> files() const;                      // all that it was read from
  const std::string& file_of(const TensorView& tensor) const;  // of those the one that holds this tensor of it
  const std::vector<TensorView>& tensors() const;              // in file order
  const TensorView* find(std::string_view name) const;         // nullptr: absent
  const TensorView& at(std::string_view name) const;           // throws std::runtime_error, naming similar ones
  const std::map<std::string, std::string>& metadata() const;
  const std::vector<SkippedEntry>& skipped() const;  // in file order

 private:
  std::shared_ptr<const MappedTensors> mapped_;
};

// For the readers: the mapped bytes, and the tensors in them as they are found.
struct MappedTensors {
  std::string path;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<TensorView> tensors;
  std::vector<SkippedEntry> skipped;
  std::map<std::string, std::string> metadata;
  std::unordered_map<std::string_view, std::size_t> by_name;  // names are those of `tensors`, or `other_names`
  std::deque<std::pair<std::string, std::size_t>> other_names;
  std::deque<std::vector<std::byte>> unpacked;               // bytes that lie compressed in the file
  std::vector<std::shared_ptr<const MappedTensors>> shards;  // of a checkpoint in several files

  explicit MappedTensors(const std::string& file);  // throws std::runtime_error: cannot be read
  MappedTensors() = default;                        // of shards
  ~MappedTensors();
  MappedTensors(const MappedTensors&) = delete;
  MappedTensors& operator=(const MappedTensors&) = delete;

  // Throw std::runtime_error "PATH: ...": what is asked for is not in the file any more; two tensors of one name; more
  // is to be kept than kMostKeptBytes.
  std::string copied(std::size_t first, std::size_t count) const;
  void index_names();
  void add(TensorView tensor);
  void skip(std::string name, std::string why);
  void keep(std::size_t more);  // bytes of memory
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::size_t kept_ = 0;
};

// A small file may describe so many tensors under such long names that the memory does not hold them. The largest
// checkpoints that are published need 50 MB.
inline constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;

}  // namespace moescope
