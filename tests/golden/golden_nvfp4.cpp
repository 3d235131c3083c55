// golden_nvfp4 DIR: checks NVFP4 as TransformerEngine and torchao compute it against reference data.
//
// DIR holds any of nvfp4.safetensors, nvfp4_4over6.safetensors, nvfp4_gemm.safetensors; tests/golden/nvfp4/README.md
// describes them. Codes and scales are compared bit for bit, and decoded values with those that training multiplies.
// Not compared are the sign of a zero and the codes of blocks whose scale is 0. Exits with 0 if all files in DIR agree,
// 1 if something differs, 2 if there is nothing to compare or a file cannot be read.
#include <cmath>
#include <limits>

#include "core/numerics/kernels/hadamard.h"
#include "core/numerics/quantize.h"
#include "tests/golden/checked_folder.h"
#include "tests/golden/matrices.h"
#include "tests/golden/tally.h"
#include "tests/support/stored_nvfp4.h"

using namespace moescope;

namespace {

// Returns the format of TransformerEngine's rule, with blocks of 16 along rows or squares of 16x16.
OperandFormat te_format(bool square, FourOverSix choice = FourOverSix::off, int scale_bound = 448) {
  OperandFormat format = kNvfp4Format;
  format.nvfp4 = {Nvfp4Rule::transformer_engine, square, choice, scale_bound};
  return format;
}

OperandFormat torchao_format(Nvfp4Rule rule) {
  OperandFormat format = kNvfp4Format;
  format.nvfp4.rule = rule;
  return format;
}

float amax_of(const GoldenMatrix& m) {
  return operand_amax({m.view(), kNvfp4Format, BlockAxis::row});
}

struct Stored {
  std::vector<std::uint8_t> codes, scales;
  std::size_t per_row;
};

Stored stored(const OperandFormat& format, const GoldenMatrix& m) {
  Stored q{std::vector<std::uint8_t>(m.data.size()), {}, (m.cols + 15) / 16};
  q.scales.resize(m.rows * q.per_row);
  store_nvfp4(format, m.view(), amax_of(m), q.codes.data(), q.scales.data());
  return q;
}

// Returns the values that training multiplies.
GoldenMatrix trained(const OperandFormat& format, const GoldenMatrix& m, BlockAxis axis = BlockAxis::row) {
  GoldenMatrix out(m.rows, m.cols);
  quantize_operand({m.view(), format, axis, {}}, out.view());
  return out;
}

std::uint8_t without_zero_sign(std::uint8_t code) {
  return code == 8 ? 0 : code;
}

void compare_stored(const SafetensorsFile& file, const std::string& name, const GoldenMatrix& input,
                    const Stored& found) {
  const std::vector<std::uint8_t> packed = bytes_of(file.at(name + ".codes")),
                                  scales = bytes_of(file.at(name + ".scales"));
  require_size(file, name + ".codes", packed.size() * 2, found.codes.size());
  if (scales.size() < found.scales.size() || scales.size() % found.per_row)
    require_size(file, name + ".scales", scales.size(), found.scales.size());
  Tally scale_tally(name + ".scales"), code_tally(name + ".codes");
  for (std::size_t i = 0; i < scales.size(); ++i) {  // squares at the end have a byte for rows outside of the matrix
    const std::size_t row = std::min(i / found.per_row, input.rows - 1);
    scale_tally.code(i, found.scales[row * found.per_row + i % found.per_row], scales[i]);
  }
  for (std::size_t i = 0; i < found.codes.size(); ++i) {
    if (scales[i / input.cols * found.per_row + i % input.cols / 16] == 0) continue;
    const auto want = static_cast<std::uint8_t>(packed[i / 2] >> i % 2 * 4 & 15);
    code_tally.code(i, without_zero_sign(found.codes[i]), without_zero_sign(want));
  }
}

// Training must multiply the stored values, along rows and down columns.
void compare_with_trained(const OperandFormat& format, const std::string& name, const GoldenMatrix& input,
                          const Stored& found) {
  GoldenMatrix decoded(input.rows, input.cols);
  decode_stored_nvfp4(format, found.codes.data(), found.scales.data(), amax_of(input), decoded.view());
  const GoldenMatrix rows = trained(format, input),
                     columns = transposed(trained(format, transposed(input), BlockAxis::column));
  Tally tally(name + ", as trained");
  for (std::size_t i = 0; i < decoded.data.size(); ++i) {
    tally.value(i, rows.data[i] + 0.0f, decoded.data[i] + 0.0f);
    tally.value(i, columns.data[i] + 0.0f, decoded.data[i] + 0.0f);
  }
}

// Returns the distance from a float32 to the next.
double unit_of(float value) {
  const float magnitude = std::fabs(value);
  return static_cast<double>(std::nextafter(magnitude, std::numeric_limits<float>::infinity())) -
         static_cast<double>(magnitude);
}

// The program multiplies an element by the rounded value of its block's scale. That is two roundings, which differ from
// one rounding by at most one unit. A subnormal scale is less precise than its product with the element: half a unit of
// the scale, up to six times, and half a unit of the product.
void compare_decoded(const SafetensorsFile& file, const OperandFormat& format, const std::string& name,
                     const GoldenMatrix& input) {
  const TensorView* expected = file.find(name + ".dequant");
  if (!expected) return;
  const std::vector<float> want = expected->floats();
  const GoldenMatrix found = trained(format, input);
  require_size(file, name + ".dequant", want.size(), found.data.size());
  const double amax = static_cast<double>(amax_of(input));
  const bool subnormal = amax / 6 < static_cast<double>(std::numeric_limits<float>::min());
  Tally tally(name + ".dequant");
  for (std::size_t i = 0; i < want.size(); ++i)
    tally.within(i, static_cast<double>(found.data[i]), static_cast<double>(want[i]),
                 (subnormal ? 3.5 : 1) * unit_of(want[i]));
}

void check_quantized(const SafetensorsFile& file, const OperandFormat& format, const std::string& name,
                     const GoldenMatrix& input) {
  if (!file.find(name + ".codes")) return;
  const Stored found = stored(format, input);
  compare_stored(file, name, input, found);
  compare_with_trained(format, name, input, found);
  compare_decoded(file, format, name, input);
}

std::vector<std::string> names_ending(const SafetensorsFile& file, const std::string& suffix) {
  std::vector<std::string> names;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.ends_with(suffix)) names.push_back(tensor.name.substr(0, tensor.name.size() - suffix.size()));
  return names;
}

