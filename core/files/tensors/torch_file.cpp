#include "core/files/tensors/torch_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/files/little_endian.h"
#include "core/files/tensors/npy.h"
#include "core/files/tensors/pickle.h"
#include "core/files/tensors/zip_archive.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

using Kind = PickleValue::Kind;
using Items = std::vector<PickleValue*>;

// The parts of a persistent id that readers need.
struct TorchStorage {
  std::string_view type;  // "FloatStorage"
  std::string_view key;
  std::size_t first_element = 0;  // for views into another storage, which PyTorch before 1.6 wrote
};

// Returns nullopt if it is not a storage.
std::optional<TorchStorage> torch_storage(const PickleValue& id) {
  if (id.kind != Kind::storage || id.items.front()->items.size() < 3) return std::nullopt;
  const Items& items = id.items.front()->items;  // ("storage", type, key, location, elements, view)
  TorchStorage storage{items[1]->name, items[2]->text};
  if (items.size() > 5 && items[5]->items.size() >= 3) {  // (key of the view, first element, elements)
    const std::int64_t first = items[5]->items[1]->number;
    if (first < 0) return std::nullopt;
    storage.first_element = first;
  }
  return storage;
}

struct TorchBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const PartChecksum> checksum;
  std::string missing;  // why the bytes are missing; empty if they are not
};
using FindStorage = std::function<TorchBytes(std::string_view key)>;

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxAttributes = 128;  // keys and values of a state that are searched for an attribute
// Limits visits of a value in several places, because each place is visited.
constexpr std::size_t kMaxPlaces = 10'000;
constexpr std::size_t kMaxVisits = 3'000'000, kMaxSkippedValues = 100'000'000, kMaxSkippedDeepValues = 1000;
// Limits the elements of expanded tensors, which show few values in many places, because computing figures of more
// elements takes minutes.
constexpr std::size_t kMaxRepeatedBytes = std::size_t{1} << 30;

constexpr std::size_t kUnpackedEntryBytes = 64;  // memory of an array besides its values

// Limits names, because long keys may occur in the path of a tensor again and again.
constexpr std::size_t kLongestTensorName = std::size_t{16} << 20;

struct TorchType {
  std::string_view storage, dtype;
  std::size_t bytes;
  std::optional<DType> read_as;  // nullopt: tensors of this type are skipped
};
constexpr TorchType kTypes[] = {{"DoubleStorage", "float64", 8, DType::f64},
                                {"FloatStorage", "float32", 4, DType::f32},
                                {"HalfStorage", "float16", 2, DType::f16},
                                {"BFloat16Storage", "bfloat16", 2, DType::bf16},
                                {"LongStorage", "int64", 8, DType::i64},
                                {"IntStorage", "int32", 4, DType::i32},
                                {"ShortStorage", "int16", 2, DType::i16},
                                {"CharStorage", "int8", 1, DType::i8},
                                {"ByteStorage", "uint8", 1, DType::u8},
                                {"BoolStorage", "bool", 1, DType::boolean},
                                {"", "uint64", 8, DType::u64},
                                {"", "uint32", 4, DType::u32},
                                {"", "uint16", 2, DType::u16},
                                {"Float8_e4m3fnStorage", "float8_e4m3fn", 1, DType::f8_e4m3},
                                {"Float8_e5m2Storage", "float8_e5m2", 1, DType::f8_e5m2},
                                {"", "float8_e8m0fnu", 1, DType::f8_e8m0},
                                {"", "float4_e2m1fn_x2", 1, DType::f4},
                                {"", "float8_e4m3fnuz", 1, std::nullopt},
                                {"", "float8_e5m2fnuz", 1, std::nullopt},
                                {"ComplexFloatStorage", "complex64", 8, std::nullopt},
                                {"ComplexDoubleStorage", "complex128", 16, std::nullopt},
                                {"QInt8Storage", "qint8", 1, std::nullopt},
                                {"QUInt8Storage", "quint8", 1, std::nullopt},
                                {"QInt32Storage", "qint32", 4, std::nullopt},
                                {"QUInt4x2Storage", "quint4x2", 1, std::nullopt},
                                {"QUInt2x4Storage", "quint2x4", 1, std::nullopt}};

const TorchType* find_type(std::string_view name) {
  const auto* found = std::ranges::find_if(
      kTypes, [&](const TorchType& type) { return type.dtype == name || (!name.empty() && type.storage == name); });
  return found == std::end(kTypes) ? nullptr : found;
}

