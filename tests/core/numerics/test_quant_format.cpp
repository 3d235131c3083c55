// Statements of the screen about number formats, compared with the quantizers: every figure is computed here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/metrics.h"
#include "core/numerics/number_format.h"
#include "core/numerics/recipes.h"
#include "tests/support/every_format.h"
#include "tests/support/sample_matrices.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

const TestMatrix& bell() {
  static const TestMatrix matrix = normal_matrix(1024, 1024);
  return matrix;
}

QuantSums sums_of(const OperandFormat& format, const TestMatrix& matrix = bell()) {
  QuantSums sums;
  quantized(format, matrix, BlockAxis::row, {}, &sums);
  return sums;
}

OperandFormat drawn(OperandFormat format) {
  format.rounding = Rounding::stochastic;
  return format;
}

std::string digits(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

TEST(NamedFormats, AreFoundByNameAndCoverEveryElement) {
  std::set<std::string> names;
  for (const NamedFormat& named : named_formats()) {
    EXPECT_TRUE(names.insert(named.name).second) << named.name;
    EXPECT_EQ(find_format(named.name), &named);
    EXPECT_EQ(find_format(named.format), &named);
  }
  for (const ElementFormat element : kEveryFormat)
    EXPECT_NE(find_format(mx_format(element)), nullptr) << traits(element).name;
  for (const char* name : {"fp8_tensor", "fp8_e4m3_tensor", "fp8_tensorwise"})
    EXPECT_EQ(quant_format(name).name, "fp8_e4m3_tensor") << name;
  EXPECT_EQ(find_format("mxfp8"), nullptr);
  EXPECT_EQ(find_format(mx_format(ElementFormat::e4m3, ScaleRule::floor)), nullptr);
}

TEST(QuantFormat, NamesOfEveryRecipeReadBackAsWhatTheyAre) {
  constexpr std::pair<Direction, OperandRole> kOperands[] = {
      {Direction::forward, OperandRole::x}, {Direction::forward, OperandRole::w}, {Direction::dgrad, OperandRole::dy}};
  const std::map<QuantScheme, QuantScale> kScales{{QuantScheme::mx, QuantScale::power_of_two},
                                                  {QuantScheme::nvfp4, QuantScale::e4m3},
                                                  {QuantScheme::fp8, QuantScale::fp32}};
  for (const RecipeInfo& info : recipes()) {
    for (const auto& [direction, operand] : kOperands) {
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        OperandFormat expected = recipe_format(info.recipe, direction, operand);
        if (is_scaled(expected)) expected.rounding = rounding;
        const std::string name = format_name(expected);
        const QuantFormat found = quant_format(name);
        SCOPED_TRACE(name);
        const auto scale = kScales.find(expected.scheme);
        EXPECT_EQ(found.scale, scale == kScales.end() ? QuantScale::none : scale->second);
        EXPECT_EQ(found.element.has_value(), is_scaled(expected));
        EXPECT_EQ(found.name, name);
        OperandFormat rotated = expected;  // the name does not show a rotation
        rotated.hadamard = 16;
        rotated.rotation = RotationForm::fixed;
        EXPECT_EQ(found, quant_format(rotated));
        // The number of blocks that the quantizer counts in a matrix of whole blocks.
        if (const auto blocks = sums_of(expected, normal_matrix(256, 256)).blocks; found.block > 0)
          EXPECT_EQ(blocks * static_cast<std::uint64_t>(found.block), 256u * 256u);
        else
          EXPECT_LE(blocks, 256u);  // one scale for a row or the tensor, or no scales
      }
    }
  }
  EXPECT_EQ(format_name(mx(ElementFormat::e2m1, ScaleRule::floor)), "mxfp4_e2m1_floor");
  EXPECT_EQ(format_name(mx(ElementFormat::int8)), "mxint8_rceil");
  EXPECT_EQ(format_name(drawn(kNvfp4)), "nvfp4_stochastic");
}

