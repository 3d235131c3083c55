// Faults of training programs that no setting shows: the watches find them, and find none where there are none.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_toml.h"
#include "core/findings/fault_watch.h"
#include "tests/support/made_up_run.h"

namespace moescope {
namespace {

using MadeUpShares = MadeUp::Shares;

constexpr FindingKind kFaults[] = {FindingKind::stale_bias, FindingKind::flat_auxiliary, FindingKind::unchanged_experts,
                                   FindingKind::shared_excess, FindingKind::counted_twice};

std::size_t count_of_kind(const std::vector<Finding>& findings, FindingKind kind) {
  return findings_of_kind(findings, kind).size();
}

MadeUpShares uneven_shares() {
  MadeUpShares shares = MadeUp::even();
  for (std::size_t e = 0; e < shares.size(); ++e) shares[e] = 0.5 + 0.1 * static_cast<double>(e);
  shares[3] = 4;
  return shares;
}

// --- our own runs, with the fault and without ---

std::vector<Finding> nano_findings(const std::function<void(RunConfig&)>& change, int steps = 310) {
  RunConfig config = load_preset("nano").config;
  config.telemetry.specialisation_every = 10;
  config.telemetry.texts_every = config.telemetry.flips_every = 0;
  config.telemetry.sample_every = 0;
  change(config);
  return find_all(trained(config, steps));
}

TEST(Faults, ARightTrainingHasNone) {
  const auto plain = nano_findings([](RunConfig&) {});
  const auto by_loss = nano_findings([](RunConfig& c) {
    c.router.score_func = ScoreFunc::softmax;
    c.router.bias_update_rate = 0;
    c.router.aux_mode = AuxMode::batch;
    c.router.aux_coeff = 0.1;
  });
  for (const auto& findings : {plain, by_loss})
    for (const FindingKind kind : kFaults) EXPECT_EQ(count_of_kind(findings, kind), 0u) << all_text(findings);
}

TEST(Faults, ABiasThatIsNeverUpdatedIsFound) {
  const auto stale = [](RunConfig& c) { c.router.fault_stale_bias = true; };
  const auto findings = nano_findings(stale);
  EXPECT_GT(count_of_kind(findings, FindingKind::stale_bias), 0u) << all_text(findings);
  const auto no_rate = nano_findings([&](RunConfig& c) {
    stale(c);
    c.router.bias_update_rate = 0;
  });
  EXPECT_EQ(count_of_kind(no_rate, FindingKind::stale_bias), 0u) << "it is not to move";
  const auto frozen = nano_findings([&](RunConfig& c) { c.router.frozen = true; });
  EXPECT_EQ(count_of_kind(frozen, FindingKind::stale_bias), 0u) << all_text(frozen);
}

TEST(Faults, ABiasInBf16FarFromZeroIsFound) {
  const auto findings = nano_findings([](RunConfig& c) {
    c.router.initial_bias = "*:0=7,*:1=7,*:2=7,*:3=7,*:4=7,*:5=7,*:6=7,*:7=7";
    c.router.bias_format = StoredFormat::bf16;
  });
  EXPECT_GT(count_of_kind(findings, FindingKind::stale_bias), 0u) << all_text(findings);
}

TEST(Faults, ExpertsThatTheOptimizerDoesNotHaveAreFound) {
  const auto findings = nano_findings([](RunConfig& c) { c.optimizer.fault_missing_experts = "1:2, 1:5"; }, 210);
  const auto unchanged = findings_of_kind(findings, FindingKind::unchanged_experts);
  ASSERT_EQ(unchanged.size(), 1u) << all_text(findings);
  EXPECT_EQ(unchanged[0].layers, std::vector<int>{1});
  EXPECT_EQ(unchanged[0].experts, (std::vector<int>{2, 5}));
  EXPECT_NE(unchanged[0].observation.find("although they have a gradient"), std::string::npos)
      << unchanged[0].observation;
  const auto all =
      nano_findings([](RunConfig& c) { c.optimizer.fault_missing_experts = "2:0,2:1,2:2,2:3,2:4,2:5,2:6,2:7"; }, 210);
  ASSERT_EQ(count_of_kind(all, FindingKind::unchanged_experts), 1u) << all_text(all);
  EXPECT_EQ(findings_of_kind(all, FindingKind::unchanged_experts)[0].title,
            "Layer 2: the weights of all experts are unchanged");
}

TEST(Faults, TokensThatAreCountedTwiceAreFound) {
  const auto findings = nano_findings([](RunConfig& c) { c.router.fault_recount = true; }, 210);
  EXPECT_EQ(count_of_kind(findings, FindingKind::counted_twice),
            load_preset("nano").config.model.n_layers - load_preset("nano").config.model.n_dense_layers)
      << all_text(findings);
}

// --- logs ---

// A log of another program: the settings that it states, and a bias and an auxiliary loss for each layer.
struct LoggedRun {
  explicit LoggedRun(const std::string& settings) { run.history()->append(Marker{0, 0, kSettingsMarker, settings}); }
  void steps(int n, const std::function<void(int step, RouterFrame&)>& change,
             const MadeUpShares& shares = uneven_shares()) {
    for (int i = 0; i < n; ++i) {
      TelemetryFrame& frame = run.next();
      frame.aux_loss = aux_of_all;
      frame.routers = {run.router(1, shares), run.router(2, MadeUp::even())};
      change(i, frame.routers[0]);
      run.push();
    }
  }
  std::vector<Finding> findings() const { return find_all(run.history()); }
  MadeUp run;
  float aux_of_all = kNoValue;
};

TEST(FaultsInLogs, ABiasThatStandsStillIsFound) {
  for (const bool moves : {false, true})
    for (const char* rate : {"0.001", "0"}) {
      LoggedRun log(std::string(R"({"moe_router_bias_update_rate": )") + rate + "}");
      log.steps(260, [&](int step, RouterFrame& router) {
        router.expert_bias.assign(MadeUp::kExperts, 0.25f);
        if (moves) router.expert_bias[3] -= 0.001f * static_cast<float>(step);
      });
      const bool wrong = !moves && std::string(rate) != "0";
      EXPECT_EQ(count_of_kind(log.findings(), FindingKind::stale_bias), wrong ? 1u : 0u) << all_text(log.findings());
    }
}

TEST(FaultsInLogs, OnlyTwiceTheSlotsIsFound) {
  for (const std::uint32_t times : {1u, 2u, 3u, 8u}) {
    LoggedRun log("{}");
    log.steps(260, [&](int, RouterFrame& router) {
      router.tokens_per_expert.assign(MadeUp::kExperts, times * MadeUp::kTokens * MadeUp::kTopK / MadeUp::kExperts);
    });
    const auto found = findings_of_kind(log.findings(), FindingKind::counted_twice);
    ASSERT_EQ(found.size(), times == 2 ? 1u : 0u) << times;
    if (times == 2) {
      EXPECT_EQ(found[0].observation, "The counts of a step add up to 4,096. Tokens of a step times top_k are 2,048.");
    }
  }
}

TEST(FaultsInLogs, AnEvenLoadNeedsNoMove) {
  LoggedRun log(R"({"load_balance_coeff": 0.001})");
  log.steps(
      260, [](int, RouterFrame& router) { router.expert_bias.assign(MadeUp::kExperts, 0.0f); }, MadeUp::even());
  EXPECT_EQ(count_of_kind(log.findings(), FindingKind::stale_bias), 0u) << all_text(log.findings());
}

TEST(FaultsInLogs, AnAuxiliaryLossThatIsFlatOrZeroIsFound) {
  struct AuxLogCase {
    float value, swing;
    bool wrong;
  };
  for (const auto& [value, swing, wrong] : {AuxLogCase{0, 0, true}, {0.0100f, 0, true}, {0.0131f, 0.0008f, false}}) {
    LoggedRun log(R"({"router_aux_loss_coef": 0.01})");
    log.steps(260, [value = value, swing = swing](int step, RouterFrame& router) {
      router.aux_loss = value + swing * std::sin(0.1f * static_cast<float>(step));
      router.mutual_information = 0.1f;
    });
    EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), wrong ? 1u : 0u) << value;
  }
  LoggedRun off(R"({"router_aux_loss_coef": 0})");
  off.steps(260, [](int, RouterFrame& router) { router.aux_loss = 0; });
  EXPECT_EQ(count_of_kind(off.findings(), FindingKind::flat_auxiliary), 0u) << "it is not set";
}

