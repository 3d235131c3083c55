// golden_mx DIR: checks the number formats against reference data, bit for bit.
//
// DIR holds any of elements.safetensors, blocks_<format>_<rule>.safetensors, gemm_mxfp8.safetensors;
// tests/golden/mx/README.md describes them. Not compared are the element codes of a block whose scale is 255, and the
// sign and payload of a NaN. Exits with 0 if all files in DIR agree, 1 if something differs, 2 if there is nothing to
// compare or a file cannot be read.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/quantize.h"
#include "tests/golden/matrices.h"
#include "tests/golden/tally.h"

using namespace moescope;
namespace fs = std::filesystem;

namespace {

constexpr double kSqnrToleranceDb = 1e-3;  // stored in float32, summed in another order

// Compares decibels, unless the reference is not finite because the value has no meaning.
void decibel(Tally& tally, std::size_t index, double found, float want) {
  if (std::isfinite(want)) tally.within(index, found, static_cast<double>(want), kSqnrToleranceDb);
}

void compare(const SafetensorsFile& file, const std::string& name, const GoldenMatrix& found) {
  const std::vector<float> want = file.at(name).floats();
  require_size(file, name, want.size(), found.data.size());
  Tally tally(name);
  for (std::size_t i = 0; i < want.size(); ++i) tally.value(i, found.data[i], want[i]);
}

// Elements ---------------------------------------------------------------------------------------------------------

template <class Encode>
void check_codes(const SafetensorsFile& file, const std::string& inputs, const std::string& name, Encode encode_one) {
  const TensorView* expected = file.find(name);
  if (!expected) return;
  const std::vector<float> input = file.at(inputs).floats();
  const std::vector<std::uint8_t> want = bytes_of(*expected);
  require_size(file, name, want.size(), input.size());
  Tally tally(name);
  for (std::size_t i = 0; i < want.size(); ++i) tally.code(i, encode_one(input[i]), want[i]);
}

void check_decode(const SafetensorsFile& file, const std::string& name, auto decode_one) {
  const std::vector<float> want = file.at(name).floats();
  Tally tally(name);
  for (std::size_t i = 0; i < want.size(); ++i) tally.value(i, decode_one(static_cast<std::uint8_t>(i)), want[i]);
}

void check_elements(const SafetensorsFile& file) {
  for (int i = 0; i < kNumElementFormats; ++i) {
    const ElementFormat format = static_cast<ElementFormat>(i);
    const std::string name = traits(format).name;
    check_decode(file, name + ".decode", [&](std::uint8_t code) { return decode(format, code); });
    check_codes(file, name + ".encode.input", name + ".encode.code_sat", [&](float x) { return encode(format, x); });
  }
  check_decode(file, "e8m0.decode", [](std::uint8_t code) { return decode_e8m0(code); });
}

// Blocks -----------------------------------------------------------------------------------------------------------

struct Quantized {
  std::vector<std::uint8_t> codes, scales;
  GoldenMatrix dequant;
};

std::size_t blocks_in(const OperandFormat& format, std::size_t n) {
  return (n + format.block - 1) / format.block;
}

Quantized quantized(const OperandFormat& format, const GoldenMatrix& m) {
  Quantized q{std::vector<std::uint8_t>(m.data.size()), std::vector<std::uint8_t>(m.rows * blocks_in(format, m.cols)),
              GoldenMatrix(m.rows, m.cols)};
  quantize_rows(format, m.view(), q.codes.data(), q.scales.data());
  dequantize_rows(format, q.codes.data(), q.scales.data(), q.dequant.view());
  return q;
}

GoldenMatrix dequantized(const OperandFormat& format, const GoldenMatrix& m, BlockAxis axis) {
  GoldenMatrix out(m.rows, m.cols);
  quantize_operand({m.view(), format, axis, {}}, out.view());
  return out;
}

void compare_codes(const SafetensorsFile& file, const OperandFormat& format, const Quantized& found,
                   const std::string& codes, const std::string& scales) {
  const std::vector<std::uint8_t> want_codes = bytes_of(file.at(codes)), want_scales = bytes_of(file.at(scales));
  require_size(file, codes, want_codes.size(), found.codes.size());
  require_size(file, scales, want_scales.size(), found.scales.size());
  Tally scale_tally(scales), code_tally(codes);
  const std::size_t cols = found.dequant.cols, per_row = blocks_in(format, cols);
  for (std::size_t i = 0; i < want_scales.size(); ++i) scale_tally.code(i, found.scales[i], want_scales[i]);
  for (std::size_t i = 0; i < want_codes.size(); ++i) {
    const std::size_t block = i / cols * per_row + i % cols / format.block;
    if (want_scales[block] != 255) code_tally.code(i, found.codes[i], want_codes[i]);
  }
}

void check_packed(const SafetensorsFile& file, const Quantized& found, std::size_t block) {
  const TensorView* packed = file.find("codes_packed");
  if (!packed) return;
  const std::vector<std::uint8_t> want = bytes_of(*packed);
  require_size(file, "codes_packed", want.size(), found.codes.size() / 2);
  Tally tally("codes_packed");
  for (std::size_t i = 0; i < want.size(); ++i)
    if (found.scales[2 * i / block] != 255) tally.code(i, found.codes[2 * i] | found.codes[2 * i + 1] << 4, want[i]);
}

double sqnr_db_in_double(const std::vector<float>& x, const std::vector<float>& q) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(x[i]) - q[i];
    signal += static_cast<double>(x[i]) * x[i];
    noise += error * error;
  }
  return 10 * std::log10(signal / noise);
}

