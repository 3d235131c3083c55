#include "core/checkpoints/quantization_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/checkpoints/config_keys.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

using Json = nlohmann::json;
using Codes = WeightLayout::Codes;
using Scales = WeightLayout::Scales;

constexpr int kMaxBlock = 1 << 20;
constexpr ScaleTile kDeepSeekTile = {128, 128}, kMxTile = {1, 32}, kNvTile = {1, 16};

WeightLayout in_tiles(Codes codes, const ScaleTile& tile) {
  return {codes, Scales::tile, tile};
}

// A quant_algo of ModelOpt. `codes` is nullopt if each layer has an algorithm of its own.
struct Algorithm {
  const char* name;
  std::optional<WeightLayout> layout;
};
const std::array kAlgorithms = {
    Algorithm{"FP8", WeightLayout{Codes::fp8, Scales::tensor}},
    Algorithm{"FP8_PER_CHANNEL_PER_TOKEN", WeightLayout{Codes::fp8, Scales::row}},
    Algorithm{"FP8_PB_WO", in_tiles(Codes::fp8, kDeepSeekTile)},
    Algorithm{"FP8_PB_REAL", in_tiles(Codes::fp8, kDeepSeekTile)},
    Algorithm{"MXFP8", in_tiles(Codes::fp8, kMxTile)},
    Algorithm{"MXFP4", in_tiles(Codes::fp4, kMxTile)},
    Algorithm{"W4A8_MXFP4_FP8", in_tiles(Codes::fp4, kMxTile)},
    Algorithm{"NVFP4", in_tiles(Codes::fp4, kNvTile)},
    Algorithm{"W4A8_NVFP4_FP8", in_tiles(Codes::fp4, kNvTile)},
    Algorithm{"W4A16_NVFP4", in_tiles(Codes::fp4, kNvTile)},
    Algorithm{"MIXED_PRECISION", std::nullopt},
};

void refuse_unless_empty(ConfigKeys& keys, const char* key, const char* reason) {
  const Json* value = keys.find({key});
  if (value && !value->empty() && *value != false && *value != 0) keys.fail(key, reason);
}

class QuantizationReader {
 public:
  QuantizationReader(const Json& json, const std::string& path, const std::string& prefix, StatedQuantization& to)
      : json_(json), path_(path), prefix_(prefix), keys_(json, path, prefix), to_(to) {}

  void read() {
    constexpr const char* kMethod = "quant_method";
    const bool named = keys_.find({kMethod}) != nullptr;
    const std::string method =
        named || !json_.contains("quant_algo")
            ? keys_.choice({kMethod}, {"fp8", "mxfp4", "compressed-tensors", "modelopt", "quark"}, "")
            : "modelopt";
    to_.exists = true;
    if (method == "fp8") read_fp8();
    if (method == "mxfp4") state("quant_method", {in_tiles(Codes::fp4, kMxTile)});
    if (method == "compressed-tensors") read_compressed();
    if (method == "modelopt") read_modelopt();
    if (method == "quark") read_quark();
    read_unquantized({"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude"});
    // Formats of activations and of the cache, and marks of the programs that wrote the file.
    keys_.ignore_key({"activation_scheme", "dequantize", "kv_cache_scheme", "kv_cache_quant_algo", "scale_fmt",
                      "producer", "version", "quantization_status", "global_compression_ratio"});
    keys_.require_all_read();
  }

 private:
  void state(const std::string& key, std::vector<WeightLayout> allowed) {
    to_.statements.push_back({path_ + ": '" + prefix_ + key + "'", std::move(allowed)});
  }

