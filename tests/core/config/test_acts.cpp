// Changes of a router in training: killed experts, pinned biases, frozen gates, gate noise, other scores and inputs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/expert_list.h"
#include "core/config/mixture.h"
#include "core/model/learner.h"
#include "core/model/moe/bias_rules.h"
#include "core/numerics/threads.h"
#include "core/training/trainer.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

RunConfig small_config() {
  RunConfig c = small_run();
  c.data.batch = 4;
  c.data.seq = 48;
  c.parallel.ranks = 4;
  return c;
}

std::string parse_error(std::string_view text, ListOf kind) {
  try {
    parse_experts(text, small_config().model, kind);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(ExpertList, IsReadAndWrittenShortest) {
  const ModelConfig model = small_config().model;  // MoE layers 1 and 2
  const auto written = [&](std::string_view text, ListOf kind) {
    return experts_text(parse_experts(text, model, kind), model, kind);
  };
  EXPECT_EQ(written("", ListOf::experts), "");
  EXPECT_EQ(written("  ", ListOf::experts), "");
  EXPECT_EQ(written("2:7 ,1:3", ListOf::experts), "1:3, 2:7");
  EXPECT_EQ(written("2:7,1:7", ListOf::experts), "*:7");
  EXPECT_EQ(written("*:0,2:7", ListOf::experts), "*:0, 2:7");
  EXPECT_EQ(written("*:1=0.5, 2:1=-1", ListOf::values), "1:1=0.5, 2:1=-1") << "the later of two holds";
  EXPECT_EQ(written("*:1=1e-3", ListOf::values), "*:1=0.001");
}

TEST(ExpertList, ErrorsNameTheProblem) {
  for (const char* text : {"7", ":", "a:1", "1:b", "1:2=3", "1:2,", ",", "1:-1", "1:8", "0:1", "3:1", "1.5:2"})
    EXPECT_NE(parse_error(text, ListOf::experts), "") << text;
  for (const char* text : {"1:2", "1:2=", "1:2=x", "1:2=nan", "1:2=1e4", "=1", "1=2:3"})
    EXPECT_NE(parse_error(text, ListOf::values), "") << text;
  EXPECT_EQ(parse_error("0:1", ListOf::experts),
            "\"0:1\": layer 0 has no experts (MoE layers are 1 to 2): choose one of them, or *");
}

TEST(MixtureText, WeighsNamedDomainsAndAllOthers) {
  const std::vector<std::string> domains = {"prose", "json", "dna"};
  EXPECT_TRUE(mixture_weights("", domains).empty());
  EXPECT_EQ(mixture_weights("json=1", domains), (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(mixture_weights(" dna = 0.5 ,*=2", domains), (std::vector<double>{2, 2, 0.5}));
  EXPECT_EQ(mixture_text(parse_mixture("dna=0.50,*=2")), "dna=0.5, *=2");
  for (const char* wrong : {"json", "json=", "json=-1", "json=nan", "json=1,json=2", "json=0", "cobol=1", "=1",
                            "json=1,", "prose=0,json=0,dna=0,*=1"})
    EXPECT_THROW(mixture_weights(wrong, domains), std::invalid_argument) << wrong;
}

TEST(MixtureDraws, KeepTheSharesInEveryStretch) {
  const Mixture mixture({1, 0, 3}, 5);
  for (const std::uint64_t first : {0ull, 1000ull, 123456789ull}) {
    int counts[3] = {};
    for (std::uint64_t i = 0; i < 40; ++i) ++counts[mixture.domain_of(first + i)];
    EXPECT_EQ(counts[1], 0);
    EXPECT_NEAR(counts[0], 10, 2);
  }
}

TEST(Batches, FollowTheMixture) {
  RunConfig c = small_config();
  const auto plain = open_dataset(c.data, 1);
  c.data.mixture = "JSON=1";
  const auto data = open_dataset(c.data, 1);
  const auto json = std::ranges::find(data->domains(), std::string("JSON")) - data->domains().begin();
  for (int step = 0; step < 5; ++step)
    for (const int domain : data->batch(step).domain) EXPECT_EQ(domain, json);
  EXPECT_EQ(plain->batch(3, plain->mixture("JSON=1")).input, data->batch(3).input);
  EXPECT_EQ(plain->batch(3, plain->mixture("")).input, plain->batch(3).input);
  c.data.mixture = "cobol=1";
  EXPECT_THROW(open_dataset(c.data, 1), std::runtime_error);
}

class Acts : public testing::Test {
 protected:
  void TearDown() override { set_num_threads(0); }
  TelemetryFrame step(Trainer& trainer) { return trainer.step(data_->batch(trainer.steps_taken())); }
  void change(Trainer& trainer, Setting setting, ConfigValue value) { trainer.apply({0, setting, std::move(value)}); }
  static std::uint32_t tokens(const TelemetryFrame& frame, int layer, std::size_t expert) {
    return frame.routers[static_cast<std::size_t>(layer - 1)].tokens_per_expert[expert];
  }
  RunConfig config_ = small_config();
  std::unique_ptr<Dataset> data_ = open_dataset(config_.data, config_.seed);
};

TEST_F(Acts, KilledExpertsGetNothingFromTheNextStepOnAndRevivedOnesSome) {
  for (const bool grouped : {false, true}) {
    config_.router.n_groups = grouped ? 4 : 0;
    config_.router.n_limited_groups = grouped ? 2 : 0;
    Trainer trainer(config_);
    EXPECT_GT(tokens(step(trainer), 2, 5), 0u);
    change(trainer, &RouterConfig::killed_experts, std::string("2:5, *:0"));
    for (int i = 0; i < 4; ++i) {
      const TelemetryFrame frame = step(trainer);
      EXPECT_EQ(tokens(frame, 2, 5), 0u);
      EXPECT_EQ(tokens(frame, 1, 0) + tokens(frame, 2, 0), 0u);
      EXPECT_GT(tokens(frame, 1, 5), 0u) << "of the other layer";
      const auto& counts = frame.routers[1].tokens_per_expert;
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), 4u * 48 * 2);
    }
    change(trainer, &RouterConfig::killed_experts, std::string());
    EXPECT_GT(tokens(step(trainer), 2, 5), 0u);
  }
}

TEST_F(Acts, WholeGroupsMayDieAndForcedBalanceDealsToTheLiving) {
  config_.router.n_groups = 4;
  config_.router.n_limited_groups = 2;
  config_.router.killed_experts = "2:0, 2:1, 2:2";  // group 0, and half of group 1
  Trainer trainer(config_);
  TelemetryFrame frame = step(trainer);
  EXPECT_EQ(tokens(frame, 2, 0) + tokens(frame, 2, 1) + tokens(frame, 2, 2), 0u);
  change(trainer, &RouterConfig::force_balance, true);
  frame = step(trainer);
  for (std::size_t e = 0; e < 8; ++e) EXPECT_NEAR(tokens(frame, 2, e), e < 3 ? 0 : 4.0 * 48 * 2 / 5, 1) << e;
}

TEST_F(Acts, MarginOfTheLastLivingIsNone) {
  config_.router.top_k = 7;
  config_.router.killed_experts = "1:3";
  Trainer trainer(config_);
  const TelemetryFrame frame = step(trainer);
  EXPECT_TRUE(std::isnan(frame.routers[0].margin));
  EXPECT_FALSE(std::isnan(frame.routers[1].margin));
}

TEST_F(Acts, BiasesRestWithTheKilledAndBalanceAmongTheLiving) {
  std::vector<float> bias = {0, 0, 0, 0};
  const std::vector<std::uint32_t> load = {0, 8, 4, 0};
  const std::vector<std::uint8_t> killed = {1, 0, 0, 0};
  move_expert_bias<float>(bias, bias_directions(load, killed), 0.5, true, killed);
  EXPECT_EQ(bias, (std::vector<float>{0, -0.5f, 0, 0.5f})) << "the mean of the living is 4";
}

TEST_F(Acts, PinnedBiasesStayAndLetGoTheyMoveOn) {
  config_.router.bias_update_rate = 0.01;
  Trainer trainer(config_);
  step(trainer);
  change(trainer, &RouterConfig::pinned_bias, std::string("2:3=0.75"));
  for (int i = 0; i < 3; ++i) {
    const TelemetryFrame frame = step(trainer);
    EXPECT_EQ(frame.routers[1].expert_bias[3], 0.75f);
    EXPECT_NE(frame.routers[0].expert_bias[3], 0.75f);
    EXPECT_GT(tokens(frame, 2, 3), 4u * 48 * 2 / 8) << "a bias of 0.75 draws more than a fair share";
  }
  change(trainer, &RouterConfig::pinned_bias, std::string());
  const float after = step(trainer).routers[1].expert_bias[3];
  EXPECT_NE(after, 0.75f);
  EXPECT_NEAR(after, 0.75f, 0.02f);
}

TEST_F(Acts, InitialBiasesAreRiggedAndMoveAtOnce) {
  config_.router.initial_bias = "*:1=0.5";
  config_.router.bias_centring = false;
  Trainer trainer(config_);
  const TelemetryFrame frame = step(trainer);
  EXPECT_EQ(tokens(frame, 1, 1), 4u * 48) << "every token";
  EXPECT_FLOAT_EQ(frame.routers[0].expert_bias[1], 0.499f);
}

std::vector<float> gates(const Learner<float>& learner) {
  std::vector<float> all;
  for (const LayerView<float>& layer : learner.parameters.weight_view.layers)
    all.insert(all.end(), layer.gate.data, layer.gate.data + layer.gate.size());
  return all;
}

TEST_F(Acts, FrozenRoutersStayToTheBitWhileAllElseTrains) {
  Learner<float> learner(config_);
  PhaseClock clock;
  const auto take = [&] { return learner.step(data_->batch(learner.steps_taken), false, clock); };
  take();
  learner.config.router.frozen = true;
  const auto gate = gates(learner);
  const auto bias = learner.expert_bias;
  const float other = learner.parameters.weight_view.output.at(0, 0);
  for (int i = 0; i < 3; ++i) take();
  EXPECT_EQ(gates(learner), gate);
  EXPECT_EQ(learner.expert_bias, bias);
  EXPECT_NE(learner.parameters.weight_view.output.at(0, 0), other);
  learner.config.router.frozen = false;
  take();
  EXPECT_NE(gates(learner), gate);
  EXPECT_NE(learner.expert_bias, bias);
}

TEST_F(Acts, RouterRateFactorMovesTheGatesAlone) {
  const auto moved = [&](double factor) {
    config_.optimizer.router_lr_factor = factor;
    Learner<float> learner(config_);
    const auto before = gates(learner);
    PhaseClock clock;
    learner.step(data_->batch(0), false, clock);
    const auto after = gates(learner);
    double distance = 0;
    for (std::size_t i = 0; i < before.size(); ++i) distance += std::fabs(after[i] - before[i]);
    return std::pair(distance, learner.parameters.weight_view.output.at(0, 7));
  };
  const auto [one, output] = moved(1);
  const auto [ten, same_output] = moved(10);
  EXPECT_NEAR(ten / one, 10, 0.1);
  EXPECT_NEAR(same_output, output, 1e-7);
  EXPECT_EQ(moved(0).first, 0);
}

std::vector<float> losses(const RunConfig& config, const Dataset& data, int threads, int steps = 5) {
  set_num_threads(threads);
  Trainer trainer(config);
  std::vector<float> all;
  for (int i = 0; i < steps; ++i) all.push_back(trainer.step(data.batch(i)).ce_loss);
  return all;
}

TEST_F(Acts, GateNoiseIsTheSameOnAnyNumberOfThreads) {
  const auto quiet = losses(config_, *data_, 1);
  config_.router.gate_noise = 0.5;
  const auto noisy = losses(config_, *data_, 1);
  EXPECT_NE(noisy, quiet);
  EXPECT_EQ(losses(config_, *data_, 2), noisy);
  EXPECT_EQ(losses(config_, *data_, 3), noisy);
  config_.router.score_func = ScoreFunc::softmax;
  EXPECT_EQ(losses(config_, *data_, 3), losses(config_, *data_, 1));
}

TEST_F(Acts, GateNoiseChoosesButDoesNotWeigh) {
  config_.router.route_norm = false;
  config_.router.gate_noise = 100;  // the noise decides
  Learner<double> learner(config_);
  PhaseClock clock;
  learner.forward(data_->batch(0), false, clock);
  const auto& router = learner.model().moe()[0].router;
  for (std::size_t t = 0; t < 192; ++t)
    for (std::size_t j = 0; j < 2; ++j)
      EXPECT_DOUBLE_EQ(router.mix.at(t, j), router.scores.at(t, router.ids[t * 2 + j]));
  for (const std::uint32_t n : router.tokens_per_expert) EXPECT_NEAR(n, 48, 30);
}

TEST_F(Acts, ScoreFunctionNormAndGroupsChangeWhileItTrains) {
  Trainer trainer(config_);
  step(trainer);
  change(trainer, &RouterConfig::n_groups, std::int64_t{4});
  const float free = step(trainer).ce_loss;
  EXPECT_TRUE(std::isfinite(free));
  change(trainer, &RouterConfig::n_limited_groups, std::int64_t{1});
  step(trainer);
  for (const LayerRouting& layer : trainer.routing())
    for (std::size_t t = 0; t < 192; ++t)
      EXPECT_EQ(layer.ids_TK[2 * t] / 2, layer.ids_TK[2 * t + 1] / 2) << "both of one group";
  change(trainer, &RouterConfig::score_func, std::string("softmax"));
  change(trainer, &RouterConfig::route_norm, false);
  const TelemetryFrame frame = step(trainer);
  EXPECT_TRUE(std::isfinite(frame.ce_loss) && std::isfinite(frame.grad_norm));
  EXPECT_THROW(change(trainer, &RouterConfig::top_k, std::int64_t{3}), std::invalid_argument) << "a group has two";
  EXPECT_THROW(change(trainer, &RouterConfig::killed_experts, std::string("1:0")), std::invalid_argument);
}

TEST_F(Acts, OutlierChannelIsLoudAndChangesNothingElse) {
  config_.precision.experts = config_.precision.dense_ffn = Recipe::bf16;
  Trainer plain(config_);
  config_.model.outlier_channel = 9;
  config_.model.outlier_factor = 256;
  Trainer loud(config_);
  const TelemetryFrame a = step(plain), b = step(loud);
  EXPECT_NEAR(a.ce_loss, b.ce_loss, 1e-4f * a.ce_loss) << "a power of two leaves BF16 as it was";
  const auto amax = [](const TelemetryFrame& frame, OperandRole operand) {
    for (const QuantFrame& q : frame.quants)
      if (q.gemm_class() == GemmClass::experts && q.direction == Direction::forward && q.operand == operand)
        return q.amax;
    return kNoValue;
  };
  EXPECT_GT(amax(b, OperandRole::x), 30 * amax(a, OperandRole::x));
}

TEST_F(Acts, ResumedWithEverythingInForceIsBitIdentical) {
  config_.optimizer.router_lr_factor = 3;
  config_.router.gate_noise = 0.2;
  config_.router.killed_experts = "1:2, *:6";
  config_.router.pinned_bias = "2:1=0.1";
  config_.router.initial_bias = "1:0=0.3";
  config_.data.mixture = "JSON=2, *=1";
  config_.model.outlier_factor = 20;
  const auto data = open_dataset(config_.data, config_.seed);
  const std::string path = (fs::temp_directory_path() / ("moescope_acts_" + std::to_string(getpid()))).string();
  Trainer whole(config_);
  const auto take = [&](Trainer& trainer) {
    const TelemetryFrame frame = trainer.step(data->batch(trainer.steps_taken()));
    return std::tuple(frame.ce_loss, frame.grad_norm, frame.routers[0].expert_bias, frame.routers[1].tokens_per_expert);
  };
  take(whole);
  take(whole);
  whole.save(path);
  Trainer resumed = Trainer::resume(path);
  fs::remove(path);
  EXPECT_TRUE(difference(whole.config(), resumed.config()).empty());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(whole), take(resumed)) << i;
}

}  // namespace
}  // namespace moescope
