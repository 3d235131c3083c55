#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/config/config_toml.h"
#include "core/files/tensors/safetensors.h"
#include "core/model/text/dataset.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

RunConfig nano_with_experts_in(Recipe recipe) {
  RunConfig config = load_preset("nano").config;
  config.precision.experts = recipe;
  config.telemetry.specialisation_every = 1;
  return config;
}

struct Stepped {
  TelemetryFrame frame;
  std::string checkpoint;
};
Stepped step(const RunConfig& config) {
  Trainer trainer(config);
  const auto data = open_dataset(config.data, config.seed);
  Stepped stepped{trainer.step(data->batch(0)), ::testing::TempDir() + "expert_weights.safetensors"};
  trainer.save(stepped.checkpoint);
  return stepped;
}

// Compares with the weights in the checkpoint, quantized by the block quantizer of the reference.
TEST(ExpertWeights, NormAndErrorUseWeightsAfterTheStep) {
  const RunConfig config = nano_with_experts_in(Recipe::mxfp8_rceil);
  const Stepped stepped = step(config);
  ASSERT_EQ(stepped.frame.specialisation.size(), 2u);
  const SafetensorsFile file(stepped.checkpoint);
  const SpecialisationFrame& layer = stepped.frame.specialisation[1];
  const int dim = config.model.dim, inter = config.model.moe_inter;
  for (int e = 0; e < config.model.n_experts; ++e) {
    double squares = 0;
    QuantSums sums;
    for (const char* name : {"w1", "w2", "w3"}) {
      const TensorView& tensor = file.at("layers.2.moe.experts." + std::string(name));
      const std::size_t size = static_cast<std::size_t>(dim) * inter;
      std::vector<float> values(size), decoded(size);
      std::memcpy(values.data(), tensor.bytes.data() + static_cast<std::size_t>(e) * size * sizeof(float),
                  size * sizeof(float));
      for (const float value : values) squares += static_cast<double>(value) * value;
      const auto cols = static_cast<std::size_t>(name == std::string("w2") ? inter : dim);
      QuantSums tensor_sums;
      quantize_operand(
          {{values.data(), size / cols, cols, cols}, mx_format(ElementFormat::e4m3), BlockAxis::row, {}, &tensor_sums},
          {decoded.data(), size / cols, cols});
      sums.add(tensor_sums);
    }
    EXPECT_FLOAT_EQ(layer.weight_norm_E[static_cast<std::size_t>(e)], static_cast<float>(std::sqrt(squares)));
    EXPECT_NEAR(layer.weight_sqnr_E[static_cast<std::size_t>(e)], sums.sqnr_db(), 1e-4);
    EXPECT_NEAR(sums.sqnr_db(), 31.5, 1);
  }
}

TEST(ExpertSteps, EqualDifferenceOfWeights) {
  RunConfig config = nano_with_experts_in(Recipe::fp32);
  config.optimizer.fault_missing_experts = "1:3";
  const Stepped first = step(config);
  Trainer trainer(config);
  trainer.save(::testing::TempDir() + "expert_steps.safetensors");
  const SafetensorsFile before(::testing::TempDir() + "expert_steps.safetensors"), after(first.checkpoint);
  for (const SpecialisationFrame& layer : first.frame.specialisation) {
    for (std::size_t e = 0; e < 8; ++e) {
      double squares = 0;
      for (const char* name : {"w1", "w2", "w3"}) {
        const std::string tensor = "layers." + std::to_string(layer.layer) + ".moe.experts." + name;
        const std::vector<float> a = before.at(tensor).floats(), b = after.at(tensor).floats();
        const std::size_t size = a.size() / 8;
        for (std::size_t i = e * size; i < (e + 1) * size; ++i)
          squares += (static_cast<double>(b[i]) - a[i]) * (static_cast<double>(b[i]) - a[i]);
      }
      EXPECT_FLOAT_EQ(layer.update_norm_E[e], static_cast<float>(std::sqrt(squares)));
      EXPECT_GT(layer.gradient_norm_E[e], 0);
      EXPECT_EQ(layer.update_norm_E[e] == 0, layer.layer == 1 && e == 3);
    }
  }
}

TEST(ExpertWeights, HaveNoErrorWhereNothingIsQuantized) {
  const Stepped stepped = step(nano_with_experts_in(Recipe::fp32));
  for (const SpecialisationFrame& layer : stepped.frame.specialisation)
    for (const float sqnr : layer.weight_sqnr_E) EXPECT_TRUE(is_missing(sqnr));
}

}  // namespace
}  // namespace moescope