  // Reads names of modules. Patterns are not compared with the tensors.
  void read_unquantized(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const Json* list = keys_.find({name});
      if (!list) continue;
      if (!list->is_array()) keys_.fail(name, "is not a list of modules");
      for (const Json& module : *list)
        if (module.is_string()) to_.unquantized.push_back(module.get<std::string>());
    }
  }

  std::optional<ScaleTile> tile(ConfigKeys& keys, const char* key) const {
    const Json* sizes = keys.find({key});
    if (!sizes) return std::nullopt;
    const std::optional<ScaleTile> read = scale_tile(*sizes);
    if (!read) keys.fail(key, "is " + printable(sizes->dump(-1, ' ', true)) + "; allowed: two whole numbers above 0");
    return read;
  }

  void read_fp8() {
    keys_.choice({"fmt"}, {"e4m3", "float8_e4m3fn", "e5m2"}, "e4m3");
    const bool null = keys_.is_null("weight_block_size");
    const std::optional<ScaleTile> stated = tile(keys_, "weight_block_size");
    std::vector<WeightLayout> allowed;
    if (!null) allowed.push_back(in_tiles(Codes::fp8, stated.value_or(kDeepSeekTile)));
    if (!stated) allowed.insert(allowed.end(), {{Codes::fp8, Scales::tensor}, {Codes::fp8, Scales::row}});
    state("weight_block_size", allowed);
  }

  void read_compressed() {
    keys_.choice({"format"},
                 {"dense", "naive-quantized", "int-quantized", "float-quantized", "mixed-precision",
                  "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"},
                 "dense");
    refuse_unless_empty(keys_, "transform_config", "rotates weights or inputs, which is not supported");
    if (const Json* sparsity = keys_.find({"sparsity_config"}); sparsity && !sparsity->empty()) {
      ConfigKeys inside(*sparsity, path_, prefix_ + "sparsity_config.");
      inside.choice({"format"}, {"dense"}, "");
    }
    if (const Json* groups = keys_.find({"config_groups"})) read_groups(*groups);
  }

  // A weight has the layout of one of the groups.
  void read_groups(const Json& groups) {
    if (!groups.is_object()) keys_.fail("config_groups", "is not an object");
    std::vector<WeightLayout> allowed;
    for (const auto& [name, group] : groups.items()) {
      const std::string prefix = prefix_ + "config_groups." + printable(name) + '.';
      if (!group.is_object()) keys_.fail("config_groups", "has a group that is not an object");
      ConfigKeys inside(group, path_, prefix);
      if (const Json* weights = inside.find({"weights"}); weights && weights->is_object()) {
        ConfigKeys weight_keys(*weights, path_, prefix + "weights.");
        allowed.push_back(layout_of(weight_keys));
      }
      inside.ignore_key({"targets", "input_activations", "output_activations", "format"});
      inside.require_all_read();
    }
    state("config_groups", std::move(allowed));
  }

  WeightLayout layout_of(ConfigKeys& keys) const {
    WeightLayout layout;
    const int bits = keys.count({"num_bits"}, 1, 64);
    const std::string type = keys.choice({"type"}, {"int", "float"}, "int");
    if (bits == 4 && type == "float")
      layout.codes = Codes::fp4;
    else if (bits == 8)
      layout.codes = type == "int" ? Codes::int8 : Codes::fp8;
    else
      keys.fail("num_bits", fmt::format("is {} with type '{}'; allowed: 8, and 4 with 'float'", bits, type));
    if (keys.flag("symmetric") == false) keys.fail("symmetric", "is false: zero points are not supported");
    refuse_unless_empty(keys, "dynamic", "is not false: scales of weights cannot be computed while a model runs");
    refuse_unless_empty(keys, "actorder", "reorders the columns, which is not supported");
    read_scales(keys, layout);
    keys.ignore_key({"observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
    keys.require_all_read();
    return layout;
  }

  static void set_group(ConfigKeys& keys, int group, WeightLayout& layout) {
    if (group <= 0) keys.fail("group_size", "is missing");
    layout.per = Scales::tile;
    layout.tile = {1, static_cast<std::size_t>(group)};
  }

  void read_scales(ConfigKeys& keys, WeightLayout& layout) const {
    keys.allow_null({"group_size"});
    const int group = keys.count({"group_size"}, -1, kMaxBlock, 0);
    const std::optional<ScaleTile> block = tile(keys, "block_structure");
    const char* missing = "tensor";
    if (group < 0) missing = "channel";
    if (group > 0) missing = "group";
    const std::string strategy =
        keys.choice({"strategy"}, {"tensor", "channel", "group", "tensor_group", "block"}, missing);
    if (strategy == "channel") layout.per = Scales::row;
    if (strategy.ends_with("group")) set_group(keys, group, layout);
    if (strategy != "block") return;
    if (!block) keys.fail("block_structure", "is missing");
    layout.per = Scales::tile;
    layout.tile = *block;
  }

  static const Algorithm& read_algorithm(ConfigKeys& keys) {
    const std::string name = keys.text({"quant_algo"}, "");
    for (const Algorithm& one : kAlgorithms)
      if (name == one.name) return one;
    keys.fail("quant_algo", "is '" + printable(name) +
                                "', which is not supported; allowed: " + joined(kAlgorithms, ", ", &Algorithm::name));
  }

  void read_modelopt() {
    if (keys_.is_null("quant_algo")) return;  // only the cache of keys and values is quantized
    const Algorithm& algorithm = read_algorithm(keys_);
    refuse_unless_empty(keys_, "pre_quant_scale", "is true: factors of the inputs (AWQ) are not supported");
    refuse_unless_empty(keys_, "has_zero_point", "is true: zero points are not supported");
    if (const Json* groups = keys_.find({"config_groups"})) read_groups(*groups);
    const Json* layers = keys_.find({"quantized_layers"});
    if (algorithm.layout) state_group(keys_, *algorithm.layout);
    if (!layers) return;
    if (!layers->is_object()) keys_.fail("quantized_layers", "is not an object");
    for (const auto& [name, layer] : layers->items()) {
      if (!layer.is_object()) keys_.fail("quantized_layers", "has a layer that is not an object");
      ConfigKeys inside(layer, path_, prefix_ + "quantized_layers." + printable(name) + '.');
      read_algorithm(inside);
    }
  }

  // States the layout of an algorithm, with the key group_size.
  void state_group(ConfigKeys& keys, WeightLayout layout) {
    keys.allow_null({"group_size"});
    const int group = keys.count({"group_size"}, 0, kMaxBlock, 0);
    if (group > 0 && layout.per == Scales::tile && layout.tile.rows == 1) set_group(keys, group, layout);
    state("quant_algo", {layout});
  }

  // Quark: E2M1 with a power of two for 32 values along a row (MXFP4).
  void read_quark() {
    const Json* global = keys_.find({"global_quant_config"});
    if (!global || !global->is_object()) keys_.fail("global_quant_config", "is not an object");
    ConfigKeys inside(*global, path_, prefix_ + "global_quant_config.");
    const Json* weight = inside.find({"weight"});
    if (!weight || !weight->is_object()) inside.fail("weight", "is not an object");
    ConfigKeys weight_keys(*weight, path_, prefix_ + "global_quant_config.weight.");
    weight_keys.choice({"dtype"}, {"fp4"}, "");
    weight_keys.choice({"qscheme"}, {"per_group"}, "");
    weight_keys.choice({"scale_format"}, {"e8m0"}, "");
    const int group = weight_keys.count({"group_size"}, 1, kMaxBlock);
    refuse_unless_empty(weight_keys, "is_dynamic", "is true: scales of weights cannot be computed while a model runs");
    refuse_unless_empty(keys_, "layer_quant_config", "gives layers a format of their own, which is not supported");
    refuse_unless_empty(keys_, "layer_type_quant_config", "gives layers a format of their own, which is not supported");
    refuse_unless_empty(keys_, "algo_config", "changes weights or inputs, which is not supported");
    keys_.ignore_key(
        {"export", "quant_mode", "softmax_quant_spec", "kv_cache_group", "min_kv_scale", "kv_cache_quant_config"});
    state("global_quant_config", {in_tiles(Codes::fp4, {1, static_cast<std::size_t>(group)})});
  }

  const Json& json_;
  std::string path_, prefix_;
  ConfigKeys keys_;
  StatedQuantization& to_;
};

std::optional<Codes> codes_of(DType dtype) {
  if (dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2) return Codes::fp8;
  if (dtype == DType::i8) return Codes::int8;
  if (dtype == DType::f4) return Codes::fp4;
  return std::nullopt;
}

std::size_t blocks(std::size_t size, std::size_t block) {
  return (size + block - 1) / block;
}

}  // namespace

