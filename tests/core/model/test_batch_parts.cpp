// Microbatches and padding: which tokens count in losses, loads and capacities, and the gradients that follow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/model/learner.h"
#include "core/model/moe/router.h"
#include "core/model/non_finite.h"
#include "core/model/text/dataset.h"
#include "core/numerics/rng.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

constexpr int kPartSequences = 4, kPartLength = 3, kPartTokens = kPartSequences * kPartLength, kPartDim = 5,
              kPartExperts = 4;

std::vector<double> drawn(const char* what, std::size_t count) {
  const RandomStream random(3, what);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = random.normal(i);
  return values;
}

// A router with random weights and inputs.
class RouterParts : public testing::Test {
 protected:
  RouterParts() {
    config_.top_k = 2;
    config_.score_func = ScoreFunc::softmax;
    config_.aux_mode = AuxMode::batch;
    config_.aux_coeff = 0.3;
    config_.route_norm = false;
    a_.plan(arena_, part_, kPartExperts, config_.top_k);
    arena_.commit();
  }
  RouterInputs<double> inputs() const {
    return {{gate_.data(), kPartExperts, kPartDim}, {h_.data(), kPartTokens, kPartDim}, bias_};
  }
  double loss() {
    RoutingInputs limits;
    limits.microbatches = microbatches_;
    limits.padding = padding_;
    router_forward<double>(config_, part_, inputs(), a_, {}, limits);
    return a_.aux_loss + a_.z_loss;
  }
  // Compares the gradient of the router's own losses with differences.
  void expect_right_gradient() {
    loss();
    std::vector<double> dgate(gate_.size()), dh(h_.size()), dlogits(kPartTokens * kPartExperts),
        dmix(static_cast<std::size_t>(kPartTokens * config_.top_k), 0.0);
    router_backward<double>(config_, inputs(), a_,
                            {{dmix.data(), kPartTokens, config_.top_k},
                             {dlogits.data(), kPartTokens, kPartExperts},
                             {dgate.data(), kPartExperts, kPartDim},
                             {dh.data(), kPartTokens, kPartDim},
                             false});
    for (std::size_t i = 0; i < gate_.size(); ++i) {
      constexpr double kStep = 1e-6;
      const double before = gate_[i];
      gate_[i] = before + kStep;
      const double above = loss();
      gate_[i] = before - kStep;
      const double below = loss();
      gate_[i] = before;
      EXPECT_NEAR(dgate[i], (above - below) / (2 * kStep), 1e-7) << i;
    }
  }

  const BatchPart part_{kPartSequences, kPartLength};
  RouterConfig config_;
  int microbatches_ = 1;
  std::vector<std::uint8_t> padding_;
  std::vector<double> gate_ = drawn("gate", kPartExperts* kPartDim), h_ = drawn("h", kPartTokens* kPartDim),
                      bias_ = std::vector<double>(kPartExperts, 0.0);
  Arena<double> arena_;
  RouterActivations<double> a_;
};

TEST_F(RouterParts, AuxiliaryLossOfMicrobatchesIsTheMeanOfTheirOwn) {
  microbatches_ = 4;  // one sequence each
  const double parts = loss();
  microbatches_ = 1;
  const double whole = loss();
  config_.aux_mode = AuxMode::sequence;
  EXPECT_NEAR(parts, loss(), 1e-15) << "the loss by sequence";
  EXPECT_GT(parts, whole) << "parts are less even than their sum";
}

TEST_F(RouterParts, GradientsEqualDerivativeOfLoss) {
  config_.z_coeff = 0.1;
  for (const AuxMode mode : {AuxMode::batch, AuxMode::sequence})
    for (const int microbatches : {1, 2, 4})
      for (const bool padded : {false, true})
        for (const AuxFault fault : {AuxFault::none, AuxFault::softmax_twice}) {
          config_.aux_mode = mode;
          config_.fault_aux_loss = fault;
          microbatches_ = microbatches;
          padding_.assign(padded ? kPartTokens : 0, 0);
          if (padded) padding_[2] = padding_[4] = padding_[5] = 1;
          expect_right_gradient();
        }
}

TEST_F(RouterParts, AFaultScalesTheGradientAndNotTheLoss) {
  microbatches_ = 4;
  const double right = loss();
  const std::vector<double> weights = a_.load_weight;
  for (const auto& [fault, factor] :
       {std::pair{AuxFault::times_microbatches, 4.0}, std::pair{AuxFault::over_microbatches, 0.25}}) {
    config_.fault_aux_loss = fault;
    EXPECT_EQ(loss(), right);
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_DOUBLE_EQ(a_.load_weight[i], factor * weights[i]);
  }
}

