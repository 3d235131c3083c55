#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/files/little_endian.h"
#include "core/files/tensors/tensor_file.h"
#include "core/files/text/text_escape.h"
#include "core/logs/dumps/dump_readers.h"

namespace moescope {

namespace {

constexpr std::string_view kCounts = ".counts";
constexpr std::uint64_t kLongestGgufText = std::uint64_t{16} << 20;
constexpr std::uint32_t kU32 = 4, kText = 8, kArray = 9;
constexpr int kMaxNestedArrays = 4;

// Reads the header of a GGUF file: its keys with values, then the names and places of its tensors. Numbers are
// little-endian.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path) : file_(path) {
    skip(4);  // the magic
    const auto version = number<std::uint32_t>();
    if (version != 2 && version != 3) fail(fmt::format("is GGUF of version {}; allowed: 2, 3", version));
    n_tensors_ = number<std::uint64_t>();
    keys_left_ = number<std::uint64_t>();
  }
  // Reads keys up to "general.type" or to the last one. Returns the value of "general.type"; "" if there is none.
  const std::string& type() {
    while (keys_left_ > 0 && type_.empty()) read_key();
    return type_;
  }
  const std::vector<TensorView>& tensors();
  std::vector<float> floats(const TensorView& tensor) const;
  [[noreturn]] void fail(const std::string& reason) const { file_.fail(reason); }

 private:
  static constexpr DType kOtherType = DType::u8;  // stands for all types except F32

  template <class Number>
  Number number() {
    skip(sizeof(Number));
    return static_cast<Number>(little_endian(file_.copied(at_ - sizeof(Number), sizeof(Number))));
  }
  std::string text() {
    const auto length = number<std::uint64_t>();
    if (length > kLongestGgufText) fail(fmt::format("has a text of {} bytes", length));
    skip(length);
    return file_.copied(at_ - length, length);
  }
  void skip(std::uint64_t bytes) {
    if (bytes > file_.bytes - at_) fail("ends in its header (is it truncated?)");
    at_ += bytes;
  }
  void read_key();
  void pass_value(std::uint32_t type, int depth);

  MappedTensors file_;
  std::uint64_t at_ = 0;  // position of the next byte
  std::uint64_t n_tensors_ = 0, keys_left_ = 0, alignment_ = 32;
  std::string type_;
};

void GgufFile::pass_value(std::uint32_t type, int depth) {
  constexpr std::uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type >= std::size(kBytes) || depth > kMaxNestedArrays)
    fail(fmt::format("has a value of type {}, which GGUF does not have", type));
  if (type == kText) return skip(number<std::uint64_t>());
  if (type != kArray) return skip(kBytes[type]);
  const auto element_type = number<std::uint32_t>();
  const auto count = number<std::uint64_t>();
  if (count > file_.bytes) fail("has an array that is longer than the file");
  if (element_type < std::size(kBytes) && kBytes[element_type] > 0) return skip(kBytes[element_type] * count);
  for (std::uint64_t i = 0; i < count; ++i) pass_value(element_type, depth + 1);
}

void GgufFile::read_key() {
  --keys_left_;
  const std::string key = text();
  const auto type = number<std::uint32_t>();
  if (key == "general.type" && type == kText)
    type_ = text();
  else if (key == "general.alignment" && type == kU32)
    alignment_ = number<std::uint32_t>();
  else
    pass_value(type, 0);
}

const std::vector<TensorView>& GgufFile::tensors() {
  if (!file_.tensors.empty()) return file_.tensors;
  while (keys_left_ > 0) read_key();
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < n_tensors_; ++i) {
    TensorView tensor{text(), kOtherType, {}, {}};
    const auto dimensions = number<std::uint32_t>();
    if (dimensions > 4) fail(fmt::format("'{}' has {} dimensions", printable(tensor.name), dimensions));
    for (std::uint32_t d = 0; d < dimensions; ++d) tensor.shape.push_back(number<std::uint64_t>());
    if (number<std::uint32_t>() == 0) tensor.dtype = DType::f32;
    offsets.push_back(number<std::uint64_t>());
    file_.add(std::move(tensor));
  }
  if (alignment_ == 0 || alignment_ > 65536) fail(fmt::format("has an alignment of {}", alignment_));
  const std::uint64_t data_at = std::min<std::uint64_t>((at_ + alignment_ - 1) / alignment_ * alignment_, file_.bytes);
  const std::span<const std::byte> data = std::span(file_.data, file_.bytes).subspan(data_at);
  for (std::uint64_t i = 0; i < n_tensors_; ++i)
    file_.tensors[i].bytes = data.subspan(std::min<std::uint64_t>(offsets[i], data.size()));
  return file_.tensors;
}

std::vector<float> GgufFile::floats(const TensorView& tensor) const {
  const std::string name = "'" + printable(tensor.name) + "' ";
  const auto bytes = tensor_bytes(DType::f32, tensor.shape);
  if (!bytes || *bytes > kMaxImportedExperts * sizeof(float)) fail(name + "has more experts than can be shown");
  if (tensor.dtype != DType::f32) fail(name + "is not of type F32");
  if (*bytes > tensor.bytes.size()) fail(name + "lies outside the file (is it truncated?)");
  return tensor.floats();
}

}  // namespace

bool begins_like_gguf(std::string_view bytes) {
  return bytes.starts_with("GGUF");
}

bool is_imatrix(const std::string& path) {
  GgufFile file(path);
  if (const std::string type = file.type(); !type.empty()) return type == "imatrix";
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.ends_with(".in_sum2")) return true;
  return false;
}

Imported import_imatrix(const std::string& path, const ImportOptions& options) {
  GgufFile file(path);
  Imported imported;
  std::map<int, std::vector<float>> counts_of_layers;  // by expert
  float highest_total = 0;                             // of the tensors that count all tokens
  for (const TensorView& tensor : file.tensors()) {
    const int layer = count_name(tensor.name).layer;
    if (!tensor.name.ends_with(kCounts) || layer < 0) continue;
    const std::vector<float> values = file.floats(tensor);
    if (tensor.name.find("_exps.") == std::string::npos) {
      if (values.size() == 1) highest_total = std::max(highest_total, values[0]);
    } else if (counts_of_layers.try_emplace(layer, values).first->second != values) {
      imported.remarks.push_back(
          fmt::format("'{}' has other counts than the tensors before it in layer {}, which are shown",
                      printable(tensor.name), layer));
    }
  }
  if (counts_of_layers.empty())
    file.fail("is an importance matrix without counts of experts: is it one of a dense model, or of an old llama.cpp?");
  ExpertCounts counts(path, options);
  for (const auto& [layer, values] : counts_of_layers)
    counts.add(0, layer, std::vector<double>(values.begin(), values.end()),
               fmt::format("the importance matrix of layer {}", layer));
  const auto tokens = static_cast<std::int64_t>(std::min(highest_total, 1e15f));
  const std::int64_t slots = counts.highest_sum();
  const bool every_token = tokens > 0 && slots > 0 && slots % tokens == 0 && counts.sums_are_multiples_of(tokens);
  if (every_token && slots / tokens <= counts.experts()) counts.set_top_k(to_int(slots / tokens));
  return counts.build("blk.{layer}.ffn_gate_exps.weight.counts", std::move(imported));
}

}  // namespace moescope
