#include "core/files/tensors/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/files/little_endian.h"
#include "core/files/tensors/tensor_file.h"
#include "core/files/tensors/zip_archive.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kLongestPrefix = 12;
constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 20;

[[noreturn]] void refuse_npy(const std::string& what) {
  throw std::runtime_error(what);
}

struct Descr {
  std::string_view name;  // without the sign of the byte order
  DType dtype;
};
constexpr Descr kDescrs[] = {{"f8", DType::f64},    {"f4", DType::f32}, {"f2", DType::f16}, {"i8", DType::i64},
                             {"i4", DType::i32},    {"i2", DType::i16}, {"i1", DType::i8},  {"u8", DType::u64},
                             {"u4", DType::u32},    {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean},
                             {"f1", DType::f8_e5m2}};  // ml_dtypes' float8_e5m2

// Returns a header, which is a dict of Python with texts, numbers, truths and tuples, as JSON.
std::string json_of(std::string_view dict) {
  std::string json;
  char quote = '\0';
  for (const char c : dict) {
    const bool is_quote = quote ? c == quote : c == '\'' || c == '"';
    if (is_quote) quote = quote ? '\0' : c;
    const bool closes = !quote && (c == ')' || c == '}');
    if (closes) json.erase(json.find_last_not_of(" ,") + 1);  // Python allows a comma after the last value
    if (is_quote)
      json += '"';
    else if (quote)
      json += c;
    else if (c == '(' || c == ')')
      json += c == '(' ? '[' : ']';
    else if (c == 'T' || c == 'F')  // True, False
      json += c == 'T' ? 't' : 'f';
    else if (c != 'L')  // behind long integers of Python 2
      json += c;
  }
  return json;
}

void read_descr(const std::string& descr, std::optional<DType> bytes_are, NpyHeader& header) {
  const std::string type = descr.substr(std::min<std::size_t>(1, descr.size()));
  header.big_endian = descr.starts_with('>');
  if (type == "V1" || type == "V2") {
    const std::size_t bits = type == "V1" ? 8 : 16;
    const bool is_said = bytes_are && dtype_bits(*bytes_are) == bits;
    if (!is_said && descr != "<V2")
      throw UntypedArray(
          "descr is '" + descr + "', bytes without a type (ml_dtypes writes its " +
              (bits == 8 ? "float8 types so); moescope-cli quantize --dtype F8_E4M3, F8_E5M2 or F8_E8M0 says which"
                         : "bfloat16 as <V2); moescope-cli quantize --dtype BF16 or F16 says which"),
          bits);
    header.dtype = is_said ? *bytes_are : DType::bf16;
    return;
  }
  const auto* found = std::ranges::find(kDescrs, type, &Descr::name);
  const bool has_order = descr.starts_with('<') || header.big_endian || (descr.starts_with('|') && type.ends_with('1'));
  if (found == std::end(kDescrs) || !has_order)
    refuse_npy("descr is '" + printable(descr.substr(0, 40)) +
               "'; allowed: f8, f4, f2, i8, i4, i2, i1, u8, u4, u2, u1, b1 behind < or >, and <V2 of bfloat16");
  header.dtype = found->dtype;
}

NpyHeader header_in(std::string_view text, std::optional<DType> bytes_are) {
  nlohmann::json dict;
  try {
    dict = parse_json(json_of(text));
  } catch (const BadJson& problem) {
    refuse_npy(std::string("its header is no dict of Python: ") + problem.what());
  }
  for (const char* key : {"descr", "fortran_order", "shape"})
    if (!dict.is_object() || !dict.contains(key)) refuse_npy("its header lacks '" + std::string(key) + "'");
  const nlohmann::json &descr = dict["descr"], &order = dict["fortran_order"], &shape = dict["shape"];
  if (descr.is_array()) refuse_npy("holds records of several fields; numpy.save(path, array['FIELD']) saves one");
  if (dict.size() > 3 || !descr.is_string() || !order.is_boolean() || !shape.is_array())
    refuse_npy("its header is not of the form {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}");
  NpyHeader header;
  read_descr(descr.get<std::string>(), bytes_are, header);
  header.columns_first = order.get<bool>();
  if (shape.size() > kMaxDimensions) refuse_npy(fmt::format("has more than {} dimensions", kMaxDimensions));
  for (const nlohmann::json& size : shape) {
    if (!size.is_number_unsigned()) refuse_npy("its shape has a size that is not a whole number from 0 on");
    header.shape.push_back(size.get<std::size_t>());
  }
  return header;
}

