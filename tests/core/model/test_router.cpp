// The router by hand-worked cases.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "core/frame/specialisation.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/moe/router.h"
#include "core/model/moe/router_sums.h"

namespace moescope {
namespace {

std::vector<std::int32_t> choose(const RouterConfig& config, std::vector<float> choice, float* margin = nullptr) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(config.top_k));
  const float m = choose_experts<float>(config, choice, ids).margin;
  if (margin) *margin = m;
  return ids;
}

using Ids = std::vector<std::int32_t>;

TEST(ChooseExperts, TakesTheLargestInAscendingOrder) {
  RouterConfig c;
  c.top_k = 3;
  float margin = 0;
  EXPECT_EQ(choose(c, {0.1f, 0.9f, 0.3f, 0.8f, 0.2f}, &margin), (Ids{1, 2, 3}));
  EXPECT_FLOAT_EQ(margin, 0.3f - 0.2f);
}

TEST(ChooseExperts, TiesGoToTheLowestIndex) {
  RouterConfig c;
  c.top_k = 2;
  float margin = 1;
  EXPECT_EQ(choose(c, {0.5f, 0.5f, 0.5f, 0.5f}, &margin), (Ids{0, 1}));
  EXPECT_EQ(margin, 0);
  EXPECT_EQ(choose(c, {0.1f, 0.5f, 0.7f, 0.5f}), (Ids{1, 2}));
}

TEST(ChooseExperts, AllExpertsLeaveNoMargin) {
  RouterConfig c;
  c.top_k = 3;
  float margin = 0;
  EXPECT_EQ(choose(c, {0.5f, -0.5f, 0.7f}, &margin), (Ids{0, 1, 2}));
  EXPECT_TRUE(std::isnan(margin));
}

TEST(ChooseExperts, OnlyTheBestGroupsByTheirTwoBest) {
  RouterConfig c;
  c.top_k = 2;
  c.n_groups = 3;
  c.n_limited_groups = 1;
  // Group 0 has the single best expert (0.9 + 0.0), group 1 the best pair (0.6 + 0.5), group 2 0.55 + 0.4.
  float margin = 0;
  EXPECT_EQ(choose(c, {0.9f, 0.0f, 0.0f, 0.6f, 0.1f, 0.5f, 0.4f, 0.55f, 0.3f}, &margin), (Ids{3, 5}));
  EXPECT_FLOAT_EQ(margin, 0.4f);  // to 0.1 in the same group; experts of other groups cannot be chosen
  c.n_limited_groups = 2;
  EXPECT_EQ(choose(c, {0.9f, 0.0f, 0.0f, 0.6f, 0.1f, 0.5f, 0.4f, 0.55f, 0.3f}), (Ids{3, 7}));
}

TEST(ChooseExperts, EqualGroupsGoToTheLowestIndex) {
  RouterConfig c;
  c.top_k = 1;
  c.n_groups = 2;
  c.n_limited_groups = 1;
  EXPECT_EQ(choose(c, {0.25f, 0.25f, 0.4f, 0.1f}), (Ids{0}));
}

TEST(ChooseExperts, NegativeChoicesOfKeptGroupsBeatRejectedGroups) {
  RouterConfig c;
  c.top_k = 2;
  c.n_groups = 2;
  c.n_limited_groups = 1;
  EXPECT_EQ(choose(c, {5.0f, -3.0f, 0.9f, 0.8f}), (Ids{0, 1}));
}

struct Routed {
  Arena<double> arena;
  RouterActivations<double> a;
};