// Why a tensor or an object is skipped.
struct SkippedTensor : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Part of the path to a value.
struct Step {
  const PickleValue* key = nullptr;  // key in a dict; nullptr: `index` in a list
  std::size_t index = 0;
};

std::string shown_global(const PickleValue& global) {
  const std::string_view module = global.text.substr(0, 100), name = global.name.substr(0, 100);
  return printable(std::string(module) + (module.empty() ? "" : ".") + std::string(name));
}

// True for the attributes that hold a module's parameters.
bool is_part_of_module(std::string_view attribute) {
  return attribute == "_parameters" || attribute == "_buffers" || attribute == "_modules";
}

// Functions of torch._utils whose tensors are skipped, with a description of these tensors.
struct KnownMaker {
  std::string_view name, what;
};
constexpr KnownMaker kSkippedMakers[] = {
    {"_rebuild_qtensor", "is quantized by PyTorch; save tensor.dequantize()"},
    {"_rebuild_sparse_tensor", "is sparse; save tensor.to_dense()"},
    {"_rebuild_sparse_csr_tensor", "is sparse; save tensor.to_dense()"},
    {"_rebuild_nested_tensor", "is nested; save tensor.to_padded_tensor(0.0)"},
    {"_rebuild_meta_tensor_no_storage", "is on the device meta and has no values"},
    {"_rebuild_device_tensor_from_numpy", "lies in the pickle itself; save tensor.cpu()"},
    {"_rebuild_device_tensor_from_cpu_tensor", "lies in the pickle itself; save tensor.cpu()"}};

// Names of whole numbers that are kept, as tensors of one element: the step of an entry of a list.
constexpr std::array<std::string_view, 3> kStepsOfRecords = {"forward_pass_id", "step", "iteration"};

class Collector {
 public:
  Collector(const FindStorage& find, bool big_endian, MappedTensors& file)
      : find_(find), big_endian_(big_endian), file_(file) {}

  void collect(const PickleValue& value) {
    if (empty_.contains(&value)) return;
    const std::size_t visits = visits_, found = file_.tensors.size() + file_.skipped.size();
    visit(value);
    // Containers may contain each other in so many ways that there are too many paths. Therefore a container in which
    // no tensor was found is not visited again.
    if (visits_ > visits + 1 && found == file_.tensors.size() + file_.skipped.size()) empty_.insert(&value);
  }

