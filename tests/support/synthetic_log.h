// Made-up logs with known properties. The counts are drawn from the shares of a router's experts, with the sampling
// noise of their tokens. A test sets how the shares change over the steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "core/frame/router_stats.h"
#include "core/recording/history/history.h"

namespace moescope {

struct LogShape {
  int layers = 3, experts = 64, top_k = 6;
  std::int64_t tokens = 4096;  // tokens of a batch
  std::int64_t steps = 1000;   // number of steps
  std::int64_t interval = 1;   // interval of the logged steps
  double lasting = 0.1;        // standard deviation of the logarithm of the experts' lasting shares
  double by_batch = 0.06;      // standard deviation of the logarithm of a batch's shares, divided by the lasting shares
};

// Shares of one layer's experts, 1 each if even. Only ratios matter: shares of a batch are divided by their sum.
using Shares = std::vector<double>;

class SyntheticLog {
 public:
  SyntheticLog(const LogShape& shape, unsigned seed) : shape_(shape), rng_(seed) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      Shares& shares = lasting_.emplace_back();
      for (int e = 0; e < shape.experts; ++e) shares.push_back(std::exp(shape.lasting * normal()));
    }
  }

  // Events by step; any of these functions may be empty.
  std::function<void(std::int64_t step, int layer, Shares& shares)> change;
  std::function<std::int64_t(std::int64_t step)> tokens;
  std::function<bool(std::int64_t step)> has_load, has_loss;
  std::function<float(std::int64_t step)> loss;
  std::function<void(std::int64_t step, RouterFrame& router)> add;  // adds further columns
  std::function<std::int64_t(std::int64_t step)> number;            // number that the log gives to a step
  bool tokens_are_stated = false;                                   // the log's first line states the tokens

  double uniform() { return std::uniform_real_distribution<double>(0, 1)(rng_); }
  double normal() { return std::normal_distribution<double>(0, 1)(rng_); }
  const LogShape& shape() const { return shape_; }
  Shares& lasting(int layer) { return lasting_[static_cast<std::size_t>(layer)]; }

  std::shared_ptr<History> history() {
    RunInfo info;
    info.name = info.source = "made up";
    info.n_layers = shape_.layers;
    for (int layer = 0; layer < shape_.layers; ++layer) info.moe_layers.push_back(layer);
    info.n_experts = shape_.experts;
    info.top_k = shape_.top_k;
    if (tokens_are_stated) info.tokens_per_step = shape_.tokens;
    auto history = std::make_shared<History>(info);
    for (std::int64_t step = 0; step < shape_.steps; step += shape_.interval) append(step, *history);
    return history;
  }
  // Appends the steps `from` to `to` - 1 again, as a run does that is restarted from a checkpoint.
  void append_again(std::int64_t from, std::int64_t to, History& history) {
    for (std::int64_t step = from; step < to; step += shape_.interval) append(step, history);
  }

 private:
  void append(std::int64_t step, History& history) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = number ? number(step) : step;
    const double falls = 2 + 3.5 * std::exp(-static_cast<double>(step) / 150);
    if (!has_loss || has_loss(step)) frame->ce_loss = loss ? loss(step) : static_cast<float>(falls + 0.03 * normal());
    if (!has_load || has_load(step))
      for (int layer = 0; layer < shape_.layers; ++layer) frame->routers.push_back(router(step, layer));
    history.append(std::move(frame));
  }

  RouterFrame router(std::int64_t step, int layer) {
    RouterFrame router;
    router.layer = layer;
    Shares shares = lasting_[static_cast<std::size_t>(layer)];
    if (shape_.by_batch > 0)
      for (double& share : shares) share *= std::exp(shape_.by_batch * normal());
    if (change) change(step, layer, shares);
    double sum = 0;
    for (const double share : shares) sum += share;
    const std::int64_t batch = tokens ? tokens(step) : shape_.tokens;
    for (const double share : shares)
      router.tokens_per_expert.push_back(count(batch, std::min(1.0, share / sum * shape_.top_k)));
    router.max_vio = max_vio(router.tokens_per_expert);
    router.entropy_norm = entropy_norm(router.tokens_per_expert);
    if (add) add(step, router);
    return router;
  }

  // Draws how many of `tokens` tokens choose an expert with this probability.
  std::uint32_t count(std::int64_t tokens, double probability) {
    const double mean = static_cast<double>(tokens) * probability, variance = mean * (1 - probability);
    if (variance < 25) {
      std::binomial_distribution<std::int64_t> drawn(tokens, probability);
      return static_cast<std::uint32_t>(drawn(rng_));
    }
    return static_cast<std::uint32_t>(
        std::clamp(std::round(mean + std::sqrt(variance) * normal()), 0.0, static_cast<double>(tokens)));
  }

  LogShape shape_;
  std::mt19937 rng_;
  std::vector<Shares> lasting_;  // by layer
};

}  // namespace moescope