void compare_amax(const SafetensorsFile& file, const std::string& name, float found) {
  const TensorView* expected = file.find(name + ".amax");
  if (expected) Tally(name + ".amax").value(0, found, expected->floats().at(0));
}

// Rotation ----------------------------------------------------------------------------------------------------------

GoldenMatrix rotated(const GoldenMatrix& m, RotationForm form, BlockAxis axis) {
  GoldenMatrix out(m.rows, m.cols);
  hadamard_rotate(m.view(), axis, {16, form}, 0, out.view());
  return out;
}

// Compares one quantization of rotated columns with quantize_operand, which rotates itself.
void check_rotated(const SafetensorsFile& file, const std::string& name, const std::string& values,
                   const GoldenMatrix& input, RotationForm form) {
  const GoldenMatrix turned = transposed(rotated(input, form, BlockAxis::column));
  {
    const std::vector<float> want = file.at(values).floats();
    require_size(file, values, want.size(), turned.data.size());
    const GoldenMatrix along_rows = rotated(transposed(input), form, BlockAxis::row);
    Tally tally(values);
    for (std::size_t i = 0; i < want.size(); ++i) {
      tally.value(i, turned.data[i], want[i]);
      tally.value(i, along_rows.data[i], want[i]);
    }
  }
  check_quantized(file, te_format(false), name, turned);
  OperandFormat format = te_format(false);
  format.hadamard = 16;
  format.rotation = form;
  compare_amax(file, name, operand_amax({input.view(), format, BlockAxis::column}));
  const GoldenMatrix at_once = transposed(trained(format, input, BlockAxis::column)),
                     separate = trained(te_format(false), turned);
  Tally tally(name + ", rotated as trained");
  for (std::size_t i = 0; i < separate.data.size(); ++i) tally.value(i, at_once.data[i], separate.data[i]);
}

