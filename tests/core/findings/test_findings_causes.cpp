// Findings that must be reported, that must not get another name, and that a person caused by a change.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "core/config/config_toml.h"
#include "core/findings/explain/explain.h"
#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "core/frame/frame.h"
#include "core/frame/metrics.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/made_up_run.h"

namespace moescope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool tells(const Finding& finding, const std::string& words) {
  return (finding.title + finding.observation + finding.meaning).find(words) != std::string::npos;
}

// --- a loss that is no number ---

TEST(LossLost, IsFoundAfterTheLastWholeBlock) {
  MadeUp run;
  run.steps(23, MadeUp::even(), MadeUp::even());
  run.next().ce_loss = kNaN;
  run.push();
  FindingsScan scan(run.history());
  scan.advance(INT64_MAX);
  EXPECT_EQ(scan.read_steps(), (StepRange{0, 23}));
  const auto findings = scan.findings();
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::loss_not_finite);
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].steps, (StepRange{23, 23}));
  EXPECT_TRUE(findings[0].ongoing);
}

TEST(LossLost, IsNeverForgotten) {
  MadeUp run;
  run.steps(60, MadeUp::even(), MadeUp::even());
  for (int i = 0; i < 3; ++i) {
    run.next().ce_loss = kNaN;
    run.push();
  }
  run.steps(400, MadeUp::even(), MadeUp::even());
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::loss_not_finite);
  EXPECT_FALSE(findings[0].ongoing);
  EXPECT_EQ(findings[0].steps, (StepRange{60, 62}));
  EXPECT_FALSE(tells(findings[0], "contain NaN by now")) << findings[0].meaning;
}

TEST(LossLost, AnAuxiliaryLossCountsToo) {
  MadeUp run;
  run.steps(40, MadeUp::even(), MadeUp::even());
  run.next().aux_loss = kNaN;
  run.push();
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::loss_not_finite);
}

TEST(LossLost, WeightsHoldNaNOnlyWhereThatIsKnown) {
  const auto lost = [](const std::string& config, float grad_norm) {
    MadeUp run(config);
    run.steps(44, MadeUp::even(), MadeUp::even());
    TelemetryFrame& frame = run.next();
    frame.ce_loss = kNaN;
    frame.grad_norm = grad_norm;
    run.push();
    const auto found = findings_of_kind(find_all(run.history()), FindingKind::loss_not_finite);
    return found.size() == 1 ? found[0] : Finding{};
  };
  EXPECT_TRUE(tells(lost("[router]\ntop_k = 2\n", kNaN), "The weights contain NaN, so that"));
  EXPECT_FALSE(tells(lost("[router]\ntop_k = 2\n", 3), "contain NaN by now"));
  EXPECT_FALSE(tells(lost("", kNaN), "contain NaN by now"));  // another program may have left the step out
  EXPECT_TRUE(tells(lost("", kNaN), "This history does not show"));
}

TEST(LossLost, IsFoundWhereOldStepsHaveOnlyMeans) {
  RunInfo info;
  auto history = std::make_shared<History>(info, 1 << 20, 1 << 14);  // few single values are kept
  for (int step = 0; step < 20000; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = step == 1003 ? kNaN : static_cast<float>(1 + 4 * std::exp(-step / 300.0));
    history->append(std::move(frame));
  }
  ASSERT_TRUE(std::isfinite(history->values(Metric::ce_loss, kWholeRun, {1003, 1003}).front()));
  const auto found = findings_of_kind(find_all(history), FindingKind::loss_not_finite);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(static_cast<double>(found[0].steps.first), 1003, 300);
  EXPECT_FALSE(found[0].ongoing);
}

// --- what chance does ---

