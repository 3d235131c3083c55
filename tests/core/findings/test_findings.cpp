#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/findings/findings.h"
#include "core/findings/load_watch.h"
#include "core/frame/metrics.h"
#include "core/frame/router_stats.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/model/text/dataset.h"
#include "core/training/trainer.h"
#include "tests/support/made_up_run.h"
#include "tests/support/sample_log.h"
#include "tests/support/seeds.h"

namespace moescope {
namespace {

RunConfig nano_config(double bias_update_rate, std::int64_t seed = 1) {
  RunConfig config = load_preset("nano").config;
  config.router.bias_update_rate = bias_update_rate;
  config.seed = seed;
  return config;
}

constexpr double kHealthyRate = 0.001, kRingingRate = 0.1;

// Returns 450 steps of the preset nano. Several tests read the first steps of one training.
HistoryPtr nano_run(double bias_update_rate, std::int64_t seed = 1) {
  static std::map<std::pair<double, std::int64_t>, HistoryPtr> runs;
  HistoryPtr& run = runs[{bias_update_rate, seed}];
  if (!run) run = trained(nano_config(bias_update_rate, seed), 450);
  return run;
}

TEST(Findings, WithoutBalancingTheFirstThreeLayersCollapse) {
  const auto findings = find_all(sample_log("unbalanced_bf16"));
  std::vector<int> collapsed, starved;
  for (const Finding& f : findings_of_kind(findings, FindingKind::collapsed)) {
    EXPECT_TRUE(f.ongoing);
    EXPECT_EQ(f.severity, Severity::severe);
    EXPECT_GT(f.steps.first, 300);
    EXPECT_LT(f.steps.first, 600);
    collapsed.push_back(f.layers.front());
  }
  for (const Finding& f : findings_of_kind(findings, FindingKind::starved)) {
    EXPECT_GE(f.experts.size(), 8u);
    EXPECT_NE(f.observation.find("The longest time without a token was"), std::string::npos) << f.observation;
    starved.push_back(f.layers.front());
  }
  EXPECT_EQ(collapsed, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(starved, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(findings_of_kind(findings, FindingKind::dead).empty());
  for (const Finding& f : findings) {
    ASSERT_FALSE(f.layers.empty()) << f.title;
    // The deep layers settle, but unevenly.
    const bool settled = f.kind == FindingKind::uneven || (f.kind == FindingKind::underused && f.layers.front() != 4);
    EXPECT_EQ(f.layers.front() > 4, settled) << f.title;
  }
  EXPECT_EQ(findings.front().kind, FindingKind::collapsed);  // the severest first
}

TEST(Findings, CollapseIsSeenComing) {
  const HistoryPtr history = sample_log("unbalanced_bf16");
  FindingsScan scan(history);
  scan.advance(299);
  std::set<int> layers;
  for (const Finding& f : findings_of_kind(scan.findings(), FindingKind::collapsing)) layers.insert(f.layers.front());
  EXPECT_TRUE(findings_of_kind(scan.findings(), FindingKind::collapsed).empty());
  for (const int layer : {1, 2, 3}) EXPECT_TRUE(layers.contains(layer)) << layer;
}

TEST(Findings, OneLayerDoesNotRecoverFromTheShift) {
  const HistoryPtr history = sample_log("domain_shift");
  EXPECT_TRUE(find_all(history, 699).empty()) << all_text(find_all(history, 699));
  const auto soon = find_all(history, 760);
  ASSERT_EQ(soon.size(), 1u) << all_text(soon);
  EXPECT_EQ(soon[0].kind, FindingKind::load_shift);
  const auto findings = find_all(history);
  const auto found = findings_of_kind(findings, FindingKind::no_recovery);
  ASSERT_EQ(found.size(), 1u) << all_text(findings);
  EXPECT_EQ(found[0].layers, std::vector<int>{1});
  EXPECT_EQ(found[0].steps.first, 700);
  EXPECT_NE(found[0].observation.find("7 of the 8 layers have recovered"), std::string::npos) << found[0].observation;
  EXPECT_EQ(findings.size(), 1u) << all_text(findings);
}

TEST(Findings, HealthyRunsHaveNone) {
  for (const std::int64_t seed : tried_seeds()) {
    FindingsScan scan(nano_run(kHealthyRate, seed));
    for (std::int64_t step = 49; step < 450; step += 50) {
      scan.advance(step);
      EXPECT_TRUE(scan.findings().empty()) << "seed " << seed << ", step " << step << "\n" << all_text(scan.findings());
    }
  }
  RunConfig small = load_preset("small").config;
  small.seed = 4;
  const auto findings = find_all(trained(small, 210));
  EXPECT_TRUE(findings.empty()) << all_text(findings);
}

TEST(Findings, AnEvenLoadWithTheNoiseOfChanceHasNone) {
  MadeUp run;
  run.steps(600, MadeUp::even(), MadeUp::even());
  EXPECT_TRUE(find_all(run.history()).empty()) << all_text(find_all(run.history()));
  EXPECT_EQ(steps_read(*run.history()), "steps 0 to 599");
  const Checks checks = checks_of(*run.history(), {});
  EXPECT_EQ(checks.passed.front(), "The loss was finite at every step.");
}

TEST(Findings, SayWhatALogDoesNotHave) {
  RunInfo info;
  info.source = "no_loss.jsonl";
  History history(info);
  TelemetryFrame frame;
  frame.step = 3;
  history.append(std::make_shared<const TelemetryFrame>(frame));
  const Checks checks = checks_of(history, {});
  EXPECT_TRUE(checks.passed.empty());
  EXPECT_EQ(checks.not_checked.front(), "loss: needs the loss, which no step has.");
}

TEST(Findings, NothingChangesBetweenTheBatchesOfACheckpoint) {
  MadeUp run;
  run.steps(20, MadeUp::even(), MadeUp::even());
  RunInfo info = run.history()->info();
  info.config_toml.clear();
  info.kernels = "OpenBLAS";
  History history(info);
  for (int step = 0; step < 20; ++step) history.append(run.history()->frame_at(step));
  for (const std::string& line : checks_of(history, {}).not_checked) {
    EXPECT_EQ(line.find("steps"), std::string::npos) << line;
    for (const char* change : {"spikes", "jumps", "exchanged", "oscillation"})
      EXPECT_EQ(line.find(change), std::string::npos) << line;
  }
  const std::vector<std::string> lacks = checks_of(history, {}).not_checked;
  EXPECT_NE(std::ranges::find(lacks, "dead experts: needs 200 batches; so far there are 20."), lacks.end());
}

TEST(Findings, ABiasThatRingsIsFound) {
  const auto findings = findings_of_kind(find_all(nano_run(kRingingRate), 249), FindingKind::oscillating_bias);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].knobs, std::vector<Setting>{&RouterConfig::bias_update_rate});
  EXPECT_TRUE(findings[0].ongoing);
}

// In a log of every second step, the loads show little; the size of the bias's steps shows that it oscillates.
TEST(Findings, ABiasThatRingsIsFoundWhereEverySecondStepIsLogged) {
  const auto rings = [&](double rate) {
    RunConfig config = nano_config(rate);
    config.telemetry.frame_interval = 2;
    auto history = std::make_shared<History>(run_info(config, 0));
    for (std::int64_t step = 0; step < 320; ++step) {
      auto frame = std::make_shared<TelemetryFrame>(*nano_run(rate)->frame_at(step));
      if (step % 2 == 1) frame->routers.clear();
      history->append(std::move(frame));
    }
    return findings_of_kind(find_all(history), FindingKind::oscillating_bias);
  };
  EXPECT_TRUE(rings(kHealthyRate).empty());
  const auto findings = rings(kRingingRate);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_TRUE(findings[0].ongoing);
  EXPECT_NE(findings[0].observation.find("A step of the bias is"), std::string::npos) << findings[0].observation;
}

// Returns the first 210 steps of a run as another program would log them: loads and loss, no settings.
HistoryPtr without_bias(const History& history) {
  RunInfo info = history.info();
  info.config_toml.clear();
  info.kernels.clear();
  auto bare = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < 210; ++step) {
    auto frame = std::make_shared<TelemetryFrame>(*history.frame_at(step));
    for (RouterFrame& router : frame->routers) {
      router.expert_bias.clear();
      router.margin = kNoValue;
    }
    bare->append(std::move(frame));
  }
  return bare;
}

TEST(Findings, ALoadThatSwingsIsFoundWhereTheBiasIsNotLogged) {
  const HistoryPtr healthy = without_bias(*nano_run(kHealthyRate));
  EXPECT_TRUE(findings_of_kind(find_all(healthy), FindingKind::oscillating_bias).empty());
  const auto lacks = checks_of(*healthy, {}).not_checked;
  EXPECT_TRUE(std::ranges::any_of(lacks, [](const std::string& line) {
    return line.starts_with("oscillation by the bias: needs the bias of successive steps");
  }));
  for (const std::string& line : checks_of(*healthy, {}).passed) EXPECT_EQ(line.find("oscillate"), std::string::npos);
  const auto findings =
      findings_of_kind(find_all(without_bias(*nano_run(kRingingRate))), FindingKind::oscillating_bias);
  ASSERT_FALSE(findings.empty());
  EXPECT_NE(findings[0].observation.find("the log does not have the bias"), std::string::npos)
      << findings[0].observation;
}

TEST(Findings, RanksOfTooFewExpertsAreNotSaidToBeChecked) {
  const auto has = [](const std::vector<std::string>& lines, const std::string& part) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  MadeUp run;
  for (int step = 0; step < 450; ++step) {
    run.next().routers = {run.router(1, MadeUp::even())};
    run.push();
  }
  for (const int ranks : {0, 4, 8}) {
    RunInfo info = run.history()->info();
    info.ranks = ranks;
    History history(info);
    for (int step = 0; step < 450; ++step) history.append(run.history()->frame_at(step));
    const Checks checks = checks_of(history, {});
    EXPECT_EQ(has(checks.passed, "No group of neighbouring experts"), ranks != 8);
    EXPECT_EQ(has(checks.passed, "on one rank"), ranks == 4);
    EXPECT_EQ(has(checks.not_checked, "uneven ranks: needs at least 4 experts on each"), ranks == 8);
  }
}

TEST(Findings, ACollapseThatCannotBeToldIsNotSaidToBeChecked) {
  const auto has = [](const std::vector<std::string>& lines, const std::string& part) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  MadeUp run;
  for (int step = 0; step < 450; ++step) {
    run.next().routers = {run.router(1, MadeUp::even())};
    run.push();
  }
  const int experts = run.history()->info().n_experts;
  for (const int top_k : {1, experts - 1}) {
    RunInfo info = run.history()->info();
    info.top_k = top_k;
    History history(info);
    for (int step = 0; step < 450; ++step) history.append(run.history()->frame_at(step));
    const Checks checks = checks_of(history, {});
    EXPECT_EQ(has(checks.passed, "No layer has collapsed"), top_k == 1);
    EXPECT_EQ(has(checks.not_checked, "collapse: needs more experts or more tokens per step"), top_k != 1);
  }
}

TEST(Findings, AnExpertWithoutATokenInAllOfAShortLogIsDead) {
  MadeUp run;
  MadeUp::Shares silent = MadeUp::even();
  silent[5] = 0;
  for (int step = 0; step < 15 * 25; ++step) {
    TelemetryFrame& frame = run.next();
    if (step % 25 == 0) frame.routers = {run.router(1, silent), run.router(2, MadeUp::even())};
    run.push();
  }
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::dead);
  EXPECT_NE(findings[0].observation.find("Expert 5 has had no token for 15 loads, one every 25 steps, since step 0."),
            std::string::npos)
      << findings[0].observation;
}

