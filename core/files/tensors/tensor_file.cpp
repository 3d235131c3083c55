#include "core/files/tensors/tensor_file.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "core/files/input_file.h"
#include "core/files/tensors/code_scales.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/numerics/float_formats.h"

namespace moescope {
namespace {

struct DTypeInfo {
  const char* name;
  std::size_t bits;
};
// Indexed by DType.
constexpr DTypeInfo kDTypes[] = {{"F64", 64},    {"F32", 32}, {"F16", 16}, {"BF16", 16}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                 {"F8_E8M0", 8}, {"F4", 4},   {"I64", 64}, {"I32", 32},  {"I16", 16},    {"I8", 8},
                                 {"U64", 64},    {"U32", 32}, {"U16", 16}, {"U8", 8},    {"BOOL", 8}};
constexpr std::size_t kPart = 4096;              // elements converted at a time
constexpr std::size_t kComparedNameBytes = 256;  // bytes compared to find similar names

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[noreturn]] void fail_shortened(const TensorView& tensor) {
  throw std::runtime_error(shortened_text(tensor));
}

// Returns the value of an IEEE half with these bits.
float half_to_float(std::uint32_t half_bits) {
  const std::uint32_t sign = (half_bits & 0x8000) << 16, magnitude = half_bits & 0x7FFF;
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  return std::bit_cast<float>(sign | (magnitude < 0x7C00 ? finite : 0x7F800000 | (magnitude & 0x3FF) << 13));
}

// Copies `count` elements of a tensor with strides, from element `first` on along the last axis. Returns false if the
// file was truncated.
bool copy_along_row(const TensorView& t, std::size_t first, std::size_t count, std::size_t size, std::byte* out) {
  std::size_t at = 0, index = first;
  for (std::size_t d = t.shape.size(); d-- > 0; index /= t.shape[d]) at += index % t.shape[d] * t.strides[d];
  const std::size_t stride = t.strides.back();
  const std::byte* from = t.bytes.data() + at * size;
  if (stride == 1) return copy_mapped(from, out, count * size);
  return read_mapped([=] {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * size, from + i * stride * size, size);
  });
}

// Copies elements [first, first + count) in the order of their indices, in the byte order of this machine.
void copy_elements(const TensorView& t, std::size_t first, std::size_t count, std::byte* out) {
  const std::size_t size = dtype_bits(t.dtype) / 8;
  bool copied = true;
  if (t.strides.empty()) {
    copied = copy_mapped(t.bytes.data() + first * size, out, count * size);
  } else {
    for (std::size_t done = 0; copied && done < count;) {
      const std::size_t cols = t.shape.back(), part_count = std::min(cols - (first + done) % cols, count - done);
      copied = copy_along_row(t, first + done, part_count, size, out + done * size);
      done += part_count;
    }
  }
  if (!copied) fail_shortened(t);
  if (!t.big_endian || size == 1) return;
  for (std::size_t i = 0; i < count; ++i) std::reverse(out + i * size, out + (i + 1) * size);
}

// Calls `sink` as visit_elements() does, for codes that are two in a byte.
template <class Sink>
void visit_pairs(const TensorView& t, std::size_t first, std::size_t count, Sink sink) {
  std::array<std::byte, kPart> part;
  const std::size_t last = first + count;
  for (std::size_t begin = first / 2; begin * 2 < last; begin += kPart) {
    const std::size_t part_bytes = std::min(kPart, (last + 1) / 2 - begin);
    if (!copy_mapped(t.bytes.data() + begin, part.data(), part_bytes)) fail_shortened(t);
    for (std::size_t i = 0; i < part_bytes; ++i) {
      const auto byte = static_cast<std::uint8_t>(part[i]);
      const std::size_t at = (begin + i) * 2;
      if (at >= first) sink(at - first, decode(ElementFormat::e2m1, byte & 0xF));
      if (at + 1 < last) sink(at + 1 - first, decode(ElementFormat::e2m1, byte >> 4));
    }
  }
}