// Returns a trace with `tokens` tokens in each step, each of which chooses K of E experts at random.
HistoryPtr random_trace(int experts, int top_k, int tokens, int steps, unsigned seed) {
  RunInfo info;
  info.moe_layers = {0, 1};
  info.n_layers = 2;
  info.n_experts = experts;
  info.top_k = top_k;
  auto history = std::make_shared<History>(info);
  std::mt19937 rng(seed);
  std::vector<int> ids(static_cast<std::size_t>(experts));
  std::iota(ids.begin(), ids.end(), 0);
  for (int step = 0; step < steps; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    for (const int layer : info.moe_layers) {
      RouterFrame& router = frame->routers.emplace_back();
      router.layer = layer;
      router.tokens_per_expert.resize(ids.size());
      router.padding_fraction = 0;  // known, since these are counts
      for (int t = 0; t < tokens; ++t)
        for (std::size_t k = 0; k < static_cast<std::size_t>(top_k); ++k) {
          std::swap(ids[k], ids[k + rng() % (ids.size() - k)]);
          ++router.tokens_per_expert[static_cast<std::size_t>(ids[k])];
        }
      router.max_vio = max_vio(router.tokens_per_expert);
      router.entropy_norm = entropy_norm(router.tokens_per_expert);
    }
    history->append(std::move(frame));
  }
  return history;
}

TEST(Chance, UniformlyRandomExpertsHaveNoFinding) {
  struct Case {
    int experts, top_k, tokens, steps;
  };
  for (const Case c : {Case{64, 6, 1, 1500},
                       {256, 8, 8, 600},
                       {256, 8, 1, 2500},
                       {8, 1, 1, 1500},
                       {128, 8, 2, 800},
                       {16, 2, 64, 600}}) {
    const HistoryPtr trace = random_trace(c.experts, c.top_k, c.tokens, c.steps, 7);
    FindingsScan scan(trace);
    for (std::int64_t step = 99; step < c.steps; step += 100) {
      scan.advance(step);
      EXPECT_TRUE(scan.findings().empty())
          << c.experts << " experts, top " << c.top_k << ", " << c.tokens << " tokens, step " << step << "\n"
          << all_text(scan.findings());
    }
  }
}

TEST(Chance, ACollapseOfSmallBatchesIsStillSeen) {
  RunInfo info;
  info.moe_layers = {0};
  info.n_experts = 64;
  info.top_k = 6;
  auto history = std::make_shared<History>(info);
  std::mt19937 rng(3);
  for (int step = 0; step < 400; ++step) {  // one token a step: 6 of the same 9 experts
    std::vector<int> ids(9);
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::shuffle(ids, rng);
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    RouterFrame& router = frame->routers.emplace_back();
    router.layer = 0;
    router.tokens_per_expert.resize(64);
    for (std::size_t k = 0; k < 6; ++k) router.tokens_per_expert[static_cast<std::size_t>(ids[k])] = 1;
    router.max_vio = max_vio(router.tokens_per_expert);
    history->append(std::move(frame));
  }
  const auto found = findings_of_kind(find_all(history), FindingKind::collapsed);
  ASSERT_EQ(found.size(), 1u) << all_text(find_all(history));
  EXPECT_TRUE(tells(found[0], "8.9 of 64 experts")) << found[0].observation;
}

TEST(Chance, ExpertsThatTakeTurnsAreNoCollapse) {
  MadeUp run;
  for (int step = 0; step < 600; ++step) {
    MadeUp::Shares shares{};
    for (int k = 0; k < 2; ++k) shares[static_cast<std::size_t>((2 * step + k) % MadeUp::kExperts)] = 1;
    run.next().routers = {run.router(1, shares), run.router(2, MadeUp::even())};
    run.push();
  }
  EXPECT_TRUE(findings_of_kind(find_all(run.history()), FindingKind::collapsed).empty())
      << all_text(find_all(run.history()));
}

TEST(Chance, TheCardOfUtilisationGoesByTheNumberOfTokens) {
  EXPECT_EQ(std::string(find_metric("utilisation")->good).find("1.25"), std::string::npos);
  const auto note = [](int tokens) {
    const HistoryPtr trace = random_trace(16, 2, tokens, 2, 1);
    FigureTarget target{"utilisation"};
    target.layer = 0;
    target.expert = 3;
    target.step = 1;
    return explain_figure(*trace, target).note;
  };
  // The standard deviation is sqrt((1 - 1/8) / n), n = tokens / 8: 0.083 for 1,024 tokens, 0.33 for 64.
  EXPECT_NE(note(1024).find("between 0.83 and 1.2"), std::string::npos) << note(1024);
  EXPECT_NE(note(64).find("between 0.34 and 1.7"), std::string::npos) << note(64);
}