// Routes tokens whose logits are the gate's weights, because dim is 1 and h is 1.
std::unique_ptr<Routed> route(const RouterConfig& c, std::vector<double> logits, std::vector<double> bias,
                              int tokens = 1) {
  auto routed = std::make_unique<Routed>();
  const int experts = static_cast<int>(logits.size());
  routed->a.plan(routed->arena, {1, tokens}, experts, c.top_k);
  routed->arena.commit();
  const std::vector<double> h(static_cast<std::size_t>(tokens), 1.0);
  router_forward<double>(c, {1, tokens}, {{logits.data(), experts, 1}, {h.data(), tokens, 1}, bias}, routed->a);
  return routed;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(RouterForward, BiasChoosesButDoesNotWeigh) {
  RouterConfig c;
  c.top_k = 2;
  c.route_scale = 2.5;
  const auto r = route(c, {0.0, 1.0, -1.0, 2.0}, {0.0, -1.0, 0.5, 0.0});
  // The scores with bias are 0.5, -0.27, 0.77, 0.88: experts 2 and 3 are chosen, weighted by their scores without bias.
  EXPECT_EQ(r->a.ids, (Ids{2, 3}));
  const double s2 = sigmoid(-1), s3 = sigmoid(2);
  EXPECT_NEAR(r->a.mix.data[0], 2.5 * s2 / (s2 + s3), 1e-15);
  EXPECT_NEAR(r->a.mix.data[1], 2.5 * s3 / (s2 + s3), 1e-15);
  c.route_norm = false;
  EXPECT_NEAR(route(c, {0.0, 1.0, -1.0, 2.0}, {0.0, -1.0, 0.5, 0.0})->a.mix.data[0], 2.5 * s2, 1e-15);
}

TEST(RouterForward, SoftmaxScoresSumToOne) {
  RouterConfig c;
  c.score_func = ScoreFunc::softmax;
  const auto r = route(c, {std::log(1.0), std::log(2.0), std::log(5.0)}, {0, 0, 0});
  EXPECT_NEAR(r->a.scores.data[0], 0.125, 1e-15);
  EXPECT_NEAR(r->a.scores.data[2], 0.625, 1e-15);
}

TEST(RouterForward, ForcedBalanceGoesRound) {
  RouterConfig c;
  c.top_k = 2;
  c.force_balance = true;
  const auto r = route(c, {3, 0, 0, 0, 0}, {9, 0, 0, 0, 0}, 3);
  EXPECT_EQ(r->a.ids, (Ids{0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(r->a.tokens_per_expert, (std::vector<std::uint32_t>{2, 1, 1, 1, 1}));
  EXPECT_NEAR(r->a.mix.data[5], sigmoid(3) / (sigmoid(3) + 0.5), 1e-15);
}

TEST(RouterForward, AuxiliaryLossIsItsCoefficientWhenBalanced) {
  RouterConfig c;
  c.top_k = 1;
  c.force_balance = true;
  c.aux_mode = AuxMode::sequence;
  c.aux_coeff = 0.01;
  EXPECT_NEAR(route(c, {1, 1, 1, 1}, {0, 0, 0, 0}, 8)->a.aux_loss, 0.01, 1e-15);
  c.force_balance = false;  // all on expert 0: f_0 = 4, P_0 = 1/4
  EXPECT_NEAR(route(c, {1, 1, 1, 1}, {0, 0, 0, 0}, 8)->a.aux_loss, 0.01, 1e-15);
  const double p = sigmoid(2) / (sigmoid(2) + 3 * 0.5);
  EXPECT_NEAR(route(c, {2, 0, 0, 0}, {0, 0, 0, 0}, 8)->a.aux_loss, 0.01 * 4 * p, 1e-15);
}

// The explain card of the auxiliary loss states this.
TEST(RouterForward, AnEvenBatchOfUnevenSequencesIsAboveTheCoefficientBySequence) {
  RouterConfig c;
  c.top_k = 1;
  c.aux_coeff = 0.01;
  const auto loss_of = [&](AuxMode mode) {
    c.aux_mode = mode;
    Routed routed;
    const BatchPart two{2, 4};  // sequences of four tokens
    routed.a.plan(routed.arena, two, 2, c.top_k);
    routed.arena.commit();
    const std::vector<double> gate{2, -2}, bias{0, 0}, h{1, 1, 1, 1, -1, -1, -1, -1};
    router_forward<double>(c, two, {{gate.data(), 2, 1}, {h.data(), 8, 1}, bias}, routed.a);
    EXPECT_EQ(routed.a.tokens_per_expert, (std::vector<std::uint32_t>{4, 4}));
    return routed.a.aux_loss;
  };
  EXPECT_NEAR(loss_of(AuxMode::batch), 0.01, 1e-15);
  EXPECT_NEAR(loss_of(AuxMode::sequence), 0.01 * 2 * sigmoid(2) / (sigmoid(2) + sigmoid(-2)), 1e-15);
}

// f_e counts the chosen experts, bias included. The top K of the scores without bias, as in DeepSeek's formula, would
// give another loss.
TEST(RouterForward, TheAuxiliaryLossCountsTheBiasedChoice) {
  RouterConfig c;
  c.top_k = 1;
  c.aux_mode = AuxMode::sequence;
  c.aux_coeff = 1;
  const double p1 = sigmoid(0) / (sigmoid(1) + sigmoid(0));
  EXPECT_NEAR(route(c, {1, 0}, {0, 0.5}, 8)->a.aux_loss, 2 * p1, 1e-15);  // 2 (1 - p1) without bias: expert 0
}

TEST(RouterForward, ZLossIsTheSquaredLogSumExp) {
  RouterConfig c;
  c.z_coeff = 0.5;
  const double lse = std::log(std::exp(1.0) + std::exp(-2.0) + 1);
  EXPECT_NEAR(route(c, {1, -2, 0}, {0, 0, 0}, 4)->a.z_loss, 0.5 * lse * lse, 1e-15);
}

std::vector<double> updated(std::vector<std::uint32_t> counts, bool centring) {
  std::vector<double> bias(counts.size(), 1.0);
  move_expert_bias<double>(bias, bias_directions(counts), 0.1, centring);
  return bias;
}

TEST(ExpertBias, MovesAgainstTheLoad) {
  // The mean is 4: the loads are above it, equal to it, below it and below it.
  const std::vector<double> plain = updated({9, 4, 2, 1}, false);
  EXPECT_DOUBLE_EQ(plain[0], 0.9);
  EXPECT_DOUBLE_EQ(plain[1], 1.0);  // sign(0) = 0
  EXPECT_DOUBLE_EQ(plain[2], 1.1);
  EXPECT_DOUBLE_EQ(plain[3], 1.1);
  // The mean of the update, 0.1 / 4, is subtracted.
  const std::vector<double> centred = updated({9, 4, 2, 1}, true);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_NEAR(centred[e], plain[e] - 0.025, 1e-15);
}

TEST(ExpertBias, ComparesWithTheExactMean) {
  const std::vector<double> bias = updated({3, 3, 4}, false);  // mean 10/3
  EXPECT_DOUBLE_EQ(bias[0], 1.1);
  EXPECT_DOUBLE_EQ(bias[2], 0.9);
  EXPECT_EQ(updated({5, 5, 5}, true), (std::vector<double>{1, 1, 1}));
}

// arXiv:2408.15664, section 4.3: b_i += u e_i, e_i: the mean load minus the expert's, here divided by the mean.
TEST(ExpertBias, MovesInProportionToTheShortfall) {
  const std::vector<std::uint32_t> counts = {9, 4, 2, 1};  // mean 4
  EXPECT_EQ(relative_shortfalls(counts), (std::vector<double>{-1.25, 0, 0.5, 0.75}));
  std::vector<double> bias(4, 1.0);
  move_expert_bias<double>(bias, relative_shortfalls(counts), 0.1, false);
  EXPECT_DOUBLE_EQ(bias[0], 0.875);
  EXPECT_DOUBLE_EQ(bias[1], 1.0);
  EXPECT_DOUBLE_EQ(bias[3], 1.075);
  const std::vector<std::uint32_t> doubled = {18, 8, 4, 2};
  EXPECT_EQ(relative_shortfalls(doubled), relative_shortfalls(counts)) << "whatever the size of the batch";
}

TEST(ExpertBias, ShortfallsSkipKilledExperts) {
  const std::vector<std::uint8_t> killed = {1, 0, 0, 0};
  EXPECT_EQ(relative_shortfalls(std::vector<std::uint32_t>{0, 8, 4, 0}, killed), (std::vector<double>{0, -1, 0, 1}));
  EXPECT_EQ(relative_shortfalls(std::vector<std::uint32_t>{0, 0}), (std::vector<double>{0, 0}));
}

TEST(RouterForward, SqrtSoftplusScores) {
  RouterConfig c;
  c.score_func = ScoreFunc::sqrtsoftplus;
  const auto r = route(c, {0, 1, 30, -30, 1000, -1000}, {0, 0, 0, 0, 0, 0});
  EXPECT_NEAR(r->a.scores.data[0], std::sqrt(std::log(2.0)), 1e-15);
  EXPECT_NEAR(r->a.scores.data[1], std::sqrt(std::log(1 + std::exp(1.0))), 1e-15);
  EXPECT_NEAR(r->a.scores.data[2], std::sqrt(30.0), 1e-12);
  EXPECT_NEAR(r->a.scores.data[3], std::exp(-15.0), 1e-20);
  EXPECT_NEAR(r->a.scores.data[4], std::sqrt(1000.0), 1e-12);
  EXPECT_EQ(r->a.scores.data[5], 0);
}

// One token, top 2 of 4, scores of sqrt(softplus) far above 1.
TEST(RouterSums, ScoresWithoutAnUpperEndHaveBinsAboveOne) {
  RouterActivations<float> a;
  std::vector<float> scores{0.5f, 3.0f, 1.0f, 40.0f}, mix{0.5f, 0.5f}, margin{2.0f};
  a.scores = {scores.data(), 1, 4};
  a.mix = {mix.data(), 1, 2};
  a.margin = margin;
  a.ids = {1, 3};
  RouterConfig c;
  c.top_k = 2;
  c.score_func = ScoreFunc::sqrtsoftplus;
  const RouterFrame wide = sum_router(c, a);
  ASSERT_EQ(wide.score_chosen.size(), static_cast<std::size_t>(kWideHalfOctaves));
  EXPECT_EQ(wide.score_chosen[43], 1u);    // 2.83 to 4
  EXPECT_EQ(wide.score_chosen[47], 1u);    // from 11.3 on
  EXPECT_EQ(wide.score_rejected[38], 1u);  // 0.5 to 0.71
  EXPECT_EQ(wide.score_rejected[40], 1u);  // 1 to 1.41
  EXPECT_EQ(wide.margin_tokens[42], 1u);   // 2 to 2.83
  c.score_func = ScoreFunc::sigmoid;
  EXPECT_EQ(sum_router(c, a).score_chosen.size(), static_cast<std::size_t>(kHalfOctaves));
  EXPECT_EQ(sum_router(c, a).margin_tokens[39], 1u);
  c.balance_rule = BalanceRule::quantile_microbatch;  // margins are those of gate outputs
  EXPECT_EQ(sum_router(c, a).margin_tokens[42], 1u);
}

// 400 tokens, top 2 of 5, random scores. The share of an expert at its own bias is its load. The bias of its fair share
// is that of quantile balancing, up to the width of a bin of its histogram and the mean over the experts.
TEST(RouterSums, BiasesForSharesAreTheQuantilesThatBalance) {
  constexpr std::size_t tokens = 400, experts = 5, top_k = 2;
  RouterConfig c;
  c.top_k = top_k;
  std::mt19937 rng(7);
  std::vector<float> scores(tokens * experts), cutoff(tokens), bias{0.1f, -0.05f, 0, 0.02f, -0.07f};
  std::vector<int> load(experts);
  RouterActivations<float> a;
  a.ids.resize(tokens * top_k);
  for (std::size_t t = 0; t < tokens; ++t) {
    std::vector<float> choice(experts);
    for (std::size_t e = 0; e < experts; ++e) {
      scores[t * experts + e] = std::uniform_real_distribution<float>(0, e == 1 ? 1.0f : 0.8f)(rng);
      choice[e] = scores[t * experts + e] + bias[e];
    }
    cutoff[t] = choose_experts<float>(c, choice, std::span(a.ids).subspan(t * top_k, top_k)).cutoff;
    for (std::size_t j = 0; j < top_k; ++j) ++load[static_cast<std::size_t>(a.ids[t * top_k + j])];
  }
  a.scores = {scores.data(), tokens, experts};
  a.cutoff = cutoff;
  const std::vector<float> biases = biases_for_shares(c, a);
  ASSERT_EQ(biases.size(), experts * kBiasShares);
  std::vector<float> balanced = bias;
  const auto bins = quantile_bins<float>(bias, kQuantileBins);
  std::vector<std::uint32_t> counts(experts * kQuantileBins);
  const Matrix<std::uint32_t> table(counts.data(), experts, kQuantileBins);
  count_distances<float>(bins, {scores.data(), tokens, experts}, cutoff, table);
  bias_from_counts<float>(bins, table, top_k, balanced);
  float mean = 0;
  for (std::size_t e = 0; e < experts; ++e) mean += biases[e * kBiasShares + kFairShare] / experts;
  for (std::size_t e = 0; e < experts; ++e) {
    const std::span expert_biases(biases.data() + e * kBiasShares, kBiasShares);
    EXPECT_TRUE(std::ranges::is_sorted(expert_biases));
    const double below = static_cast<double>(bias[e]) - 1e-6;  // excludes tokens of which it is the best rejected
    EXPECT_NEAR(share_at_bias(expert_biases, top_k, experts, below), load[e] / 400.0, 0.05) << e;
    EXPECT_NEAR(expert_biases[kFairShare] - mean, balanced[e], 2 * bins.width) << e;
  }
  cutoff[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(biases_for_shares(c, a).empty()) << "a token to which nobody gave a choice";
}

TEST(RouterForward, CutoffIsTheBestRejectedChoice) {
  RouterConfig c;
  c.top_k = 2;
  EXPECT_NEAR(route(c, {0, 1, 2, 3}, {0, 0.5, 0, 0})->a.cutoff[0], sigmoid(2), 1e-15);
  c.balance_rule = BalanceRule::quantile_microbatch;  // of gate outputs
  EXPECT_EQ(route(c, {0, 1, 2, 3}, {0, 0.5, 0, 0})->a.cutoff[0], 1.5);
  c.top_k = 4;
  EXPECT_TRUE(std::isnan(route(c, {0, 1, 2, 3}, {0, 0.5, 0, 0})->a.cutoff[0]));
}

// Four tokens and two experts, top 1: expert 0 is ahead by 0.1 to 0.4. Half the tokens choose expert 1 if its bias is
// between 0.2 and 0.3 above that of expert 0.
class QuantilesOfTwo : public testing::Test {
 protected:
  const std::vector<double> scores_ = {0.5, 0.4, 0.5, 0.3, 0.5, 0.2, 0.5, 0.1};
  const std::vector<double> cutoff_ = {0.4, 0.3, 0.2, 0.1};  // without a bias, the lower of the two scores
  std::vector<double> bias_ = {0, 0};
};

TEST_F(QuantilesOfTwo, OfTheGlobalBatch) {
  const auto bins = quantile_bins<double>(bias_, 1000);
  std::vector<std::uint32_t> counts(2000);
  const Matrix<std::uint32_t> table(counts.data(), 2, 1000);
  count_distances<double>(bins, {scores_.data(), 4, 2}, cutoff_, table);
  bias_from_counts<double>(bins, table, 1, bias_);
  EXPECT_EQ(bias_[0], -bias_[1]);
  EXPECT_GE(bias_[1] - bias_[0], 0.2 - bins.width);
  EXPECT_LE(bias_[1] - bias_[0], 0.3 + bins.width);
}

TEST_F(QuantilesOfTwo, OfAMicrobatch) {
  std::vector<double> local(2);
  bias_of_microbatch<double>({scores_.data(), 4, 2}, cutoff_, 1, local);
  // Expert 0 keeps the two tokens in which it is farthest ahead; in the next it is 0.2 ahead. Expert 1 is never ahead
  // of its own score.
  EXPECT_NEAR(local[0], -0.2, 1e-15);
  EXPECT_EQ(local[1], 0);
  follow_bias<double>(local, 0.5, bias_);
  EXPECT_NEAR(bias_[1] - bias_[0], 0.1, 1e-15);
  EXPECT_NEAR(bias_[1] + bias_[0], 0, 1e-15);
}

TEST_F(QuantilesOfTwo, AKilledExpertKeepsItsBiasAndIsInNoMean) {
  const std::vector<double> scores = {0.5, 0.4, 9, 0.5, 0.3, 9, 0.5, 0.2, 9, 0.5, 0.1, 9};
  const std::uint8_t killed[] = {0, 0, 1};
  std::vector<double> with = {0, 0, 7}, local(3);
  bias_of_microbatch<double>({scores.data(), 4, 3}, cutoff_, 1, local, killed);
  follow_bias<double>(local, 0, with, killed);
  EXPECT_EQ(with[2], 7);
  EXPECT_NEAR(with[1] - with[0], 0.2, 1e-15);
  const auto bins = quantile_bins<double>(with, 1000, killed);
  EXPECT_NEAR(bins.lowest, with[0] - 1, 1e-15);
  std::vector<std::uint32_t> counts(3000);
  const Matrix<std::uint32_t> table(counts.data(), 3, 1000);
  count_distances<double>(bins, {scores.data(), 4, 3}, cutoff_, table);
  bias_from_counts<double>(bins, table, 1, with, killed);
  EXPECT_EQ(with[2], 7);
  EXPECT_NEAR(with[0] + with[1], 0, 1e-12);
}

TEST(TokenDrop, TheLargestGatesOfAnExpertStay) {
  const Ids ids = {0, 1, 0, 1, 0, 2, 0, 2};
  std::vector<double> mix = {0.1, 0.9, 0.4, 0.6, 0.3, 0.7, 0.4, 0.6};
  EXPECT_EQ(expert_capacity(4, 2, 3, 0.75), 2);
  Ids sent = ids;
  drop_beyond_capacity<double>(TokenDrop::probs, 3, 2, {sent.data(), 4, 2}, {mix.data(), 4, 2});
  EXPECT_EQ(sent, (Ids{-1, 1, 0, 1, -1, 2, 0, 2}));
  EXPECT_EQ(mix, (std::vector<double>{0, 0.9, 0.4, 0.6, 0, 0.7, 0.4, 0.6}));
  sent = ids;
  drop_beyond_capacity<double>(TokenDrop::position, 3, 2, {sent.data(), 4, 2}, {mix.data(), 4, 2});
  EXPECT_EQ(sent, (Ids{0, 1, 0, 1, -1, 2, -1, 2}));
}

TEST(TokenDrop, DroppedCopiesAreRoutedButNotSent) {
  RouterConfig c;
  c.top_k = 1;
  c.token_drop = TokenDrop::position;
  c.capacity_factor = 1.5;  // 6 tokens, 3 experts: at most 3 copies each
  const auto r = route(c, {3, 0, 0}, {0, 0, 0}, 6);
  EXPECT_EQ(r->a.ids, (Ids{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(r->a.sent(), (Ids{0, 0, 0, -1, -1, -1}));
  EXPECT_EQ(r->a.tokens_per_expert, (std::vector<std::uint32_t>{6, 0, 0}));
  EXPECT_EQ(r->a.rows_per_expert, (std::vector<std::uint32_t>{3, 0, 0}));
  EXPECT_GT(r->a.mix.data[2], 0);
  EXPECT_EQ(r->a.mix.data[3], 0);
}

TEST(ExpertTable, GivesEveryTokenIdExpertsOfItsOwn) {
  const ExpertTable table(7, 1, 256, 8, 3);
  std::vector<std::int32_t> bytes(256), ids, two_ids;
  std::iota(bytes.begin(), bytes.end(), 0);
  table.look_up(bytes, ids);
  std::vector<int> load(8);
  for (std::size_t v = 0; v < 256; ++v) {
    const std::set<std::int32_t> row(ids.begin() + static_cast<std::ptrdiff_t>(3 * v),
                                     ids.begin() + static_cast<std::ptrdiff_t>(3 * v + 3));
    EXPECT_EQ(row.size(), 3u);
    for (const std::int32_t e : row) ++load.at(static_cast<std::size_t>(e));
  }
  for (const int n : load) EXPECT_NEAR(n, 96, 40);
  table.look_up(std::vector<std::int32_t>{65, 65}, two_ids);
  EXPECT_TRUE(std::equal(two_ids.begin(), two_ids.begin() + 3, two_ids.begin() + 3));
  EXPECT_TRUE(std::equal(two_ids.begin(), two_ids.begin() + 3, ids.begin() + 3 * 65));
  std::vector<std::int32_t> other;
  ExpertTable(7, 2, 256, 8, 3).look_up(bytes, other);
  EXPECT_NE(other, ids) << "another layer's table";
}

}  // namespace
}  // namespace moescope