// Calls `sink(i, value)` with each element in its own C++ type; floats of 16 bits and fewer as float.
template <class Sink>
void visit_elements(const TensorView& t, std::size_t first, std::size_t count, Sink sink) {
  if (t.checksum) t.checksum->require();
  const auto run = [&]<class Stored>(Stored, auto convert) {
    std::array<std::byte, kPart * sizeof(Stored)> part;
    for (std::size_t begin = 0; begin < count; begin += kPart) {
      const std::size_t part_count = std::min(kPart, count - begin);
      copy_elements(t, first + begin, part_count, part.data());
      for (std::size_t i = 0; i < part_count; ++i)
        sink(begin + i, convert(load<Stored>(part.data() + i * sizeof(Stored))));
    }
  };
  const auto unchanged = [](auto value) { return value; };
  const auto run_plain = [&]<class... Stored>(const std::pair<DType, Stored>&... types) {
    ((t.dtype == types.first ? run(types.second, unchanged) : void()), ...);
  };
  run_plain(std::pair(DType::f64, double{}), std::pair(DType::f32, float{}), std::pair(DType::i64, std::int64_t{}),
            std::pair(DType::i32, std::int32_t{}), std::pair(DType::i16, std::int16_t{}),
            std::pair(DType::i8, std::int8_t{}), std::pair(DType::u64, std::uint64_t{}),
            std::pair(DType::u32, std::uint32_t{}), std::pair(DType::u16, std::uint16_t{}),
            std::pair(DType::u8, std::uint8_t{}));
  switch (t.dtype) {
    case DType::f16:
      return run(std::uint16_t{}, half_to_float);
    case DType::bf16:
      return run(std::uint16_t{},
                 [](std::uint16_t b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16); });
    case DType::f8_e4m3:
      return run(std::uint8_t{}, [](std::uint8_t code) { return decode(ElementFormat::e4m3, code); });
    case DType::f8_e5m2:
      return run(std::uint8_t{}, [](std::uint8_t code) { return decode(ElementFormat::e5m2, code); });
    case DType::f8_e8m0:
      return run(std::uint8_t{}, decode_e8m0);
    case DType::f4:
      return visit_pairs(t, first, count, sink);
    case DType::boolean:
      return run(std::uint8_t{}, [](std::uint8_t b) -> std::uint8_t { return b != 0; });
    default:
      return;
  }
}

}  // namespace

std::string shortened_text(const TensorView& tensor) {
  return "tensor '" + tensor.name +
         "': its file was truncated while it was open (another program wrote it); open it again";
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  return "[" + joined(shape, ", ", [](std::size_t size) { return std::to_string(size); }) + "]";
}

std::size_t dtype_bits(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].bits;
}
const char* dtype_name(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].name;
}
bool is_floating(DType dtype) {
  return dtype <= DType::f4;
}
std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  return std::nullopt;
}

void PartChecksum::require() const {
  const std::lock_guard lock(comparing_);
  if (!right_) {
    std::vector<std::byte> part(std::min<std::size_t>(bytes_.size(), std::size_t{1} << 16));
    uLong found = ::crc32(0, nullptr, 0);
    for (std::size_t at = 0; at < bytes_.size(); at += part.size()) {
      const std::size_t part_bytes = std::min(part.size(), bytes_.size() - at);
      if (!copy_mapped(bytes_.data() + at, part.data(), part_bytes))
        refuse(part_, "its file was truncated while it was open; open it again");
      found = ::crc32(found, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part_bytes));
    }
    right_ = found == crc32_;
  }
  if (!*right_) refuse(part_, "its checksum (CRC-32) is wrong, so the file is damaged; copy it again");
}

std::size_t TensorView::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies());
}

std::string TensorView::type_text() const {
  return scales ? std::string(dtype_name(dtype)) + " x " + scales->type_text() : dtype_name(dtype);
}

std::vector<float> TensorView::floats(std::size_t first, std::size_t count) const {
  if (first > elements() || count > elements() - first)
    throw std::runtime_error(
        fmt::format("tensor '{}': elements {} + {} asked for, but it has {}", name, first, count, elements()));
  std::vector<float> values(count);
  read_floats(first, values);
  return values;
}

void TensorView::read_floats(std::size_t first, std::span<float> to) const {
  float* values = to.data();
  visit_elements(*this, first, to.size(), [=](std::size_t i, auto value) { values[i] = static_cast<float>(value); });
  if (scales) scales->multiply(first, to);
}

void TensorView::copy_bytes(std::size_t first, std::size_t count, std::byte* out) const {
  if (checksum) checksum->require();
  copy_elements(*this, first, count, out);
}

void TensorView::copy_bytes(std::byte* out) const {
  if (dtype != DType::f4) return copy_bytes(0, elements(), out);
  if (checksum) checksum->require();
  if (!copy_mapped(bytes.data(), out, bytes.size())) fail_shortened(*this);
}

std::vector<double> TensorView::doubles() const {
  if (scales) {
    const std::vector<float> values = floats();
    return {values.begin(), values.end()};
  }
  std::vector<double> values(elements());
  visit_elements(*this, 0, elements(), [&](std::size_t i, auto value) { values[i] = static_cast<double>(value); });
  return values;
}

std::vector<std::int64_t> TensorView::integers() const {
  std::vector<std::int64_t> values(elements());
  visit_elements(*this, 0, elements(), [&](std::size_t i, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>)
      values[i] = static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): I8 has a sign
    else
      throw std::runtime_error("tensor '" + name + "': dtype is " + dtype_name(dtype) + "; allowed here: integers");
  });
  return values;
}