TEST_F(RouterParts, ASecondSoftmaxHoldsTheLossAtItsFloor) {
  for (double& weight : gate_) weight *= 5;
  bias_[0] = 5;  // an uneven load
  const double right = loss();
  config_.fault_aux_loss = AuxFault::softmax_twice;
  EXPECT_LT(std::fabs(loss() - config_.aux_coeff), 0.3 * std::fabs(right - config_.aux_coeff));
}

TEST_F(RouterParts, PaddingCountsForNothing) {
  const double all = loss();
  const std::vector<std::uint32_t> counts = a_.tokens_per_expert;
  padding_.assign(kPartTokens, 0);
  padding_[0] = padding_[7] = 1;
  EXPECT_NE(loss(), all);
  std::vector<std::uint32_t> expected = counts;
  for (const std::size_t token : {std::size_t{0}, std::size_t{7}})
    for (std::size_t j = 0; j < 2; ++j) --expected[static_cast<std::size_t>(a_.ids[token * 2 + j])];
  EXPECT_EQ(a_.tokens_per_expert, expected);
  EXPECT_EQ(a_.counted, 10u);
}

TEST_F(RouterParts, CapacityIsPerMicrobatch) {
  bias_[0] = bias_[1] = 10;  // every token takes experts 0 and 1
  config_.token_drop = TokenDrop::position;
  config_.capacity_factor = 1;
  microbatches_ = 2;
  loss();
  EXPECT_EQ(a_.rows_per_expert, (std::vector<std::uint32_t>{6, 6, 0, 0})) << "six tokens a part: 6 * 2 / 4 = 3 each";
  for (const std::size_t part : {std::size_t{0}, std::size_t{1}})
    for (std::size_t t = 0; t < 6; ++t) EXPECT_EQ(a_.not_dropped[(part * 6 + t) * 2] >= 0, t < 3);
  padding_.assign(kPartTokens, 0);
  padding_[0] = padding_[1] = 1;
  loss();
  EXPECT_EQ(a_.rows_per_expert[0], 2u + 3u) << "four real tokens in the first part: 4 * 2 / 4";
  EXPECT_GE(a_.not_dropped[0], 0) << "padding is routed";
}

TEST_F(RouterParts, ARecountDoublesTheCounts) {
  loss();
  std::vector<std::uint32_t> doubled = a_.tokens_per_expert;
  for (std::uint32_t& count : doubled) count *= 2;
  config_.fault_recount = true;
  loss();
  EXPECT_EQ(a_.tokens_per_expert, doubled);
}

// transformers, issue 45440: if all scores with bias are negative, the masked experts, with 0, are chosen.
TEST(GroupMask, OfZeroLetsExpertsOfRejectedGroupsIn) {
  RouterConfig config;
  config.top_k = 2;
  config.n_groups = 2;
  config.n_limited_groups = 1;
  const std::vector<float> choice = {-0.1f, -0.2f, -0.6f, -0.7f};
  std::int32_t ids[2];
  choose_experts<float>(config, choice, ids);
  EXPECT_EQ(std::vector(ids, ids + 2), (std::vector<std::int32_t>{0, 1})) << "the better group";
  config.fault_group_mask = GroupMask::zero;
  choose_experts<float>(config, choice, ids);
  EXPECT_EQ(std::vector(ids, ids + 2), (std::vector<std::int32_t>{2, 3})) << "the other one, at 0";
  const std::vector<float> positive = {0.1f, 0.2f, 0.6f, 0.7f};
  choose_experts<float>(config, positive, ids);
  EXPECT_EQ(std::vector(ids, ids + 2), (std::vector<std::int32_t>{2, 3})) << "right as long as scores are positive";
}

TEST(Padding, EndsSequencesAndHasNoLoss) {
  RunConfig config = small_run();
  config.data.batch = 16;
  config.data.padding = 0.25;
  const auto data = open_dataset(config.data, config.seed);
  std::size_t padded = 0, all = 0;
  for (int step = 0; step < 20; ++step) {
    const Batch batch = data->batch(step);
    for (std::size_t t = 0; t < batch.input.size(); ++t) {
      if (batch.padding[t]) {
        EXPECT_EQ(batch.input[t], 0);
      }
      const bool last = (t + 1) % 40 == 0;
      if (batch.padding[t] && !last) {
        EXPECT_TRUE(batch.padding[t + 1]) << "up to the end";
      }
    }
    padded += batch.input.size() - batch.real_tokens();
    all += batch.input.size();
  }
  EXPECT_NEAR(static_cast<double>(padded) / static_cast<double>(all), 0.25, 0.03);
  Batch batch = data->batch(0);
  PhaseClock clock;
  const auto loss_with = [&](std::int32_t target) {
    for (std::size_t t = 0; t < batch.target.size(); ++t)
      if (batch.padding[t]) batch.target[t] = target;
    Learner<float> learner(config);
    const StepResult result = learner.step(batch, false, clock);
    return std::pair(result.losses.ce, result.grad_norm);
  };
  EXPECT_EQ(loss_with(7), loss_with(8)) << "what stands there does not matter";
}

