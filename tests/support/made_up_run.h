// Runs for tests of findings: a made-up run and a trained run.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/config/run_config.h"
#include "core/findings/findings.h"
#include "core/frame/router_stats.h"
#include "core/model/text/dataset.h"
#include "core/training/trainer.h"

namespace moescope {

inline HistoryPtr trained(RunConfig config, int steps) {
  const auto data = open_dataset(config.data, config.seed);
  auto history = std::make_shared<History>(run_info(config, 0));
  Trainer trainer(config);
  for (int step = 0; step < steps; ++step) {
    history->append(std::make_shared<const TelemetryFrame>(trainer.step(data->batch(step))));
  }
  return history;
}

inline std::vector<Finding> findings_of_kind(const std::vector<Finding>& findings, FindingKind kind) {
  std::vector<Finding> out;
  std::ranges::copy_if(findings, std::back_inserter(out), [kind](const Finding& f) { return f.kind == kind; });
  return out;
}

inline std::string all_text(const std::vector<Finding>& findings) {
  return to_text(findings, {});
}

// A made-up run: T = 1024 tokens, K = 2 of E = 16 experts in layers 1 and 2; the test chooses the shares of the load.
class MadeUp {
 public:
  static constexpr int kExperts = 16, kTopK = 2, kTokens = 1024;
  using Shares = std::array<double, kExperts>;

  explicit MadeUp(std::string config = {}, int ranks = 0) {
    RunInfo info;
    info.config_toml = std::move(config);
    info.name = "made up";
    info.n_layers = 3;
    info.moe_layers = {1, 2};
    info.n_experts = kExperts;
    info.top_k = kTopK;
    info.tokens_per_step = kTokens;
    info.window = 50;
    info.ranks = ranks;
    history_ = std::make_shared<History>(info);
  }
  static Shares even() {
    Shares shares;
    shares.fill(1);
    return shares;
  }
  // Returns a router frame whose counts are random: each expert's mean follows its share, with sampling noise.
  RouterFrame router(int layer, const Shares& shares) {
    RouterFrame router;
    router.layer = layer;
    double sum = 0;
    for (const double share : shares) sum += share;
    for (const double share : shares) {
      const double mean = kTokens * kTopK * share / sum;
      double count = std::round(mean + std::sqrt(mean) * noise());
      if (share > 0 && mean >= 1) count = std::max(count, 1.0);
      router.tokens_per_expert.push_back(static_cast<std::uint32_t>(std::max(0.0, count)));
    }
    router.max_vio = max_vio(router.tokens_per_expert);
    router.entropy_norm = entropy_norm(router.tokens_per_expert);
    router.margin = 0.05f;
    return router;
  }
  TelemetryFrame& next() {
    frame_ = TelemetryFrame{};
    frame_.step = step_++;
    frame_.ce_loss = static_cast<float>(2 + 3.5 * std::exp(-static_cast<double>(frame_.step) / 40) + 0.05 * noise());
    frame_.grad_norm = 1;
    return frame_;
  }
  void push() { history_->append(std::make_shared<const TelemetryFrame>(frame_)); }
  void steps(int n, const Shares& shares_1, const Shares& shares_2) {
    for (int i = 0; i < n; ++i) {
      next().routers = {router(1, shares_1), router(2, shares_2)};
      push();
    }
  }
  std::shared_ptr<History> history() const { return history_; }

 private:
  double noise() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      sum += static_cast<double>(state_ >> 11) * 0x1p-53;
    }
    return sum - 6;
  }
  std::shared_ptr<History> history_;
  TelemetryFrame frame_;
  std::int64_t step_ = 0;
  std::uint64_t state_ = 88172645463325252ull;
};

}  // namespace moescope