 private:
  void visit(const PickleValue& value) {
    // Plain values are passed over quickly, because lists of numbers may be long.
    passed_ += value.items.size();
    if (++visits_ > kMaxVisits || passed_ > kMaxSkippedValues)
      file_.fail(fmt::format("holds more than {} containers and objects, or more values than {}", kMaxVisits,
                             kMaxSkippedValues));
    if (path_.size() > static_cast<std::size_t>(kMaxDepth)) return skip_too_deep();
    if ((value.kind == Kind::call || value.kind == Kind::storage) && ++places_[&value] > kMaxPlaces)
      file_.fail(fmt::format("names one tensor or object in more than {} places", kMaxPlaces));
    switch (value.kind) {
      case Kind::dict:
        if (add_numbers(value)) return;
        for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) below({value.items[i]}, *value.items[i + 1]);
        return;
      case Kind::list:
        for (std::size_t i = 0; i < value.items.size(); ++i) below({nullptr, i}, *value.items[i]);
        return;
      case Kind::call:
        return collect_call(value);
      case Kind::storage:
        return skip("is a storage and no tensor");
      default:
        return;
    }
  }

  void below(Step step, const PickleValue& value) {
    const bool is_step = value.kind == Kind::number && step.key &&
                         std::ranges::count(kStepsOfRecords, step.key->text) > 0 &&
                         std::ranges::any_of(path_, [](const Step& outer) { return !outer.key; });  // in a list
    if ((value.kind == Kind::none || value.kind == Kind::number || value.kind == Kind::text) && !is_step) return;
    path_.push_back(step);
    if (is_step)
      add_numbers(std::array{value.number}, {});
    else
      collect(value);
    path_.pop_back();
  }

  std::string name() const {
    std::string text;
    for (const Step& step : path_) {
      if (step.key && objects_ > 0 && is_part_of_module(step.key->text)) continue;
      if (!text.empty()) text += '.';
      if (!step.key)
        text += std::to_string(step.index);
      else if (step.key->kind == Kind::text)
        text += std::string(step.key->text);
      else if (step.key->kind == Kind::number)
        text += std::to_string(step.key->number);
      else
        text += std::string("?");
      if (text.size() > kLongestTensorName)
        file_.fail(fmt::format("names a tensor by more than {} MiB", kLongestTensorName >> 20));
    }
    return text.empty() ? std::filesystem::path(file_.path).stem().string() : text;
  }

  void skip_too_deep() {
    const std::string reason = fmt::format("is nested more than {} deep", kMaxDepth);
    if (++too_deep_ > kMaxSkippedDeepValues) file_.fail("holds much that " + reason);
    skip(reason);
  }
  void skip(const std::string& reason) { file_.skip(name(), reason); }

  void collect_call(const PickleValue& call) {
    const PickleValue& function = *call.items[0];
    const Items& arguments = call.items[1]->items;
    try {
      if (function.text == "torch._utils" && rebuild_tensor(function.name, arguments)) return;
      if (function.text == "torch._tensor" && function.name.starts_with("_rebuild_from_type"))
        return take_typed(arguments);
      const bool is_counter = function.is("collections", "Counter");
      if ((function.text == "torch.jit._pickle" || is_counter) && !arguments.empty())
        return collect_same_place(*arguments[0]);
      if (const auto array = array_of(call)) return add_array(*array);
      if (function.text == "__builtin__" || function.text == "builtins") {  // set(), bytearray()
        for (const PickleValue* argument : arguments) collect_same_place(*argument);
        return;
      }
      if (function.is("_codecs", "encode") || function.is("torch", "Size") || function.is("torch", "device") ||
          function.is("torch.serialization", "_get_layout"))
        return;
    } catch (const SkippedTensor& skipped) {
      return skip(skipped.what());
    }
    collect_object(call);
  }

  // Collects the attributes of an object that are tensors, whatever its class is.
  void collect_object(const PickleValue& object) {
    const std::size_t before = file_.tensors.size();
    ++objects_;
    if (object.state) collect_same_place(*object.state);
    --objects_;
    if (objects_ > 0 || file_.tensors.size() != before) return;
    skip("is the Python object " + shown_global(*object.items[0]) + ", and code in a file is not run");
  }

  // Returns false if the function makes something other than a tensor.
  bool rebuild_tensor(std::string_view maker, const Items& arguments) {
    if (maker == "_rebuild_parameter" || maker == "_rebuild_parameter_with_state") {
      if (!arguments.empty()) collect_same_place(*arguments[0]);
      return true;
    }
    if (maker == "_rebuild_tensor" || maker == "_rebuild_tensor_v2") {
      add(arguments, {});
      return true;
    }
    if (maker == "_rebuild_tensor_v3") {
      if (arguments.size() < 7) throw SkippedTensor("has too few arguments");
      add(arguments, arguments[6]->name);
      return true;
    }
    const auto* known = std::ranges::find(kSkippedMakers, maker, &KnownMaker::name);
    if (known != std::end(kSkippedMakers)) throw SkippedTensor(std::string(known->what));
    return false;
  }

  void collect_same_place(const PickleValue& value) {
    if (same_place_ == kMaxDepth) return skip_too_deep();
    ++same_place_;
    collect(value);
    --same_place_;
  }

  // Takes a tensor of a subclass. `arguments` are (function, type, arguments, state).
  void take_typed(const Items& arguments) {
    if (arguments.size() < 3) throw SkippedTensor("has too few arguments");
    const PickleValue &function = *arguments[0], &type = *arguments[1];
    const Items& inner = arguments[2]->items;
    if (function.is("torch._utils", "_rebuild_wrapper_subclass")) return take_wrapper(type, inner, arguments);
    const bool computed = function.text != "torch._utils" || !rebuild_tensor(function.name, inner);
    if (computed) throw SkippedTensor("is a " + shown_global(type) + ", whose values its class computes");
  }

  // Takes a DTensor's local part as the tensor if this part is the whole tensor.
  void take_wrapper(const PickleValue& type, const Items& inner, const Items& arguments) {
    if (!type.name.ends_with("DTensor") || inner.size() < 3 || arguments.size() < 4)
      throw SkippedTensor("is a " + shown_global(type) + ", whose values its class computes");
    const PickleValue* local = attribute(*arguments[3], "_local_tensor");
    const bool plain = local && local->kind == Kind::call && local->items[0]->text == "torch._utils" &&
                       local->items[1]->items.size() >= 4;
    if (!plain || numbers(*local->items[1]->items[2]) != numbers(*inner[2]))
      throw SkippedTensor("is a part of the DTensor " + shape_text(numbers(*inner[2])) +
                          ", whose other parts are in other files; save tensor.full_tensor()");
    collect_same_place(*local);
  }

  // Finds an attribute in a state, which is a dict or, for some classes, a pair whose second value is a dict.
  static const PickleValue* attribute(const PickleValue& state, std::string_view name) {
    if (state.kind == Kind::list)
      return state.items.size() == 2 && state.items[1]->kind == Kind::dict ? attribute(*state.items[1], name) : nullptr;
    for (std::size_t i = 0; i + 1 < std::min(state.items.size(), kMaxAttributes); i += 2)
      if (state.items[i]->text == name) return state.items[i + 1];
    return nullptr;
  }

  // Adds a tensor. `arguments` are (storage, offset, size, stride, requires_grad, hooks, dtype or metadata, ...).
  void add(const Items& arguments, std::string_view dtype_name_given) {
    if (arguments.size() < 4) throw SkippedTensor("has too few arguments");
    const auto storage = torch_storage(*arguments[0]);
    if (!storage) throw SkippedTensor("has no storage");
    const std::string_view type = dtype_name_given.empty() ? storage->type : dtype_name_given;
    const TorchType* known = find_type(type);
    if (!known || !known->read_as)
      throw SkippedTensor("has the type " + printable(std::string(type.substr(0, 100))) + ", which is not read");
    const PickleValue& metadata = *arguments[arguments.size() > 7 ? 7 : arguments.size() - 1];
    if (metadata.kind == Kind::dict && is_set(attribute(metadata, "neg")))
      throw SkippedTensor("is a negated view; save tensor.resolve_neg()");
    TensorView tensor{{}, *known->read_as, numbers(*arguments[2]), {}};
    tensor.strides = numbers(*arguments[3]);
    tensor.big_endian = big_endian_;
    if (tensor.strides.size() != tensor.shape.size()) throw SkippedTensor("has other strides than sizes");
    if (arguments[1]->kind != Kind::number || arguments[1]->number < 0)
      throw SkippedTensor("has no place in its storage");
    place_in_storage(tensor, *storage, arguments[1]->number);
    tensor.name = name();
    file_.add(std::move(tensor));
  }

  // What a call that makes an array of NumPy, or a number of it, says about it.
  struct PickledArray {
    const PickleValue *dtype, *data, *shape = nullptr;  // shape: nullptr for a number
    bool columns_first = false;
  };
  static std::optional<PickledArray> array_of(const PickleValue& call) {
    const PickleValue& maker = *call.items[0];
    const Items &arguments = call.items[1]->items, none = {}, &state = call.state ? call.state->items : none;
    if (!maker.text.starts_with("numpy")) return std::nullopt;
    if (maker.name == "_reconstruct" && state.size() >= 5)  // (version, shape, type, in order of columns, data)
      return PickledArray{state[2], state[4], state[1], is_set(state[3])};
    if (maker.name == "_frombuffer" && arguments.size() >= 4)
      return PickledArray{arguments[1], arguments[0], arguments[2], arguments[3]->text == "F"};
    if (maker.name == "scalar" && arguments.size() >= 2) return PickledArray{arguments[0], arguments[1]};
    return std::nullopt;
  }

  TensorView view_of(const PickledArray& array) {
    const PickleValue& type = *array.dtype;  // numpy.dtype("i8"), whose state is (version, "<", ...)
    if (type.kind != Kind::call || type.items[1]->items.empty() || !type.state || type.state->items.size() < 2)
      throw SkippedTensor("is an array of an unknown type");
    const std::string descr(std::string(type.state->items[1]->text) + std::string(type.items[1]->items[0]->text));
    const std::vector<std::size_t> shape = array.shape ? numbers(*array.shape) : std::vector<std::size_t>();
    try {
      return npy_tensor(npy_described(descr, shape, array.columns_first), {}, bytes_of(*array.data));
    } catch (const std::runtime_error& problem) {
      throw SkippedTensor("is an array of NumPy: " + std::string(problem.what()));
    }
  }
  void add_array(const PickledArray& array) {
    if (!array.shape) return;  // a number
    TensorView tensor = view_of(array);
    tensor.name = name();
    file_.add(std::move(tensor));
  }

  // Returns a copy of bytes in the pickle, which protocol 2 writes as _codecs.encode(TEXT, "latin1").
  std::span<const std::byte> bytes_of(const PickleValue& data) {
    const bool is_encoded = data.kind == Kind::call && data.items[0]->is("_codecs", "encode");
    const Items& arguments = is_encoded ? data.items[1]->items : data.items;
    const std::string_view text = is_encoded && !arguments.empty() ? arguments[0]->text : data.text;
    file_.keep(kUnpackedEntryBytes + text.size());
    std::vector<std::byte>& bytes = file_.unpacked.emplace_back();
    for (std::size_t i = 0; i < text.size(); ++i) {
      auto byte = static_cast<unsigned char>(text[i]);
      if (is_encoded && byte >= 0x80 && i + 1 < text.size())  // UTF-8 of two bytes
        byte = static_cast<unsigned char>(byte << 6 | (text[++i] & 0x3f));
      bytes.push_back(static_cast<std::byte>(byte));
    }
    return bytes;
  }

  std::optional<std::int64_t> number_of(const PickleValue& value) {
    if (value.kind == Kind::number) return value.number;
    const auto array = value.kind == Kind::call ? array_of(value) : std::nullopt;
    if (!array || array->shape) return std::nullopt;
    try {
      return view_of(*array).integers().front();
    } catch (const std::runtime_error&) {  // damaged, or no whole number
      file_.keep(0);                       // throws if the memory is used up
      return std::nullopt;
    }
  }
  // Adds a dict of whole numbers by index, such as counts by expert, as a tensor. Returns false for another dict.
  bool add_numbers(const PickleValue& dict) {
    constexpr std::int64_t kMaxIndex = 1 << 20;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const auto index = number_of(*dict.items[i]), number = number_of(*dict.items[i + 1]);
      if (!index || !number || *index < 0 || *index > kMaxIndex) return false;
      if (std::cmp_less_equal(values.size(), *index)) values.resize(*index + 1);
      values[*index] = *number;
    }
    if (!values.empty()) add_numbers(values, {values.size()});
    return !values.empty();
  }
  void add_numbers(std::span<const std::int64_t> values, std::vector<std::size_t> shape) {
    file_.keep(values.size_bytes());
    const auto bytes = std::as_bytes(values);
    file_.add({name(), DType::i64, std::move(shape), file_.unpacked.emplace_back(bytes.begin(), bytes.end())});
  }

  static bool is_set(const PickleValue* flag) { return flag && flag->kind == Kind::number && flag->number != 0; }

  void place_in_storage(TensorView& tensor, const TorchStorage& storage, std::size_t offset) const {
    const TorchBytes stored = find_(storage.key);
    if (!stored.missing.empty()) throw SkippedTensor(stored.missing);
    const std::size_t size = std::max<std::size_t>(1, dtype_bits(tensor.dtype) / 8);
    std::size_t first = 0, last = 0;  // elements
    bool fits = !__builtin_add_overflow(offset, storage.first_element, &first);
    const bool empty = std::ranges::find(tensor.shape, 0u) != tensor.shape.end();
    std::size_t elements = 1, step = 0;
    for (std::size_t d = 0; fits && !empty && d < tensor.shape.size(); ++d)
      fits = !__builtin_mul_overflow(elements, tensor.shape[d], &elements) &&
             !__builtin_mul_overflow(tensor.shape[d] - 1, tensor.strides[d], &step) &&
             !__builtin_add_overflow(last, step, &last);
    const std::size_t held = stored.bytes.size() / size;
    fits = fits && first <= held && (empty || last < held - first);
    if (!fits)
      throw SkippedTensor(fmt::format(
          "does not fit into its storage: shape {}, strides {} from element {} on need more than its {} bytes",
          shape_text(tensor.shape), shape_text(tensor.strides), offset, stored.bytes.size()));
    tensor.bytes = stored.bytes.subspan(first * size, empty ? 0 : (last + 1) * size);
    tensor.checksum = stored.checksum;
    if (empty || is_row_by_row(tensor)) tensor.strides.clear();
    if (!tensor.strides.empty() && elements > kMaxRepeatedBytes && elements > held)
      throw SkippedTensor(
          fmt::format("repeats its {} stored values in {} places; save tensor.contiguous()", held, elements));
    if (tensor.dtype == DType::f4) unpack_pairs(tensor);
  }

  // Gives a float4_e2m1fn_x2 tensor, whose elements are pairs of values, the shape of its values.
  static void unpack_pairs(TensorView& tensor) {
    if (!tensor.strides.empty() || tensor.shape.empty())
      throw SkippedTensor("has the type float4_e2m1fn_x2 and is not stored row by row; save tensor.contiguous()");
    tensor.shape.back() *= 2;
  }

  static bool is_row_by_row(const TensorView& tensor) {
    std::size_t stride = 1;
    for (std::size_t d = tensor.shape.size(); d-- > 0; stride *= tensor.shape[d])
      if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    return true;
  }

  static std::vector<std::size_t> numbers(const PickleValue& list) {
    if (list.items.size() > kMaxDimensions)
      throw SkippedTensor(fmt::format("has {} dimensions; allowed: at most {}", list.items.size(), kMaxDimensions));
    std::vector<std::size_t> found;
    for (const PickleValue* item : list.items) {
      if (item->kind != Kind::number || item->number < 0)
        throw SkippedTensor("has a size that is not a whole number of at least 0");
      found.push_back(item->number);
    }
    return found;
  }

  const FindStorage& find_;
  bool big_endian_;
  MappedTensors& file_;
  std::unordered_set<const PickleValue*> empty_;                // containers in which no tensor was found
  std::unordered_map<const PickleValue*, std::size_t> places_;  // visits of each tensor and object
  std::vector<Step> path_;                                      // from the root to the current value
  int objects_ = 0;                                             // number of objects on the path
  int same_place_ = 0;                                          // depth of nested calls of collect_same_place()
  std::size_t visits_ = 0, passed_ = 0, too_deep_ = 0;
};