// Checks the SQNR over the rows of each distribution, from the statistics of the quantizer itself.
void check_sqnr(const SafetensorsFile& file, const OperandFormat& format, const GoldenMatrix& input) {
  const TensorView* expected = file.find("sqnr_db");
  if (!expected || !file.find("row_dist")) return;
  const std::vector<float> want = expected->floats();
  const std::vector<std::int64_t> distribution = file.at("row_dist").integers();
  require_size(file, "row_dist", distribution.size(), input.rows);
  std::vector<QuantSums> sums(want.size());
  std::vector<float> out(input.cols);
  for (std::size_t r = 0; r < input.rows; ++r) {
    if (distribution[r] < 0 || static_cast<std::size_t>(distribution[r]) >= sums.size())
      throw std::runtime_error(file.path() + ": row_dist[" + std::to_string(r) + "] is " +
                               std::to_string(distribution[r]) + ", but sqnr_db has " + std::to_string(sums.size()));
    const Matrix<const float> row{input.data.data() + r * input.cols, 1, input.cols, input.cols};
    quantize_operand({row, format, BlockAxis::row, {}, &sums[distribution[r]]},
                     {out.data(), row.rows, row.cols, input.cols});
  }
  Tally tally("sqnr_db");
  for (std::size_t i = 0; i < want.size(); ++i)
    if (sums[i].e8m0_blocks[255] == 0) decibel(tally, i, sums[i].sqnr_db(), want[i]);
}

void check_blocks(const SafetensorsFile& file, const OperandFormat& format) {
  const GoldenMatrix input(file.at("input"));
  const Quantized found = quantized(format, input);
  compare_codes(file, format, found, "codes", "scales");
  check_packed(file, found, format.block);
  const bool stored = file.find("dequant");
  if (stored) compare(file, "dequant", found.dequant);
  const std::vector<float> want = stored ? file.at("dequant").floats() : found.dequant.data;
  const GoldenMatrix along_rows = dequantized(format, input, BlockAxis::row);
  const GoldenMatrix down_columns = transposed(dequantized(format, transposed(input), BlockAxis::column));
  Tally row_tally("dequant, one pass, rows"), column_tally("dequant, one pass, columns");
  for (std::size_t i = 0; i < want.size(); ++i) {
    row_tally.value(i, along_rows.data[i], want[i]);
    column_tally.value(i, down_columns.data[i], want[i]);
  }
  check_sqnr(file, format, input);
}

// Products ---------------------------------------------------------------------------------------------------------

void check_backward(const SafetensorsFile& file, const OperandFormat& format, const std::string& group,
                    const std::string& mode, const GoldenMatrix& a, const GoldenMatrix& b) {
  const GoldenMatrix dy(file.at(group + ".dY"));
  const GoldenMatrix dy_n = dequantized(format, dy, BlockAxis::row), b_n = dequantized(format, b, BlockAxis::column);
  compare(file, mode + ".dA", product(dy_n, transposed(b_n)));
  const GoldenMatrix dy_m = dequantized(format, dy, BlockAxis::column), a_m = dequantized(format, a, BlockAxis::column);
  compare(file, mode + ".dB", product(transposed(dy_m), transposed(a_m)));
}

void check_product(const SafetensorsFile& file, const OperandFormat& format, const std::string& group) {
  const std::string mode = group + "." + scale_rule_name(format.rule);
  if (!file.find(mode + ".C")) return;
  const GoldenMatrix a(file.at(group + ".A")), b(file.at(group + ".B"));
  const Quantized qa = quantized(format, a), qb = quantized(format, b);
  compare_codes(file, format, qa, mode + ".A_codes", mode + ".A_scales");
  compare_codes(file, format, qb, mode + ".B_codes", mode + ".B_scales");
  const GoldenMatrix c = product(qa.dequant, qb.dequant);
  compare(file, mode + ".C", c);
  const GoldenMatrix exact = product(a, b);
  if (format.rule == ScaleRule::floor) compare(file, group + ".C_unquantized", exact);
  const std::vector<float> want = file.at(mode + ".sqnr_db").floats();
  require_size(file, mode + ".sqnr_db", want.size(), 3);
  {
    Tally tally(mode + ".sqnr_db");
    decibel(tally, 0, sqnr_db_in_double(a.data, qa.dequant.data), want[0]);
    decibel(tally, 1, sqnr_db_in_double(b.data, qb.dequant.data), want[1]);
    decibel(tally, 2, sqnr_db_in_double(exact.data, c.data), want[2]);
  }
  if (file.find(group + ".dY")) check_backward(file, format, group, mode, a, b);
}

