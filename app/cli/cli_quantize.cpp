#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/files/output_guard.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/numerics/number_format.h"
#include "core/numerics/quantize.h"
#include "core/numerics/recipes.h"
#include "core/numerics/what_if.h"

namespace moescope {
namespace {

constexpr int kBlock = 32;
constexpr std::size_t kPieceElements = std::size_t{1} << 22;  // elements read at a time
constexpr std::size_t kTileRows = 128;                        // tiles of an operand begin at multiples of this row
constexpr std::size_t kLargestBlock = 512;                    // largest block of the what-if

struct QuantizeOptions {
  std::string in, out, tensor, format = "mxfp8_e4m3", scale = "rceil", axis = "row", operand = "W", dtype;
  bool scale_given = false, what_if = false, json = false, overwrite = false;
};

// Names of the MX element formats, of the other formats, then of the recipes that are no format.
std::string format_names() {
  std::vector<std::string> names;
  for (const bool mx : {true, false})
    for (const NamedFormat& named : named_formats())
      if ((named.format.scheme == QuantScheme::mx) == mx && named.format.scheme != QuantScheme::fp32)
        names.emplace_back(named.name);
  for (const RecipeInfo& recipe : recipes())
    if (!find_format(recipe.name)) names.emplace_back(recipe.name);
  return joined(names, ", ");
}

OperandRole operand_of(const QuantizeOptions& options) {
  for (const OperandRole operand : {OperandRole::x, OperandRole::w})
    if (options.operand == operand_name(operand)) return operand;
  return OperandRole::dy;
}

// Returns the dtype of --dtype, for arrays that do not state theirs; nullopt if the option is not given.
std::optional<DType> untyped_of(const QuantizeOptions& options) {
  for (const DType dtype : kTypesOfUntypedBytes)
    if (options.dtype == dtype_name(dtype)) return dtype;
  return std::nullopt;
}

// Returns the format of `operand` in a recipe, for the first GEMM that reads the operand.
OperandFormat recipe_format_of(Recipe recipe, OperandRole operand) {
  return recipe_format(recipe, operand == OperandRole::dy ? Direction::dgrad : Direction::forward, operand);
}

// Returns the MX format of the options; nullopt for another format, whose codes and scales cannot be stored.
std::optional<OperandFormat> mx_format_of(const QuantizeOptions& options) {
  std::optional<OperandFormat> format = quant_format(options.format).operand;
  if (!format || format->scheme != QuantScheme::mx) return std::nullopt;
  if (find_format(options.format)) format->rule = *scale_rule_name.find(options.scale);  // other names say the rule
  return format;
}

OperandFormat format_of(const QuantizeOptions& options) {
  const auto format = quant_format(options.format).operand;
  const auto recipe = recipe_named(options.format);
  if ((!format && !recipe) || recipe == Recipe::fp32)
    throw std::runtime_error(
        fmt::format("--format is '{}'; allowed: {}, and the names that recordings have for formats", options.format,
                    format_names()));
  const auto mx = mx_format_of(options);
  if (options.scale_given && !(mx && find_format(options.format)))
    throw std::runtime_error(fmt::format("--scale {}: needs an MX element format; {} defines its own scales",
                                         options.scale, options.format));
  if (mx) return *mx;
  return recipe ? recipe_format_of(*recipe, operand_of(options)) : *format;
}

std::vector<BlockAxis> axes_of(const QuantizeOptions& options) {
  if (options.axis == "row") return {BlockAxis::row};
  if (options.axis == "column") return {BlockAxis::column};
  return {BlockAxis::row, BlockAxis::column};
}

const char* axis_name(BlockAxis axis) {
  return axis == BlockAxis::row ? "row" : "column";
}

// A tensor as a stack of matrices [rows, cols] along its last two axes, for example one matrix per expert. Each matrix
// is quantized as a separate operand, with its own scale if the format has one scale for an operand. A vector is a
// matrix [1, n], a scalar is a matrix [1, 1].
struct MatrixStack {
  std::size_t matrices = 1, rows = 1, cols = 1;
};

MatrixStack matrices_of(const TensorView& tensor) {
  MatrixStack stack;
  const std::size_t rank = tensor.shape.size();
  if (rank > 0) stack.cols = tensor.shape[rank - 1];
  if (rank > 1) stack.rows = tensor.shape[rank - 2];
  for (std::size_t i = 0; i + 2 < rank; ++i) stack.matrices *= tensor.shape[i];
  return stack;
}

// Calls `visit` for the rows of a matrix in pieces that begin at multiples of `unit` rows, since a tensor may be larger
// than the memory.
template <class Visit>
void visit_pieces(const TensorView& tensor, std::size_t matrix, std::size_t unit, Visit visit) {
  const MatrixStack stack = matrices_of(tensor);
  if (stack.rows == 0 || stack.cols == 0) return;
  const std::size_t rows = std::max<std::size_t>(1, kPieceElements / stack.cols / unit) * unit;
  for (std::size_t row = 0; row < stack.rows; row += rows) {
    const std::size_t count = std::min(rows, stack.rows - row);
    const std::vector<float> values = tensor.floats((matrix * stack.rows + row) * stack.cols, count * stack.cols);
    visit(row, Matrix<const float>{values.data(), count, stack.cols, stack.cols});
  }
}

float amax_of(const OperandFormat& format, BlockAxis axis, const TensorView& tensor, std::size_t matrix) {
  float amax = 0;
  visit_pieces(tensor, matrix, 1, [&](std::size_t, Matrix<const float> piece) {
    amax = larger_amax(amax, operand_amax({piece, format, axis}));
  });
  return amax;
}

// True if one scale covers a whole column, so that all rows must be in one piece.
bool needs_whole_columns(const OperandFormat& format, BlockAxis axis) {
  return format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row && axis == BlockAxis::column;
}

QuantSums figures_of(const TensorView& tensor, const OperandFormat& format, BlockAxis axis) {
  const MatrixStack stack = matrices_of(tensor);
  QuantSums sums;
  std::vector<float> decoded;
  for (std::size_t m = 0; m < stack.matrices && stack.rows > 0; ++m) {
    const float amax = has_tensor_scale(format) ? amax_of(format, axis, tensor, m) : 0;
    const std::size_t unit = needs_whole_columns(format, axis) ? stack.rows : kTileRows;
    visit_pieces(tensor, m, unit, [&](std::size_t row, Matrix<const float> piece) {
      decoded.resize(piece.rows * piece.cols);
      const RoundingKey key{.first_row = static_cast<std::uint32_t>(row)};
      quantize_operand({piece, format, axis, key, &sums, amax}, {decoded.data(), piece.rows, piece.cols});
    });
  }
  return sums;
}

std::vector<WhatIfRow> what_if_of(const TensorView& tensor) {
  std::vector<WhatIfRow> all;
  for (std::size_t m = 0; m < matrices_of(tensor).matrices; ++m) {
    visit_pieces(tensor, m, kLargestBlock, [&](std::size_t, Matrix<const float> piece) {
      std::vector<WhatIfRow> found = what_if(piece);
      if (all.empty()) {
        all = std::move(found);
        return;
      }
      for (std::size_t i = 0; i < all.size(); ++i) all[i].sums.add(found[i].sums);
    });
  }
  return all;
}

std::size_t blocks_of(std::size_t cols) {
  return (cols + kBlock - 1) / kBlock;
}

std::vector<std::size_t> scales_shape(const TensorView& tensor) {
  if (tensor.shape.empty()) return {1};
  std::vector<std::size_t> shape = tensor.shape;
  shape.back() = blocks_of(shape.back());
  return shape;
}

// Writes the codes, the scales and, reading the tensor a second time, the decoded values one after another.
void write_quantized(const TensorView& tensor, const OperandFormat& format, SafetensorsStream& out) {
  const std::size_t matrices = tensor.elements() > 0 ? matrices_of(tensor).matrices : 0;
  std::vector<std::uint8_t> codes, scales, all_scales;
  std::vector<float> decoded;
  for (std::size_t m = 0; m < matrices; ++m)
    visit_pieces(tensor, m, 1, [&](std::size_t, Matrix<const float> piece) {
      codes.resize(piece.rows * piece.cols);
      scales.resize(piece.rows * blocks_of(piece.cols));
      quantize_rows(format, piece, codes.data(), scales.data());
      out.append(std::as_bytes(std::span(codes)));
      all_scales.insert(all_scales.end(), scales.begin(), scales.end());
    });
  out.append(std::as_bytes(std::span(all_scales)));
  for (std::size_t m = 0; m < matrices; ++m)
    visit_pieces(tensor, m, 1, [&](std::size_t, Matrix<const float> piece) {
      decoded.resize(piece.rows * piece.cols);
      quantize_operand({piece, format, BlockAxis::row, {}}, {decoded.data(), piece.rows, piece.cols});
      out.append(std::as_bytes(std::span(decoded)));
    });
}

std::string shape_text(const TensorView& tensor) {
  if (tensor.shape.empty()) return "scalar";
  return joined(tensor.shape, "x", [](std::size_t size) { return fmt::format("{}", size); });
}

// Returns for example "2^-9 .. 2^3", or "2^-9 to under 2^4" if scales lie between powers of two, and the number of
// blocks that hold NaN or infinity.
std::string scale_range(const OperandFormat& format, const QuantSums& sums) {
  int lowest = 255, highest = -1;
  for (int code = 0; code < 255; ++code) {
    if (!sums.e8m0_blocks[code]) continue;
    lowest = std::min(lowest, code);
    highest = code;
  }
  const bool exact =
      format.scheme == QuantScheme::mx || (format.scheme == QuantScheme::fp8 && format.power_of_two_scale);
  std::string range = "-";
  if (highest >= 0)
    range = exact ? fmt::format("2^{} .. 2^{}", lowest - 127, highest - 127)
                  : fmt::format("2^{} to under 2^{}", lowest - 127, highest - 126);
  if (sums.e8m0_blocks[255]) range += fmt::format(", {} blocks NaN", sums.e8m0_blocks[255]);
  return range;
}

std::string sqnr_text(const QuantSums& sums) {
  if (sums.elements == 0) return "-";
  if (sums.all_nan()) return "NaN";
  return sums.err2 == 0 ? "exact" : fmt::format("{:.2f}", sums.sqnr_db());
}

// What became of a tensor in one format. `labels`: the values that tell it from the other rows of its table.
struct Quantized {
  std::vector<TableValue> labels;
  OperandFormat format;
  QuantSums sums;
};
struct TensorReport {
  const TensorView* tensor;
  std::vector<Quantized> figures;  // in the requested format: tensor, shape and axis
  std::vector<Quantized> recipes;  // in the recipes of --what-if: recipe and axis
  std::vector<WhatIfRow> what_if;  // rows in the order of what_if.h
};

TensorReport report_of(const TensorView& tensor, const QuantizeOptions& options) {
  TensorReport report{&tensor, {}, {}, {}};
  const OperandFormat format = format_of(options);
  for (const BlockAxis axis : axes_of(options))
    report.figures.push_back(
        {{tensor.name, shape_text(tensor), std::string(axis_name(axis))}, format, figures_of(tensor, format, axis)});
  if (!options.what_if) return report;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const RecipeInfo& info : recipes()) {
      if (info.recipe == Recipe::fp32) continue;
      const OperandFormat operand_format = recipe_format_of(info.recipe, operand_of(options));
      report.recipes.push_back({{std::string(info.name), std::string(axis_name(axis))},
                                operand_format,
                                figures_of(tensor, operand_format, axis)});
    }
  report.what_if = what_if_of(tensor);
  return report;
}

struct QuantFigure {
  ValueColumn column;
  TableValue (*value)(const QuantSums& sums);
};

// Keys, units and meaning are those of a recording's table quant.
std::vector<QuantFigure> quant_figures() {
  using Sums = const QuantSums&;
  return {{{.key = "elements"}, [](Sums s) { return table_value(s.elements); }},
          {{.key = "exact"}, [](Sums s) { return table_value(s.err2 == 0 && !s.all_nan()); }},
          {{.key = "sqnr_db"}, [](Sums s) { return table_value(s.sqnr_db()); }},
          {{.name = "SQNR", .unit = "dB"}, [](Sums s) { return table_value(sqnr_text(s)); }},
          {{.key = "relative_l2"}, [](Sums s) { return table_value(s.relative_l2()); }},
          {{.key = "cosine"}, [](Sums s) { return table_value(s.cosine()); }},
          {{.key = "amax"}, [](Sums s) { return table_value(static_cast<double>(s.amax)); }},
          {{"underflow", "share", 4, "underflow", ".3f"}, [](Sums s) { return table_value(s.underflow_share()); }},
          {{"clipped", "share", 4, "clipped", ".3f"}, [](Sums s) { return table_value(s.clipped_share()); }},
          {{.key = "blocks"}, [](Sums s) { return table_value(s.blocks); }},
          {{"clipped blocks", "share", 4, "clipped_blocks", ".2f"},
           [](Sums s) { return table_value(s.clipped_blocks_share()); }},
          {{.key = "crest"}, [](Sums s) { return table_value(s.mean_crest()); }}};
}

ValueTable quant_table(std::vector<ValueColumn> columns, std::span<const Quantized> rows) {
  const std::vector<QuantFigure> figures = quant_figures();
  for (const QuantFigure& figure : figures) columns.push_back(figure.column);
  columns.push_back({"scales"});
  ValueTable table(columns);
  for (const Quantized& row : rows) {
    std::vector<TableValue> values = row.labels;
    for (const QuantFigure& figure : figures) values.push_back(figure.value(row.sums));
    values.push_back(row.sums.blocks > 0 ? table_value(scale_range(row.format, row.sums)) : TableValue());
    table.add_row(values);
  }
  return table;
}

ValueTable figure_table(std::span<const Quantized> rows) {
  return quant_table({{.name = "tensor"}, {.name = "shape"}, {.name = "axis", .key = "axis"}}, rows);
}

ValueTable recipe_table(std::span<const Quantized> rows) {
  return quant_table({{.name = "recipe", .key = "recipe"}, {.name = "axis", .key = "axis"}}, rows);
}

// Adds the rows in JSON, each with the number of blocks by the byte of their scale.
void add_rows(Report& report, const std::string& key, const ValueTable& table, std::span<const Quantized> rows) {
  std::vector<Report> members;
  for (const Quantized& row : rows) {
    Report scales;
    const auto& blocks = row.sums.e8m0_blocks;
    for (std::size_t byte = 0; byte < blocks.size(); ++byte)
      if (blocks[byte]) scales.value({.key = fmt::format("{}", byte)}, table_value(blocks[byte]));
    members.emplace_back().part("e8m0_blocks", scales);
  }
  report.rows(key, table, members);
}

void add_what_if_rows(Report& report, const std::vector<WhatIfRow>& rows) {
  std::vector<Quantized> quantized;
  for (const WhatIfRow& row : rows)
    quantized.push_back({{std::string(traits(row.format.element).name), std::string(scale_rule_name(row.format.rule)),
                          table_value(row.format.block), std::string(axis_name(row.axis))},
                         row.format,
                         row.sums});
  add_rows(report, "what_if",
           quant_table({{.key = "element"}, {.key = "scale"}, {.key = "block"}, {.key = "axis"}}, quantized),
           quantized);
}

// Returns SQNR / underflow / clipped by axis, element format, rule and block size.
ValueTable what_if_table(const std::vector<WhatIfRow>& what_if) {
  std::vector<ValueColumn> columns{{"axis"}, {"element"}, {"scale"}};
  for (const int block : kWhatIfBlocks) columns.push_back({fmt::format("block {}", block)});
  ValueTable table(columns);
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (int e = 0; e < kNumElementFormats; ++e)
      for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::rceil, ScaleRule::even, ScaleRule::ceil}) {
        const auto element = static_cast<ElementFormat>(e);
        std::vector<TableValue> row{std::string(axis_name(axis)), std::string(traits(element).name),
                                    std::string(scale_rule_name(rule))};
        for (const int block : kWhatIfBlocks) {
          const int index = what_if_index(mx_format(element, rule, block), axis);
          const QuantSums& sums = what_if[index].sums;
          row.emplace_back(fmt::format("{} / {:.1f} / {:.1f}", sqnr_text(sums), 100 * sums.underflow_share(),
                                       100 * sums.clipped_share()));
        }
        table.add_row(row);
      }
  return table;
}