// Experts that are placed in order are named with their ranks.
TEST(Findings, DeadExpertsOfWholeRanksAreNamedAsARange) {
  for (const char* const config : {"", "placement = \"contiguous\"", "placement = \"balanced:1\""}) {
    MadeUp run(config, 4);
    MadeUp::Shares dead = MadeUp::even();
    std::fill_n(dead.begin() + 4, 8, 0.0);
    run.steps(250, dead, MadeUp::even());
    const auto findings = findings_of_kind(find_all(run.history()), FindingKind::dead);
    ASSERT_EQ(findings.size(), 1u);
    const bool in_order = std::string_view(config).find("balanced") == std::string_view::npos;
    const std::string names = in_order ? "xperts 4 to 11 on ranks 1 and 2 at EP 4 " : "xperts 4 to 11 ";
    EXPECT_EQ(findings[0].observation.find("E" + names + "have had no token"), 0u) << findings[0].observation;
    EXPECT_EQ(findings[0].brief, "e" + names + "get no token");
  }
}

TEST(Findings, DeadAndStarvedExpertsAreFound) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even(), starved = MadeUp::even();
  dead[5] = 0;
  starved[7] = 0.002;
  run.steps(150, dead, starved);
  EXPECT_TRUE(find_all(run.history()).empty()) << all_text(find_all(run.history()));
  run.steps(200, dead, starved);
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 2u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::dead);
  EXPECT_EQ(findings[0].layers, std::vector<int>{1});
  EXPECT_EQ(findings[0].experts, std::vector<int>{5});
  EXPECT_EQ(findings[0].steps, (StepRange{0, 349}));
  EXPECT_NE(findings[0].title.find("350 steps"), std::string::npos) << findings[0].title;
  EXPECT_EQ(findings[1].kind, FindingKind::starved);
  EXPECT_EQ(findings[1].experts, std::vector<int>{7});

  run.steps(60, MadeUp::even(), MadeUp::even());  // both experts get tokens again
  const auto after = find_all(run.history());
  ASSERT_EQ(after.size(), 1u) << all_text(after);
  EXPECT_EQ(after[0].kind, FindingKind::dead);
  EXPECT_FALSE(after[0].ongoing);
  EXPECT_EQ(after[0].steps, (StepRange{0, 349}));
}