// --- what was not found ---

TEST(FindingCauses, ALossThatDoesNotFallIsFound) {
  RunConfig config = load_preset("nano").config;
  config.optimizer.lr = 1e-6;
  config.optimizer.lr_min = 0;
  const auto findings = find_all(trained(config, 400));
  const auto stuck = findings_of_kind(findings, FindingKind::loss_stuck);
  ASSERT_EQ(stuck.size(), 1u) << all_text(findings);
  EXPECT_EQ(stuck[0].title, "The loss does not fall");
  EXPECT_TRUE(stuck[0].ongoing);
}

TEST(FindingCauses, APlateauAfterAFallIsAFindingButNoVerdict) {
  for (const float plateau : {3.0f, 4.8f}) {
    MadeUp run;
    for (int i = 0; i < 700; ++i) {
      TelemetryFrame& frame = run.next();
      frame.ce_loss = plateau + (5 - plateau) * std::exp(-static_cast<float>(i) / 20);
      frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
      run.push();
    }
    FindingsScan scan(run.history());
    scan.advance(INT64_MAX);
    const auto stuck = findings_of_kind(scan.findings(), FindingKind::loss_stuck);
    ASSERT_EQ(stuck.size(), 1u) << plateau;
    EXPECT_EQ(stuck[0].title, "The loss does not fall");
    EXPECT_EQ(judge_health(scan).verdict, plateau < 4 ? HealthVerdict::healthy : HealthVerdict::attention);
  }
}

TEST(FindingCauses, ALossThatRoseAndStaysUpIsFound) {
  MadeUp run("[optimizer]\nlr = 0.002\n");
  run.steps(400, MadeUp::even(), MadeUp::even());
  run.history()->append(change_marker(0, 400, "optimizer.lr", "0.002", "0.2"));
  for (int i = 0; i < 400; ++i) {
    run.next().ce_loss = 3.1f;
    run.push();
  }
  const auto stuck = findings_of_kind(find_all(run.history()), FindingKind::loss_stuck);
  ASSERT_EQ(stuck.size(), 1u) << all_text(find_all(run.history()));
  EXPECT_TRUE(tells(stuck[0], "The loss rose at step 400 and stays up"));
  EXPECT_TRUE(tells(stuck[0], "Changed by hand before the finding: optimizer.lr 0.002 -> 0.2 at step 400"))
      << stuck[0].observation;
}

TEST(FindingCauses, ASaturatedRouterIsNotTheBiassFault) {
  RunConfig config = load_preset("nano").config;
  config.optimizer.router_lr_factor = 300;
  const auto findings = find_all(trained(config, 210));
  EXPECT_EQ(findings_of_kind(findings, FindingKind::saturated).size(), 2u) << all_text(findings);
  EXPECT_TRUE(findings_of_kind(findings, FindingKind::oscillating_bias).empty()) << all_text(findings);
}

// Loads swing with almost no margin: scores are the same for every token, at an ordinary bias rate.
TEST(FindingCauses, ABlindRouterIsNotTheBiassFault) {
  for (const bool blind : {false, true}) {
    MadeUp run("[router]\nbias_update_rate = 0.001\n");
    for (int step = 0; step < 300; ++step) {
      MadeUp::Shares shares = MadeUp::even();
      for (std::size_t e = 0; e < shares.size(); ++e) shares[e] = (e + static_cast<std::size_t>(step)) % 2 ? 1.8 : 0.2;
      TelemetryFrame& frame = run.next();
      frame.routers = {run.router(1, shares), run.router(2, MadeUp::even())};
      RouterFrame& router = frame.routers[0];
      router.margin = 1e-5f;
      router.mutual_information = blind ? 1e-7f : 0.05f;
      router.expert_bias.assign(MadeUp::kExperts, 0);
      for (std::size_t e = 0; e < router.expert_bias.size(); ++e)
        router.expert_bias[e] = (e + static_cast<std::size_t>(step)) % 2 ? -5e-4f : 5e-4f;
      run.push();
    }
    const auto findings = find_all(run.history());
    EXPECT_EQ(findings_of_kind(findings, FindingKind::uninformative).size(), blind ? 1u : 0u) << all_text(findings);
    EXPECT_EQ(findings_of_kind(findings, FindingKind::oscillating_bias).size(), blind ? 0u : 1u) << all_text(findings);
  }
}

