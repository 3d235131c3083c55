#include "core/files/tensors/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/files/little_endian.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPrefixBytes = 8;                 // bytes of the header's length
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadataKey = "__metadata__";
constexpr std::size_t kMaxMemberBytes = std::size_t{64} << 20;  // limits the memory of a member of the header
constexpr std::size_t kValueBytes = 32, kKeyBytes = 96;         // approximate memory of a value and of a key
// Memory that an object inside a member counts as: the parser looks at all values beside it when it ends. No tensor's
// entry has such an object.
constexpr std::size_t kInnerObjectBytes = std::size_t{1} << 20;

[[noreturn]] void fail_tensor(const std::string& path, const std::string& tensor, const std::string& what) {
  refuse(path, "tensor '" + printable(tensor) + "': " + what);  // a name could fake lines of the message
}

// Returns a value as JSON text, shortened for messages.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::vector<std::size_t> parse_shape(const std::string& path, const std::string& tensor, const Json& value) {
  if (!value.is_array()) fail_tensor(path, tensor, "shape is " + shown(value) + "; allowed: a list of sizes >= 0");
  if (value.size() > kMaxDimensions)
    fail_tensor(path, tensor, fmt::format("has {} dimensions; allowed: at most {}", value.size(), kMaxDimensions));
  std::vector<std::size_t> shape;
  for (const Json& size : value) {
    if (!size.is_number_unsigned())
      fail_tensor(path, tensor, "shape holds " + shown(size) + "; allowed: whole numbers >= 0");
    shape.push_back(size.get<std::size_t>());
  }
  return shape;
}

// Throws if the product overflows: such a tensor cannot be in a file.
std::size_t bytes_of(const std::string& path, const std::string& tensor, DType dtype,
                     const std::vector<std::size_t>& shape) {
  const auto bytes = tensor_bytes(dtype, shape);
  if (!bytes) fail_tensor(path, tensor, "shape " + shape_text(shape) + " overflows; allowed: less than 2^64 bytes");
  return *bytes;
}

struct ByteRange {
  std::size_t begin, end;
};

ByteRange parse_offsets(const std::string& path, const std::string& tensor, const Json& value, std::size_t data_bytes) {
  const bool pair =
      value.is_array() && value.size() == 2 && value[0].is_number_unsigned() && value[1].is_number_unsigned();
  if (!pair)
    fail_tensor(path, tensor, "data_offsets is " + shown(value) + "; allowed: [begin, end], whole numbers >= 0");
  const ByteRange range{value[0].get<std::size_t>(), value[1].get<std::size_t>()};
  if (range.begin > range.end || range.end > data_bytes)
    fail_tensor(
        path, tensor,
        fmt::format(
            "data_offsets is {}; allowed: 0 <= begin <= end <= {}, the bytes after the header (is the file truncated?)",
            shown(value), data_bytes));
  return range;
}