void add_what_if(Report& report, const TensorReport& tensor, const QuantizeOptions& options) {
  const std::string& name = tensor.tensor->name;
  report.sentence("");
  report.sentence(fmt::format("{}, every recipe, as operand {}", name, options.operand));
  report.table("", recipe_table(tensor.recipes));
  report.sentence("");
  report.sentence(fmt::format(
      "{}, every element format, scale rule, block size and axis: SQNR dB / underflow % / clipped %", name));
  report.table("", what_if_table(tensor.what_if));
}

// Returns what JSON has of a tensor.
Report report_of(const TensorReport& tensor) {
  Report report;
  report.value({.key = "name"}, tensor.tensor->name);
  report.value({.key = "dtype"}, tensor.tensor->type_text());
  report.json("shape", tensor.tensor->shape);
  add_rows(report, "figures", figure_table(tensor.figures), tensor.figures);
  if (!tensor.recipes.empty()) add_rows(report, "recipes", recipe_table(tensor.recipes), tensor.recipes);
  if (!tensor.what_if.empty()) add_what_if_rows(report, tensor.what_if);
  return report;
}

Report report_of(const QuantizeOptions& options, const std::vector<TensorReport>& tensors) {
  Report report;
  const auto mx = mx_format_of(options);
  report.value({.key = "file"}, options.in);
  report.value({.name = "format", .key = "format"}, options.format);
  report.value({.name = mx ? fmt::format("scale rule, in blocks of {}", kBlock) : "", .key = "scale"},
               mx ? TableValue(scale_rule_name(mx->rule)) : TableValue());
  report.value({.name = mx ? "" : "operand", .key = "operand"}, options.operand);
  if (!options.out.empty()) report.value({.name = "written", .key = "out"}, options.out);
  std::vector<Quantized> figures;
  std::vector<Report> parts;
  for (const TensorReport& tensor : tensors) {
    figures.insert(figures.end(), tensor.figures.begin(), tensor.figures.end());
    parts.push_back(report_of(tensor));
  }
  report.parts("tensors", parts);
  report.table("", figure_table(figures));
  for (const TensorReport& tensor : tensors)
    if (!tensor.what_if.empty()) add_what_if(report, tensor, options);
  return report;
}

