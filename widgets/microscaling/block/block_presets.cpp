#include "widgets/microscaling/block/block_presets.h"

#include <cmath>
#include <limits>
#include <random>

namespace moescope {
namespace {

constexpr int kBlock = 32;

// Returns equal values on all platforms: std::mt19937 does so, and the sum of twelve uniform numbers replaces
// std::normal_distribution, which does not.
std::vector<float> gaussian(unsigned seed, double mean, double sigma) {
  std::mt19937 generator(seed);
  std::vector<float> values(kBlock);
  for (float& v : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += generator() * 0x1p-32;
    v = static_cast<float>(mean + sigma * sum);
  }
  return values;
}

std::vector<BlockPreset> makePresets() {
  std::vector<BlockPreset> presets;
  presets.push_back({"Gaussian",
                     "Standard normal values: on average 31.5 dB in MXFP8 E4M3, 18.8 in MXFP4, 20.4 in NVFP4",
                     gaussian(1, 0, 1)});
  std::vector<float> outlier = gaussian(1, 0, 1);
  outlier[5] *= 300;
  presets.push_back({"Outlier × 300",
                     "E4M3 spans 17.8 powers of two and keeps the neighbours. In E2M1 (MXFP4, NVFP4) they become 0",
                     outlier});
  presets.push_back({"Gains near 0.93", "With E4M3 and FLOOR every value lies above 448 × scale and clips to 0.875",
                     gaussian(2, 0.93, 0.01)});
  std::vector<float> wide = gaussian(3, 0, 1);
  for (int i = 0; i < kBlock; ++i) wide[i] *= static_cast<float>(std::exp2(-i));
  presets.push_back({"Wide range", "Gradients over 32 binades: SQNR is high although the small values become 0", wide});
  presets.push_back(
      {"Subnormal floats", "Below 2⁻¹²⁶ the smallest scale of MX, 2⁻¹²⁷, is used", gaussian(4, 0, 1e-40)});
  presets.push_back({"All zero", "The largest value is 0: in MX byte 0 and codes 0", std::vector<float>(kBlock, 0.0f)});
  std::vector<float> nan = gaussian(5, 0, 1);
  nan[7] = std::numeric_limits<float>::quiet_NaN();
  presets.push_back({"One NaN", "One NaN or infinity makes all values that share its scale NaN", nan});
  return presets;
}

}  // namespace

const std::vector<BlockPreset>& blockPresets() {
  static const std::vector<BlockPreset> kPresets = makePresets();
  return kPresets;
}

}  // namespace moescope