// A weight that is NaN makes all later products NaN; the reported place is in the first of them.
TEST(NonFinite, IsPlacedWhereItArose) {
  const RunConfig config = small_run();
  const auto data = open_dataset(config.data, config.seed);
  PhaseClock clock;
  Learner<float> learner(config);
  learner.step(data->batch(0), false, clock);
  EXPECT_FALSE(first_non_finite(learner));
  const ParameterTensor& w2 = learner.parameters.tensor("layers.1.moe.experts.w2");
  learner.parameters.weights[w2.offset + 3 * w2.outer_stride + 5 * w2.shape.back() + 2] = std::nanf("");
  learner.step(data->batch(1), false, clock);
  const auto place = first_non_finite(learner);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->text(), "layer 1, w2 x, expert 3, row 0, column 5: NaN");
}

TEST(NonFinite, EveryTensorLeadsToAnOperand) {
  for (const int latent : {0, 16}) {
    RunConfig config = small_run();
    config.model.q_lora_rank = latent;
    PhaseClock clock;
    Learner<float> learner(config);
    learner.step(open_dataset(config.data, config.seed)->batch(0), false, clock);
    const auto expect_operand = [&](int layer, const std::string& name) {
      EXPECT_FALSE(operands_at({layer, name, -1, 0, 0, 0}, config.model).empty()) << layer << ' ' << name;
    };
    for (int layer = 0; layer < config.model.n_layers; ++layer)
      for (const auto& [rows, name] : learner.model().rows_of(layer)) expect_operand(layer, name);
    for (const auto& [rows, name] : learner.model().rows_of_head()) expect_operand(-1, name);
    for (const ParameterTensor& tensor : learner.parameters.tensors())
      if (tensor.name.ends_with("w1") || tensor.name.ends_with("wo.weight"))
        expect_operand(-1, "gradient of " + tensor.name);
  }
}

// A value that becomes infinite in the backward pass is found in the gradient of its tensor.
TEST(NonFinite, IsPlacedInTheGradientOfItsTensor) {
  RunConfig config = small_run();
  config.optimizer.fault_expert_gradient = 1000;
  const auto data = open_dataset(config.data, config.seed);
  PhaseClock clock;
  Learner<float> learner(config);
  const Losses losses = learner.forward(data->batch(0), false, clock);
  learner.backward(data->batch(0), clock);
  const ParameterTensor& w1 = learner.parameters.tensor("layers.2.moe.experts.w1");
  learner.parameters.gradients[w1.offset + 6 * w1.outer_stride + 4 * w1.shape.back() + 7] = INFINITY;
  learner.update(losses, clock);
  const auto place = first_non_finite(learner);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->text(), "gradient of layers.2.moe.experts.w1, expert 6, row 4, column 7: infinity");
}

TEST(MissingExperts, GetTokensAndGradientsAndDoNotChange) {
  RunConfig config = small_run();
  config.optimizer.fault_missing_experts = "1:2";
  for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::muon}) {
    config.optimizer.name = name;
    const Learner<float> start(config);
    Learner<float> learner(config);
    const auto data = open_dataset(config.data, config.seed);
    PhaseClock clock;
    for (int i = 0; i < 5; ++i) learner.step(data->batch(i), false, clock);
    EXPECT_GT(learner.model().moe()[0].router.tokens_per_expert[2], 0u);
    for (const char* matrix : {"w1", "w2", "w3"})
      for (int layer = 1; layer <= 2; ++layer) {
        const auto& tensor = learner.parameters.tensor("layers." + std::to_string(layer) + ".moe.experts." + matrix);
        for (std::size_t e = 0; e < 8; ++e) {
          const bool unchanged = std::ranges::equal(tensor.block_in(start.parameters.weights, e),
                                                    tensor.block_in(learner.parameters.weights, e));
          EXPECT_EQ(unchanged, layer == 1 && e == 2) << layer << ' ' << e;
          EXPECT_TRUE(
              std::ranges::any_of(tensor.block_in(learner.parameters.gradients, e), [](float g) { return g != 0; }));
        }
      }
  }
}

TEST(ExpertGradients, AreScaledBeforeTheNorm) {
  RunConfig config = small_run();
  const auto data = open_dataset(config.data, config.seed);
  const auto norm = [&] {
    Learner<float> learner(config);
    PhaseClock clock;
    return learner.step(data->batch(0), false, clock).grad_norm;
  };
  const double right = norm();
  config.optimizer.fault_expert_gradient = 8;
  EXPECT_GT(norm(), right);
  config.router.fault_stale_bias = true;
  Learner<float> stale(config);
  PhaseClock clock;
  stale.step(data->batch(0), false, clock);
  EXPECT_EQ(stale.expert_bias[0], std::vector<float>(8, 0.0f));
}

}  // namespace
}  // namespace moescope