TEST(FindingCauses, AnAuxiliaryLossThatDominatesIsFound) {
  const auto with_aux = [](float aux) {
    MadeUp run("[router]\naux_mode = \"batch\"\naux_coeff = 10\n");
    for (int i = 0; i < 200; ++i) {
      run.next().aux_loss = aux;
      run.push();
    }
    return findings_of_kind(find_all(run.history()), FindingKind::auxiliary_dominates);
  };
  ASSERT_EQ(with_aux(30).size(), 1u);
  EXPECT_EQ(with_aux(30)[0].severity, Severity::warning);
  EXPECT_TRUE(tells(with_aux(30)[0], "30 against 2")) << with_aux(30)[0].observation;
  EXPECT_TRUE(tells(with_aux(30)[0], "At an even load it would be 20 "));  // 10 times 2 layers
  EXPECT_TRUE(with_aux(0.04f).empty());
}

TEST(FindingCauses, TopOneWithNormalisedGatesTeachesTheRouterNothing) {
  const auto untaught = [](const std::string& more) {
    MadeUp run("[router]\ntop_k = 1\n" + more);
    run.steps(5, MadeUp::even(), MadeUp::even());
    return findings_of_kind(find_all(run.history()), FindingKind::no_gradient);
  };
  const std::string normalised = "route_norm = true\naux_mode = \"none\"\naux_coeff = 0.0\nz_coeff = 0.0\n";
  ASSERT_EQ(untaught(normalised).size(), 1u);
  EXPECT_EQ(untaught(normalised)[0].title, "Nothing trains the router");
  EXPECT_TRUE(untaught("route_norm = false\n").empty());
  EXPECT_TRUE(untaught(normalised + "frozen = true\n").empty());
  EXPECT_TRUE(tells(untaught("route_norm = true\naux_mode = \"batch\"\naux_coeff = 0.01\n")[0], "Only the auxiliary"));
  RunConfig config = load_preset("nano").config;  // as the program writes it
  EXPECT_TRUE(findings_of_kind(find_all(trained(config, 12)), FindingKind::no_gradient).empty());
  config.router.top_k = 1;
  EXPECT_EQ(findings_of_kind(find_all(trained(config, 12)), FindingKind::no_gradient).size(), 1u);
}

TEST(FindingCauses, ARouterWithoutGradientPassesNoCheckBeforeTheFirstStep) {
  const auto passes = [](const char* route_norm) {
    const MadeUp run(std::string("[router]\ntop_k = 1\nroute_norm = ") + route_norm + "\n");
    const auto passed = checks_of(*run.history(), {}).passed;
    return std::ranges::count(passed, "The settings give every router a gradient.");
  };
  EXPECT_EQ(passes("true"), 0);
  EXPECT_EQ(passes("false"), 1);
}

TEST(FindingCauses, ALayerThatStaysUnevenBelowFourTimesIsFound) {
  MadeUp::Shares uneven = MadeUp::even();
  uneven[3] = 3;  // of a sum of 18: 2.7 times its share
  MadeUp run;
  run.steps(600, uneven, MadeUp::even());
  EXPECT_TRUE(find_all(run.history()).empty()) << all_text(find_all(run.history()));  // a bias may still correct it
  run.steps(60, uneven, MadeUp::even());
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::uneven);
  EXPECT_EQ(findings[0].layers, std::vector<int>{1});
  EXPECT_EQ(findings[0].experts, std::vector<int>{3});

  MadeUp log("[router]\nbias_update_rate = 0.0\naux_mode = \"none\"\n");
  log.steps(450, uneven, MadeUp::even());
  const auto found = findings_of_kind(find_all(log.history()), FindingKind::uneven);
  ASSERT_EQ(found.size(), 1u) << all_text(find_all(log.history()));
  EXPECT_TRUE(tells(found[0], "No balancing: bias_update_rate = 0, aux_mode = none"));
}

