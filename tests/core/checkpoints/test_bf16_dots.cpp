#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <span>

#include "core/checkpoints/bf16_dots.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/safetensors.h"
#include "core/numerics/float_formats.h"
#include "core/numerics/rng.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

float widened(Bf16 number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number) << 16);
}

TEST(Bf16Dots, AreThoseOfPlainLoops) {
  for (const Index inputs : {1, 15, 16, 31, 32, 33, 200}) {
    constexpr Index kRows = 3, kOutputs = 5;
    const RandomStream stream(1, "dots");
    std::vector<float> x(kRows * inputs), y(kRows * kOutputs);
    std::vector<Bf16> weights(kOutputs * inputs);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.normal(i));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<Bf16>(std::bit_cast<std::uint32_t>(static_cast<float>(stream.normal(5000 + i))) >> 16);
    ASSERT_TRUE(
        bf16_dots({x.data(), kRows, inputs}, std::as_bytes(std::span(weights)).data(), {y.data(), kRows, kOutputs}));
    for (Index row = 0; row < kRows; ++row)
      for (Index output = 0; output < kOutputs; ++output) {
        double sum = 0, magnitude = 0;
        for (Index i = 0; i < inputs; ++i) {
          const double product = static_cast<double>(x[row * inputs + i]) * widened(weights[output * inputs + i]);
          sum += product;
          magnitude += std::abs(product);
        }
        EXPECT_NEAR(y[row * kOutputs + output], sum, 1e-6 * magnitude) << inputs << ": " << row << ", " << output;
      }
  }
}

TEST(Bf16Dots, OfATruncatedFileAreRefused) {
  const TestFolder folder("bf16_dots");
  const std::string path = folder / "w.safetensors";
  constexpr Index kInputs = 4096, kOutputs = 64;
  const std::vector<Bf16> weights(kInputs * kOutputs, 0x3f80);  // ones
  SafetensorsWriter writer;
  writer.add("w", DType::bf16, {kOutputs, kInputs}, std::as_bytes(std::span(weights)));
  writer.write(path);
  const TensorFile file = open_tensors(path);
  const std::byte* mapped = file.tensors().front().bytes.data();
  const std::vector<float> x(kInputs, 2);
  std::vector<float> y(kOutputs);
  ASSERT_TRUE(bf16_dots({x.data(), 1, kInputs}, mapped, {y.data(), 1, kOutputs}));
  EXPECT_EQ(y, std::vector<float>(kOutputs, 2 * kInputs));
  std::filesystem::resize_file(path, 4096);
  EXPECT_FALSE(bf16_dots({x.data(), 1, kInputs}, mapped, {y.data(), 1, kOutputs}));
}

}  // namespace
}  // namespace moescope