// Returns why the values of a tensor cannot be quantized; empty if they can.
std::string why_not(const TensorView& tensor) {
  if (tensor.holds == TensorView::Holds::codes) return tensor.note;
  if (!tensor.floating())
    return fmt::format(
        "dtype {} is not a floating-point type; allowed here: F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, F4",
        dtype_name(tensor.dtype));
  return {};
}

// Remarks on tensors, with one line for all tensors that share a remark.
class Remarks {
 public:
  void add(const std::string& name, const std::string& remark) {
    const auto found = std::ranges::find(rows_, remark, &Row::remark);
    if (found != rows_.end())
      ++found->count;
    else if (rows_.size() < kMaxRows)
      rows_.push_back({name, remark, 1});
    else
      ++unlisted_;
  }
  void print(const std::string& before) const {
    for (const Row& row : rows_)
      print_to(stderr, "{}'{}'{}: {}\n", before, printable(row.name.substr(0, kLongestName)),
               row.count > 1 ? fmt::format(" and {} more", row.count - 1) : "",
               printable(row.remark.substr(0, kLongestRemark)));
    if (unlisted_ > 0) print_to(stderr, "{}others: {}\n", before, unlisted_);
  }

 private:
  static constexpr std::size_t kMaxRows = 50, kLongestName = 200, kLongestRemark = 500;
  struct Row {
    std::string name, remark;
    std::size_t count;
  };
  std::vector<Row> rows_;
  std::size_t unlisted_ = 0;
};

