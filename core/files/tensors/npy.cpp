#include "core/files/tensors/npy.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "core/files/tensors/tensor_file.h"
#include "core/files/tensors/zip_archive.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

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

// Parses the header, a Python dict of exactly three entries.
class NpyDict {
 public:
  NpyDict(std::string_view text, std::optional<DType> bytes_are) : unread_(text), bytes_are_(bytes_are) {}

  NpyHeader read() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      read_value(key);
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_spaces();
    if (!unread_.empty()) refuse_npy("has " + shown_rest() + " behind its header's end");
    for (const char* key : {"descr", "fortran_order", "shape"})
      if (!read_keys_.contains(key)) refuse_npy("its header lacks '" + std::string(key) + "'");
    return std::move(header_);
  }

 private:
  void skip_spaces() { unread_.remove_prefix(std::min(unread_.find_first_not_of(" \t\r\n"), unread_.size())); }
  bool take(char c) {
    skip_spaces();
    if (!unread_.starts_with(c)) return false;
    unread_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse_npy("its header has " + shown_rest() + " where '" + c + "' is expected");
  }
  std::string shown_rest() const {
    return unread_.empty() ? "nothing" : "'" + printable(std::string(unread_.substr(0, 40))) + "'";
  }
  std::string_view quoted() {
    skip_spaces();
    const char quote = unread_.empty() ? '\0' : unread_.front();
    if (quote != '\'' && quote != '"') refuse_npy("its header has " + shown_rest() + " where a name is expected");
    const std::size_t end = unread_.find(quote, 1);
    if (end == std::string_view::npos) refuse_npy("its header ends in a name");
    const std::string_view text = unread_.substr(1, end - 1);
    unread_.remove_prefix(end + 1);
    return text;
  }
  // Reads a word without quotes: True, or the digits of a number.
  std::string_view word() {
    skip_spaces();
    const auto is_part = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    };
    const auto end = std::ranges::find_if_not(unread_, is_part);
    const std::string_view found = unread_.substr(0, end - unread_.begin());
    unread_.remove_prefix(found.size());
    return found;
  }

  void read_value(std::string_view key) {
    const bool is_new = read_keys_.insert(key).second;
    if (key == "descr" && is_new) return read_descr();
    if (key == "fortran_order" && is_new) return read_order();
    if (key == "shape" && is_new) return read_shape();
    refuse_npy("its header names '" + printable(std::string(key.substr(0, 40))) +
               "'; allowed: 'descr', 'fortran_order' and 'shape', once each");
  }

  void read_order() {
    skip_spaces();
    const std::string before = shown_rest();
    const std::string_view value = word();
    header_.columns_first = value == "True";
    if (value != "True" && value != "False") refuse_npy("fortran_order is " + before + "; allowed: True, False");
  }

  void read_descr() {
    skip_spaces();
    if (unread_.starts_with('['))
      refuse_npy("holds records of several fields; numpy.save(path, array['FIELD']) saves one");
    const std::string_view descr = quoted();
    const char order = descr.empty() ? '\0' : descr.front();
    const std::string_view type = descr.substr(std::min<std::size_t>(1, descr.size()));
    header_.big_endian = order == '>';
    if (type == "V1" || type == "V2") return take_untyped(descr, type == "V1" ? 8 : 16);
    const auto* found = std::ranges::find(kDescrs, type, &Descr::name);
    const bool has_order = order == '<' || order == '>' || (order == '|' && type.ends_with('1'));
    if (found == std::end(kDescrs) || !has_order)
      refuse_npy("descr is '" + printable(std::string(descr.substr(0, 40))) +
                 "'; allowed: f8, f4, f2, i8, i4, i2, i1, u8, u4, u2, u1, b1 behind < or >, and <V2 of bfloat16");
    header_.dtype = found->dtype;
  }

  void take_untyped(std::string_view descr, std::size_t bits) {
    const bool is_said = bytes_are_ && dtype_bits(*bytes_are_) == bits;
    if (!is_said && descr != "<V2")
      throw UntypedArray(
          "descr is '" + std::string(descr) + "', bytes without a type (ml_dtypes writes its " +
              (bits == 8 ? "float8 types so); moescope-cli quantize --dtype F8_E4M3, F8_E5M2 or F8_E8M0 says which"
                         : "bfloat16 as <V2); moescope-cli quantize --dtype BF16 or F16 says which"),
          bits);
    header_.dtype = is_said ? *bytes_are_ : DType::bf16;
  }

  void read_shape() {
    expect('(');
    while (!take(')')) {  // skips spaces
      const std::string before = shown_rest();
      std::string_view digits = word();
      if (digits.ends_with('L')) digits.remove_suffix(1);  // long integers of Python 2
      std::size_t size = 0;
      if (!read_number(digits, size))
        refuse_npy("its header's shape has " + before + " where a whole number from 0 on is expected");
      if (header_.shape.size() == kMaxDimensions)
        refuse_npy("has more than " + std::to_string(kMaxDimensions) + " dimensions");
      header_.shape.push_back(size);
      if (take(',')) continue;
      expect(')');
      break;
    }
  }

  std::string_view unread_;
  std::optional<DType> bytes_are_;
  NpyHeader header_;
  std::set<std::string_view> read_keys_;  // keys
};

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

NpyHeader npy_header(std::string_view bytes, std::optional<DType> bytes_are) {
  if (bytes.size() < kLongestPrefix || !begins_like_npy(bytes)) refuse_npy("does not begin like an .npy file");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) refuse_npy("is .npy of version " + std::to_string(version) + "; allowed: 1 to 3");
  const std::size_t header_at = version == 1 ? 10 : 12;
  const std::size_t header_bytes =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (header_bytes > kMaxNpyHeaderBytes) refuse_npy("its header claims " + std::to_string(header_bytes) + " bytes");
  if (bytes.size() < header_at + header_bytes) refuse_npy("ends in its header");
  NpyHeader header = NpyDict(bytes.substr(header_at, header_bytes), bytes_are).read();
  header.data_at = header_at + header_bytes;
  return header;
}

TensorView npy_tensor(const NpyHeader& header, std::string name, std::span<const std::byte> data) {
  const auto needed = tensor_bytes(header.dtype, header.shape);
  if (!needed || *needed != data.size())
    refuse_npy("holds " + std::to_string(data.size()) + " bytes of data, but shape " + shape_text(header.shape) +
               " of " + dtype_name(header.dtype) + " needs " + (needed ? std::to_string(*needed) : "2^64 and more") +
               (needed && data.size() > *needed ? "" : " (is it truncated?)"));
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
      file.skip(name, "takes, with others, more than " + std::to_string(kMaxUnpackedBytes >> 20) +
                          " MiB unpacked; numpy.savez stores arrays as they are");
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
