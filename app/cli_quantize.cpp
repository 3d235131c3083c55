#include "app/cli_quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/numerics/block_quantize.h"
#include "core/safetensors.h"

namespace moescope {
namespace {

constexpr std::size_t kBlock = 32;
constexpr std::size_t kChunkElements = std::size_t{1} << 20;  // converted at a time

struct NamedFormat {
  const char* name;
  ElementFormat element;
};
constexpr NamedFormat kFormats[] = {{"mxfp8_e4m3", ElementFormat::e4m3}, {"mxfp8_e5m2", ElementFormat::e5m2},
                                    {"mxfp6_e3m2", ElementFormat::e3m2}, {"mxfp6_e2m3", ElementFormat::e2m3},
                                    {"mxfp4_e2m1", ElementFormat::e2m1}, {"mxint8", ElementFormat::int8}};

struct Options {
  std::string in, out, tensor, format = "mxfp8_e4m3", scale = "rceil";
};

BlockFormat block_format_of(const Options& options) {
  const auto rule = scale_rule_named(options.scale);
  if (!rule) throw std::runtime_error("--scale is '" + options.scale + "'; allowed: floor, rceil, even, ceil");
  std::string allowed;
  for (const NamedFormat& format : kFormats) {
    if (options.format == format.name) return {format.element, *rule, static_cast<int>(kBlock)};
    allowed += (allowed.empty() ? "" : ", ") + std::string(format.name);
  }
  throw std::runtime_error("--format is '" + options.format + "'; allowed: " + allowed);
}

bool is_floating(DType dtype) {
  return dtype <= DType::f8_e5m2;
}

// A tensor as rows along its last axis; a scalar is one row of one.
struct Rows {
  std::size_t rows, cols, blocks;  // blocks of one row
};

Rows rows_of(const TensorView& tensor) {
  const std::size_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  const std::size_t rows = cols ? tensor.elements() / cols : 0;
  return {rows, cols, (cols + kBlock - 1) / kBlock};
}

std::vector<std::size_t> scales_shape(const TensorView& tensor) {
  if (tensor.shape.empty()) return {1};
  std::vector<std::size_t> shape = tensor.shape;
  shape.back() = rows_of(tensor).blocks;
  return shape;
}

// Pieces of whole rows, or of one row cut between blocks, of at most about kChunkElements.
template <class Visit>
void each_piece(const Rows& shape, Visit visit) {
  if (shape.rows == 0) return;
  const std::size_t cols = std::min(shape.cols, kChunkElements / kBlock * kBlock);
  const std::size_t rows = std::max<std::size_t>(1, kChunkElements / cols);
  if (cols == shape.cols) {
    for (std::size_t r = 0; r < shape.rows; r += rows) visit(r * cols, std::min(rows, shape.rows - r), cols);
    return;
  }
  for (std::size_t r = 0; r < shape.rows; ++r)
    for (std::size_t c = 0; c < shape.cols; c += cols) visit(r * shape.cols + c, 1, std::min(cols, shape.cols - c));
}

// The three outputs of a tensor lie one after another in the file, so it is read once for each.
QuantSums write_quantized(const TensorView& tensor, const BlockFormat& format, SafetensorsStream& out) {
  const Rows shape = rows_of(tensor);
  std::vector<std::uint8_t> codes, scales, all_scales;
  std::vector<float> decoded;
  each_piece(shape, [&](std::size_t first, std::size_t rows, std::size_t cols) {
    const std::vector<float> values = tensor.floats(first, rows * cols);
    codes.resize(rows * cols);
    scales.resize(rows * ((cols + kBlock - 1) / kBlock));
    quantize_rows(format, {values.data(), rows, cols, cols}, codes.data(), scales.data());
    out.append(std::as_bytes(std::span(codes)));
    all_scales.insert(all_scales.end(), scales.begin(), scales.end());
  });
  out.append(std::as_bytes(std::span(all_scales)));
  QuantSums sums;
  each_piece(shape, [&](std::size_t first, std::size_t rows, std::size_t cols) {
    const std::vector<float> values = tensor.floats(first, rows * cols);
    decoded.resize(rows * cols);
    quantize_dequantize(format, {values.data(), rows, cols, cols}, BlockAxis::row, decoded.data(), cols, &sums);
    out.append(std::as_bytes(std::span(decoded)));
  });
  return sums;
}

std::string shape_text(const TensorView& tensor) {
  std::string text;
  for (std::size_t size : tensor.shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text.empty() ? "scalar" : text;
}

// "2^-9 .. 2^3", with the number of blocks that hold NaN or infinity.
std::string scale_range(const QuantSums& sums) {
  int lowest = 255, highest = -1;
  for (int code = 0; code < 255; ++code) {
    if (!sums.e8m0_blocks[static_cast<std::size_t>(code)]) continue;
    lowest = std::min(lowest, code);
    highest = code;
  }
  char text[80] = "-";
  if (highest >= 0) std::snprintf(text, sizeof text, "2^%d .. 2^%d", lowest - 127, highest - 127);
  std::string range = text;
  if (sums.e8m0_blocks[255]) range.append(", ").append(std::to_string(sums.e8m0_blocks[255])).append(" blocks NaN");
  return range;
}

std::string sqnr_text(const QuantSums& sums) {
  if (sums.x2 == 0) return "-";
  if (sums.err2 == 0) return "exact";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", sums.sqnr_db());
  return text;
}

void print_row(int width, const TensorView& tensor, const QuantSums& sums) {
  std::printf("%-*s  %-16s %9s %12.3f %10.3f %17.2f  %s\n", width, tensor.name.c_str(), shape_text(tensor).c_str(),
              sqnr_text(sums).c_str(), 100 * sums.underflow_share(), 100 * sums.clipped_share(),
              100 * sums.clipped_blocks_share(), scale_range(sums).c_str());
}

std::vector<const TensorView*> chosen_tensors(const SafetensorsFile& file, const std::string& only) {
  std::vector<const TensorView*> chosen;
  if (!only.empty()) {
    const TensorView& tensor = file.at(only);
    if (!is_floating(tensor.dtype))
      throw std::runtime_error(file.path() + ": tensor '" + only + "': dtype is " + dtype_name(tensor.dtype) +
                               "; allowed here: F64, F32, F16, BF16, F8_E4M3, F8_E5M2");
    return {&tensor};
  }
  for (const TensorView& tensor : file.tensors()) {
    if (is_floating(tensor.dtype))
      chosen.push_back(&tensor);
    else
      std::fprintf(stderr, "skipped '%s': dtype %s is not floating\n", tensor.name.c_str(), dtype_name(tensor.dtype));
  }
  return chosen;
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

void quantize_file(const Options& options) {
  const BlockFormat format = block_format_of(options);
  const SafetensorsFile file(options.in);
  const std::vector<const TensorView*> tensors = chosen_tensors(file, options.tensor);
  if (tensors.empty()) throw std::runtime_error(options.in + ": holds no floating-point tensor");
  SafetensorsStream out(options.out, specs_of(tensors),
                        {{"format", options.format}, {"scale", options.scale}, {"block", std::to_string(kBlock)}});
  int width = 6;
  for (const TensorView* tensor : tensors) width = std::max(width, static_cast<int>(tensor->name.size()));
  std::printf("%s, scale rule %s, blocks of %zu along the last axis\n", options.format.c_str(), options.scale.c_str(),
              kBlock);
  std::printf("%-*s  %-16s %9s %12s %10s %17s  %s\n", width, "tensor", "shape", "SQNR dB", "underflow %", "clipped %",
              "clipped blocks %", "scales");
  for (const TensorView* tensor : tensors) print_row(width, *tensor, write_quantized(*tensor, format, out));
  out.finish();
  std::printf("wrote %s\n", options.out.c_str());
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Quantize the tensors of a safetensors file to a block format");
  const auto options = std::make_shared<Options>();
  command->add_option("IN", options->in, "The .safetensors file to read")->required();
  command->add_option("--out", options->out, "The .safetensors file to write: NAME.codes, NAME.scales, NAME.dequant")
      ->required();
  command->add_option("--tensor", options->tensor, "Only this tensor (default: every floating-point one)");
  command
      ->add_option("--format", options->format, "mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1 or mxint8")
      ->capture_default_str();
  command->add_option("--scale", options->scale, "floor, rceil, even or ceil")->capture_default_str();
  command->callback([options] { quantize_file(*options); });
}

}  // namespace moescope