TEST(Findings, AHotExpertCountsWhenItLasts) {
  MadeUp run;
  MadeUp::Shares hot = MadeUp::even();
  hot[3] = 6.5;  // of a sum of 21.5: 4.8 times the fair share
  run.steps(350, hot, MadeUp::even());
  EXPECT_TRUE(find_all(run.history()).empty()) << all_text(find_all(run.history()));
  run.steps(100, hot, MadeUp::even());
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::hot);
  EXPECT_EQ(findings[0].experts, std::vector<int>{3});
}

TEST(Findings, ABiasAgainstTheGateIsFound) {
  MadeUp run;
  for (int i = 0; i < 260; ++i) {
    TelemetryFrame& frame = run.next();
    frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
    for (RouterFrame& router : frame.routers) {
      router.expert_bias.assign(MadeUp::kExperts, 0.0f);
      router.gate_mass.assign(MadeUp::kExperts, 1.0f / MadeUp::kExperts);
    }
    frame.routers[1].expert_bias[4] = 0.2f;
    frame.routers[1].gate_mass[4] = 0.05f / MadeUp::kExperts;
    run.push();
  }
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::bias_against_gate);
  EXPECT_EQ(findings[0].layers, std::vector<int>{2});
  EXPECT_EQ(findings[0].experts, std::vector<int>{4});
  EXPECT_NE(findings[0].observation.find("0.1"), std::string::npos) << findings[0].observation;
}