// Skips tensors that have the name of a tensor before them: {"a.b": x, "a": {"b": y}} has two tensors with one path.
void skip_same_names(MappedTensors& file) {
  std::vector<std::size_t> repeated;
  {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < file.tensors.size(); ++i)
      if (!names.insert(file.tensors[i].name).second) repeated.push_back(i);
  }
  for (std::size_t i = repeated.size(); i-- > 0;) {
    file.skip(file.tensors[repeated[i]].name, "has the name of a tensor before it");
    file.tensors[repeated[i]].name.clear();
  }
  if (!repeated.empty()) std::erase_if(file.tensors, [](const TensorView& tensor) { return tensor.name.empty(); });
}

void collect_torch_tensors(const Pickle& pickle, const FindStorage& find, bool big_endian, MappedTensors& file) {
  Collector(find, big_endian, file).collect(*pickle.root);
  skip_same_names(file);
  std::ranges::stable_sort(file.tensors, {}, [&](const TensorView& tensor) {  // unpacked ones last, as they are listed
    const std::size_t place =
        std::less<>()(tensor.bytes.data(), file.data) ? SIZE_MAX : tensor.bytes.data() - file.data;
    return std::min(place, file.bytes);
  });
  file.index_names();
}

constexpr std::string_view kPickled = "data.pkl";

