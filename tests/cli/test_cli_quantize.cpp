// Runs moescope-cli quantize as a user does.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/recipes.h"
#include "core/numerics/rng.h"
#include "core/numerics/what_if.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

struct Quantized {
  int status = -1;
  std::string out;
};

class CliQuantize : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / ("moescope_quantize_" + std::to_string(::getpid()) + ".safetensors");
    const RandomStream stream(5, "weights");
    experts_.resize(2 * 192 * 80);
    for (std::size_t i = 0; i < experts_.size(); ++i)
      experts_[i] = static_cast<float>((i < experts_.size() / 2 ? 1 : 100) * stream.normal(i));
    const std::vector<float> gains(50, 0.93f);
    const std::vector<std::int32_t> ids(4, 7);
    SafetensorsWriter writer;
    writer.add("experts", DType::f32, {2, 192, 80}, std::as_bytes(std::span(experts_)));
    writer.add("gains", DType::f32, {50}, std::as_bytes(std::span(gains)));
    writer.add("ids", DType::i32, {4}, std::as_bytes(std::span(ids)));
    writer.write(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Quantized run(const std::string& arguments, bool errors = false) const {
    Quantized result;
    const std::string command =
        std::string(MOESCOPE_CLI) + " quantize " + path_ + ' ' + arguments + (errors ? " 2>&1" : " 2>/dev/null");
    FILE* pipe = ::popen(command.c_str(), "r");
    if (!pipe) return result;
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
    if (const int status = ::pclose(pipe); WIFEXITED(status)) result.status = WEXITSTATUS(status);
    return result;
  }
  Json json(const std::string& arguments) const {
    const Quantized result = run(arguments + " --json");
    EXPECT_EQ(result.status, 0) << arguments;
    return Json::parse(result.out, nullptr, false);
  }
  Matrix<const float> expert(std::size_t e) const { return {experts_.data() + e * 192 * 80, 192, 80, 80}; }

  // Returns the sums over both experts, each quantized as a separate operand.
  QuantSums expected(const OperandFormat& format, BlockAxis axis) const {
    QuantSums sums;
    std::vector<float> decoded(192 * 80);
    for (const std::size_t e : {0, 1})
      quantize_operand({expert(e), format, axis, {}, &sums}, {decoded.data(), expert(e).rows, expert(e).cols, 80});
    return sums;
  }

  std::string path_;
  std::vector<float> experts_;  // values of the second expert are a hundred times as large
};

void expect_figures(const Json& figures, const QuantSums& sums, const std::string& what) {
  EXPECT_EQ(figures["elements"], sums.elements) << what;
  EXPECT_EQ(figures["blocks"], sums.blocks) << what;
  EXPECT_NEAR(figures["sqnr_db"].get<double>(), sums.sqnr_db(), 1e-9) << what;
  EXPECT_NEAR(figures["relative_l2"].get<double>(), sums.relative_l2(), 1e-12) << what;
  EXPECT_NEAR(figures["underflow"].get<double>(), sums.underflow_share(), 1e-12) << what;
  EXPECT_NEAR(figures["clipped"].get<double>(), sums.clipped_share(), 1e-12) << what;
  EXPECT_NEAR(figures["amax"].get<double>(), static_cast<double>(sums.amax), 0) << what;
  std::uint64_t blocks = 0;
  for (const auto& [byte, count] : figures["e8m0_blocks"].items()) blocks += count.get<std::uint64_t>();
  EXPECT_EQ(blocks, sums.blocks) << what;
}

TEST_F(CliQuantize, EveryRecipeOnBothAxesAsTheQuantizerHasIt) {
  for (const RecipeInfo& recipe : recipes()) {
    if (recipe.recipe == Recipe::fp32) continue;
    const std::string name = recipe.name;
    const Json report = json("--tensor experts --axis both --format " + name);
    const Json& figures = report["tensors"][0]["figures"];
    ASSERT_EQ(figures.size(), 2u) << name;
    const OperandFormat format = recipe_format(recipe.recipe, Direction::forward, OperandRole::w);
    EXPECT_EQ(figures[0]["axis"], "row");
    EXPECT_EQ(figures[1]["axis"], "column");
    expect_figures(figures[0], expected(format, BlockAxis::row), name + " row");
    expect_figures(figures[1], expected(format, BlockAxis::column), name + " column");
  }
}

