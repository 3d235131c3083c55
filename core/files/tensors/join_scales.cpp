#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/files/tensors/code_scales.h"

namespace moescope {
namespace {

using Shape = std::vector<std::size_t>;
using Holds = TensorView::Holds;

constexpr std::size_t kMxBlock = 32, kNvBlock = 16, kBytesOfMxBlock = kMxBlock / 2;

bool is_fp8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}
bool may_be_codes(DType dtype) {
  constexpr std::array kTypes = {DType::f8_e4m3, DType::f8_e5m2, DType::f4, DType::u8, DType::i8, DType::i32};
  return std::ranges::find(kTypes, dtype) != kTypes.end();
}
bool is_wide_float(DType dtype) {
  return dtype <= DType::bf16;
}

// Returns `name` with `suffix` in place of the end `end`; "" if it has another end.
std::string with_end(std::string_view name, std::string_view end, std::string_view suffix) {
  if (!name.ends_with(end)) return {};
  return std::string(name.substr(0, name.size() - end.size())) + std::string(suffix);
}

struct NamePair {
  std::string_view codes_end, scales_end;  // ends of the names of codes and scales
};
constexpr NamePair kScaleNames[] = {{"", "_scale_inv"},     {"", "_scale"},          {"", "_scales"},
                                    {"_packed", "_scale"},  {"_packed", "_scales"},  {"_blocks", "_scales"},
                                    {".blocks", ".scales"}, {".weight", ".scale"},   {".weight", ".scale_inv"},
                                    {".weight", ".scales"}, {".qweight", ".scales"}, {"", ".absmax"},
                                    {".weight", ".SCB"}};
constexpr NamePair kSecondNames[] = {{"", "_scale_2"}, {"", "_global_scale"}, {"_packed", "_global_scale"}};
// Names of other tensors that change the values of codes; these layouts are not supported.
constexpr NamePair kOtherNames[] = {
    {"", "_zero_point"},    {"_packed", "_zero_point"},     {".qweight", ".qzeros"}, {"", ".quant_map"},
    {"", ".nested_absmax"}, {"", ".nested_quant_map"},      {"", "_g_idx"},          {"_packed", "_g_idx"},
    {".qweight", ".g_idx"}, {".weight", ".pre_quant_scale"}};
// Scales of the activations that are multiplied by the codes. They do not change the values of the codes.
constexpr NamePair kActivationNames[] = {{".weight", ".input_scale"},
                                         {".weight", ".output_scale"},
                                         {".weight", ".input_global_scale"},
                                         {".weight_packed", ".input_global_scale"}};

// Tensors that belong to codes.
struct RelatedTensors {
  std::vector<std::size_t> scales, seconds, other_tensors;  // indices in the file
};

std::vector<std::size_t> find_beside(const MappedTensors& file, std::string_view codes,
                                     std::span<const NamePair> names) {
  std::vector<std::size_t> found;
  for (const NamePair& pair : names) {
    const std::string name = with_end(codes, pair.codes_end, pair.scales_end);
    if (const auto at = file.by_name.find(name); at != file.by_name.end()) found.push_back(at->second);
  }
  return found;
}

// Returns the size of the blocks if there is one scale for every `block` values along a row.
std::optional<Shape> blocks_along_rows(const Shape& codes, const Shape& scales, std::size_t block) {
  if (codes.empty() || codes.size() != scales.size()) return std::nullopt;
  if (!std::equal(codes.begin(), codes.end() - 1, scales.begin())) return std::nullopt;
  if (scales.back() != (codes.back() + block - 1) / block) return std::nullopt;
  Shape blocks(codes.size(), 1);
  blocks.back() = block;
  return blocks;
}

// Returns the size of the blocks if a scale belongs to the whole tensor, a matrix of a stack, a row, a tile, or
// `tile.cols` values of a row; else nullopt. All matrices of a stack may share scales.
std::optional<Shape> tiles_of(const Shape& codes, Shape scales, const ScaleTile& tile) {
  if (std::ranges::all_of(scales, [](std::size_t size) { return size == 1; })) return codes;
  if (codes.size() < 2 || scales.size() > codes.size()) return std::nullopt;
  scales.resize(codes.size(), 1);
  Shape blocks;
  for (std::size_t d = 0; d + 2 < codes.size(); ++d) {
    if (scales[d] != 1 && scales[d] != codes[d]) return std::nullopt;
    blocks.push_back(scales[d] == 1 ? codes[d] : 1);
  }
  const std::size_t rows = codes[codes.size() - 2], cols = codes.back();
  const std::size_t row_scales = scales[codes.size() - 2], col_scales = scales.back();
  const auto tiles = [](std::size_t size, std::size_t side) { return (size + side - 1) / side; };
  const bool scales_by_row = row_scales == rows, whole_row = col_scales == 1,
             in_tiles = col_scales == tiles(cols, tile.cols);
  if (scales_by_row && (whole_row || in_tiles))
    blocks.insert(blocks.end(), {1, whole_row ? cols : tile.cols});
  else if (row_scales == 1 && whole_row)
    blocks.insert(blocks.end(), {rows, cols});
  else if (row_scales == tiles(rows, tile.rows) && in_tiles)
    blocks.insert(blocks.end(), {tile.rows, tile.cols});
  else
    return std::nullopt;
  return blocks;
}

// How codes and scales form a weight.
struct JoinedCodes {
  DType dtype;
  Shape shape;
  DType scale_dtype;
  Shape block;
};

class Joiner {
 public:
  Joiner(MappedTensors& file, const ScaleTile& tile) : file_(file), tile_(tile) {}