TEST(FaultsInLogs, AFlatAuxiliaryLossIsNotEndedByAFewEvenLoads) {
  LoggedRun log(R"({"router_aux_loss_coef": 0.01})");
  const auto flat = [](int, RouterFrame& router) { router.aux_loss = 0.01f; };
  for (const MadeUpShares& shares : {uneven_shares(), MadeUp::even(), uneven_shares()}) log.steps(100, flat, shares);
  EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), 1u) << all_text(log.findings());
  log.steps(
      110, [](int step, RouterFrame& router) { router.aux_loss = 0.01f + 1e-4f * static_cast<float>(step); },
      MadeUp::even());
  EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), 0u) << "the loss varies";
}

TEST(FaultsInLogs, AFlatAuxiliaryLossEndsWithALastingEvenLoad) {
  LoggedRun log(R"({"router_aux_loss_coef": 0.01})");
  const auto flat = [](int, RouterFrame& router) { router.aux_loss = 0.01f; };
  log.steps(200, flat);
  EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), 1u) << all_text(log.findings());
  log.steps(50 * (kEvenWindows + 2), flat, MadeUp::even());
  EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), 0u) << all_text(log.findings());
}

TEST(FaultsInLogs, AnAuxiliaryLossOfAllLayersCountsWhereItIsZero) {
  for (const float value : {0.0f, 0.02f}) {
    LoggedRun log(R"({"router_aux_loss_coef": 0.01})");
    log.aux_of_all = value;
    log.steps(260, [](int, RouterFrame&) {});
    const auto found = findings_of_kind(log.findings(), FindingKind::flat_auxiliary);
    ASSERT_EQ(found.size(), value == 0 ? 1u : 0u) << all_text(log.findings());
    if (value == 0) {
      EXPECT_EQ(found[0].layers, std::vector<int>{1}) << "the load of the other is even";
    }
  }
}

