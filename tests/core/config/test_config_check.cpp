// Configs that are refused: each rule by itself, memory, and values far outside their ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/numerics/number_format.h"
#include "tests/support/configs.h"

namespace moescope {
namespace {

struct RuleCase {
  const char* key;
  void (*spoil)(RunConfig&);
};
class Rules : public testing::TestWithParam<RuleCase> {};
TEST_P(Rules, AreCheckedOnTheirOwn) {
  RunConfig config;
  ASSERT_EQ(all_text(validate(config)), "");
  GetParam().spoil(config);
  const auto problems = validate(config);
  ASSERT_EQ(problems.size(), 1u) << all_text(problems);
  EXPECT_EQ(problems[0].key, GetParam().key) << all_text(problems);
  const std::string& message = problems[0].message;
  EXPECT_TRUE(message.find("choose ") != message.npos || message.find("set only ") != message.npos) << message;
}
INSTANTIATE_TEST_SUITE_P(
    Config, Rules,
    testing::Values(RuleCase{"router.top_k", [](RunConfig& c) { c.router.top_k = 17; }},
                    RuleCase{"router.n_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 3;
                               c.router.n_limited_groups = 1;
                             }},
                    RuleCase{"router.n_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 16;
                               c.router.n_limited_groups = 4;
                             }},
                    RuleCase{"router.n_limited_groups", [](RunConfig& c) { c.router.n_limited_groups = 2; }},
                    RuleCase{"router.n_limited_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 4;
                               c.router.n_limited_groups = 5;
                             }},
                    RuleCase{"data.microbatches", [](RunConfig& c) { c.data.microbatches = 3; }},
                    RuleCase{"data.padding",
                             [](RunConfig& c) {
                               c.data.padding = 0.1;
                               c.router.balance_rule = BalanceRule::quantile_batch;
                             }},
                    RuleCase{"router.token_drop", [](RunConfig& c) { c.router.token_drop = TokenDrop::probs; }},
                    RuleCase{"model.shared_expert_gate",
                             [](RunConfig& c) {
                               c.model.shared_expert_gate = true;
                               c.model.n_shared = 0;
                             }},
                    RuleCase{"model.latent_norm", [](RunConfig& c) { c.model.latent_norm = true; }},
                    RuleCase{"model.latent_dim", [](RunConfig& c) { c.model.latent_dim = c.model.dim + 1; }},
                    RuleCase{"model.latent_dim",
                             [](RunConfig& c) {
                               c.model.latent_dim = 40;
                               c.precision.experts = Recipe::mxfp8_rceil;
                             }},
                    RuleCase{"router.replay", [](RunConfig& c) { c.router.replay = c.router.force_balance = true; }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.replay = true;
                               c.router.killed_experts = "*:0";
                             }},
                    RuleCase{"router.n_hash_layers", [](RunConfig& c) { c.router.n_hash_layers = 4; }},
                    RuleCase{"router.n_hash_layers",
                             [](RunConfig& c) {
                               c.router.n_hash_layers = 1;
                               c.router.force_balance = true;
                             }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.n_hash_layers = 1;
                               c.router.killed_experts = "2:3";
                             }},
                    RuleCase{"router.killed_experts", [](RunConfig& c) { c.router.killed_experts = "1:16"; }},
                    RuleCase{"router.killed_experts", [](RunConfig& c) { c.router.killed_experts = "0:1"; }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.killed_experts = "2:0, 2:1, 2:2";
                               c.router.top_k = 14;
                             }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.killed_experts = "*:4, *:5, *:6";
                               c.router.n_groups = 4;
                               c.router.n_limited_groups = 1;
                             }},
                    RuleCase{"router.pinned_bias", [](RunConfig& c) { c.router.pinned_bias = "2:3=1e9"; }},
                    RuleCase{"router.initial_bias", [](RunConfig& c) { c.router.initial_bias = "*:77=1"; }},
                    RuleCase{"model.outlier_channel",
                             [](RunConfig& c) {
                               c.model.outlier_channel = 128;
                               c.model.outlier_factor = 300;
                             }},
                    RuleCase{"data.mixture", [](RunConfig& c) { c.data.mixture = "klingon=1"; }},
                    RuleCase{"data.mixture",
                             [](RunConfig& c) {
                               c.data.generator = Generator::facts;
                               c.data.mixture = "code=1";
                             }},
                    RuleCase{"parallel.placement", [](RunConfig& c) { c.parallel.placement = "1:0,1"; }},
                    RuleCase{"data.mixture", [](RunConfig& c) { c.data.mixture = "*=0"; }},
                    RuleCase{"model.n_dense_layers", [](RunConfig& c) { c.model.n_dense_layers = 5; }},
                    RuleCase{"model.qk_rope_head_dim", [](RunConfig& c) { c.model.qk_rope_head_dim = 15; }},
                    RuleCase{"parallel.ranks", [](RunConfig& c) { c.parallel.ranks = 3; }},
                    RuleCase{"parallel.ranks",
                             [](RunConfig& c) {
                               c.parallel.ranks = 16;
                               c.data.batch = 1;
                               c.data.seq = 15;
                             }},
                    RuleCase{"parallel.ranks_per_node", [](RunConfig& c) { c.parallel.ranks_per_node = 3; }},
                    RuleCase{"optimizer.warmup_steps", [](RunConfig& c) { c.optimizer.warmup_steps = 2001; }},
                    RuleCase{"optimizer.lr_min", [](RunConfig& c) { c.optimizer.lr_min = 0.1; }},
                    RuleCase{"model.dim",
                             [](RunConfig& c) {
                               c.model.dim = 136;
                               c.precision.experts = Recipe::mxfp8_floor;
                             }},
                    RuleCase{"model.moe_inter",
                             [](RunConfig& c) {
                               c.model.moe_inter = 100;
                               c.precision.experts = Recipe::mxfp8_rceil;
                             }},
                    RuleCase{"model.dense_inter",
                             [](RunConfig& c) {
                               c.model.dense_inter = 392;
                               c.precision.dense_ffn = Recipe::nvfp4;
                             }},
                    RuleCase{"model.moe_inter",
                             [](RunConfig& c) {
                               c.model.moe_inter = 112;
                               c.precision.shared_experts = Recipe::mxfp4;
                             }},
                    RuleCase{"precision.experts",
                             [](RunConfig& c) {
                               c.model.n_dense_layers = 4;
                               c.precision.experts = Recipe::mxfp8_rceil;
                             }},
                    RuleCase{"model.dim", [](RunConfig& c) {
                               c.model.dim = 8192;
                               c.model.moe_inter = 16384;
                               c.model.n_experts = 1024;
                             }}));

