// The tables of docs/number-formats.md have the values of the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "core/numerics/number_format.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

std::string power_of_two(float value) {
  return fmt::format("2^{}", std::ilogb(value));
}

std::string in_capitals(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

const char* scale_text(const OperandFormat& format) {
  if (format.scheme == QuantScheme::mx) return "E8M0";
  return format.scheme == QuantScheme::nvfp4 ? "E4M3, and FP32 for the tensor" : "FP32";
}

void expect_on_page(const std::string& row) {
  std::ifstream file(std::string(MOESCOPE_TEST_DATA) + "/../docs/number-formats.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find("\n" + row), std::string::npos) << row;
}

TEST(FormatPage, HasEveryElement) {
  for (const FormatTraits& f : kElementFormats)
    expect_on_page(fmt::format("| {} | {} | {}, {} | {} | {} | {} | ", in_capitals(f.name), f.bits, f.exponent_bits,
                               f.mantissa_bits, f.max, power_of_two(f.min_normal), power_of_two(f.min_subnormal)));
}

TEST(FormatPage, HasEveryFormatWithBlocks) {
  int rows = 0;
  for (const NamedFormat& named : named_formats()) {
    const OperandFormat& format = named.format;
    const ScaleBlock block = scale_block(format);
    if (!is_scaled(format) || block.along == ScaleBlock::kWhole || block.across > 1) continue;
    const double bits = bits_per_value(format);
    const std::string row =
        fmt::format("`{}` | {} | {} | {} | {} | {} |", named.name, in_capitals(element_name(format)), block.along,
                    scale_text(format), bits * static_cast<double>(block.along) / 8, bits);
    const std::string family = in_capitals(named.name);
    expect_on_page("| " + family.substr(0, family.find('_')) + " | " + row);
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST(FormatPage, HasTheScalesOfE8m0) {
  for (const int byte : {0, 127, 254})
    expect_on_page(fmt::format("| {} | {} |", byte, power_of_two(decode_e8m0(static_cast<std::uint8_t>(byte)))));
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
  expect_on_page("| 255 | NaN");
}

TEST(FormatPage, HasTheScaleBytesOfTheRules) {
  for (const float amax : {1.0f, 1.75f, 1.7578125f, 1.9375f, 448.0f, 449.0f, 0.0f}) {
    std::string row = fmt::format("| {} |", amax);
    for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::rceil, ScaleRule::ceil, ScaleRule::even})
      row += fmt::format(" {} |", scale_code(rule, ElementFormat::e4m3, amax));
    expect_on_page(row + "\n");
  }
}

}  // namespace
}  // namespace moescope