TEST(Findings, ALossThatSpikesAndIsLostIsFound) {
  MadeUp run;
  run.steps(200, MadeUp::even(), MadeUp::even());
  run.next().ce_loss = 4;
  run.push();
  run.steps(99, MadeUp::even(), MadeUp::even());
  const auto spike = find_all(run.history());
  ASSERT_EQ(spike.size(), 1u) << all_text(spike);
  EXPECT_EQ(spike[0].kind, FindingKind::loss_spike);
  EXPECT_EQ(spike[0].steps, (StepRange{200, 200}));
  EXPECT_FALSE(spike[0].ongoing);
  for (int i = 0; i < 20; ++i) {
    run.next().ce_loss = std::numeric_limits<float>::quiet_NaN();
    run.push();
  }
  const auto lost = find_all(run.history());
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(lost[0].kind, FindingKind::loss_not_finite);
  EXPECT_EQ(lost[0].steps.first, 300);
}

TEST(Findings, UnfitNumberFormatsAreFound) {
  MadeUp run;
  for (int i = 0; i < 150; ++i) {
    TelemetryFrame& frame = run.next();
    for (const int layer : {1, 2}) {
      QuantFrame quant;
      quant.layer = layer;
      quant.format = quant_format("e4m3");
      quant.sqnr_db = 31.4f;
      quant.underflow = 0.001f;
      quant.clipped = 0;
      quant.clipped_blocks = 0;
      quant.crest = 2.3f;
      frame.quants.push_back(quant);  // healthy
      quant.operand = OperandRole::dy;
      quant.direction = Direction::wgrad;
      quant.gemm = Gemm::expert_w2;
      quant.sqnr_db = layer == 1 ? 31.0f : 22.0f;
      quant.underflow = layer == 1 ? 0.09f : 0.2f;
      frame.quants.push_back(quant);
    }
    run.push();
  }
  const auto findings = find_all(run.history());
  ASSERT_EQ(findings.size(), 2u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::underflow);
  EXPECT_EQ(findings[0].layers, (std::vector<int>{2, 1}));
  ASSERT_TRUE(findings[0].tensor);
  EXPECT_EQ(findings[0].tensor->operand, OperandRole::dy);
  EXPECT_EQ(findings[0].tensor->gemm, Gemm::expert_w2);
  EXPECT_EQ(findings[1].kind, FindingKind::low_sqnr);
  EXPECT_EQ(findings[1].layers, std::vector<int>{2});
  EXPECT_EQ(findings[1].knobs, std::vector<Setting>{&PrecisionConfig::experts});
}