std::vector<const TensorView*> chosen_tensors(const TensorFile& file, const std::string& only) {
  std::vector<const TensorView*> chosen;
  if (!only.empty()) {
    const TensorView& tensor = file.at(only);
    if (const std::string reason = why_not(tensor); !reason.empty())
      throw std::runtime_error(fmt::format("{}: tensor '{}': {}", file.path(), printable(only), reason));
    return {&tensor};
  }
  Remarks skipped;
  for (const TensorView& tensor : file.tensors()) {
    const bool scales = tensor.holds == TensorView::Holds::scales;
    const std::string reason = scales ? "holds scales of another tensor" : why_not(tensor);
    if (reason.empty())
      chosen.push_back(&tensor);
    else
      skipped.add(tensor.name, reason);
  }
  for (const SkippedEntry& entry : file.skipped()) skipped.add(entry.name, entry.reason);
  skipped.print("skipped ");
  return chosen;
}

void print_codes(const std::vector<const TensorView*>& tensors) {
  Remarks remarks;
  for (const TensorView* tensor : tensors)
    if (tensor->scales)
      remarks.add(tensor->name, fmt::format("the weight is made of codes and scales, {}", tensor->type_text()));
    else if (tensor->holds == TensorView::Holds::values && !tensor->note.empty())
      remarks.add(tensor->name, fmt::format("{}, {}", dtype_name(tensor->dtype), tensor->note));
  remarks.print("");
}

