#include "core/files/tensors/tensor_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "core/files/tensors/mapped_read.h"
#include "core/io/input_file.h"
#include "core/io/text_escape.h"
#include "core/numerics/float_formats.h"

namespace moescope {
namespace {

struct DTypeInfo {
  const char* name;
  std::size_t bytes;
};
// In the order of DType.
constexpr DTypeInfo kDTypes[] = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                 {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
                                 {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[noreturn]] void fail_shortened(const std::string& tensor) {
  throw std::runtime_error("tensor '" + tensor +
                           "': its file was truncated while it was open (another program wrote it); open it again");
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7FFF;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

// Calls `sink(i, value)` with each element in its own C++ type; F16, BF16 and FP8 as float.
template <class Sink>
void each_element(const TensorView& t, std::size_t first, std::size_t count, Sink sink) {
  const std::byte* p = t.bytes.data() + first * dtype_bytes(t.dtype);
  const auto run = [&]<class Stored>(Stored, auto convert) {
    std::array<std::byte, 1024 * sizeof(Stored)> part;
    for (std::size_t begin = 0; begin < count; begin += 1024) {
      const std::size_t here = std::min<std::size_t>(1024, count - begin);
      if (!copy_mapped(p + begin * sizeof(Stored), part.data(), here * sizeof(Stored))) fail_shortened(t.name);
      for (std::size_t i = 0; i < here; ++i) sink(begin + i, convert(load<Stored>(part.data() + i * sizeof(Stored))));
    }
  };
  const auto same = [](auto value) { return value; };
  switch (t.dtype) {
    case DType::f64:
      return run(double{}, same);
    case DType::f32:
      return run(float{}, same);
    case DType::f16:
      return run(std::uint16_t{}, half_to_float);
    case DType::bf16:
      return run(std::uint16_t{},
                 [](std::uint16_t b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16); });
    case DType::f8_e4m3:
      return run(std::uint8_t{}, [](std::uint8_t c) { return decode(ElementFormat::e4m3, c); });
    case DType::f8_e5m2:
      return run(std::uint8_t{}, [](std::uint8_t c) { return decode(ElementFormat::e5m2, c); });
    case DType::i64:
      return run(std::int64_t{}, same);
    case DType::i32:
      return run(std::int32_t{}, same);
    case DType::i16:
      return run(std::int16_t{}, same);
    case DType::i8:
      return run(std::int8_t{}, same);
    case DType::u64:
      return run(std::uint64_t{}, same);
    case DType::u32:
      return run(std::uint32_t{}, same);
    case DType::u16:
      return run(std::uint16_t{}, same);
    case DType::u8:
      return run(std::uint8_t{}, same);
    case DType::boolean:
      return run(std::uint8_t{}, [](std::uint8_t b) -> std::uint8_t { return b != 0; });
  }
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::size_t dtype_bytes(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].bytes;
}
const char* dtype_name(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].name;
}

std::size_t TensorView::elements() const {
  return bytes.size() / dtype_bytes(dtype);
}

std::vector<float> TensorView::floats(std::size_t first, std::size_t count) const {
  if (first > elements() || count > elements() - first)
    throw std::runtime_error("tensor '" + name + "': elements " + std::to_string(first) + " + " +
                             std::to_string(count) + " asked for, but it has " + std::to_string(elements()));
  std::vector<float> values(count);
  each_element(*this, first, count, [&](std::size_t i, auto value) { values[i] = static_cast<float>(value); });
  return values;
}

void TensorView::copy_bytes(std::byte* out) const {
  if (!bytes.empty() && !copy_mapped(bytes.data(), out, bytes.size())) fail_shortened(name);
}

std::vector<double> TensorView::doubles() const {
  std::vector<double> values(elements());
  each_element(*this, 0, elements(), [&](std::size_t i, auto value) { values[i] = static_cast<double>(value); });
  return values;
}

std::vector<std::int64_t> TensorView::integers() const {
  std::vector<std::int64_t> values(elements());
  each_element(*this, 0, elements(), [&](std::size_t i, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>)
      values[i] = static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): I8 has a sign
    else
      throw std::runtime_error("tensor '" + name + "': dtype is " + dtype_name(dtype) + "; allowed here: integers");
  });
  return values;
}

std::optional<std::size_t> tensor_bytes(DType dtype, const std::vector<std::size_t>& shape) {
  if (std::ranges::find(shape, 0u) != shape.end()) return 0;
  std::size_t bytes = dtype_bytes(dtype);
  for (const std::size_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

MappedTensors::MappedTensors(const std::string& file) : path(file) {
  const InputFile input(path);
  bytes = static_cast<std::size_t>(input.size());
  void* mapped = bytes ? ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, input.descriptor(), 0) : nullptr;
  if (mapped == MAP_FAILED) fail(std::string("cannot be mapped: ") + std::strerror(errno));
  data = static_cast<std::byte*>(mapped);
}

MappedTensors::~MappedTensors() {
  if (data) ::munmap(data, bytes);
}

std::string MappedTensors::copied(std::size_t first, std::size_t count) const {
  if (first > bytes || count > bytes - first)
    fail("ends before byte " + std::to_string(first) + " + " + std::to_string(count));
  std::string text(count, '\0');
  if (count > 0 && !copy_mapped(data + first, reinterpret_cast<std::byte*>(text.data()), count))
    fail("was truncated while it was opened");
  return text;
}

void MappedTensors::index_names() {
  by_name.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!by_name.emplace(tensors[i].name, i).second)
      fail("names tensor '" + printable(tensors[i].name) + "' twice; allowed: once");
}

void MappedTensors::fail(const std::string& what) const {
  throw std::runtime_error(path + ": " + what);
}

const std::string& TensorFile::path() const {
  return mapped_->path;
}
const std::vector<TensorView>& TensorFile::tensors() const {
  return mapped_->tensors;
}
const std::map<std::string, std::string>& TensorFile::metadata() const {
  return mapped_->metadata;
}

const TensorView* TensorFile::find(std::string_view name) const {
  const auto found = mapped_->by_name.find(name);
  return found == mapped_->by_name.end() ? nullptr : &mapped_->tensors[found->second];
}

const TensorView& TensorFile::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const TensorView& tensor : tensors()) near.emplace_back(edit_distance(name, tensor.name), tensor.name);
  std::sort(near.begin(), near.end());
  std::string message = "has no tensor '" + std::string(name) + "'";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i)
    message += (i == 0 ? "; nearest of its " + std::to_string(near.size()) + ": '" : ", '") + near[i].second + "'";
  mapped_->fail(message);
}

}  // namespace moescope