bool WeightLayout::fits(const TensorView& weight) const {
  if (codes_of(weight.dtype) != codes || weight.shape.size() < 2) return false;
  const std::size_t rows = weight.shape[weight.shape.size() - 2], cols = weight.shape.back();
  const std::vector<std::size_t>& block = weight.scales->block();
  const std::size_t row_scales = blocks(rows, block[block.size() - 2]), col_scales = blocks(cols, block.back());
  switch (per) {
    case Scales::tensor:
      return row_scales == 1 && col_scales == 1;
    case Scales::row:
      return row_scales == rows && col_scales == 1;
    case Scales::tile:
      return row_scales == blocks(rows, tile.rows) && col_scales == blocks(cols, tile.cols);
  }
  return false;
}

std::string WeightLayout::text() const {
  constexpr const char* kCodes[] = {"FP8", "INT8", "FP4"};
  const std::string text = std::string(kCodes[static_cast<std::size_t>(codes)]) + " with a scale for ";
  if (per == Scales::tensor) return text + "the tensor";
  if (per == Scales::row) return text + "each row";
  return fmt::format("{}{} x {} values", text, tile.rows, tile.cols);
}

std::string StatedQuantization::problem(const TensorView& weight) const {
  for (const auto& [key, allowed] : statements) {
    if (std::ranges::any_of(allowed, [&](const WeightLayout& layout) { return layout.fits(weight); })) continue;
    std::string texts;
    for (const WeightLayout& layout : allowed) texts += (texts.empty() ? "" : " or ") + layout.text();
    return "is " + weight.type_text() + ", but by " + key + " it is " + (texts.empty() ? "not quantized" : texts);
  }
  for (const std::string& module : unquantized)
    if (weight.name == module || weight.name == module + ".weight")
      return "is " + weight.type_text() + ", but config.json lists '" + printable(module) + "' as not quantized";
  return {};
}

void read_quantization(const Json& json, const std::string& path, const std::string& prefix, StatedQuantization& to) {
  if (!json.is_object()) refuse(path, "'" + prefix.substr(0, prefix.size() - 1) + "' is not an object");
  QuantizationReader(json, path, prefix, to).read();
}

}  // namespace moescope