  void run() {
    for (std::size_t i = 0; i < file_.tensors.size(); ++i)
      if (may_be_codes(file_.tensors[i].dtype)) join(i);
    for (std::size_t i = 0; i < file_.tensors.size(); ++i) note_bare_codes(file_.tensors[i]);
    for (auto& [place, name] : renamed_) {
      file_.other_names.emplace_back(std::exchange(file_.tensors[place].name, name), place);
      file_.keep(name.size());
    }
    if (renamed_.empty()) return;
    file_.by_name.clear();
    file_.index_names();
  }

 private:
  void join(std::size_t place) {
    TensorView& codes = file_.tensors[place];
    if (codes.holds == Holds::scales || codes.elements() == 0) return;
    const RelatedTensors related{find_beside(file_, codes.name, kScaleNames),
                                 find_beside(file_, codes.name, kSecondNames),
                                 find_beside(file_, codes.name, kOtherNames)};
    if (related.scales.empty() && related.seconds.empty()) return;
    for (const auto& places : {related.scales, related.seconds, related.other_tensors})
      for (const std::size_t at : places) mark_scales(file_.tensors[at], codes.name);
    for (const std::size_t at : find_beside(file_, codes.name, kActivationNames))
      mark_scales(file_.tensors[at], codes.name);
    if (!make_weight(place, related)) {
      const auto* tensors = &related.other_tensors;
      if (tensors->empty()) tensors = related.scales.empty() ? &related.seconds : &related.scales;
      const TensorView& scale = file_.tensors[tensors->front()];
      codes.holds = Holds::codes;
      codes.note = "holds codes without their scales: the layout of '" + scale.name + "', " + dtype_name(scale.dtype) +
                   ' ' + shape_text(scale.shape) + ", is not supported";
      file_.keep(codes.note.size());
    }
  }

  void mark_scales(TensorView& scales, const std::string& codes_name) {
    scales.holds = Holds::scales;
    scales.note = "holds scales of '" + codes_name + "'";
    file_.keep(scales.note.size());
  }

  bool make_weight(std::size_t place, const RelatedTensors& related) {
    TensorView& codes = file_.tensors[place];
    if (related.scales.size() != 1 || related.seconds.size() > 1 || !related.other_tensors.empty()) return false;
    CodeScaleGrid blocks{file_.tensors[related.scales.front()], {}};
    if (blocks.scales.elements() == 0) return false;
    std::optional<CodeScaleGrid> second;
    if (!related.seconds.empty()) second = CodeScaleGrid{file_.tensors[related.seconds.front()], {}};
    const auto found = joined(codes, blocks.scales, second.has_value());
    if (!found) return false;
    blocks.block = found->block;
    blocks.scales.dtype = found->scale_dtype;
    bool divides = false;
    if (second) {
      const auto whole = tiles_of(found->shape, second->scales.shape, {1, found->shape.back()});
      if (!whole || !is_wide_float(second->scales.dtype)) return false;
      second->block = *whole;
      divides = second->scales.name.ends_with("_global_scale");
    }
    codes.dtype = found->dtype;
    codes.shape = found->shape;
    codes.scales = std::make_shared<CodeScales>(codes.shape, std::move(blocks), std::move(second), divides);
    file_.keep(sizeof(CodeScales) + 2 * sizeof(TensorView));
    for (const std::string_view end : {"_blocks", ".blocks", "_packed"})
      if (const std::string name = with_end(codes.name, end, ""); !name.empty() && !file_.by_name.contains(name))
        renamed_.emplace_back(place, name);
    return true;
  }