// The counts and scores of the log give the loss that is expected: 1.16 times its value at an even load.
TEST(FaultsInLogs, AnAuxiliaryLossThatIsTooSmallForTheLoadIsFound) {
  for (const float factor : {1.01f, 1.16f, 2.02f, 2.32f}) {  // with K = 2: other programs multiply by K
    LoggedRun log(R"({"router_aux_loss_coef": 0.01})");
    log.steps(260, [factor](int step, RouterFrame& router) {
      router.aux_loss = 0.01f * factor * (1 + 0.004f * static_cast<float>(step % 50 == 0 ? step / 50 : 1));
      for (const std::uint32_t n : router.tokens_per_expert)
        router.score_mass.push_back(0.5f / MadeUp::kExperts +
                                    0.5f * static_cast<float>(n) / (MadeUp::kTokens * MadeUp::kTopK));
    });
    const bool wrong = factor == 1.01f || factor == 2.02f;
    EXPECT_EQ(count_of_kind(log.findings(), FindingKind::flat_auxiliary), wrong ? 1u : 0u) << factor;
  }
}

// With one expert per token and normalized weights, an expert's share of the weights equals its share of the tokens.
TEST(FaultsInLogs, MixingWeightsThatAreConstantAreFound) {
  for (const double weight : {1.0, 1.01, 0.0}) {  // weight of expert 3; 0: not logged
    LoggedRun log("{}");
    log.steps(260, [&](int, RouterFrame& router) {
      double sum = 0;
      for (std::size_t e = 0; weight > 0 && e < router.tokens_per_expert.size(); ++e)
        sum += router.tokens_per_expert[e] * (e == 3 ? weight : 1);
      for (std::size_t e = 0; weight > 0 && e < router.tokens_per_expert.size(); ++e)
        router.gate_mass.push_back(static_cast<float>(router.tokens_per_expert[e] * (e == 3 ? weight : 1) / sum));
    });
    EXPECT_EQ(count_of_kind(log.findings(), FindingKind::no_gradient), weight == 1 ? 1u : 0u) << weight;
  }
}

TEST(FaultsInLogs, KExpertsWithOneExcessAreFound) {
  MadeUpShares padded = MadeUp::even();
  for (std::size_t e = 0; e < padded.size(); ++e) padded[e] += 0.05 * std::sin(static_cast<double>(e));
  padded[4] = padded[9] = 2.2;
  MadeUpShares two_hot = padded;
  two_hot[9] = 1.7;  // another excess
  MadeUpShares three = padded;
  three[12] = 2.2;  // more than a token uses
  for (const auto& [shares, wrong] :
       {std::pair{padded, true}, {two_hot, false}, {three, false}, {uneven_shares(), false}}) {
    LoggedRun log("{}");
    log.steps(
        260, [](int, RouterFrame&) {}, shares);
    const auto found = findings_of_kind(log.findings(), FindingKind::shared_excess);
    ASSERT_EQ(found.size(), wrong ? 1u : 0u) << all_text(log.findings());
    if (wrong) {
      EXPECT_EQ(found[0].experts, (std::vector<int>{4, 9}));
    }
  }
}

// A log with the norms of each expert's gradient and change, which moescope_log.py writes on request.
TEST(FaultsInLogs, ExpertsThatDoNotChangeAreFound) {
  for (const bool has_gradients : {true, false}) {
    MadeUp run;
    for (int step = 0; step < 260; ++step) {
      TelemetryFrame& frame = run.next();
      frame.lr = 1e-3f;
      frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
      if (step % 20 == 0) {
        for (const int layer : {1, 2}) {
          SpecialisationFrame& special = frame.specialisation.emplace_back();
          special.layer = layer;
          special.experts = MadeUp::kExperts;
          special.update_norm_E.assign(MadeUp::kExperts, 0.01f);
          if (has_gradients) special.gradient_norm_E.assign(MadeUp::kExperts, 0.5f);
        }
        frame.specialisation[0].update_norm_E[7] = 0;
      }
      run.push();
    }
    const auto found = findings_of_kind(find_all(run.history()), FindingKind::unchanged_experts);
    ASSERT_EQ(found.size(), 1u) << all_text(find_all(run.history()));
    EXPECT_EQ(found[0].layers, std::vector<int>{1});
    EXPECT_EQ(found[0].experts, std::vector<int>{7});
  }
}

}  // namespace
}  // namespace moescope
