#include <gtest/gtest.h>

#include <cstring>

#include "core/dataset.h"
#include "core/model/learner.h"
#include "core/model/rank_gather.h"
#include "core/parallel/volumes.h"
#include "tests/local_ranks.h"

namespace moescope {
namespace {

constexpr int kSteps = 6;

RunConfig small_config() {
  RunConfig config;
  config.model.dim = 32;
  config.model.n_layers = 3;
  config.model.dense_inter = 64;
  config.model.n_heads = 2;
  config.model.kv_lora_rank = 16;
  config.model.qk_nope_head_dim = 8;
  config.model.qk_rope_head_dim = 8;
  config.model.v_head_dim = 8;
  config.model.n_experts = 8;
  config.model.moe_inter = 32;
  config.router.z_coeff = 1e-3;
  config.data.batch = 4;
  config.data.seq = 64;
  return config;
}

struct Outcome {
  std::vector<double> ce, aux, z, norm;
  std::vector<float> weights, moments;
  std::vector<std::vector<float>> bias;
  std::vector<std::uint32_t> tokens_per_expert;
};

Outcome train(const RunConfig& config, Ranks* ranks) {
  const auto data = open_dataset(config.data, config.seed);
  Learner<float> learner(config, Weights::initialised, ranks);
  Outcome outcome;
  PhaseClock clock;
  for (int step = 0; step < kSteps; ++step) {
    clock.start(Phase::other);
    const StepResult result = learner.step(data->batch(step), true, clock);
    outcome.ce.push_back(result.losses.ce);
    outcome.aux.push_back(result.losses.aux);
    outcome.z.push_back(result.losses.z);
    outcome.norm.push_back(result.grad_norm);
  }
  learner.gather_experts();
  const Parameters<float>& p = learner.parameters;
  outcome.weights.assign(p.weights, p.weights + p.size());
  outcome.moments.assign(p.moment2, p.moment2 + p.size());
  outcome.bias = learner.expert_bias;
  for (const auto& moe : learner.model().moe())
    outcome.tokens_per_expert.insert(outcome.tokens_per_expert.end(), moe.router.tokens_per_expert.begin(),
                                     moe.router.tokens_per_expert.end());
  return outcome;
}

void expect_the_same(const RunConfig& config, int size, int per_node = 1, bool over_nodes = false) {
  const Outcome alone = train(config, nullptr);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  run_local_ranks(size, per_node, over_nodes,
                  [&](Ranks& ranks) { outcomes[static_cast<std::size_t>(ranks.rank())] = train(config, &ranks); });
  for (const Outcome& spread : outcomes) {
    EXPECT_EQ(spread.ce, alone.ce);
    EXPECT_EQ(spread.aux, alone.aux);
    EXPECT_EQ(spread.z, alone.z);
    EXPECT_EQ(spread.norm, alone.norm);
    EXPECT_EQ(spread.bias, alone.bias);
    EXPECT_EQ(spread.tokens_per_expert, alone.tokens_per_expert);
    ASSERT_EQ(spread.weights.size(), alone.weights.size());
    EXPECT_EQ(std::memcmp(spread.weights.data(), alone.weights.data(), alone.weights.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(spread.moments.data(), alone.moments.data(), alone.moments.size() * sizeof(float)), 0);
  }
}

TEST(Ranks, TrainAsOneProcessDoesToTheBit) {
  for (const int size : {1, 2, 4}) {
    SCOPED_TRACE(size);
    expect_the_same(small_config(), size);
  }
}

TEST(Ranks, InEveryKindOfRouterAndLoss) {
  RunConfig config = small_config();
  config.router.aux_mode = AuxMode::batch;
  config.router.aux_coeff = 0.01;
  config.router.score_func = ScoreFunc::softmax;
  config.model.q_lora_rank = 16;
  expect_the_same(config, 4);
  config.router.aux_mode = AuxMode::sequence;
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  expect_the_same(config, 2);
  config.router.force_balance = true;
  expect_the_same(config, 4);
}

TEST(Ranks, InLowPrecisionEverywhere) {
  RunConfig config = small_config();
  PrecisionConfig& precision = config.precision;
  precision.experts = precision.shared_experts = precision.dense_ffn = precision.attention = Recipe::mxfp8_rceil;
  precision.payload = TokenPayload::mxfp8;
  expect_the_same(config, 4);
  precision.rounding = Rounding::stochastic;
  precision.hadamard = true;
  precision.experts = Recipe::nvfp4;
  expect_the_same(config, 2);
}

TEST(Ranks, OverNodesAsStraight) {
  RunConfig config = small_config();
  expect_the_same(config, 4, 2, true);
  expect_the_same(config, 4, 1, true);
  expect_the_same(config, 4, 4, true);
  config.precision.experts = Recipe::mxfp8_rceil;
  config.precision.payload = TokenPayload::mxfp8;
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  expect_the_same(config, 4, 2, true);
}

// What the transport was given is what the counts of the routing say, from rank to rank.
TEST(Ranks, SendWhatTheVolumesCount) {
  const RunConfig config = small_config();
  const auto data = open_dataset(config.data, config.seed);
  for (const bool over_nodes : {false, true}) {
    WireFrame wire;
    std::vector<std::uint64_t> rows(16);
    run_local_ranks(4, 2, over_nodes, [&](Ranks& ranks) {
      Learner<float> learner(config, Weights::initialised, &ranks);
      PhaseClock clock;
      clock.start(Phase::other);
      learner.step(data->batch(0), false, clock);
      const WireFrame moved = gather_wire(&ranks);
      for (const auto& moe : learner.model().moe()) {
        const WholeRouter router(moe.router, learner.model().part(), 8, 2);
        if (ranks.rank() != 0) continue;
        const auto of_layer = wire_rows(count_volumes(router.get().ids, 2, 8, 4, 2), over_nodes);
        for (std::size_t i = 0; i < 16; ++i) rows[i] += of_layer[i];
      }
      if (ranks.rank() == 0) wire = moved;
    });
    EXPECT_EQ(wire.over_nodes, over_nodes);
    for (std::size_t i = 0; i < 16; ++i) {
      if (i % 5 == 0) continue;  // stays
      EXPECT_EQ(wire.sent_RR[i], rows[i] * 4 * 32) << i << (over_nodes ? " over nodes" : "");
      const bool straight = !over_nodes || i / 4 / 2 == i % 4 / 2 || i / 4 % 2 == i % 4 % 2;
      EXPECT_EQ(rows[i] > 0, straight) << i;
    }
  }
}

TEST(Ranks, RefuseWhatCannotBeSpread) {
  RunConfig config = small_config();
  EXPECT_NO_THROW(check_ranks(config, 4));
  EXPECT_THROW(check_ranks(config, 3), std::runtime_error);
  EXPECT_THROW(check_ranks(config, 8), std::runtime_error);
  config.precision.attention = Recipe::fp8_tensorwise;
  EXPECT_NO_THROW(check_ranks(config, 1));
  EXPECT_THROW(check_ranks(config, 2), std::runtime_error);
  config.precision.attention = Recipe::fp32;
  config.data.seq = 50;  // no whole shards of 64 rows
  EXPECT_NO_THROW(check_ranks(config, 1));
  EXPECT_THROW(check_ranks(config, 2), std::runtime_error);
}

}  // namespace
}  // namespace moescope