void check_rotation(const SafetensorsFile& file, const std::string& name, const GoldenMatrix& input) {
  const TensorView* signs = file.find(name + ".sign");
  if (!signs) return;
  {
    GoldenMatrix ones(16, 16);
    for (std::size_t i = 0; i < 16; ++i) ones.data[i * 17] = 1;
    const GoldenMatrix first = rotated(ones, RotationForm::fixed, BlockAxis::row);  // column 0 of H is all ones
    const std::vector<float> want = signs->floats();
    Tally tally(name + ".sign");
    for (std::size_t i = 0; i < 16; ++i) tally.value(i, first.at(i, 0) * 4, want.at(i));
  }
  check_quantized(file, te_format(false), name + ".col", transposed(input));
  check_rotated(file, name + ".col_rht", name + ".transformed_f32", input, RotationForm::fixed);
  check_rotated(file, name + ".col_rht_bf16", name + ".transformed_bf16", input, RotationForm::fixed_bf16);
}

// -------------------------------------------------------------------------------------------------------------------

void check_arithmetics(const SafetensorsFile& file) {
  for (const std::string& name : names_ending(file, ".input")) {
    const GoldenMatrix input(file.at(name + ".input"));
    compare_amax(file, name, amax_of(input));
    check_quantized(file, te_format(false), name + ".1x16", input);
    check_quantized(file, te_format(true), name + ".16x16", input);
    check_quantized(file, torchao_format(Nvfp4Rule::torchao_one_level), name + ".ao1", input);
    check_quantized(file, torchao_format(Nvfp4Rule::torchao), name + ".ao2", input);
    check_rotation(file, name, input);
  }
}

void check_four_over_six(const SafetensorsFile& file) {
  for (const std::string& name : names_ending(file, ".input")) {
    const GoldenMatrix input(file.at(name + ".input"));
    for (const bool square : {false, true})
      for (const int bound : {256, 448})
        for (const FourOverSix choice : {FourOverSix::mae, FourOverSix::mse})
          check_quantized(file, te_format(square, choice, bound),
                          name + (square ? ".16x16" : ".1x16") + ".max" + std::to_string(bound) +
                              (choice == FourOverSix::mae ? ".mae" : ".mse"),
                          input);
  }
}

void compare_product(const SafetensorsFile& file, const std::string& name, const GoldenMatrix& found) {
  const std::vector<float> want = file.at(name).floats();
  require_size(file, name, want.size(), found.data.size());
  double largest = 0;
  for (const float y : want) largest = std::max(largest, std::fabs(static_cast<double>(y)));
  Tally tally(name);
  for (std::size_t i = 0; i < want.size(); ++i)
    tally.within(i, static_cast<double>(found.data[i]), static_cast<double>(want[i]), 2e-6 * largest);
}

void check_products(const SafetensorsFile& file) {
  for (const std::string& name : names_ending(file, ".x")) {
    const GoldenMatrix x(file.at(name + ".x")), w(file.at(name + ".w"));
    for (const bool square : {false, true}) {
      const std::string product_name = name + (square ? ".w16x16.y" : ".w1x16.y");
      if (file.find(product_name))
        compare_product(file, product_name, product(trained(te_format(false), x), trained(te_format(square), w)));
    }
    compare_product(file, name + ".y_unquantized", product(x, w));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return check_folder(
      "golden_nvfp4", argc, argv,
      {{"nvfp4", check_arithmetics}, {"nvfp4_4over6", check_four_over_six}, {"nvfp4_gemm", check_products}});
}