std::vector<TensorSpec> specs_of(const std::vector<const TensorView*>& tensors) {
  std::vector<TensorSpec> specs;
  for (const TensorView* tensor : tensors) {
    specs.push_back({tensor->name + ".codes", DType::u8, tensor->shape});
    specs.push_back({tensor->name + ".scales", DType::u8, scales_shape(*tensor)});
    specs.push_back({tensor->name + ".dequant", DType::f32, tensor->shape});
  }
  return specs;
}

void write_file(const QuantizeOptions& options, const std::vector<const TensorView*>& tensors) {
  const auto format = mx_format_of(options);
  if (!format)
    throw std::runtime_error(fmt::format(
        "--out: codes and scales can be stored of mxfp8_e4m3, ..., mxint8; leave it out for the figures of {}",
        options.format));
  if (format->rounding == Rounding::stochastic)
    throw std::runtime_error("--out stores codes that are rounded to the nearest: leave out _stochastic");
  if (options.axis != "row") throw std::runtime_error("--out stores blocks along rows: leave out --axis");
  SafetensorsStream out(
      options.out, specs_of(tensors),
      {{"format", options.format}, {"scale", scale_rule_name(format->rule)}, {"block", fmt::format("{}", kBlock)}});
  for (const TensorView* tensor : tensors) write_quantized(*tensor, *format, out);
  out.finish();
}