Pickle pickle_of(const MappedTensors& file, std::string_view bytes) {
  try {
    return read_pickle(bytes);
  } catch (const std::runtime_error& problem) {
    file.fail("its " + std::string(problem.what()));
  }
}

// Returns the folder of the entries of an archive, "NAME/"; "" if they are not in one.
std::string folder_of(const MappedTensors& file, const ZipArchive& archive) {
  std::set<std::string> folders;
  for (const ZipEntry& entry : archive.entries()) {
    folders.insert(entry.name.substr(0, entry.name.find('/') + 1));
    if (folders.size() > 1)
      file.fail("holds two folders, '" + printable(*folders.begin()) + "' and '" + printable(*folders.rbegin()) +
                "', of which either may be meant; torch.save writes one");
  }
  return *folders.begin();
}

// Reads files of PyTorch before 1.6: pickles of a magic number, a version, facts about the machine, and the object;
// then a pickle of the keys of its storages, and for each storage a count of elements in 8 bytes and the elements.
class LegacyReader {
 public:
  explicit LegacyReader(MappedTensors& file)
      : file_(file), text_(file.copied(0, std::min(file.bytes, kMaxPickleBytes))), unread_(text_) {}

  void read() {
    if (const Pickle first = next(); first.root->kind != Kind::large || first.root->text != kMagic) {
      const auto find = [](std::string_view) { return TorchBytes{{}, nullptr, "lacks its storage"}; };
      collect_torch_tensors(first, find, false, file_);  // of pickle.dump
      if (!file_.tensors.empty()) return;
      file_.fail(
          "is a pickle, but not one of torch.save; torch.save(model.state_dict(), path) writes a file that can be "
          "read");
    }
    next();  // the version is always 1001
    const bool little = is_little(next());
    const Pickle object = next(), keys = next();
    place_storages(object, keys, little);
    const auto find = [&](std::string_view key) {
      const auto found = storages_.find(key);
      return found == storages_.end() ? TorchBytes{{}, nullptr, "lacks its storage, which is not in the file"}
                                      : found->second;
    };
    collect_torch_tensors(object, find, !little, file_);
  }

