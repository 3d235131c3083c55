#include "core/logs/dumps/imatrix.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/count_names.h"
#include "core/logs/dumps/expert_counts.h"

namespace moescope {

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian");

constexpr std::string_view kCounts = ".counts";
constexpr std::uint64_t kMaxEntries = 1'000'000, kLongestGgufText = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxGgufExperts = kMaxImportedExperts;
constexpr std::uint32_t kF32 = 0, kText = 8, kArray = 9;
constexpr int kMaxNestedArrays = 4;

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> extents;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

// Reads the header of a GGUF file: its keys with values, then the names and places of its tensors.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);
  // Reads keys up to "general.type" or to the last one. Returns the value of "general.type"; "" if there is none.
  std::string type();
  const std::vector<GgufTensor>& tensors();
  std::vector<float> floats(const GgufTensor& tensor) const;
  [[noreturn]] void fail(const std::string& reason) const { throw std::runtime_error(path_ + ": " + reason); }

 private:
  template <class Number>
  Number number();
  std::string text();
  void skip(std::uint64_t bytes);
  void read(char* to, std::size_t bytes);
  void read_key();
  void pass_value(std::uint32_t type, int depth);

  std::string path_;
  InputFile file_;
  std::string ahead_;
  std::size_t read_bytes_ = 0;
  std::uint64_t at_ = 0;  // position of the next byte
  std::uint64_t n_tensors_ = 0, keys_left_ = 0, alignment_ = 32, data_at_ = 0;
  std::string type_;
  std::vector<GgufTensor> tensors_;
};

GgufFile::GgufFile(const std::string& path) : path_(path), file_(path) {
  skip(4);  // the magic
  const auto version = number<std::uint32_t>();
  if (version != 2 && version != 3) fail("is GGUF of version " + std::to_string(version) + "; allowed: 2, 3");
  n_tensors_ = number<std::uint64_t>();
  keys_left_ = number<std::uint64_t>();
  if (n_tensors_ > kMaxEntries || keys_left_ > kMaxEntries) fail("claims more than a million keys or tensors");
}

void GgufFile::read(char* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    if (read_bytes_ == ahead_.size()) {
      ahead_.resize(std::size_t{64} << 10);
      ahead_.resize(file_.read(ahead_.data(), ahead_.size()));
      read_bytes_ = 0;
      if (ahead_.empty()) fail("ends in its header (is it truncated?)");
    }
    const std::size_t copied = std::min(bytes - done, ahead_.size() - read_bytes_);
    if (to) std::memcpy(to + done, ahead_.data() + read_bytes_, copied);
    read_bytes_ += copied;
    done += copied;
  }
  at_ += bytes;
}

void GgufFile::skip(std::uint64_t bytes) {
  if (bytes > file_.size()) fail("ends in its header (is it truncated?)");
  read(nullptr, bytes);
}

template <class Number>
Number GgufFile::number() {
  Number value{};
  char bytes[sizeof value];
  read(bytes, sizeof bytes);
  std::memcpy(&value, bytes, sizeof bytes);
  return value;
}

std::string GgufFile::text() {
  const auto length = number<std::uint64_t>();
  if (length > kLongestGgufText || length > file_.size()) fail("has a text of " + std::to_string(length) + " bytes");
  std::string text(static_cast<std::size_t>(length), '\0');
  read(text.data(), text.size());
  return text;
}

void GgufFile::pass_value(std::uint32_t type, int depth) {
  constexpr std::uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type >= std::size(kBytes) || depth > kMaxNestedArrays)
    fail("has a value of type " + std::to_string(type) + ", which GGUF does not have");
  if (type == kText) return skip(number<std::uint64_t>());
  if (type != kArray) return skip(kBytes[type]);
  const auto element_type = number<std::uint32_t>();
  const auto count = number<std::uint64_t>();
  if (count > file_.size()) fail("has an array that is longer than the file");
  if (element_type < std::size(kBytes) && kBytes[element_type] > 0) return skip(kBytes[element_type] * count);
  for (std::uint64_t i = 0; i < count; ++i) pass_value(element_type, depth + 1);
}

void GgufFile::read_key() {
  --keys_left_;
  const std::string key = text();
  const auto type = number<std::uint32_t>();
  if (key == "general.type" && type == kText)
    type_ = text();
  else if (key == "general.alignment" && type == 4)
    alignment_ = number<std::uint32_t>();
  else
    pass_value(type, 0);
}

std::string GgufFile::type() {
  while (keys_left_ > 0 && type_.empty()) read_key();
  return type_;
}

