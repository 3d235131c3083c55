// Trains on real text, which every Debian has, until the loss falls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/model/text/dataset.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Returns the nats per byte of the best model that knows only the frequency of each byte, for the training's targets.
double unigram_entropy(const Dataset& data, int steps) {
  std::array<double, 256> count{};
  double total = 0;
  for (int step = 0; step < steps; ++step)
    for (const int byte : data.batch(step).target) {
      ++count[static_cast<std::size_t>(byte)];
      ++total;
    }
  double entropy = 0;
  for (const double n : count)
    if (n > 0) entropy -= n / total * std::log(n / total);
  return entropy;
}

// Returns the mean loss of the last 20 of `steps` steps.
double trained_loss(RunConfig config, const Dataset& data, int steps) {
  Trainer trainer(config);
  double tail = 0;
  for (int step = 0; step < steps; ++step) {
    const float loss = trainer.step(data.batch(step)).ce_loss;
    if (step == 0) {
      // All bytes are equally likely, and logits of variance 1 add half a nat.
      EXPECT_NEAR(loss, std::log(256.0) + 0.5, 0.3);
    }
    if (step >= steps - 20) tail += loss / 20.0;
  }
  return tail;
}

void expect_learns(RunConfig config, double below_unigram) {
  constexpr int kSteps = 200;
  const auto data = open_dataset(config.data, config.seed);
  const double entropy = unigram_entropy(*data, kSteps);
  const double loss = trained_loss(config, *data, kSteps);
  std::printf("loss %.3f, unigram entropy %.3f: %s\n", loss, entropy, data->summary().c_str());
  EXPECT_LT(loss, entropy - below_unigram) << data->summary() << ", unigram entropy " << entropy;
}

RunConfig nano_on(const std::string& path) {
  RunConfig config = load_preset("nano").config;
  config.data.path = path;
  return config;
}

TEST(TextTraining, LicencesAreLearntBeyondTheirByteFrequencies) {
  expect_learns(nano_on("/usr/share/common-licenses"), 0.3);
}

TEST(TextTraining, CppHeadersAreLearntInMxfp8) {
  fs::path headers;
  for (const auto& version : fs::directory_iterator("/usr/include/c++"))
    if (fs::is_directory(version.path() / "bits")) headers = version.path() / "bits";
  ASSERT_FALSE(headers.empty());
  RunConfig config = nano_on(headers.string());
  config.precision.experts = Recipe::mxfp8_rceil;
  expect_learns(config, 0.3);
}

TEST(TextTraining, GeneratedDomainsAreLearnt) {
  expect_learns(nano_on(""), 0.8);
}

}  // namespace
}  // namespace moescope