TEST(QuantFormat, NamesOfNvfp4SayItsArithmeticAndItsFigures) {
  std::set<std::string> names;
  for (const bool square : {false, true})
    for (int rule = 0; rule < 4; ++rule)
      for (const auto& [choice, bound] : {std::pair(FourOverSix::off, 448), std::pair(FourOverSix::mae, 256),
                                          std::pair(FourOverSix::mse, 256), std::pair(FourOverSix::mse, 448)}) {
        OperandFormat format = kNvfp4;
        format.nvfp4 = {static_cast<Nvfp4Rule>(rule), square, choice, bound};
        if (choice != FourOverSix::off && format.nvfp4.rule != Nvfp4Rule::transformer_engine) continue;
        const std::string name = format_name(format);
        SCOPED_TRACE(name);
        EXPECT_TRUE(names.insert(name).second);
        const QuantFormat read = quant_format(name);
        EXPECT_EQ(read.scale, QuantScale::e4m3);
        EXPECT_TRUE(read.operand == format);
        EXPECT_EQ(read.block, square ? 256 : 16);
        const QuantSums sums = sums_of(format);
        EXPECT_EQ(sums.blocks * static_cast<std::uint64_t>(read.block), 1024u * 1024u);
        EXPECT_NEAR(bell_sqnr_db(read), sums.sqnr_db(), 0.15);
        EXPECT_NEAR(bell_underflow(read), sums.underflow_share(), 0.006);
        EXPECT_TRUE(quant_format(format_name(drawn(format))).operand == drawn(format));
        EXPECT_NEAR(bell_sqnr_db(quant_format(format_name(drawn(format)))), sums_of(drawn(format)).sqnr_db(), 0.1);
      }
  EXPECT_TRUE(names.contains("nvfp4") && names.contains("nvfp4_te_16x16_4over6_mae_256"));
}

TEST(QuantFormat, ElementsAloneAndOtherNamesSayNothingOfScales) {
  const QuantFormat element = quant_format("e2m1");
  EXPECT_EQ(element.scale, QuantScale::unknown);
  EXPECT_EQ(element.element, ElementFormat::e2m1);
  EXPECT_FALSE(element.operand);
  EXPECT_EQ(element.block, 0);
  EXPECT_TRUE(std::isnan(largest_cut(element)));
  EXPECT_EQ(bell_sqnr_db(element), 18.8);
  for (const char* name : {"", "_", "mxfp8", "mxfp8_", "mxfp8_e9m9_floor", "fp8", "e4m3fn", "something else"}) {
    const QuantFormat unknown = quant_format(name);
    EXPECT_EQ(unknown.scale, QuantScale::unknown) << name;
    EXPECT_TRUE(std::isnan(bell_sqnr_db(unknown)) && std::isnan(bell_underflow(unknown))) << name;
    EXPECT_TRUE(std::isnan(largest_cut(unknown))) << name;
  }
  EXPECT_TRUE(std::isnan(largest_cut(quant_format("mxfp8_e4m3_upwards"))));
}

TEST(QuantFormat, BellShapedDataHaveTheFiguresThatAreSaid) {
  const auto expect_figures = [](const OperandFormat& format, double tolerance) {
    const QuantFormat named = quant_format(format_name(format));
    const QuantSums sums = sums_of(format);
    EXPECT_NEAR(bell_sqnr_db(named), sums.sqnr_db(), tolerance) << format_name(format);
    if (format.rule == ScaleRule::rceil) {
      EXPECT_NEAR(bell_underflow(named), sums.underflow_share(), 0.001) << format_name(format);
    }
    // FLOOR clips, too, and stochastic rounding does not double the error of clipping.
    const double drawn_tolerance = std::max(tolerance, format.rule == ScaleRule::floor ? 0.5 : 0.22);
    EXPECT_NEAR(bell_sqnr_db(quant_format(format_name(drawn(format)))), sums_of(drawn(format)).sqnr_db(),
                drawn_tolerance)
        << format_name(format);
  };
  for (const ElementFormat element : kEveryFormat)
    for (const ScaleRule rule : kEveryRule) expect_figures(mx(element, rule), 0.06);
  expect_figures(kNvfp4, 0.06);
  for (const ElementFormat element : {ElementFormat::e4m3, ElementFormat::e5m2})
    for (int granularity = 0; granularity < 4; ++granularity)
      for (const bool power_of_two : {false, true})
        expect_figures(fp8(element, static_cast<ScaleGranularity>(granularity), power_of_two),
                       power_of_two ? 0.3 : 0.07);  // the name does not say that scales are powers of two
}