// NVFP4's blocks have half the length of MX's. Other scales, attention, gate and head take any length.
TEST(Rules, RecipesNeedDivisibleShapes) {
  RunConfig config;
  config.model.moe_inter = 112;
  config.precision.experts = config.precision.shared_experts = Recipe::nvfp4;
  config.precision.dense_ffn = config.precision.attention = config.precision.head = Recipe::mxfp8_rceil;
  config.precision.router_gate = Recipe::mxfp4;
  EXPECT_TRUE(validate(config).empty());
  config.model.moe_inter = 100;
  EXPECT_FALSE(validate(config).empty());
  config.precision.experts = config.precision.shared_experts = Recipe::fp8_deepseek_128;
  EXPECT_TRUE(validate(config).empty());
}

TEST(Rules, OverriddenOperandsNeedDivisibleShapes) {
  RunConfig config;
  config.model.moe_inter = 40;
  config.model.n_shared = 0;
  config.precision.experts = Recipe::bf16;
  EXPECT_EQ(all_text(validate(config)), "");
  const auto named = [](const char* name) {
    return std::ranges::find(named_formats(), std::string(name), &NamedFormat::name)->format;
  };
  for (const auto override_of :
       {&PrecisionConfig::override_x, &PrecisionConfig::override_w, &PrecisionConfig::override_dy}) {
    RunConfig overridden = config;
    overridden.precision.*override_of = named("mxfp4_e2m1");
    const std::string problems = all_text(validate(overridden));
    EXPECT_NE(problems.find("moe_inter is 40"), problems.npos) << problems;
    overridden.precision.experts = Recipe::fp32;  // which overrides leave as it is
    EXPECT_EQ(all_text(validate(overridden)), "");
  }
}
TEST(Rules, QuantileRuleRefusesUnsuitableSettings) {
  RunConfig config;
  config.router.balance_rule = BalanceRule::quantile_batch;
  EXPECT_TRUE(validate(config).empty());
  const auto refused = [&](auto change) {
    RunConfig changed = config;
    change(changed.router);
    return all_text(validate(changed));
  };
  EXPECT_EQ(refused([](RouterConfig& r) { r.score_func = ScoreFunc::softmax; }),
            "router.balance_rule: balance_rule is quantile_batch, whose histogram needs independent scores from 0 "
            "to 1: choose score_func sigmoid, or another rule\n");
  config.router.balance_rule = BalanceRule::quantile_sequence;
  EXPECT_FALSE(refused([](RouterConfig& r) { r.score_func = ScoreFunc::softmax; }).empty());
  for (const BalanceRule rule :
       {BalanceRule::quantile_batch, BalanceRule::quantile_sequence, BalanceRule::quantile_microbatch}) {
    config.router.balance_rule = rule;
    EXPECT_FALSE(refused([](RouterConfig& r) {
                   r.n_groups = 4;
                   r.n_limited_groups = 2;
                 }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.force_balance = true; }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.gate_noise = 0.1; }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.top_k = 16; }).empty());
    EXPECT_TRUE(refused([](RouterConfig& r) { r.n_groups = 4; }).empty());  // without a limit of groups
  }
  EXPECT_TRUE(refused([](RouterConfig& r) { r.score_func = ScoreFunc::softmax; }).empty());
  config.router.balance_rule = BalanceRule::proportional;  // has no quantiles
  EXPECT_TRUE(refused([](RouterConfig& r) {
                r.n_groups = 4;
                r.n_limited_groups = 2;
                r.gate_noise = 0.1;
              }).empty());
}

