#include "core/files/tensors/torch_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/files/tensors/pickle.h"
#include "core/files/tensors/zip_archive.h"
#include "core/io/text_escape.h"

namespace moescope {
namespace {

using Kind = PickleValue::Kind;

constexpr int kMostDepth = 64;
constexpr std::size_t kMostVisits = 10'000'000;  // a value that stands in several places is visited in each

struct TorchType {
  std::string_view name;
  DType dtype;
};
// Of typed storages, and of the dtypes that tensors in untyped ones name.
constexpr TorchType kTypes[] = {{"torch DoubleStorage", DType::f64},
                                {"torch FloatStorage", DType::f32},
                                {"torch HalfStorage", DType::f16},
                                {"torch BFloat16Storage", DType::bf16},
                                {"torch LongStorage", DType::i64},
                                {"torch IntStorage", DType::i32},
                                {"torch ShortStorage", DType::i16},
                                {"torch CharStorage", DType::i8},
                                {"torch ByteStorage", DType::u8},
                                {"torch BoolStorage", DType::boolean},
                                {"torch float64", DType::f64},
                                {"torch float32", DType::f32},
                                {"torch float16", DType::f16},
                                {"torch bfloat16", DType::bf16},
                                {"torch float8_e4m3fn", DType::f8_e4m3},
                                {"torch float8_e5m2", DType::f8_e5m2},
                                {"torch int64", DType::i64},
                                {"torch int32", DType::i32},
                                {"torch int16", DType::i16},
                                {"torch int8", DType::i8},
                                {"torch uint64", DType::u64},
                                {"torch uint32", DType::u32},
                                {"torch uint16", DType::u16},
                                {"torch uint8", DType::u8},
                                {"torch bool", DType::boolean}};

std::optional<DType> type_named(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &TorchType::name);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->dtype);
}

class TorchReader {
 public:
  explicit TorchReader(MappedTensors& file) : file_(file) {
    for (ZipEntry& entry : zip_entries(file)) {
      const std::size_t slash = entry.name.find('/');  // below a folder named like the file
      entries_.emplace(slash == std::string::npos ? entry.name : entry.name.substr(slash + 1), entry);
    }
  }

  void read() {
    const auto pickled = entries_.find("data.pkl");
    if (pickled == entries_.end()) file_.fail("is a zip archive without data.pkl, so not one of torch.save");
    if (const auto order = entries_.find("byteorder");
        order != entries_.end() && file_.copied(order->second.first, order->second.bytes) != "little")
      file_.fail("was written on a big-endian machine; allowed: little-endian");
    Pickle pickle;
    try {
      pickle = read_pickle(file_.copied(pickled->second.first, pickled->second.bytes));
    } catch (const std::runtime_error& problem) {
      file_.fail("its " + std::string(problem.what()));
    }
    collect(*pickle.root, {}, 0);
    std::ranges::stable_sort(file_.tensors, {}, [](const TensorView& tensor) { return tensor.bytes.data(); });
    file_.index_names();
  }

 private:
  using Items = std::vector<PickleValue*>;

  [[noreturn]] void fail_at(const std::string& name, const std::string& what) const {
    file_.fail((name.empty() ? "" : "'" + printable(name) + "': ") + what);
  }

  void collect(const PickleValue& value, const std::string& name, int depth) {
    if (depth > kMostDepth) fail_at(name, "is nested too deeply; allowed: " + std::to_string(kMostDepth) + " levels");
    if (++visits_ > kMostVisits) file_.fail("holds too many values");
    const auto below = [&](const std::string& part) { return name.empty() ? part : name + '.' + part; };
    if (value.kind == Kind::dict) {
      for (std::size_t i = 0; i + 1 < value.items.size(); i += 2)
        collect(*value.items[i + 1], below(key_text(*value.items[i])), depth + 1);
    } else if (value.kind == Kind::list) {
      for (std::size_t i = 0; i < value.items.size(); ++i)
        collect(*value.items[i], below(std::to_string(i)), depth + 1);
    } else if (value.kind == Kind::call) {
      take_call(value, name, depth);
    }
  }

  static std::string key_text(const PickleValue& key) {
    return key.kind == Kind::text ? key.text : key.kind == Kind::number ? std::to_string(key.number) : "?";
  }