// Every row is one block, whose amax is between 1 and 2; its other values are 0.
TEST(QuantFormat, NoBlockLosesMoreOfItsLargestValueThanIsSaid) {
  constexpr std::size_t kSteps = 4096;
  const auto cut_of = [](const OperandFormat& format, std::size_t block) {
    TestMatrix m(kSteps, block);
    for (std::size_t r = 0; r < kSteps; ++r) m.at(r, 0) = 1 + static_cast<float>(r) / kSteps;
    m.at(0, 0) = 4000;  // the amax of NVFP4's tensor
    const TestMatrix q = quantized(format, m, BlockAxis::row);
    double cut = 0;
    // A clipped value becomes the largest number, any other is rounded.
    for (std::size_t r = 1; r < kSteps; ++r) {
      QuantSums sums;
      TestMatrix one(1, block);
      one.at(0, 0) = m.at(r, 0);
      if (format.scheme == QuantScheme::mx) quantized(format, one, BlockAxis::row, {}, &sums);
      if (sums.clipped > 0 || format.scheme == QuantScheme::nvfp4)
        cut = std::max(cut, 1 - static_cast<double>(q.at(r, 0)) / static_cast<double>(m.at(r, 0)));
    }
    return cut;
  };
  for (const ElementFormat element : kEveryFormat)
    for (const ScaleRule rule : kEveryRule) {
      const OperandFormat format = mx(element, rule);
      EXPECT_NEAR(largest_cut(quant_format(format_name(format))), cut_of(format, 32), 0.001) << format_name(format);
    }
  EXPECT_NEAR(largest_cut(quant_format("nvfp4")), cut_of(kNvfp4, 16), 0.001);
  for (const char* name : {"bf16", "fp8_e4m3_1x128", "fp8_e5m2_tensor"}) EXPECT_EQ(largest_cut(quant_format(name)), 0);
}

// The texts of the cards hold the figures that are computed here.
TEST(QuantFormat, CardsSayWhatBellShapedDataDo) {
  const auto card = [](const char* key) { return std::string(find_metric(key)->good) + " " + find_metric(key)->bad; };
  const QuantSums e4m3 = sums_of(mx(ElementFormat::e4m3)), e5m2 = sums_of(mx(ElementFormat::e5m2)),
                  mxfp4 = sums_of(mx(ElementFormat::e2m1)), nvfp4 = sums_of(kNvfp4);
  const auto percent_of = [](double share) { return digits(100 * share, 0) + " %"; };
  for (const char* key : {"sqnr_db", "quant_sqnr_db"}) {
    EXPECT_TRUE(says(card(key), "E4M3 about " + digits(e4m3.sqnr_db(), 1) + " dB")) << card(key);
    EXPECT_TRUE(says(card(key), "E5M2 " + digits(e5m2.sqnr_db(), 1) + " dB")) << card(key);
    EXPECT_TRUE(says(card(key), "NVFP4 " + digits(nvfp4.sqnr_db(), 1) + " dB")) << card(key);
    EXPECT_TRUE(says(card(key), "MXFP4 " + digits(mxfp4.sqnr_db(), 1) + " dB")) << card(key);
    const auto row_text = [](ElementFormat element) {
      const OperandFormat rows = fp8(element, ScaleGranularity::block_1x128, false);
      EXPECT_EQ(format_name(rows).substr(9), "1x128");
      return digits(sums_of(rows).sqnr_db(), 1);
    };
    EXPECT_TRUE(says(card(key), "(" + row_text(ElementFormat::e4m3) + " and " + row_text(ElementFormat::e5m2) +
                                    " dB with an FP32 scale for each 1 x 128)"))
        << card(key);
    const double costs = e4m3.sqnr_db() - sums_of(drawn(mx(ElementFormat::e4m3))).sqnr_db();
    const double nvfp4_costs = nvfp4.sqnr_db() - sums_of(drawn(kNvfp4)).sqnr_db();
    EXPECT_TRUE(says(
        card(key), "Stochastic rounding costs " + digits(costs, 0) + " dB, in NVFP4 " + digits(nvfp4_costs, 1) + " dB"))
        << card(key);
  }
  const std::string bf16_text = "BF16 " + digits(sums_of(kBf16Format).sqnr_db(), 1) + " dB";
  EXPECT_TRUE(says(card("quant_sqnr_db"), bf16_text)) << bf16_text;
  for (const auto& [key, figure, decimals] :
       {std::tuple("relative_l2", &QuantSums::relative_l2, 3), std::tuple("cosine", &QuantSums::cosine, 4)}) {
    EXPECT_TRUE(says(card(key), digits((e5m2.*figure)(), decimals))) << card(key);
    EXPECT_TRUE(says(card(key), "NVFP4 " + digits((nvfp4.*figure)(), decimals))) << card(key);
  }
  EXPECT_TRUE(says(card("relative_l2"), "E4M3 about " + digits(e4m3.relative_l2(), 3))) << card("relative_l2");
  EXPECT_TRUE(says(card("relative_l2"), "MXFP4 " + digits(mxfp4.relative_l2(), 3))) << card("relative_l2");
  EXPECT_TRUE(says(card("cosine"), "E4M3 " + digits(e4m3.cosine(), 4))) << card("cosine");
  EXPECT_TRUE(says(card("cosine"), "MXFP4 " + digits(mxfp4.cosine(), 3))) << card("cosine");
  EXPECT_TRUE(says(card("underflow"), percent_of(nvfp4.underflow_share()) + " in NVFP4")) << card("underflow");
  EXPECT_TRUE(says(card("underflow"), percent_of(mxfp4.underflow_share()) + " in MXFP4")) << card("underflow");
  EXPECT_LT(std::max(e4m3.underflow_share(), e5m2.underflow_share()), 1e-4);

  const auto blocks_by_floor = [](ElementFormat element) {
    return sums_of(mx(element, ScaleRule::floor)).clipped_blocks_share();
  };
  const std::string clipped = card("clipped_blocks");
  EXPECT_TRUE(says(clipped, percent_of(blocks_by_floor(ElementFormat::e4m3)) + " of the blocks of 32 in E4M3"))
      << clipped;
  for (const ElementFormat as_e4m3 : {ElementFormat::e5m2, ElementFormat::e3m2})
    EXPECT_EQ(percent_of(blocks_by_floor(as_e4m3)), percent_of(blocks_by_floor(ElementFormat::e4m3)));
  EXPECT_TRUE(says(clipped, percent_of(blocks_by_floor(ElementFormat::e2m3)) + " in E2M3")) << clipped;
  EXPECT_TRUE(says(clipped, percent_of(blocks_by_floor(ElementFormat::e2m1)) + " in E2M1")) << clipped;
  EXPECT_NEAR(nvfp4.clipped_blocks_share(), 0.5, 0.02);  // "half of them"

  const std::string crest = card("crest");
  EXPECT_TRUE(says(crest, digits(nvfp4.mean_crest(), 1) + " in blocks of 16 (NVFP4)")) << crest;
  EXPECT_TRUE(says(crest, digits(e4m3.mean_crest(), 1) + " of 32 (MX)")) << crest;
  const double crest_of_128 = sums_of(fp8(ElementFormat::e4m3, ScaleGranularity::block_1x128)).mean_crest();
  EXPECT_TRUE(says(crest, digits(crest_of_128, 1) + " of 128")) << crest;
}