TEST(Rules, FourOverSixChoosesBetweenScalesOfTransformerEngine) {
  RunConfig config;
  config.precision.nvfp4_four_over_six = FourOverSixChoice::mae_256;
  for (const Nvfp4Rule rule : {Nvfp4Rule::divided, Nvfp4Rule::torchao, Nvfp4Rule::torchao_one_level}) {
    config.precision.nvfp4_rule = rule;
    EXPECT_EQ(all_text(validate(config)),
              "precision.nvfp4_four_over_six: nvfp4_four_over_six chooses between two scales of TransformerEngine: "
              "choose nvfp4_rule transformer_engine, or off\n");
  }
  config.precision.nvfp4_rule = Nvfp4Rule::transformer_engine;
  EXPECT_TRUE(validate(config).empty());
}

TEST(MemoryEstimate, OfMuonHasRoomForItsLargestMatrix) {
  RunConfig config;
  const double by_adamw = memory_estimate(config);
  config.optimizer.name = OptimizerName::muon;
  const double by_muon = memory_estimate(config);
  EXPECT_GT(by_muon, by_adamw);
  config.model.dense_inter *= 2;
  EXPECT_GT(memory_estimate(config) - by_muon, 0);
}

TEST(Rules, TooLittleReachableExperts) {
  RunConfig config;
  config.router.n_groups = 8;
  config.router.n_limited_groups = 2;
  config.router.top_k = 6;
  EXPECT_EQ(all_text(validate(config)),
            "router.n_limited_groups: n_limited_groups is 2, which leaves a token 4 experts, but top_k is 6: raise "
            "n_limited_groups or lower top_k\n");
}

TEST(Rules, WildValuesNeverCrash) {
  for (const ConfigField& field : config_fields()) {
    for (const std::int64_t wild :
         {std::int64_t{-2147483648}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{2147483647}}) {
      RunConfig config;
      const std::size_t type = field.get(config).index();
      if (type == 1) field.set(config, wild);
      if (type == 2) field.set(config, wild == 0 ? std::nan("") : double(wild) * 1e300);
      validate(config);
    }
  }
}

TEST(Memory, EstimateCountsParameters) {
  RunConfig v3;  // DeepSeek-V3, whose 671,026,404,352 parameters include 58 layers x 256 experts
  v3.model = {.vocab = 129280,
              .dim = 7168,
              .n_layers = 61,
              .n_dense_layers = 3,
              .dense_inter = 18432,
              .n_heads = 128,
              .q_lora_rank = 1536,
              .kv_lora_rank = 512,
              .qk_nope_head_dim = 128,
              .qk_rope_head_dim = 64,
              .v_head_dim = 128,
              .rope_theta = 1e4,
              .norm_eps = 1e-5,
              .n_experts = 256,
              .moe_inter = 2048,
              .n_shared = 1};
  EXPECT_EQ(parameter_count(v3), 671026404352.0);
  EXPECT_GT(memory_estimate(v3), 16 * 671026404352.0);
}

TEST(Memory, RefusalSaysHowMuch) {
  RunConfig config;
  config.model.dim = 8192;
  config.model.moe_inter = 16384;
  config.model.n_experts = 1024;
  const auto problems = validate(config);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].message.find(" GiB of memory, and this machine has "), std::string::npos)
      << problems[0].message;
}

}  // namespace
}  // namespace moescope