  void take_call(const PickleValue& call, const std::string& name, int depth) {
    const std::string& function = call.items[0]->text;
    const Items& arguments = call.items[1]->items;
    if (function == "torch._utils _rebuild_parameter" && !arguments.empty())
      return collect(*arguments[0], name, depth + 1);
    if (function == "torch._utils _rebuild_tensor_v2" && arguments.size() >= 4)
      return add(name, arguments, std::nullopt);
    if (function == "torch._utils _rebuild_tensor_v3" && arguments.size() >= 7) {
      const auto dtype = type_named(arguments[6]->text);
      if (!dtype) fail_at(name, "has dtype " + printable(arguments[6]->text) + ", which is not read here");
      return add(name, arguments, dtype);
    }
    if (function == "torch Size" || function == "torch device") return;
    fail_at(name, "needs the Python object " + printable(function.substr(0, 100)) +
                      ", and nothing in a file is run here; torch.save(model.state_dict(), path) writes plain tensors");
  }

  // (storage, offset, size, stride, ...)
  void add(const std::string& name, const Items& arguments, std::optional<DType> dtype) {
    const std::string title = name.empty() ? std::filesystem::path(file_.path).stem().string() : name;
    if (arguments[0]->kind != Kind::storage || arguments[0]->items[0]->items.size() < 3)
      fail_at(title, "has no storage");
    const Items& storage = arguments[0]->items[0]->items;  // ("storage", type, key, location, elements)
    if (!dtype) dtype = type_named(storage[1]->text);
    if (!dtype) fail_at(title, "has a storage of " + printable(storage[1]->text) + ", which is not read here");
    const auto entry = entries_.find("data/" + storage[2]->text);
    if (entry == entries_.end()) fail_at(title, "its bytes, data/" + printable(storage[2]->text) + ", are missing");
    TensorView tensor{title, *dtype, numbers(title, *arguments[2]), {}};
    check_rows(title, tensor.shape, numbers(title, *arguments[3]));
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    std::size_t begin = 0;
    const bool fits =
        bytes && arguments[1]->number >= 0 &&
        !__builtin_mul_overflow(static_cast<std::size_t>(arguments[1]->number), dtype_bytes(*dtype), &begin) &&
        begin <= entry->second.bytes && *bytes <= entry->second.bytes - begin;
    if (!fits)
      fail_at(title, "shape " + shape_text(tensor.shape) + " of " + dtype_name(*dtype) +
                         " does not fit into its storage of " + std::to_string(entry->second.bytes) + " bytes");
    tensor.bytes = {file_.data + entry->second.first + begin, *bytes};
    file_.tensors.push_back(std::move(tensor));
  }

  std::vector<std::size_t> numbers(const std::string& name, const PickleValue& list) const {
    std::vector<std::size_t> found;
    for (const PickleValue* item : list.items) {
      if (item->kind != Kind::number || item->number < 0) fail_at(name, "has a size that is no whole number from 0 on");
      found.push_back(static_cast<std::size_t>(item->number));
    }
    return found;
  }

  // Row by row without gaps, as contiguous() makes it.
  void check_rows(const std::string& name, const std::vector<std::size_t>& shape,
                  const std::vector<std::size_t>& strides) const {
    bool rows = shape.size() == strides.size();
    std::size_t stride = 1;
    for (std::size_t i = shape.size(); rows && i-- > 0;) {
      rows = shape[i] <= 1 || strides[i] == stride;
      if (__builtin_mul_overflow(stride, std::max<std::size_t>(shape[i], 1), &stride)) rows = false;
    }
    if (!rows && std::ranges::find(shape, 0u) == shape.end())
      fail_at(name, "is not stored row by row (strides " + shape_text(strides) + "); save tensor.contiguous()");
  }

  MappedTensors& file_;
  std::map<std::string, ZipEntry> entries_;
  std::size_t visits_ = 0;
};

}  // namespace

TensorFile read_torch(const std::string& path) {
  auto file = std::make_shared<MappedTensors>(path);
  TorchReader(*file).read();
  return TensorFile(std::move(file));
}

}  // namespace moescope