// Reads an entry of the header. A tensor whose type is not supported gets a note that says so.
TensorView parse_tensor(const std::string& path, const std::string& name, const Json& entry,
                        std::span<const std::byte> data) {
  if (!entry.is_object()) fail_tensor(path, name, "entry is " + shown(entry) + "; allowed: an object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(key)) fail_tensor(path, name, std::string("has no '") + key + "'");
  const Json& type = entry["dtype"];
  if (!type.is_string()) fail_tensor(path, name, "dtype is " + shown(type) + "; allowed: a name");
  const std::optional<DType> dtype = dtype_named(type.get_ref<const std::string&>());
  TensorView tensor{name, dtype.value_or(DType::u8), parse_shape(path, name, entry["shape"]), {}};
  const ByteRange range = parse_offsets(path, name, entry["data_offsets"], data.size());
  const std::size_t found = range.end - range.begin;
  tensor.bytes = data.subspan(range.begin, found);
  if (!dtype) {
    tensor.note = "dtype is " + shown(type) + ", which is not supported; supported are F64";
    for (int i = 1; i < kNumDTypes; ++i) tensor.note += std::string(", ") + dtype_name(static_cast<DType>(i));
    return tensor;
  }
  const std::size_t expected = bytes_of(path, name, tensor.dtype, tensor.shape);
  if (found != expected)
    fail_tensor(path, name,
                fmt::format("data_offsets span {} bytes, but shape {} of {} needs {}", found, shape_text(tensor.shape),
                            dtype_name(tensor.dtype), expected));
  return tensor;
}

// Calls `take` for each member of the header and then drops the member, so that a header of a million tensors is never
// in memory as a whole.
void visit_members(const std::string& path, std::string_view text,
                   const std::function<void(const std::string& name, const Json& entry)>& take) {
  using Event = Json::parse_event_t;
  std::string name;
  std::size_t member_bytes = 0;  // memory of the current member, which is in memory as a whole
  const auto take_event = [&](int depth, Event event, const Json& parsed) {
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (depth == 0 && event != Event::object_start && event != Event::object_end)
      refuse(path, "header is " + shown(std::string(text.substr(0, 60))) + "; allowed: a JSON object");
    if (begins && depth >= kMaxNesting)
      refuse(path, std::string("header is not valid JSON of tensors: ") + kNestingMessage);
    if (depth == 1 && event == Event::key) {
      name = parsed.get_ref<const std::string&>();
      return true;
    }
    if (begins) member_bytes += depth > 1 && event == Event::object_start ? kInnerObjectBytes : 2 * kValueBytes;
    if (event == Event::key) member_bytes += kKeyBytes;
    if (event == Event::value) member_bytes += kValueBytes;
    if (parsed.is_string()) member_bytes += parsed.get_ref<const std::string&>().size();
    if (member_bytes > kMaxMemberBytes)
      refuse(path, fmt::format("header's member '{}' takes more than {} MiB of memory", printable(name.substr(0, 100)),
                               kMaxMemberBytes >> 20));
    if (depth != 1 || begins) return true;
    take(name, parsed);
    member_bytes = 0;
    return false;
  };
  try {
    [[maybe_unused]] const Json dropped = Json::parse(text.begin(), text.end(), take_event);
  } catch (const Json::exception& error) {
    refuse(path, "header is not valid JSON: " + without_json_error_numbers(error.what()));
  }
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const Json& value) {
  if (!value.is_object()) refuse(path, "__metadata__ is " + shown(value) + "; allowed: an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse(path, "__metadata__ '" + key + "' is " + shown(text) + "; allowed: a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// A part of the data that a member of the header names.
struct NamedBytes {
  std::span<const std::byte> bytes;
  std::string_view name;
};

// Returns the key by which tensors and other parts are ordered: begin, end and name.
auto place_in_file(const auto& part) {
  return std::tuple(part.bytes.data(), part.bytes.data() + part.bytes.size(), std::string_view(part.name));
}

// The format demands that tensors fill the data without overlap and without gaps.
void check_coverage(const MappedTensors& file, std::vector<NamedBytes> parts, std::span<const std::byte> data) {
  for (const TensorView& tensor : file.tensors) parts.push_back({tensor.bytes, tensor.name});
  std::ranges::sort(parts, {}, place_in_file<NamedBytes>);
  std::size_t end = 0;
  std::string_view previous;
  for (const NamedBytes& part : parts) {
    const std::size_t begin = part.bytes.data() - data.data();
    if (begin != end)
      fail_tensor(
          file.path, std::string(part.name),
          fmt::format("begins at byte {}, but {} at {}; allowed: no overlap and no hole", begin,
                      previous.data() ? "tensor '" + printable(std::string(previous)) + "' ends" : "the data begin",
                      end));
    end = begin + part.bytes.size();
    previous = part.name;
  }
  if (end != data.size())
    refuse(file.path, fmt::format("the tensors end at byte {} of the data, but the file holds {}; allowed: the same",
                                  end, data.size()));
}

}  // namespace

std::shared_ptr<MappedTensors> read_safetensors(const std::string& path) {
  auto file = std::make_shared<MappedTensors>(path);
  const std::size_t bytes = file->bytes;
  if (bytes < kPrefixBytes)
    refuse(path, fmt::format("holds {} bytes; a safetensors file begins with 8 bytes of header length", bytes));
  const std::uint64_t header_bytes = little_endian(file->copied(0, kPrefixBytes));
  const std::uint64_t allowed = std::min<std::uint64_t>(kMaxHeaderBytes, bytes - kPrefixBytes);
  if (header_bytes > allowed)
    refuse(
        path,
        fmt::format("header length is {}; allowed: at most {}{}", header_bytes, allowed,
                    allowed == kMaxHeaderBytes ? "" : ", what the file holds (truncated, or not a safetensors file?)"));
  const std::string text = file->copied(kPrefixBytes, header_bytes);
  const auto payload = std::span<const std::byte>(file->data, bytes).subspan(kPrefixBytes + header_bytes);

  bool has_metadata = false;
  std::vector<std::span<const std::byte>> skipped;
  visit_members(path, text, [&](const std::string& name, const Json& entry) {
    if (name != kMetadataKey) {
      TensorView tensor = parse_tensor(path, name, entry, payload);
      if (tensor.note.empty()) return file->add(std::move(tensor));
      skipped.push_back(tensor.bytes);
      return file->skip(name, std::move(tensor.note));
    }
    if (std::exchange(has_metadata, true)) refuse(path, "header names tensor '" + name + "' twice; allowed: once");
    file->metadata = parse_metadata(path, entry);
  });
  std::ranges::sort(file->tensors, {}, place_in_file<TensorView>);
  file->index_names();
  std::vector<NamedBytes> named;
  for (std::size_t i = 0; i < skipped.size(); ++i) named.push_back({skipped[i], file->skipped[i].name});
  check_coverage(*file, std::move(named), payload);
  return file;
}

SafetensorsStream::SafetensorsStream(const std::string& path, const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(path) {
  std::string text = "{";
  const auto put = [&text](const std::string& key, const nlohmann::ordered_json& value) {
    text += (text.size() > 1 ? "," : "") + Json(key).dump() + ':' + value.dump();
  };
  if (!metadata.empty()) put(kMetadataKey, metadata);
  std::unordered_set<std::string_view> names = {kMetadataKey};
  for (const TensorSpec& t : tensors) {
    if (!names.insert(t.name).second) fail_tensor(path, t.name, "named twice; allowed: once");
    const std::size_t end = declared_ + bytes_of(path, t.name, t.dtype, t.shape);
    put(t.name, {{"dtype", dtype_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {declared_, end}}});
    declared_ = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the data
  const std::uint64_t length = text.size();
  file_.write({reinterpret_cast<const char*>(&length), kPrefixBytes});
  file_.write(text);
}

void SafetensorsStream::append(std::span<const std::byte> bytes) {
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  written_ += bytes.size();
}

void SafetensorsStream::finish() {
  if (written_ != declared_)
    refuse(path_, fmt::format("{} bytes written, but the tensors declared have {}", written_, declared_));
  file_.finish();
}

void SafetensorsWriter::write(const std::string& path) const {
  std::vector<TensorSpec> specs;
  for (const Entry& entry : entries_) {
    const std::size_t expected = bytes_of(path, entry.spec.name, entry.spec.dtype, entry.spec.shape);
    if (entry.bytes.size() != expected)
      fail_tensor(path, entry.spec.name,
                  fmt::format("{} bytes given, but shape {} of {} needs {}", entry.bytes.size(),
                              shape_text(entry.spec.shape), dtype_name(entry.spec.dtype), expected));
    specs.push_back(entry.spec);
  }
  SafetensorsStream stream(path, specs, metadata_);
  for (const Entry& entry : entries_) stream.append(entry.bytes);
  stream.finish();
}

}  // namespace moescope
