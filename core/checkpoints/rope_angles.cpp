#include "core/checkpoints/rope_angles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numbers>

namespace moescope {
namespace {

// Returns YaRN's temperature, 0.1 m ln(factor) + 1.
double yarn_temperature(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1;
}

// Returns the index of the pair that makes `turns` turns over the original context; not an integer.
double pair_of_turns(const RopeSettings& rope, int dim, double turns) {
  return dim * std::log(rope.original_positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

// Pairs with many turns keep their speed, pairs with less than one turn slow down by `factor`; a ramp connects them.
void stretch_by_yarn(const RopeSettings& rope, int dim, std::vector<float>& frequencies) {
  double low = pair_of_turns(rope, dim, rope.beta_fast), high = pair_of_turns(rope, dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    const auto kept_share = static_cast<float>(1 - std::clamp((j - low) / (high - low), 0.0, 1.0));
    const float slow = frequencies[j] / static_cast<float>(rope.factor);
    frequencies[j] = slow * (1 - kept_share) + frequencies[j] * kept_share;
  }
}

void stretch_by_llama3(const RopeSettings& rope, std::vector<float>& frequencies) {
  const double longest = rope.original_positions / rope.low_freq_factor;
  const double shortest = rope.original_positions / rope.high_freq_factor;
  for (float& frequency : frequencies) {
    const double length = 2 * std::numbers::pi / frequency;
    if (length < shortest) continue;
    const double slow = frequency / rope.factor;
    const double kept_share =
        (rope.original_positions / length - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    frequency = static_cast<float>(length > longest ? slow : (1 - kept_share) * slow + kept_share * frequency);
  }
}

}  // namespace

std::vector<float> rope_frequencies(const RopeSettings& rope, int dim) {
  std::vector<float> frequencies;
  for (int j = 0; j < dim; j += 2)
    frequencies.push_back(1.0f / static_cast<float>(std::pow(rope.theta, static_cast<double>(j) / dim)));
  switch (rope.kind) {
    case RopeSettings::Kind::plain:
      break;
    case RopeSettings::Kind::linear:
      for (float& frequency : frequencies) frequency /= static_cast<float>(rope.factor);
      break;
    case RopeSettings::Kind::yarn:
      stretch_by_yarn(rope, dim, frequencies);
      break;
    case RopeSettings::Kind::llama3:
      stretch_by_llama3(rope, frequencies);
      break;
  }
  return frequencies;
}

double rope_attention_factor(const RopeSettings& rope) {
  if (rope.kind != RopeSettings::Kind::yarn) return 1;
  if (rope.attention_factor) return *rope.attention_factor;
  const double m = rope.mscale.value_or(0), all = rope.mscale_all_dim.value_or(0);
  if (m != 0 && all != 0) return yarn_temperature(rope.factor, m) / yarn_temperature(rope.factor, all);
  return yarn_temperature(rope.factor, 1);
}

double rope_score_factor(const RopeSettings& rope) {
  const double all = rope.mscale_all_dim.value_or(0);
  if (rope.kind == RopeSettings::Kind::plain || all == 0) return 1;
  const double temperature = yarn_temperature(rope.factor, all);
  return temperature * temperature;
}

Rope<float> rope_of(const RopeSettings& rope, int dim, Index first, Index count) {
  const std::vector<float> frequencies = rope_frequencies(rope, dim);
  const auto angle = [&](Index position, Index pair) { return static_cast<double>(position * frequencies[pair]); };
  return {first, count, std::ssize(frequencies), angle, rope_attention_factor(rope)};
}

}  // namespace moescope