TEST_F(CliQuantize, EveryNameOfEveryNamedFormatIsAccepted) {
  const auto expect_accepted = [this](const std::string& name, const OperandFormat& format) {
    const Json figures = json("--tensor experts --format " + name)["tensors"][0]["figures"][0];
    expect_figures(figures, expected(format, BlockAxis::row), name);
  };
  for (const NamedFormat& named : named_formats()) {
    if (named.format.scheme == QuantScheme::fp32) continue;
    expect_accepted(named.name, named.format);
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
      OperandFormat format = named.format;
      format.rounding = rounding;
      expect_accepted(format_name(format), format);
    }
  }
  expect_accepted("fp8_tensorwise", fp8_format(ScaleGranularity::tensor));
  expect_accepted("mxfp8_e4m3_floor", mx_format(ElementFormat::e4m3, ScaleRule::floor));
  EXPECT_NE(run("--format mxfp8_e4m3_floor --scale ceil").status, 0);
}

TEST_F(CliQuantize, OperandDecidesWhereARecipeTreatsThemDifferently) {
  const auto sqnr = [&](const char* operand) {
    return json(std::string("--tensor experts --format mxfp8_e5m2_grad --operand ") +
                operand)["tensors"][0]["figures"][0]["sqnr_db"]
        .get<double>();
  };
  EXPECT_NEAR(sqnr("W"), 31.5, 0.3);
  EXPECT_NEAR(sqnr("dY"), 25.6, 0.3);
}

TEST_F(CliQuantize, WhatIfIsThatOfTheWindow) {
  const Json tensor = json("--tensor experts --what-if")["tensors"][0];
  std::vector<WhatIfRow> all = what_if(expert(0));
  const std::vector<WhatIfRow> second = what_if(expert(1));
  for (std::size_t i = 0; i < all.size(); ++i) all[i].sums.add(second[i].sums);
  ASSERT_EQ(tensor["what_if"].size(), all.size());
  for (std::size_t i = 0; i < all.size(); i += 7) {
    const Json& row = tensor["what_if"][i];
    EXPECT_EQ(row["block"], all[i].format.block);
    EXPECT_EQ(row["element"], traits(all[i].format.element).name);
    EXPECT_EQ(row["scale"], scale_rule_name(all[i].format.rule));
    EXPECT_EQ(row["axis"], all[i].axis == BlockAxis::row ? "row" : "column");
    expect_figures(row, all[i].sums, "what-if " + std::to_string(i));
  }
  EXPECT_EQ(tensor["recipes"].size(), 2u * (kNumRecipes - 1));
}

TEST_F(CliQuantize, TheTableHasTheSameFigures) {
  const Quantized table = run("--format mxfp8_e4m3 --scale floor --axis both");
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.out.find("format: mxfp8_e4m3\nscale rule, in blocks of 32: floor\n"), std::string::npos) << table.out;
  EXPECT_EQ(table.out.find("ids"), std::string::npos) << "no floating-point tensor";
  const Json report = json("--format mxfp8_e4m3 --scale floor --axis both");
  ASSERT_EQ(report["tensors"].size(), 2u);
  for (const Json& tensor : report["tensors"]) {
    for (const Json& figures : tensor["figures"]) {
      char cell[32];
      std::snprintf(cell, sizeof cell, "%.2f", figures["sqnr_db"].get<double>());
      EXPECT_NE(table.out.find(cell), std::string::npos) << cell << '\n' << table.out;
    }
  }
  // All gains are 0.93, which FLOOR clips.
  EXPECT_EQ(report["tensors"][1]["figures"][0]["clipped"], 1.0);
  const Quantized what_if = run("--tensor gains --what-if");
  EXPECT_NE(what_if.out.find("nvfp4"), std::string::npos);
  EXPECT_NE(what_if.out.find("block 512"), std::string::npos);
}