std::optional<std::size_t> tensor_bytes(DType dtype, const std::vector<std::size_t>& shape) {
  if (std::ranges::find(shape, 0u) != shape.end()) return 0;
  std::size_t elements = 1, bytes = 0;
  for (const std::size_t size : shape)
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  if (dtype == DType::f4) return elements / 2 + elements % 2;
  if (__builtin_mul_overflow(elements, dtype_bits(dtype) / 8, &bytes)) return std::nullopt;
  return bytes;
}

MappedTensors::MappedTensors(const std::string& file) : path(file) {
  const InputFile input(path);
  bytes = input.size();
  void* mapped = bytes ? ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, input.descriptor(), 0) : nullptr;
  if (mapped == MAP_FAILED) fail(std::string("cannot be mapped: ") + std::strerror(errno));
  data = static_cast<std::byte*>(mapped);
}

MappedTensors::~MappedTensors() {
  if (data) ::munmap(data, bytes);
}

std::string MappedTensors::copied(std::size_t first, std::size_t count) const {
  if (first > bytes || count > bytes - first) fail(fmt::format("ends before byte {} + {}", first, count));
  std::string text(count, '\0');
  if (count > 0 && !copy_mapped(data + first, reinterpret_cast<std::byte*>(text.data()), count))
    fail("was truncated while it was opened");
  return text;
}

void MappedTensors::keep(std::size_t more) {
  list_bytes_ += more;
  if (list_bytes_ > kMaxKeptBytes)
    fail(fmt::format(
        "names and shapes of its tensors take more than {} MiB of memory, more than those of any checkpoint",
        kMaxKeptBytes >> 20));
}

void MappedTensors::add(TensorView tensor) {
  // The name counts twice: in the index and in the list of tensors.
  keep(sizeof tensor + 2 * tensor.name.size() + (tensor.shape.size() + tensor.strides.size()) * sizeof(std::size_t));
  tensors.push_back(std::move(tensor));
}

void MappedTensors::skip(std::string name, std::string reason) {
  keep(sizeof(SkippedEntry) + name.size() + reason.size());
  skipped.push_back({std::move(name), std::move(reason)});
}

void MappedTensors::index_names() {
  by_name.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!by_name.emplace(tensors[i].name, i).second)
      fail("names tensor '" + printable(tensors[i].name) + "' twice; allowed: once");
  for (const auto& [name, place] : other_names) by_name.emplace(name, place);
}

std::vector<std::string> TensorFile::files() const {
  std::vector<std::string> files = {mapped_->path};
  for (const auto& shard : mapped_->shards) files.push_back(shard->path);
  return files;
}
const std::string& TensorFile::file_of(const TensorView& tensor) const {
  for (const auto& shard : mapped_->shards)
    if (const std::less<const std::byte*> before;
        !before(tensor.bytes.data(), shard->data) && before(tensor.bytes.data(), shard->data + shard->bytes))
      return shard->path;
  return mapped_->path;
}

const TensorView* TensorFile::find(std::string_view name) const {
  const auto found = mapped_->by_name.find(name);
  return found == mapped_->by_name.end() ? nullptr : &mapped_->tensors[found->second];
}

const TensorView& TensorFile::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  for (const SkippedEntry& entry : skipped())
    if (entry.name == name) mapped_->fail("tensor '" + printable(entry.name) + "' cannot be read: " + entry.reason);
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const TensorView& tensor : tensors())
    if (tensor.name.size() <= name.size() + kComparedNameBytes)
      near.emplace_back(edit_distance(name.substr(0, kComparedNameBytes), tensor.name), &tensor.name);
  const std::size_t shown = std::min<std::size_t>(3, near.size());
  std::ranges::partial_sort(near, near.begin() + shown, [](const auto& a, const auto& b) {
    return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
  });
  std::string message = "has no tensor '" + printable(std::string(name)) + "'";
  for (std::size_t i = 0; i < shown; ++i)
    message +=
        (i == 0 ? fmt::format("; nearest of its {}: '", tensors().size()) : ", '") + printable(*near[i].second) + "'";
  mapped_->fail(message);
}

namespace {

thread_local sigjmp_buf* volatile reader = nullptr;  // where this thread continues after SIGBUS, or nullptr
struct sigaction before {};

void on_bus_error(int) {
  if (reader) siglongjmp(*reader, 1);
  ::sigaction(SIGBUS, &before, nullptr);  // the access is repeated and reaches the previous handler
}

bool install() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  action.sa_flags = SA_NODEFER;  // siglongjmp leaves the handler without returning
  return ::sigaction(SIGBUS, &action, &before) == 0;
}

}  // namespace

bool read_mapped(void (*read)(const void*), const void* argument) {
  [[maybe_unused]] static const bool installed = install();
  sigjmp_buf return_point;
  if (sigsetjmp(return_point, 0)) {
    reader = nullptr;
    return false;
  }
  reader = &return_point;
  read(argument);
  reader = nullptr;
  return true;
}

}  // namespace moescope