QuantFrame clipped_blocks(int layer, Gemm gemm, const char* format, float sqnr_db, float share) {
  QuantFrame quant;
  quant.layer = layer;
  quant.gemm = gemm;
  quant.format = quant_format(format);
  quant.sqnr_db = sqnr_db;
  quant.underflow = 0.001f;
  quant.clipped = 0.009f;
  quant.clipped_blocks = share;
  quant.crest = 2.3f;
  return quant;
}

TEST(Findings, ClippingSpeaksWhereItCosts) {
  MadeUp floor, nvfp4;
  for (int i = 0; i < 150; ++i) {
    TelemetryFrame& frame = floor.next();
    for (const int layer : {1, 2}) {
      frame.quants.push_back(clipped_blocks(layer, Gemm::expert_w1, "e4m3", 30.6f, 0.172f));
      frame.quants.push_back(clipped_blocks(layer, Gemm::shared_w1, "e4m3", 30.6f, 0.18f));
    }
    nvfp4.next().quants.push_back(clipped_blocks(1, Gemm::expert_w1, "e2m1", 20.4f, 0.513f));
    floor.push();
    nvfp4.push();
  }
  const auto findings = find_all(floor.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);  // one for all weights
  EXPECT_EQ(findings[0].kind, FindingKind::clipping);
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_EQ(findings[0].layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(findings[0].knobs, (std::vector<Setting>{&PrecisionConfig::experts, &PrecisionConfig::shared_experts}));
  EXPECT_TRUE(find_all(nvfp4.history()).empty()) << all_text(find_all(nvfp4.history()));
}

std::string quant_text(const char* format, float sqnr_db, float clipped_share) {
  MadeUp run;
  for (int i = 0; i < 150; ++i) {
    run.next().quants.push_back(clipped_blocks(1, Gemm::expert_w1, format, sqnr_db, clipped_share));
    run.push();
  }
  return all_text(find_all(run.history()));
}

TEST(Findings, FormatsAreJudgedByTheirOwnFigures) {
  const auto says = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  // NVFP4 clips half of its block maxima whatever the data. Figures like those of bell-shaped data are no finding.
  EXPECT_EQ(quant_text("nvfp4", 20.4f, 0.51f), quant_text("bf16", 60, 0));
  EXPECT_EQ(quant_text("nvfp4", 17, 0.5f), quant_text("bf16", 60, 0));
  EXPECT_EQ(quant_text("nvfp4_stochastic", 17.2f, 0.5f), quant_text("bf16", 60, 0));
  const std::string nvfp4 = quant_text("nvfp4", 15, 0.5f);
  EXPECT_TRUE(says(nvfp4, "Low SQNR of x (routed experts): 15 dB in nvfp4")) << nvfp4;
  EXPECT_TRUE(says(nvfp4, "bell-shaped data have 20.4 dB;")) << nvfp4;
  EXPECT_FALSE(says(nvfp4, "FLOOR") || says(nvfp4, "E4M3") || says(nvfp4, "RCEIL")) << nvfp4;

  const std::string mxfp4 = quant_text("mxfp4_e2m1_floor", 17, 0.3f);
  EXPECT_TRUE(says(mxfp4, "FLOOR reduces the largest value of a block by up to 25 % in E2M1")) << mxfp4;
  const std::string mxfp8 = quant_text("mxfp8_e4m3_floor", 30.6f, 0.17f);
  EXPECT_TRUE(says(mxfp8, "FLOOR reduces the largest value of a block by up to 12.5 % in E4M3")) << mxfp8;
  const std::string even = quant_text("mxfp4_e2m1_even", 17, 0.13f);
  EXPECT_TRUE(says(even, "EVEN reduces the largest value of a block by up to 14.3 % in E2M1")) << even;

  // FP8 never clips, and its scales do not belong to blocks.
  const std::string fp8 = quant_text("fp8_e4m3_tensor", 25, 0);
  EXPECT_TRUE(says(fp8, "bell-shaped data have 31.5 dB;")) << fp8;
  EXPECT_FALSE(says(fp8, "block")) << fp8;
  // Stochastic rounding costs 3 dB by itself.
  EXPECT_EQ(quant_text("mxfp8_e4m3_rceil_stochastic", 28.5f, 0), quant_text("bf16", 60, 0));
  EXPECT_EQ(quant_text("mxfp4_e2m1_rceil_stochastic", 15.7f, 0), quant_text("bf16", 60, 0));
  // If only the element is known, the text states its SQNR in MX and guesses no scale rule.
  const std::string element = quant_text("e2m1", 14, 0.3f);
  EXPECT_TRUE(says(element, "bell-shaped data have 18.8 dB in MX;")) << element;
  EXPECT_FALSE(says(element, "FLOOR") || says(element, "eighth")) << element;
}

TEST(Findings, PiecesGiveTheFindingsOfTheWhole) {
  const HistoryPtr history = sample_log("unbalanced_bf16");
  FindingsScan scan(history);
  for (std::int64_t step = 3; step < 1400; step += 37) scan.advance(step);
  scan.advance(INT64_MAX);
  EXPECT_EQ(to_text(scan.findings(), {}), to_text(find_all(history), {}));
  EXPECT_EQ(scan.read_steps(), (StepRange{0, 1380}));
  scan.advance(299);  // an earlier step: all is read again
  EXPECT_EQ(to_text(scan.findings(), {}), to_text(find_all(history, 299), {}));
}

TEST(Findings, ARewoundRunIsReadAnew) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(250, dead, MadeUp::even());
  FindingsScan scan(run.history());
  scan.advance(INT64_MAX);
  EXPECT_EQ(scan.findings().size(), 1u);
  MadeUp other;  // no expert is dead from step 100 on
  for (int i = 0; i < 300; ++i) {
    TelemetryFrame& frame = other.next();
    frame.routers = {other.router(1, MadeUp::even()), other.router(2, MadeUp::even())};
    if (frame.step >= 100) run.history()->append(std::make_shared<const TelemetryFrame>(frame));
  }
  scan.advance(INT64_MAX);
  EXPECT_TRUE(scan.findings().empty()) << all_text(scan.findings());
  EXPECT_EQ(scan.read_steps().last, 299);
}

TEST(Findings, AStoppedScanStartsOverAndNothingIsMissed) {
  const HistoryPtr history = sample_log("unbalanced_bf16");
  FindingsScan scan(history);
  std::stop_source stop;
  stop.request_stop();
  scan.advance(INT64_MAX, stop.get_token());
  EXPECT_TRUE(scan.findings().empty());
  scan.advance(INT64_MAX);
  EXPECT_EQ(to_text(scan.findings(), {}), to_text(find_all(history), {}));
}

TEST(Findings, EveryOneIsCompleteAndKnowsItsKnobs) {
  std::vector<Finding> all = find_all(sample_log("unbalanced_bf16"));
  for (const Finding& f : find_all(sample_log("domain_shift"))) all.push_back(f);
  for (const Finding& f : all) {
    EXPECT_FALSE(f.title.empty());
    EXPECT_FALSE(f.observation.empty());
    EXPECT_FALSE(f.meaning.empty());
    EXPECT_FALSE(f.steps.empty());
  }
}

}  // namespace
}  // namespace moescope