// --- what a person did himself ---

TEST(ByHand, AKilledExpertIsNotDeadByItself) {
  MadeUp run("[router]\nkilled_experts = \"\"\n");
  MadeUp::Shares without = MadeUp::even();
  without[5] = 0;
  run.steps(100, MadeUp::even(), MadeUp::even());
  run.history()->append(change_marker(0, 100, "router.killed_experts", "", "1:5"));
  run.steps(300, without, MadeUp::even());
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::by_hand);
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_EQ(findings[0].steps.first, 100);
  EXPECT_TRUE(tells(findings[0], "1:5 cannot be chosen"));
  run.history()->append(change_marker(0, 400, "router.killed_experts", "1:5", ""));
  run.steps(100, MadeUp::even(), MadeUp::even());
  EXPECT_TRUE(find_all(run.history()).empty()) << all_text(find_all(run.history()));
}

TEST(ByHand, AChangeIsReadAsATrainingRecordsIt) {
  RunConfig config = load_preset("nano").config;
  config.router.killed_experts = "1:5, *:3";
  config.router.frozen = true;
  const auto findings = find_all(trained(config, 12));
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::by_hand);
  EXPECT_TRUE(tells(findings[0], "Experts 1:5, *:3 cannot be chosen")) << findings[0].observation;
  EXPECT_TRUE(tells(findings[0], "The gates and expert_bias are frozen")) << findings[0].observation;
  EXPECT_EQ(findings[0].knobs, (std::vector<Setting>{&RouterConfig::killed_experts, &RouterConfig::frozen}));
}

TEST(ByHand, KillingHalfOfThemIsNoCollapse) {
  MadeUp run("[router]\nkilled_experts = \"*:0, *:1, *:2, *:3, *:4, *:5, *:6, *:7, *:8, *:9, *:10, *:11\"\n");
  MadeUp::Shares living{};
  std::fill(living.begin() + 12, living.end(), 1.0);
  run.steps(900, living, living);
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::by_hand);
}

TEST(ByHand, PinnedBiasFrozenRouterAndForcedBalanceAreNamed) {
  MadeUp::Shares hot = MadeUp::even();
  hot[3] = 8;
  MadeUp pinned("[router]\npinned_bias = \"*:3=0.5\"\n");
  pinned.steps(450, hot, MadeUp::even());
  const auto held = findings_of_kind(find_all(pinned.history()), FindingKind::hot);
  ASSERT_EQ(held.size(), 1u) << all_text(find_all(pinned.history()));
  EXPECT_TRUE(tells(held[0], "The bias of expert 3 is held at 0.5")) << held[0].observation;
  EXPECT_EQ(held[0].severity, Severity::note);

  MadeUp frozen("[router]\nfrozen = true\n");
  frozen.steps(450, hot, MadeUp::even());
  const auto resting = findings_of_kind(find_all(frozen.history()), FindingKind::hot);
  ASSERT_EQ(resting.size(), 1u);
  EXPECT_TRUE(tells(resting[0], "router.frozen"));

  MadeUp forced("[router]\nforce_balance = true\n");
  forced.steps(60, MadeUp::even(), MadeUp::even());
  const auto dealt = find_all(forced.history());
  ASSERT_EQ(dealt.size(), 1u) << all_text(dealt);
  EXPECT_TRUE(tells(dealt[0], "forced to be even"));
}

TEST(ByHand, AChangeIsNamedByWhatFollowsIt) {
  MadeUp run("[router]\nbias_update_rate = 0.001\n");
  run.steps(300, MadeUp::even(), MadeUp::even());
  run.history()->append(change_marker(0, 300, "data.mixture", "", "code=1", true));
  MadeUp::Shares uneven = MadeUp::even();
  uneven[2] = uneven[9] = 2.2;
  run.steps(60, uneven, uneven);
  const auto found = findings_of_kind(find_all(run.history()), FindingKind::load_shift);
  ASSERT_EQ(found.size(), 1u) << all_text(find_all(run.history()));
  EXPECT_TRUE(tells(found[0], "Changed by hand just before: data.mixture none -> code=1")) << found[0].observation;
}

}  // namespace
}  // namespace moescope