const std::vector<GgufTensor>& GgufFile::tensors() {
  if (!tensors_.empty()) return tensors_;
  while (keys_left_ > 0) read_key();
  for (std::uint64_t i = 0; i < n_tensors_; ++i) {
    GgufTensor& tensor = tensors_.emplace_back();
    tensor.name = text();
    const auto dimensions = number<std::uint32_t>();
    if (dimensions > 4) fail("'" + printable(tensor.name) + "' has " + std::to_string(dimensions) + " dimensions");
    for (std::uint32_t d = 0; d < dimensions; ++d) tensor.extents.push_back(number<std::uint64_t>());
    tensor.type = number<std::uint32_t>();
    tensor.offset = number<std::uint64_t>();
  }
  if (alignment_ == 0 || alignment_ > 65536) fail("has an alignment of " + std::to_string(alignment_));
  data_at_ = (at_ + alignment_ - 1) / alignment_ * alignment_;
  return tensors_;
}

std::vector<float> GgufFile::floats(const GgufTensor& tensor) const {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.extents) {
    if (extent > kMaxGgufExperts) fail("'" + printable(tensor.name) + "' has more experts than can be shown");
    elements *= extent;
    if (elements > kMaxGgufExperts) fail("'" + printable(tensor.name) + "' has more experts than can be shown");
  }
  if (tensor.type != kF32) fail("'" + printable(tensor.name) + "' is not of type F32");
  std::vector<float> values(elements);
  const std::uint64_t bytes = elements * sizeof(float), size = file_.size();
  if (data_at_ > size || tensor.offset > size - data_at_ || bytes > size - data_at_ - tensor.offset)
    fail("'" + printable(tensor.name) + "' lies outside the file (is it truncated?)");
  const ssize_t read_bytes = ::pread(file_.descriptor(), values.data(), static_cast<std::size_t>(bytes),
                                     static_cast<off_t>(data_at_ + tensor.offset));
  if (read_bytes != static_cast<ssize_t>(bytes)) fail("'" + printable(tensor.name) + "' cannot be read");
  return values;
}

// The counts of an importance matrix: those of experts by layer, and the number of tokens.
struct ImatrixCounts {
  std::map<int, std::vector<double>> experts;
  double tokens = 0;
};

ImatrixCounts imatrix_counts(GgufFile& file, std::vector<std::string>& remarks) {
  ImatrixCounts found;
  for (const GgufTensor& tensor : file.tensors()) {
    const int layer = count_name(tensor.name, "").layer;
    if (!tensor.name.ends_with(kCounts) || layer < 0) continue;
    const std::vector<float> values = file.floats(tensor);
    if (tensor.name.find("_exps.") == std::string::npos) {
      if (values.size() == 1) found.tokens = std::max(found.tokens, static_cast<double>(values[0]));
      continue;
    }
    std::vector<double> counts(values.begin(), values.end());
    const auto [of_layer, is_new] = found.experts.try_emplace(layer, counts);
    if (!is_new && of_layer->second != counts)
      remarks.push_back("'" + printable(tensor.name) + "' has other counts than the tensors before it in layer " +
                        std::to_string(layer) + ", which are shown");
  }
  return found;
}

}  // namespace

bool begins_like_gguf(std::string_view bytes) {
  return bytes.starts_with("GGUF");
}

bool is_imatrix(const std::string& path) {
  GgufFile file(path);
  if (const std::string type = file.type(); !type.empty()) return type == "imatrix";
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.name.ends_with(".in_sum2")) return true;
  return false;
}

Imported import_imatrix(const std::string& path, const ImportOptions& options) {
  GgufFile file(path);
  Imported imported;
  const ImatrixCounts found = imatrix_counts(file, imported.remarks);
  if (found.experts.empty())
    file.fail("is an importance matrix without counts of experts: is it one of a dense model, or of an old llama.cpp?");
  ExpertCounts counts(path);
  for (const auto& [layer, experts] : found.experts)
    counts.add(0, layer, experts, "the importance matrix of layer " + std::to_string(layer));
  const auto tokens = static_cast<std::int64_t>(std::min(found.tokens, 1e15));
  const std::int64_t slots = counts.highest_sum();
  const bool every_token = tokens > 0 && slots > 0 && slots % tokens == 0 && counts.sums_are_multiples_of(tokens);
  if (every_token && slots / tokens <= counts.experts()) counts.set_top_k(slots / tokens);
  RunInfo info;
  info.run = options.run;
  info.name = std::filesystem::path(path).stem().string();
  counts.build(std::move(info), options,
               row_of_counts("blk.{layer}.ffn_gate_exps.weight.counts", 1, Certainty::known_program), imported);
  return imported;
}

}  // namespace moescope