// Returns the strides of values that are stored column by column.
std::vector<std::size_t> column_strides(const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * std::max<std::size_t>(shape[d - 1], 1);
  return strides;
}

TensorView read_array(const StoredBytes& stored, std::string name, std::optional<DType> bytes_are) {
  std::string begin(std::min(stored.bytes.size(), kLongestPrefix + kMaxNpyHeaderBytes), '\0');
  if (!copy_mapped(stored.bytes.data(), reinterpret_cast<std::byte*>(begin.data()), begin.size()))
    refuse_npy("was truncated while it was opened");
  const NpyHeader header = npy_header(begin, bytes_are);
  TensorView tensor = npy_tensor(header, std::move(name), stored.bytes.subspan(header.data_at));
  tensor.checksum = stored.checksum;
  return tensor;
}

}  // namespace

NpyHeader npy_described(const std::string& descr, std::vector<std::size_t> shape, bool columns_first) {
  NpyHeader header;
  read_descr(descr, std::nullopt, header);
  header.shape = std::move(shape);
  header.columns_first = columns_first;
  return header;
}

NpyHeader npy_header(std::string_view bytes, std::optional<DType> bytes_are) {
  if (bytes.size() < kLongestPrefix || !begins_like_npy(bytes)) refuse_npy("does not begin like an .npy file");
  const std::size_t version = little_endian(bytes.substr(6, 1));
  if (version < 1 || version > 3) refuse_npy(fmt::format("is .npy of version {}; allowed: 1 to 3", version));
  const std::size_t header_at = version == 1 ? 10 : 12;
  const std::size_t header_bytes = little_endian(bytes.substr(8, header_at - 8));
  if (header_bytes > kMaxNpyHeaderBytes) refuse_npy(fmt::format("its header claims {} bytes", header_bytes));
  if (bytes.size() < header_at + header_bytes) refuse_npy("ends in its header");
  NpyHeader header = header_in(bytes.substr(header_at, header_bytes), bytes_are);
  header.data_at = header_at + header_bytes;
  return header;
}

TensorView npy_tensor(const NpyHeader& header, std::string name, std::span<const std::byte> data) {
  const auto needed = tensor_bytes(header.dtype, header.shape);
  if (!needed || *needed != data.size())
    refuse_npy(fmt::format("holds {} bytes of data, but shape {} of {} needs {}{}", data.size(),
                           shape_text(header.shape), dtype_name(header.dtype),
                           needed ? std::to_string(*needed) : "2^64 and more",
                           needed && data.size() > *needed ? "" : " (is it truncated?)"));
  TensorView tensor{std::move(name), header.dtype, header.shape, data};
  if (header.columns_first && header.shape.size() > 1 && !data.empty()) tensor.strides = column_strides(header.shape);
  tensor.big_endian = header.big_endian;
  return tensor;
}

std::shared_ptr<MappedTensors> read_npy(const std::string& path, std::optional<DType> bytes_are) {
  auto file = std::make_shared<MappedTensors>(path);
  try {
    file->add(read_array({{file->data, file->bytes}, nullptr}, std::filesystem::path(path).stem().string(), bytes_are));
  } catch (const UntypedArray& array) {
    throw UntypedArray(path + ": " + array.what(), array.bits);
  } catch (const std::runtime_error& problem) {
    file->fail(problem.what());
  }
  return file;
}

void read_npz(MappedTensors& file, ZipArchive& archive, std::optional<DType> bytes_are) {
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kSuffix)) {
      file.skip(entry.name, "is no .npy file");
      continue;
    }
    std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    const auto stored = archive.stored(entry);
    if (!stored) {
      file.skip(name,
                fmt::format("takes, with others, more than {} MiB unpacked; numpy.savez stores arrays as they are",
                            kMaxUnpackedBytes >> 20));
      continue;
    }
    try {
      file.add(read_array(*stored, name, bytes_are));
    } catch (const UntypedArray& array) {
      file.skip(name, array.what());
      file.skipped.back().untyped_bits = array.bits;
    } catch (const std::runtime_error& problem) {
      file.skip(name, problem.what());
    }
  }
}

}  // namespace moescope