void quantize_file(const QuantizeOptions& options) {
  format_of(options);  // wrong options are reported before a file is read
  const TensorFile file = open_tensors(options.in, {untyped_of(options)});
  std::vector<std::string> inputs = file.files();
  const std::filesystem::path in = options.in;
  const std::filesystem::path folder = std::filesystem::is_directory(in) ? in : in.parent_path();
  inputs.insert(inputs.end(), {options.in, (folder / "config.json").string()});
  guard_outputs(inputs, {{"--out", options.out}}, options.overwrite);
  const std::vector<const TensorView*> tensors = chosen_tensors(file, options.tensor);
  if (tensors.empty()) throw std::runtime_error(options.in + ": holds no floating-point tensor");
  print_codes(tensors);
  if (!options.out.empty()) write_file(options, tensors);
  std::vector<TensorReport> reports;
  for (const TensorView* tensor : tensors) {
    try {
      reports.push_back(report_of(*tensor, options));
    } catch (const std::runtime_error& error) {  // one damaged tensor leaves the others readable
      if (tensors.size() == 1) throw;
      print_to(stderr, "skipped '{}': {}\n", printable(tensor->name), error.what());
    }
  }
  if (reports.empty()) throw std::runtime_error(options.in + ": no tensor could be read");
  print_report(report_of(options, reports), options.json);
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  Command command(app, "quantize", "Quantize the tensors of a file, and print figures or write a file");
  const auto options = std::make_shared<QuantizeOptions>();
  command
      .option("IN", options->in,
              "File to read: .safetensors, .npy, .npz, .pt of torch.save; or a checkpoint of several files, as its "
              "folder or its model.safetensors.index.json")
      .required();
  command.option("-o,--out", options->out,
                 "A .safetensors file to write: NAME.codes, NAME.scales, NAME.dequant (MX element formats)");
  command.option("--overwrite", options->overwrite, "Replace an existing file");
  command.option("--tensor", options->tensor, "Only this tensor (default: every floating-point one)");
  command
      .option("--format", options->format,
              "A number format (MX in blocks of 32), or a training recipe: " + format_names() +
                  "; also names of recordings, such as mxfp8_e4m3_floor and nvfp4_stochastic")
      .shows_default();
  command.option("--scale", options->scale, "Scale rule of the MX element formats")
      .one_of({"floor", "rceil", "even", "ceil"})
      .shows_default();
  command
      .option("--axis", options->axis,
              "Blocks along the rows (the last axis), down the columns (the last but one), or both")
      .one_of({"row", "column", "both"})
      .shows_default();
  command
      .option("--operand", options->operand,
              "Operand whose format is used, in a recipe with different formats by operand (fp8_deepseek_128: W in "
              "blocks of 128x128, x and dY in 1x128; mxfp8_e5m2_grad: dY in E5M2)")
      .one_of({"x", "W", "dY"})
      .shows_default();
  command
      .option("--dtype", options->dtype,
              "Data type of NumPy arrays that do not state it (ml_dtypes writes its float8 types as |V1)")
      .one_of({"F8_E4M3", "F8_E5M2", "F8_E8M0", "BF16", "F16"});
  command.option("--what-if", options->what_if,
                 "Also compare all recipes, and all combinations of element format, scale rule and block size (8 to "
                 "512), on both axes");
  command.option("--json", options->json,
                 "Write JSON to standard output instead of tables: {\"tensors\": [{\"name\", \"dtype\", \"shape\", "
                 "\"figures\": [{\"axis\", \"sqnr_db\", \"underflow\", ...}], \"recipes\": [...], \"what_if\": "
                 "[...]}]}; shares are 0 to 1, null means no value (\"exact\": no error at all)");
  command.runs([options, command] {
    options->scale_given = command.is_given("--scale");
    quantize_file(*options);
  });
}

}  // namespace moescope
