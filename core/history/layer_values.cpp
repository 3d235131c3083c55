#include "core/history/layer_values.h"

#include <algorithm>
#include <cmath>

#include "core/frame/volume_stats.h"

namespace moescope {
namespace {

// Mean of the finite values; the last value if none is finite.
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

// Derived figures of a layer, or of the whole run.
struct Derived {
  Mean flip_rate, sqnr_db, ranks_per_token, nodes_per_token, rank_overload, rounding_flip_rate;
  std::array<Mean, kNumRouterRoundings> changed;  // by RouterRounding
  const GradientFrame* gradient = nullptr;

  DerivedValues values() const {
    return {flip_rate.get(),
            sqnr_db.get(),
            gradient ? gradient->snr_db : kNoValue,
            gradient ? gradient->cosine : kNoValue,
            ranks_per_token.get(),
            nodes_per_token.get(),
            rank_overload.get(),
            rounding_flip_rate.get(),
            gradient ? gradient->pinned_snr_db : kNoValue,
            gradient ? gradient->pinned_cosine : kNoValue,
            changed_by(RouterRounding::operands),
            changed_by(RouterRounding::gate_output),
            changed_by(RouterRounding::bias),
            changed_by(RouterRounding::counts)};
  }
  float changed_by(RouterRounding rounding) const { return changed[static_cast<std::size_t>(rounding)].get(); }
};

// Derived figures by layer. Rows of a frame mostly have the order of the layers, so the next layer is tried first.
class DerivedByLayer {
 public:
  explicit DerivedByLayer(std::span<const int> layers) : layers_(layers), derived_(layers.size() + 1) {}
  Derived& whole_run() { return derived_.back(); }
  Derived* of(int layer) {
    if (next_ < layers_.size() && layers_[next_] != layer && ++next_ == layers_.size()) next_ = 0;
    if (next_ >= layers_.size() || layers_[next_] != layer)
      next_ = static_cast<std::size_t>(std::ranges::lower_bound(layers_, layer) - layers_.begin());
    return next_ < layers_.size() && layers_[next_] == layer ? &derived_[next_] : nullptr;
  }
  void add(int layer, Mean Derived::*mean, float value) {
    (whole_run().*mean).add(value);
    if (Derived* derived = of(layer)) (derived->*mean).add(value);
  }
  void add(const RouterRoundingFrame& row) {
    const auto rounding = static_cast<std::size_t>(row.rounding);
    whole_run().changed[rounding].add(row.changed);
    if (Derived* derived = of(row.layer)) derived->changed[rounding].add(row.changed);
  }
  std::vector<DerivedValues> values() const {
    std::vector<DerivedValues> values;
    for (const Derived& derived : derived_) values.push_back(derived.values());
    return values;
  }

 private:
  std::span<const int> layers_;
  std::vector<Derived> derived_;
  std::size_t next_ = 0;
};

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

std::vector<DerivedValues> derived_values(const TelemetryFrame& frame, std::span<const int> layers,
                                          std::int64_t tokens) {
  DerivedByLayer derived(layers);
  for (const FlipFrame& flip : frame.flips) derived.add(flip.layer, &Derived::flip_rate, flip.flip_rate);
  for (const FlipFrame& flip : frame.rounding_flips)
    derived.add(flip.layer, &Derived::rounding_flip_rate, flip.flip_rate);
  for (const RouterRoundingFrame& rounding : frame.router_roundings) derived.add(rounding);
  for (const QuantFrame& quant : frame.quants) {
    if (quant.gemm_class() == GemmClass::payload) continue;  // a round trip over the wire, not an operand
    derived.add(quant.layer, &Derived::sqnr_db, quant.sqnr_db);
  }
  for (const GradientFrame& gradient : frame.gradients) {
    if (gradient.group != GradientGroup::all) continue;
    Derived* of = gradient.layer == kWholeRun ? &derived.whole_run() : derived.of(gradient.layer);
    if (of && !of->gradient) of->gradient = &gradient;
  }
  for (const RouterFrame& router : frame.routers) {
    derived.add(router.layer, &Derived::ranks_per_token, ranks_per_token(router.volume, tokens));
    derived.add(router.layer, &Derived::nodes_per_token, nodes_per_token(router.volume, tokens));
    derived.add(router.layer, &Derived::rank_overload, rank_overload(router.volume));
  }
  return derived.values();
}

float step_ms(const TelemetryFrame& frame) {
  float sum = 0;
  for (const float ms : frame.phase_ms) sum += ms;
  return sum > 0 ? sum : kNoValue;
}

}  // namespace moescope
