#include "core/telemetry/history/layer_values.h"

#include <cmath>

#include "core/telemetry/frame/volume_stats.h"

namespace moescope {
namespace {

// Mean of the finite values; if none is finite, what they are.
class Mean {
 public:
  void add(float value) {
    if (is_missing(value)) return;
    last_ = value;
    if (!std::isfinite(value)) return;
    sum_ += value;
    ++count_;
  }
  float get() const { return count_ ? static_cast<float>(sum_ / count_) : last_; }

 private:
  double sum_ = 0;
  int count_ = 0;
  float last_ = kNoValue;
};

float mean_flip_rate(const std::vector<FlipFrame>& flips, int layer) {
  Mean mean;
  for (const FlipFrame& flip : flips) {
    if (layer == kWholeRun || flip.layer == layer) mean.add(flip.flip_rate);
  }
  return mean.get();
}

float mean_sqnr(const TelemetryFrame& frame, int layer) {
  Mean mean;
  for (const QuantFrame& quant : frame.quants) {
    if (quant.gemm_class == GemmClass::payload) continue;  // no operand: a round trip over the wire
    if (layer == kWholeRun || quant.layer == layer) mean.add(quant.sqnr_db);
  }
  return mean.get();
}

float whole_gradient(const TelemetryFrame& frame, int layer, float GradientFrame::*member) {
  static_assert(kWholeRun == -1);  // as GradientFrame::layer has it
  for (const GradientFrame& gradient : frame.gradients) {
    if (gradient.layer == layer && gradient.group == GradientGroup::all) return gradient.*member;
  }
  return kNoValue;
}

template <class Figure>
float mean_of_volumes(const TelemetryFrame& frame, int layer, const Figure& figure) {
  Mean mean;
  for (const RouterFrame& router : frame.routers) {
    if (layer == kWholeRun || router.layer == layer) mean.add(figure(router.volume));
  }
  return mean.get();
}

}  // namespace

float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member) {
  double sum = 0;
  int present = 0;
  for (const RouterFrame& router : routers) {
    if (is_missing(router.*member)) continue;
    sum += router.*member;
    ++present;
  }
  return present ? static_cast<float>(sum / present) : kNoValue;
}

std::array<float, kNumLayerMetrics - kNumRouterMetrics> derived_values(const TelemetryFrame& frame, int layer,
                                                                       std::int64_t tokens) {
  const auto ranks = [tokens](const VolumeFrame& volume) { return ranks_per_token(volume, tokens); };
  const auto nodes = [tokens](const VolumeFrame& volume) { return nodes_per_token(volume, tokens); };
  return {mean_flip_rate(frame.flips, layer),
          mean_sqnr(frame, layer),
          whole_gradient(frame, layer, &GradientFrame::snr_db),
          whole_gradient(frame, layer, &GradientFrame::cosine),
          mean_of_volumes(frame, layer, ranks),
          mean_of_volumes(frame, layer, nodes),
          mean_of_volumes(frame, layer, rank_overload),
          mean_flip_rate(frame.rounding_flips, layer)};
}

float step_ms(const TelemetryFrame& frame) {
  float sum = 0;
  for (const float ms : frame.phase_ms) sum += ms;
  return sum > 0 ? sum : kNoValue;
}

}  // namespace moescope