// Returns the mean of q / x - 1 over the largest values of all blocks.
double error_of_maxima(const OperandFormat& format, std::size_t block) {
  const TestMatrix& m = bell();
  const TestMatrix q = quantized(format, m, BlockAxis::row);
  double sum = 0;
  for (std::size_t first = 0; first < m.v.size(); first += block) {
    const auto begin = m.v.begin() + static_cast<std::ptrdiff_t>(first);
    const auto largest = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(block),
                                          [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    sum +=
        static_cast<double>(q.v[static_cast<std::size_t>(largest - m.v.begin())]) / static_cast<double>(*largest) - 1;
  }
  return sum / static_cast<double>(m.v.size() / block);
}

TEST(QuantFormat, StochasticErrorsCancelButWhereBlockMaximaClip) {
  EXPECT_NEAR(error_of_maxima(drawn(mx(ElementFormat::e4m3)), 32), 0, 5e-4);
  EXPECT_NEAR(error_of_maxima(drawn(mx(ElementFormat::e2m1)), 32), 0, 5e-4);
  const double nvfp4 = error_of_maxima(drawn(kNvfp4), 16),
               floor = error_of_maxima(drawn(mx(ElementFormat::e4m3, ScaleRule::floor)), 32);
  const std::string help = find_field("precision.rounding")->help;
  EXPECT_TRUE(says(help, "the blocks of nvfp4 come out " + digits(-100 * nvfp4, 1) + " % too small")) << nvfp4 << help;
  EXPECT_TRUE(says(help, "mxfp8_floor " + digits(-100 * floor, 1) + " %")) << floor << help;
  EXPECT_FALSE(says(help, "errors vanish")) << help;
  // "twice the squared error"
  EXPECT_NEAR(sums_of(drawn(mx(ElementFormat::e2m1))).err2 / sums_of(mx(ElementFormat::e2m1)).err2, 2, 0.1);
}

TEST(QuantFormat, HelpTextsHoldTheirArithmetic) {
  // The 671B model has 58 gates of 7168 x 256 among 36.6 G active parameters without the embedding.
  EXPECT_EQ(digits(100 * 58 * 7168.0 * 256 / 36625603584.0, 1), "0.3");
  EXPECT_TRUE(says(find_field("precision.router_gate")->help, "0.3 % of the arithmetic of the 671B model"));
  EXPECT_EQ(digits(2.5 / std::sqrt(8.0), 1), "0.9");
  EXPECT_TRUE(says(find_field("router.route_scale")->help, "times 2.5 this is 0.9"));
}

}  // namespace
}  // namespace moescope