// A [T,K], W [E,N,K]; rows of group e of A times W[e] transposed.
void check_grouped(const SafetensorsFile& file, const OperandFormat& format, const std::string& group) {
  const std::string name = group + "." + scale_rule_name(format.rule) + ".out";
  if (!file.find(name)) return;
  const GoldenMatrix a = dequantized(format, GoldenMatrix(file.at(group + ".A")), BlockAxis::row);
  const TensorView& w = file.at(group + ".W");
  if (w.shape.size() != 3) throw std::runtime_error(file.path() + ": tensor '" + w.name + "': expected three axes");
  const std::size_t n = w.shape[1], k = w.shape[2];
  const std::vector<std::int64_t> group_end = file.at(group + ".group_end").integers();
  require_size(file, group + ".group_end", group_end.size(), w.shape[0]);
  require_size(file, group + ".W", k, a.cols);
  GoldenMatrix out(a.rows, n);
  std::size_t row = 0;
  for (std::size_t e = 0; e < w.shape[0]; ++e) {
    GoldenMatrix weight(n, k);
    weight.data = w.floats(e * n * k, n * k);
    weight = dequantized(format, weight, BlockAxis::row);
    const std::size_t end = std::min<std::size_t>(static_cast<std::size_t>(group_end[e]), a.rows);
    GoldenMatrix rows(end > row ? end - row : 0, k);
    std::copy_n(a.data.begin() + static_cast<std::ptrdiff_t>(row * k), rows.data.size(), rows.data.begin());
    const GoldenMatrix part = product(rows, weight);
    std::copy(part.data.begin(), part.data.end(), out.data.begin() + static_cast<std::ptrdiff_t>(row * n));
    row = std::max(row, end);
  }
  compare(file, name, out);
}

void check_products(const SafetensorsFile& file) {
  std::vector<std::string> groups;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.ends_with(".A")) groups.push_back(tensor.name.substr(0, tensor.name.size() - 2));
  for (const std::string& group : groups) {
    for (int rule = 0; rule < 4; ++rule) {
      const OperandFormat format = mx_format(ElementFormat::e4m3, static_cast<ScaleRule>(rule), 32);
      if (file.find(group + ".group_end"))
        check_grouped(file, format, group);
      else
        check_product(file, format, group);
    }
  }
}

// ------------------------------------------------------------------------------------------------------------------

// Returns the format of "blocks_e4m3_floor", for example.
std::optional<OperandFormat> block_format_of(const std::string& stem) {
  const std::size_t split = stem.rfind('_');
  if (!stem.starts_with("blocks_") || split <= 7) return std::nullopt;
  const auto element = element_named(stem.substr(7, split - 7));
  const auto rule = scale_rule_name.find(stem.substr(split + 1));
  if (!element || !rule) return std::nullopt;
  return mx_format(*element, *rule, 32);
}

bool check_file(const fs::path& path) {
  const std::string stem = path.stem().string();
  const auto block_format = block_format_of(stem);
  const bool known = path.extension() == ".safetensors" && (block_format || stem == "elements" || stem == "gemm_mxfp8");
  if (!known) {
    std::printf("%s: not of a known form, skipped\n", path.filename().c_str());
    return false;
  }
  std::printf("%s\n", path.filename().c_str());
  const SafetensorsFile file(path.string());
  if (block_format) check_blocks(file, *block_format);
  if (stem == "elements") check_elements(file);
  if (stem == "gemm_mxfp8") check_products(file);
  return true;
}

int check_directory(const fs::path& directory) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  int checked = 0, unreadable = 0;
  for (const fs::path& path : paths) {
    try {
      checked += check_file(path);
    } catch (const std::exception& error) {
      std::printf("  failed: %s\n", error.what());
      ++unreadable;
    }
  }
  std::printf("%d files, %zu values compared, %zu differ, %d files unreadable\n", checked, Tally::total_compared,
              Tally::total_differ, unreadable);
  if (unreadable || Tally::total_compared == 0) return 2;
  return Tally::total_differ ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_mx DIR\n");
    return 2;
  }
  try {
    return check_directory(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_mx: %s\n", error.what());
    return 2;
  }
}