// amax / 6 = 0.93 / 6 = 0.155. In MX the scale is a power of two. In NVFP4 it is not, and only its exponent is counted.
TEST_F(CliQuantize, OnlyScalesOfMxArePowersOfTwo) {
  const auto scales = [&](const char* format) { return run("--tensor gains --format " + std::string(format)).out; };
  EXPECT_NE(scales("mxfp4_e2m1").find("2^-2 .. 2^-2"), std::string::npos) << scales("mxfp4_e2m1");
  EXPECT_NE(scales("nvfp4").find("2^-3 to under 2^-2"), std::string::npos) << scales("nvfp4");
  EXPECT_NE(scales("fp8_tensorwise").find("to under 2^"), std::string::npos) << scales("fp8_tensorwise");
  EXPECT_NE(scales("fp8_rowwise").find(" .. 2^"), std::string::npos) << "scales of powers of two by its recipe";
}

// A NaN affects all values that share its scale, in NVFP4 the whole tensor, so that no value is exact.
TEST_F(CliQuantize, ATensorThatIsAllNanIsNotCalledExact) {
  std::vector<float> values(64, 1.0f);
  values[40] = std::numeric_limits<float>::quiet_NaN();
  SafetensorsWriter writer;
  writer.add("w", DType::f32, {2, 32}, std::as_bytes(std::span(values)));
  writer.write(path_);
  const Json spoilt = json("--format nvfp4")["tensors"][0]["figures"][0];
  EXPECT_FALSE(spoilt["exact"].get<bool>());
  EXPECT_TRUE(spoilt["sqnr_db"].is_null());
  EXPECT_NE(run("--format nvfp4").out.find("NaN"), std::string::npos);
  EXPECT_TRUE(json("")["tensors"][0]["figures"][0]["exact"].get<bool>()) << "blocks of 32 lose one row of two";
}

TEST_F(CliQuantize, ADamagedTensorLeavesTheOthersReadable) {
  const std::vector<std::uint8_t> codes(64, 0x38);
  const std::vector<float> scale{std::numeric_limits<float>::quiet_NaN()}, gains(32, 0.93f);
  SafetensorsWriter writer;
  writer.add("w.weight", DType::f8_e4m3, {2, 32}, std::as_bytes(std::span(codes)));
  writer.add("w.weight_scale_inv", DType::f32, {1, 1}, std::as_bytes(std::span(scale)));
  writer.add("gains", DType::f32, {32}, std::as_bytes(std::span(gains)));
  writer.write(path_);
  const Quantized both = run("", true);
  EXPECT_EQ(both.status, 0) << both.out;
  EXPECT_NE(both.out.find("skipped 'w.weight': "), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("a scale is nan"), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("\ngains"), std::string::npos) << both.out;
  EXPECT_EQ(run("--tensor w.weight").status, 2);
}

TEST_F(CliQuantize, SaysWhatIsWrong) {
  const auto expect = [&](const std::string& arguments, const std::string& part) {
    const Quantized result = run(arguments, true);
    EXPECT_NE(result.status, 0) << arguments;
    EXPECT_NE(result.out.find(part), std::string::npos) << arguments << '\n' << result.out;
  };
  expect("--format mxfp5", "--format is 'mxfp5'; allowed: mxfp8_e4m3");
  expect("--scale up", "--scale: up not in {floor,rceil,even,ceil}");
  expect("--format nvfp4 --scale floor", "needs an MX element format; nvfp4 defines its own scales");
  expect("--axis diagonal", "--axis: diagonal not in {row,column,both}");
  expect("--operand y", "--operand: y not in {x,W,dY}");
  expect("--tensor ids", "dtype I32 is not a floating-point type");
  expect("--format nvfp4 --out /tmp/never.safetensors", "--out: codes and scales can be stored of");
  expect("--axis column --out /tmp/never.safetensors", "--out stores blocks along rows");
}

}  // namespace
}  // namespace moescope
