#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/cluster/ranks/volumes.h"
#include "core/model/learner.h"
#include "core/model/moe/expert_exchange.h"
#include "core/model/rank_gather.h"
#include "core/model/text/dataset.h"
#include "core/numerics/rng.h"
#include "tests/support/local_ranks.h"

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
    const StepResult result = learner.step(data->batch(step), true, clock);
    outcome.ce.push_back(result.losses.ce);
    outcome.aux.push_back(result.losses.aux);
    outcome.z.push_back(result.losses.z);
    outcome.norm.push_back(result.grad_norm);
  }
  learner.gather_experts();
  const Parameters<float>& p = learner.parameters;
  outcome.weights.assign(p.weights.begin(), p.weights.end());
  outcome.moments.assign(p.moment1.begin(), p.moment1.end());
  outcome.moments.insert(outcome.moments.end(), p.moment2.begin(), p.moment2.end());
  outcome.bias = learner.expert_bias;
  for (const auto& moe : learner.model().moe())
    outcome.tokens_per_expert.insert(outcome.tokens_per_expert.end(), moe.router.tokens_per_expert.begin(),
                                     moe.router.tokens_per_expert.end());
  return outcome;
}

void expect_the_same(const RunConfig& config, int size, int per_node = 1, bool over_nodes = false) {
  const Outcome single = train(config, nullptr);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  run_local_ranks(size, per_node, over_nodes,
                  [&](Ranks& ranks) { outcomes[static_cast<std::size_t>(ranks.rank())] = train(config, &ranks); });
  for (const Outcome& spread : outcomes) {
    EXPECT_EQ(spread.ce, single.ce);
    EXPECT_EQ(spread.aux, single.aux);
    EXPECT_EQ(spread.z, single.z);
    EXPECT_EQ(spread.norm, single.norm);
    EXPECT_EQ(spread.bias, single.bias);
    EXPECT_EQ(spread.tokens_per_expert, single.tokens_per_expert);
    ASSERT_EQ(spread.weights.size(), single.weights.size());
    EXPECT_EQ(std::memcmp(spread.weights.data(), single.weights.data(), single.weights.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(spread.moments.data(), single.moments.data(), single.moments.size() * sizeof(float)), 0);
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

TEST(Ranks, WithBiasesByQuantiles) {
  RunConfig config = small_config();
  config.router.killed_experts = "1:3";
  config.router.balance_rule = BalanceRule::quantile_batch;
  expect_the_same(config, 4);
  config.router.balance_rule = BalanceRule::quantile_sequence;
  expect_the_same(config, 4);
  config.router.balance_rule = BalanceRule::quantile_microbatch;
  config.router.quantile_ema = 0.5;
  config.router.score_func = ScoreFunc::sqrtsoftplus;
  expect_the_same(config, 2);
}

TEST(Ranks, WithBiasesInProportionToTheLoad) {
  RunConfig config = small_config();
  config.router.balance_rule = BalanceRule::proportional;
  config.router.bias_update_rate = 0.01;
  expect_the_same(config, 2);
}

TEST(Ranks, ByMuon) {
  RunConfig config = small_config();
  config.optimizer.name = OptimizerName::muon;
  for (const int size : {1, 2, 4}) {
    SCOPED_TRACE(size);
    expect_the_same(config, size);
  }
  config.optimizer.muon_bf16 = true;
  config.optimizer.router_lr_factor = 0.5;
  config.model.q_lora_rank = 16;
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

TEST(Ranks, WithEverythingStoredInBf16) {
  RunConfig config = small_config();
  PrecisionConfig& precision = config.precision;
  precision.experts = precision.shared_experts = precision.dense_ffn = precision.attention = Recipe::bf16;
  precision.gate_output = precision.activations = precision.residual = precision.norm_gains = StoredFormat::bf16;
  config.router.bias_format = config.router.count_format = StoredFormat::bf16;
  OptimizerConfig& optimizer = config.optimizer;
  optimizer.master_format = optimizer.moment1_format = optimizer.moment2_format = StoredFormat::bf16;
  optimizer.update_stochastic = true;
  expect_the_same(config, 4);
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

// The bytes sent from each rank to each other rank are those that the routing's counts and the payload's format give.
void expect_counted_bytes(TokenPayload payload, const RowBytes& row, bool over_nodes) {
  RunConfig config = small_config();
  config.precision.payload = payload;
  const auto data = open_dataset(config.data, config.seed);
  WireFrame wire;
  std::vector<std::uint64_t> counted(16);
  run_local_ranks(4, 2, over_nodes, [&](Ranks& ranks) {
    Learner<float> learner(config, Weights::initialised, &ranks);
    PhaseClock clock;
    learner.step(data->batch(0), false, clock);
    const WireFrame moved = gather_wire(&ranks);
    for (const auto& moe : learner.model().moe()) {
      const WholeRouter router(moe.router, learner.model().part());
      if (ranks.rank() != 0) continue;
      const auto layer_bytes = wire_bytes(count_volumes(router.get().ids, 2, 8, 4, 2), over_nodes, row);
      for (std::size_t i = 0; i < 16; ++i) counted[i] += layer_bytes[i];
    }
    if (ranks.rank() == 0) wire = moved;
  });
  EXPECT_EQ(wire.over_nodes, over_nodes);
  for (std::size_t i = 0; i < 16; ++i) {
    if (i % 5 == 0) continue;  // copies that stay on their rank
    EXPECT_EQ(wire.sent_RR[i], counted[i]) << i << (over_nodes ? " over nodes" : "");
    const bool straight = !over_nodes || i / 4 / 2 == i % 4 / 2 || i / 4 % 2 == i % 4 % 2;
    EXPECT_EQ(counted[i] > 0, straight) << i;
  }
}

TEST(Ranks, SendWhatTheVolumesCount) {
  for (const bool over_nodes : {false, true}) {
    expect_counted_bytes(TokenPayload::fp32, {128, 128, 128, 128}, over_nodes);
    expect_counted_bytes(TokenPayload::bf16, {64, 64, 64, 64}, over_nodes);
    expect_counted_bytes(TokenPayload::mxfp8, {33, 64, 33, 64}, over_nodes);  // 32 codes and a scale
  }
}

TEST(Ranks, RowBytesAreThoseOfTheVolumes) {
  EXPECT_EQ(wire_row_bytes("bf16", 7168).combine, 14336);
  EXPECT_EQ(wire_row_bytes("mxfp8", 7168).dispatch, 7392);
  EXPECT_EQ(wire_row_bytes("mxfp8", 7168).combine_gradient, 7392);
  EXPECT_EQ(wire_row_bytes("mxfp8", 7168).dispatch_gradient, 14336);
  EXPECT_EQ(wire_row_bytes("fp32", 8).dispatch, 32);
  EXPECT_THROW(wire_row_bytes("fp16", 8), std::runtime_error);
}

// Rounded rows of all magnitudes, and special values, arrive bit by bit as they were sent.
TEST(Ranks, RowsThatWereRoundedArriveBitByBit) {
  constexpr int kDim = 100;  // the last block has 4 values
  constexpr std::size_t kRows = 300;
  std::vector<float> rows(kRows * kDim);
  RandomStream stream(1, "rows");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double exponent = -140 + 255 * stream.uniform(2 * (i / 32)) + 12 * stream.uniform(7 * i + 1);
    rows[i] = static_cast<float>((stream.uniform(3 * i) - 0.5) * std::exp2(exponent));
  }
  std::fill_n(rows.begin(), 64, 0.0f);
  rows[3] = -0.0f;
  rows[200] = 449;  // scale 2^1: 224.5 rounds to 224
  OperandFormat bf16, mx;
  bf16.scheme = QuantScheme::bf16;
  mx.scheme = QuantScheme::mx;
  for (const OperandFormat& format : {OperandFormat{}, bf16, mx}) {
    std::vector<float> sent = rows, arrived(rows.size(), 7);
    const Matrix<float> sent_rows(sent.data(), kRows, kDim);
    if (!is_plain(format)) round_rows(format, sent_rows);
    const RowCodec<float> codec(format, kDim);
    std::vector<std::uint8_t> bytes(kRows * codec.row_bytes());
    const Matrix<std::uint8_t> coded(bytes.data(), kRows, codec.row_bytes());
    codec.encode(sent_rows, coded);
    codec.decode(coded, {arrived.data(), kRows, kDim});
    EXPECT_EQ(std::memcmp(sent.data(), arrived.data(), sent.size() * sizeof(float)), 0) << element_name(format);
  }
  rows[0] = std::numeric_limits<float>::infinity();
  for (const OperandFormat& format : {bf16, mx}) {
    const RowCodec<float> codec(format, kDim);
    std::vector<std::uint8_t> bytes(codec.row_bytes());
    std::vector<float> arrived(kDim);
    const Matrix<std::uint8_t> coded(bytes.data(), 1, codec.row_bytes());
    codec.encode({rows.data(), 1, kDim}, coded);
    codec.decode(coded, {arrived.data(), 1, kDim});
    EXPECT_FALSE(std::isfinite(arrived[0]));
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