 private:
  static constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20;
  static constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

  Pickle next() {
    Pickle pickle = pickle_of(file_, unread_);
    unread_.remove_prefix(pickle.bytes);
    return pickle;
  }

  static bool is_little(const Pickle& machine) {
    const auto& items = machine.root->items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i]->text == "little_endian") return items[i + 1]->number != 0;
    return true;
  }

  void place_storages(const Pickle& object, const Pickle& keys, bool little) {
    std::unordered_map<std::string_view, std::string_view> types;  // types of storages by their keys
    for (const PickleValue& value : object.values)
      if (const auto storage = torch_storage(value)) types.emplace(storage->key, storage->type);
    std::size_t at = text_.size() - unread_.size();
    for (const PickleValue* key : keys.root->items) {
      const auto type = types.find(key->text);
      const TorchType* known = type == types.end() ? nullptr : find_type(type->second);
      if (!known)
        file_.fail("has a storage '" + printable(std::string(key->text.substr(0, 100))) + "' of unknown type");
      std::string count_bytes = file_.copied(at, kCountBytes);
      if (!little) std::ranges::reverse(count_bytes);
      const std::size_t count = little_endian(count_bytes);
      std::size_t bytes = 0;
      at += kCountBytes;
      if (__builtin_mul_overflow(count, known->bytes, &bytes) || bytes > file_.bytes - at)
        file_.fail("ends in its storages (is it truncated?)");
      storages_.emplace(key->text, TorchBytes{{file_.data + at, bytes}, nullptr, {}});
      at += bytes;
    }
  }

  static constexpr std::size_t kCountBytes = 8;
  MappedTensors& file_;
  std::string text_;
  std::string_view unread_;
  std::unordered_map<std::string_view, TorchBytes> storages_;
};

}  // namespace