  std::optional<JoinedCodes> joined(const TensorView& codes, const TensorView& scales, bool second) const {
    const bool e8m0 = scales.dtype == DType::f8_e8m0 || scales.dtype == DType::u8;
    const bool packed = codes.dtype == DType::u8 || codes.dtype == DType::i8;
    if (codes.dtype == DType::f4 || (packed && !is_wide_float(scales.dtype))) {
      if (!codes.strides.empty()) return std::nullopt;
      const auto shape = packed ? unpacked_shape(codes, scales) : codes.shape;
      if (e8m0 && !second)
        return joined_as(DType::f4, shape, DType::f8_e8m0, blocks_along_rows(shape, scales.shape, kMxBlock));
      if (scales.dtype == DType::f8_e4m3 && second)
        return joined_as(DType::f4, shape, scales.dtype, blocks_along_rows(shape, scales.shape, kNvBlock));
      return std::nullopt;
    }
    if (second) return std::nullopt;
    if (is_fp8(codes.dtype) && e8m0)
      if (auto found = joined_as(codes.dtype, codes.shape, DType::f8_e8m0,
                                 blocks_along_rows(codes.shape, scales.shape, kMxBlock)))
        return found;
    const bool scaled = is_wide_float(scales.dtype) || (is_fp8(codes.dtype) && scales.dtype == DType::f8_e8m0);
    if (!scaled || (!is_fp8(codes.dtype) && codes.dtype != DType::i8)) return std::nullopt;
    return joined_as(codes.dtype, codes.shape, scales.dtype, tiles_of(codes.shape, scales.shape, tile_));
  }

  static std::optional<JoinedCodes> joined_as(DType dtype, const Shape& shape, DType scales,
                                              const std::optional<Shape>& block) {
    if (!block) return std::nullopt;
    return JoinedCodes{dtype, shape, scales, *block};
  }

  // Returns the shape of codes of which each byte holds two. In gpt-oss's layout the bytes of a block have a dimension
  // of their own.
  static Shape unpacked_shape(const TensorView& codes, const TensorView& scales) {
    Shape shape = codes.shape;
    if (codes.name.ends_with("blocks") && shape.size() == scales.shape.size() + 1 && shape.back() == kBytesOfMxBlock) {
      shape.pop_back();
      shape.back() *= kMxBlock;
    } else if (!shape.empty()) {
      shape.back() *= 2;
    }
    return shape;
  }

  // Adds a note to FP8 and FP4 tensors without scales in the file: they may be plain values, or their scales may be in
  // another file.
  void note_bare_codes(TensorView& tensor) {
    if (tensor.holds != Holds::values || tensor.scales || !(is_fp8(tensor.dtype) || tensor.dtype == DType::f4)) return;
    if (is_shard(file_.path) && file_.shards.empty()) {
      tensor.holds = Holds::codes;
      tensor.note = "holds codes without their scales, which another file of the checkpoint may hold: open its folder";
    } else {
      tensor.note = "has no scales beside it: its values are its codes";
    }
    file_.keep(tensor.note.size());
  }

  // True for names such as "model-00002-of-00163.safetensors".
  static bool is_shard(std::string_view path) {
    const std::size_t total_begin = path.rfind("-of-");
    return total_begin != std::string_view::npos && path.find('/', total_begin) == std::string_view::npos;
  }

  MappedTensors& file_;
  ScaleTile tile_;
  std::vector<std::pair<std::size_t, std::string>> renamed_;
};

}  // namespace

void join_scales(MappedTensors& file, const ScaleTile& tile) {
  Joiner(file, tile).run();
}

}  // namespace moescope