bool is_torch_archive(const ZipArchive& archive) {
  return std::ranges::any_of(archive.entries(), [](const ZipEntry& entry) {
    return entry.name == kPickled || entry.name.ends_with("/data.pkl");
  });
}

// Recognises protocols 2 to 5.
bool begins_like_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

void read_torch(MappedTensors& file, ZipArchive& archive) {
  const std::string folder = folder_of(file, archive);
  const ZipEntry* pickled = archive.find(folder + std::string(kPickled));
  if (!pickled) file.fail("is a zip archive without data.pkl, so not one of torch.save");
  const ZipEntry* order = archive.find(folder + "byteorder");
  const std::string endian = order ? archive.text(*order) : "little";
  if (endian != "little" && endian != "big")
    file.fail("its byteorder is '" + printable(endian.substr(0, 40)) + "'; allowed: little, big");
  const std::string text = archive.text(*pickled);
  const Pickle pickle = pickle_of(file, text);
  const auto find = [&](std::string_view key) -> TorchBytes {
    const std::string name = "data/" + std::string(key.substr(0, 100));
    const ZipEntry* entry = archive.find(folder + name);
    if (!entry) return {{}, nullptr, "lacks its bytes: " + printable(name) + " is not in the file"};
    auto stored = archive.stored(*entry);
    if (!stored)
      return {{},
              nullptr,
              fmt::format("takes, with others, more than {} MiB unpacked; torch.save stores tensors as they are",
                          kMaxUnpackedBytes >> 20)};
    return {stored->bytes, std::move(stored->checksum), {}};
  };
  collect_torch_tensors(pickle, find, endian == "big", file);
}

std::shared_ptr<MappedTensors> read_legacy_torch(const std::string& path) {
  auto file = std::make_shared<MappedTensors>(path);
  LegacyReader(*file).read();
  return file;
}

}  // namespace moescope
