// Findings, verdicts and checks count loads: logs with few loads, with loads far apart, and with one total.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "core/findings/load_evidence.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/made_up_run.h"
#include "tests/support/says.h"
#include "tests/support/synthetic_log.h"

namespace moescope {
namespace {

using Change = std::function<void(Shares&)>;

// Returns a log of one layer, 64 experts, top 4, 8,192 tokens a load, with `loads` lines, one every `interval` steps.
std::shared_ptr<History> log_of(std::int64_t loads, std::int64_t interval, const Change& change) {
  SyntheticLog log({.layers = 1,
                    .experts = 64,
                    .top_k = 4,
                    .tokens = 8192,
                    .steps = loads * interval,
                    .interval = interval,
                    .lasting = 0},
                   5);
  log.change = [&](std::int64_t, int, Shares& shares) { change(shares); };
  return log.history();
}

Health health_of(const HistoryPtr& history) {
  FindingsScan scan(history);
  scan.advance(INT64_MAX);
  return judge_health(scan);
}

void make_hot(Shares& shares) {
  shares[3] *= 20;
}
void make_dead(Shares& shares) {
  std::fill_n(shares.begin(), 20, 0.0);
}
void make_collapsed(Shares& shares) {
  for (std::size_t e = 0; e < shares.size(); ++e) shares[e] = e >= 10 && e < 14 ? 1 : 0;
}
void make_starved(Shares& shares) {
  for (std::size_t e = 0; e < 16; ++e) shares[e] *= 0.003;
}
void make_even(Shares&) {}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(LoadSpan, NeedsAsManyLoadsAsALogHasInTheSteps) {
  EXPECT_EQ((LoadSpan{300, 0, 299}.needed(200)), 200);
  EXPECT_EQ((LoadSpan{30, 0, 290}.needed(200)), 20);
  EXPECT_EQ((LoadSpan{30, 0, 29 * 50}.needed(200)), 10);
  EXPECT_EQ((LoadSpan{30, 0, 29 * 4'000'000ll}.needed(200)), 10);
  EXPECT_TRUE((LoadSpan{10, 0, 9 * 500}.lasts(400)));
  EXPECT_FALSE((LoadSpan{9, 0, 8 * 500}.lasts(400)));
  EXPECT_EQ(loads_text({350, 0, 349}), "350 steps");
  EXPECT_EQ(loads_text({140, 0, 139 * 500}), "140 loads, one every 500 steps");
  EXPECT_EQ(loads_text({12, 0, 400}), "12 loads, about one every 36 steps");
  EXPECT_EQ(loads_text({1, 7, 7}), "1 load");
}

TEST(LoadEvidence, FewLoadsOfASickRouterAreNotHealthy) {
  for (const Change& change : {Change(make_hot), Change(make_dead), Change(make_collapsed), Change(make_starved)})
    for (const std::int64_t interval : {20, 50, 100, 5000})
      for (const std::int64_t loads : {3, 4, 6, 9, 12, 19})
        EXPECT_NE(health_of(log_of(loads, interval, change)).verdict, HealthVerdict::healthy)
            << loads << ", every " << interval;
}

TEST(LoadEvidence, TenLoadsShowTheFaultWhateverTheirDistance) {
  for (const std::int64_t interval : {50, 100, 101, 500, 4'000'000})
    for (const std::int64_t loads : {10, 19, 40}) {
      const auto finds = [&](const Change& change, FindingKind kind) {
        return findings_of_kind(find_all(log_of(loads, interval, change)), kind).size() == 1;
      };
      EXPECT_TRUE(finds(make_hot, FindingKind::hot)) << loads << ", every " << interval;
      EXPECT_TRUE(finds(make_dead, FindingKind::dead)) << loads << ", every " << interval;
      EXPECT_TRUE(finds(make_collapsed, FindingKind::collapsed)) << loads << ", every " << interval;
      EXPECT_EQ(health_of(log_of(loads, interval, make_dead)).verdict, HealthVerdict::unhealthy);
      EXPECT_EQ(health_of(log_of(loads, interval, make_hot)).verdict, HealthVerdict::attention);
    }
}

TEST(LoadEvidence, TheWordsNameLoads) {
  const Health young = health_of(log_of(4, 100, make_hot));
  EXPECT_EQ(young.verdict, HealthVerdict::too_young);
  EXPECT_TRUE(says(young.sentence, "4 of about 10 loads, one every 100 steps")) << young.sentence;
  EXPECT_TRUE(says(health_of(log_of(4, 100, make_dead)).sentence, "20 of 64 experts get no token"));
  const auto found = findings_of_kind(find_all(log_of(12, 500, make_hot)), FindingKind::hot);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(says(found[0].observation, "hot for 12 loads, one every 500 steps")) << found[0].observation;
}

TEST(LoadEvidence, OneTotalOfManyTokensIsJudged) {
  const auto total = [](std::int64_t tokens, const Change& change) {
    SyntheticLog log({.layers = 1, .experts = 64, .top_k = 4, .tokens = tokens, .steps = 1, .lasting = 0}, 5);
    log.change = [&](std::int64_t, int, Shares& shares) { change(shares); };
    return log.history();
  };
  EXPECT_EQ(health_of(total(100'000, make_dead)).verdict, HealthVerdict::unhealthy);
  EXPECT_EQ(health_of(total(100'000, make_collapsed)).verdict, HealthVerdict::unhealthy);
  const Health full = health_of(total(100'000, make_hot));
  EXPECT_EQ(full.verdict, HealthVerdict::attention);
  EXPECT_TRUE(says(full.sentence, "in one total of ")) << full.sentence;
  EXPECT_TRUE(says(full.sentence, "does not show when this began, or whether it lasts")) << full.sentence;
  EXPECT_EQ(health_of(total(100'000, make_even)).verdict, HealthVerdict::healthy);
  EXPECT_EQ(health_of(total(2'000, make_dead)).verdict, HealthVerdict::too_young);
  const auto found = findings_of_kind(find_all(total(100'000, make_dead)), FindingKind::dead);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(says(found[0].observation, "does not show when this began")) << found[0].observation;
}

// A dump has a few totals and no loss; the same loads of a training are its first steps.
TEST(LoadEvidence, AFewTotalsOfManyTokensAreJudged) {
  for (const std::int64_t totals : {2, 5, 9, 10, 12}) {
    const auto judged = [&](const Change& change, bool has_loss, std::int64_t tokens) {
      SyntheticLog log({.layers = 1, .experts = 64, .top_k = 4, .tokens = tokens, .steps = totals, .lasting = 0}, 5);
      log.change = [&](std::int64_t, int, Shares& shares) { change(shares); };
      log.has_loss = [has_loss](std::int64_t) { return has_loss; };
      return health_of(log.history());
    };
    const bool are_few = totals < kMinLoads;
    const Health dead = judged(make_dead, false, 100'000);
    EXPECT_EQ(dead.verdict, are_few ? HealthVerdict::unhealthy : HealthVerdict::too_young) << totals;
    EXPECT_EQ(says(dead.sentence, "in " + std::to_string(totals) + " totals of "), are_few) << dead.sentence;
    EXPECT_EQ(says(dead.sentence, "totals do not show exactly when this began"), are_few) << dead.sentence;
    EXPECT_EQ(judged(make_even, false, 100'000).verdict, are_few ? HealthVerdict::healthy : HealthVerdict::too_young);
    EXPECT_EQ(judged(make_hot, false, 100'000).verdict, are_few ? HealthVerdict::attention : HealthVerdict::too_young);
    EXPECT_EQ(judged(make_dead, true, 100'000).verdict, HealthVerdict::too_young) << totals;
    EXPECT_EQ(judged(make_dead, false, 2'000).verdict, HealthVerdict::too_young) << totals;
  }
}

TEST(LoadEvidence, AFaultThatBeginsInALaterTotalHasItsStep) {
  SyntheticLog log({.layers = 1, .experts = 64, .top_k = 4, .tokens = 100'000, .steps = 3, .lasting = 0}, 5);
  log.change = [&](std::int64_t step, int, Shares& shares) {
    if (step > 0) make_dead(shares);
  };
  log.has_loss = [](std::int64_t) { return false; };
  const Health health = health_of(log.history());
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_TRUE(says(health.sentence, "since step 1")) << health.sentence;
}

// 40 tokens are expected of each load and none is received.
TEST(LoadEvidence, FifteenLoadsWithoutATokenAreADeadExpert) {
  SyntheticLog log({.layers = 1, .experts = 64, .top_k = 4, .tokens = 640, .steps = 15 * 25, .interval = 25}, 3);
  log.change = [](std::int64_t, int, Shares& shares) { shares[5] = 0; };
  const auto findings = find_all(log.history());
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::dead);
  EXPECT_TRUE(says(findings[0].title, "dead for 15 loads, one every 25 steps")) << findings[0].title;
}

TEST(LoadEvidence, TwoExpertsAt80To20AreUneven) {
  SyntheticLog log({.layers = 1, .experts = 2, .top_k = 1, .tokens = 1024, .steps = 900, .lasting = 0}, 3);
  log.change = [](std::int64_t, int, Shares& shares) { shares[0] = 4; };
  EXPECT_EQ(findings_of_kind(find_all(log.history()), FindingKind::uneven).size(), 1u);
}

TEST(Checks, PassOnlyWithEnoughLoadsAndTokens) {
  const auto few_loads = log_of(6, 250, make_dead);
  const Checks checks = checks_of(*few_loads, find_all(few_loads));
  EXPECT_FALSE(has(checks.passed, "dead"));
  EXPECT_TRUE(has(checks.not_checked, "dead experts: needs 10 loads; so far there are 6 loads, one every 250 steps."));

  SyntheticLog small({.layers = 1, .experts = 64, .top_k = 1, .tokens = 8, .steps = 300}, 3);
  const auto history = small.history();
  const Checks small_checks = checks_of(*history, find_all(history));
  EXPECT_FALSE(has(small_checks.passed, "No expert is dead"));
  EXPECT_TRUE(has(small_checks.not_checked, "should have had 50 tokens")) << small_checks.not_checked.size();
}

TEST(Checks, DoNotPassBesideAStrongerFinding) {
  const auto full = log_of(40, 100, make_hot);
  EXPECT_FALSE(has(checks_of(*full, find_all(full)).passed, "No layer stays uneven"));
  const auto few_loads = log_of(40, 100, make_collapsed);
  for (const char* words : {"No expert is dead", "No expert is starved", "No expert is hot", "No layer stays uneven"})
    EXPECT_FALSE(has(checks_of(*few_loads, find_all(few_loads)).passed, words)) << words;
  const auto sound = log_of(40, 100, make_even);
  const Checks checks = checks_of(*sound, find_all(sound));
  EXPECT_TRUE(has(checks.passed, "No expert is dead: none was without a token for 10 loads."));
  EXPECT_TRUE(has(checks.passed, "No layer stays uneven"));
}

// A kind that is in neither list would be missing without a word. A comparison needs a second run.
TEST(Checks, CoverEveryKind) {
  const auto log = log_of(40, 100, make_even);
  RunInfo info;
  info.source = "log.jsonl";
  const auto empty = std::make_shared<History>(info);
  empty->append(std::make_shared<const TelemetryFrame>());
  RunConfig config = load_preset("nano").config;
  config.telemetry.specialisation_every = 10;
  const HistoryPtr ours = trained(config, 310);
  for (const HistoryPtr& history : {HistoryPtr(log), HistoryPtr(empty), ours}) {
    const std::vector<Finding> findings = find_all(history);
    const CheckedKinds checked = checked_kinds(*history, findings);
    for (const FindingKindInfo& kind : finding_kinds()) {
      const auto passed = std::ranges::count(checked.passed, kind.kind);
      const auto not_checked = std::ranges::count(checked.not_checked, kind.kind);
      const bool is_other = !findings_of_kind(findings, kind.kind).empty();
      EXPECT_EQ(passed + not_checked + is_other, 1) << history->info().source << ' ' << kind.word << all_text(findings);
    }
  }
}

TEST(Checks, SayWhatTheFaultsOfATrainingProgramNeed) {
  const std::string counts = R"("tokens_per_expert":[[40,40,40,40,40,40,40,40]])";
  const auto checks_of_log = [&](const std::string& settings, const std::string& values) {
    LogReader reader("run.jsonl");
    reader.read_line(settings);
    for (int step = 0; step < 300; ++step)
      reader.read_line(R"({"step":)" + std::to_string(step) + R"(,"ce_loss":3,)" + counts + values + "}");
    reader.finish_step();
    const HistoryPtr history = reader.history();
    return checks_of(*history, find_all(history));
  };
  const Checks few_checks = checks_of_log(R"({"layers":1,"experts":8})", "");
  for (const char* line : {"tokens that are counted twice: needs tokens_per_step and top_k.",
                           "auxiliary loss that does not follow the load: needs the auxiliary loss of the layer",
                           "experts that do not change: needs the norm of each expert's update.",
                           "stale bias: needs the bias (expert_bias) and its update rate."})
    EXPECT_TRUE(has(few_checks.not_checked, line)) << line;
  const Checks full_checks =
      checks_of_log(R"({"layers":1,"experts":8,"top_k":2,"tokens_per_step":160,"aux_coeff":0.01})", R"(,"aux":[1.0])");
  EXPECT_TRUE(has(full_checks.passed, "No layer counts its tokens twice."));
  EXPECT_TRUE(has(full_checks.passed, "No auxiliary loss ignores the load."));
}

std::vector<Finding> jump_findings(const HistoryPtr& history) {
  std::vector<Finding> jumps;
  for (const Finding& finding : find_all(history))
    if (finding.kind == FindingKind::load_shift || finding.kind == FindingKind::no_recovery) jumps.push_back(finding);
  return jumps;
}

TEST(Jumps, AreNoneInALoadThatDoesNotChange) {
  for (unsigned seed = 1; seed <= 6; ++seed)
    for (const std::int64_t interval : {1, 5, 10, 25, 50})
      for (const std::int64_t tokens : {64, 512, 4096}) {
        SyntheticLog log({.layers = 2,
                          .experts = 32,
                          .top_k = 2,
                          .tokens = tokens,
                          .steps = 160 * interval,
                          .interval = interval,
                          .lasting = 0.1,
                          .by_batch = 0.3},
                         seed);
        EXPECT_TRUE(jump_findings(log.history()).empty())
            << "seed " << seed << ", every " << interval << ", " << tokens;
      }
}

TEST(Jumps, AreReportedOnceFromTheFirstLoadThatShowsThem) {
  for (const std::int64_t interval : {1, 5, 10, 50}) {
    const std::int64_t jump = 60 * interval + (interval == 1 ? 240 : 0);
    SyntheticLog log({.layers = 4,
                      .experts = 32,
                      .top_k = 4,
                      .tokens = 4096,
                      .steps = jump + 600 + 40 * interval,
                      .interval = interval},
                     2);
    log.change = [jump](std::int64_t step, int layer, Shares& shares) {
      for (std::size_t e = static_cast<std::size_t>(layer); step >= jump && e < shares.size(); e += 4) shares[e] *= 2.5;
    };
    const auto jumps = jump_findings(log.history());
    ASSERT_EQ(jumps.size(), 1u) << "every " << interval;
    EXPECT_EQ(jumps[0].steps.first, jump) << "every " << interval;
  }
}

TEST(Jumps, ASmallRiseIsNoMissingRecovery) {
  SyntheticLog log({.layers = 4, .experts = 32, .top_k = 4, .tokens = 16384, .steps = 1200, .lasting = 0}, 2);
  log.change = [](std::int64_t step, int layer, Shares& shares) {
    double excess = layer == 0 && step >= 500 ? 0.38 : 0.25;
    if (step >= 500 && step < 560) excess = 1.2;
    for (std::size_t e = 0; e < shares.size(); e += 8) shares[e] *= 1 + excess;
  };
  for (const Finding& finding : jump_findings(log.history()))
    EXPECT_EQ(finding.kind, FindingKind::load_shift) << finding.title;
}

TEST(Oscillation, ASlowOneIsFound) {
  for (const double period : {24.0, 60.0, 100.0}) {
    SyntheticLog log({.layers = 1, .experts = 64, .top_k = 6, .tokens = 4096, .steps = 1000}, 4);
    log.change = [period](std::int64_t step, int, Shares& shares) {
      for (std::size_t e = 0; e < shares.size(); ++e)
        shares[e] *= 1 + 0.8 * std::cos(6.283185307 * static_cast<double>(step) / period + (e % 2 ? 3.14159265 : 0));
    };
    const auto findings = find_all(log.history());
    EXPECT_EQ(findings_of_kind(findings, FindingKind::oscillating_bias).size(), 1u) << period << "\n"
                                                                                    << all_text(findings);
  }
}

TEST(Oscillation, TextsThatAlternateAreANote) {
  for (const std::int64_t interval : {1, 4, 30}) {
    SyntheticLog log({.layers = 1, .experts = 64, .top_k = 6, .tokens = 4096, .steps = 1000}, 4);
    log.change = [interval](std::int64_t step, int, Shares& shares) {
      for (std::size_t e = 0; e < shares.size(); ++e)
        shares[e] *= (e + static_cast<std::size_t>(step / interval)) % 2 ? 1.8 : 0.2;
    };
    log.loss = [interval](std::int64_t step) { return step / interval % 2 ? 2.0f : 2.4f; };
    const auto findings = find_all(log.history());
    EXPECT_TRUE(findings_of_kind(findings, FindingKind::oscillating_bias).empty()) << interval << "\n"
                                                                                   << all_text(findings);
    const auto notes = findings_of_kind(findings, FindingKind::alternating_texts);
    ASSERT_EQ(notes.size(), 1u) << interval << "\n" << all_text(findings);
    EXPECT_EQ(notes[0].severity, Severity::note);
    EXPECT_EQ(health_of(log.history()).router, HealthVerdict::healthy);
  }
}

TEST(Collapse, BeginsWithTheFirstLoadThatShowsIt) {
  for (const std::int64_t onset : {500, 733, 860}) {
    SyntheticLog log({.layers = 2, .experts = 8, .top_k = 2, .tokens = 1024, .steps = 1000}, 7);
    log.change = [onset](std::int64_t step, int layer, Shares& shares) {
      if (layer == 0 || step < onset) return;
      shares[6] *= std::min(9.0, 1 + 0.1 * static_cast<double>(step - onset));
      shares[7] = 0;
    };
    FindingsScan scan(log.history());
    std::vector<Finding> found;
    for (std::int64_t step = onset; step < 1000 && found.empty(); step += 10) {
      scan.advance(step);
      found = findings_of_kind(scan.findings(), FindingKind::collapsing);
    }
    ASSERT_EQ(found.size(), 1u) << onset;
    EXPECT_NEAR(found[0].steps.first, onset, 10) << all_text(found);
  }
}

TEST(Collapse, ASuddenOneBeginsAtItsFirstStep) {
  for (const std::int64_t onset : {500, 503, 735, 860}) {
    SyntheticLog log({.layers = 2, .experts = 8, .top_k = 2, .tokens = 1024, .steps = 1000}, 7);
    log.change = [onset](std::int64_t step, int layer, Shares& shares) {
      if (layer == 0 || step < onset) return;
      shares[6] *= 7;
      shares[7] = 0;
    };
    FindingsScan scan(log.history());
    std::vector<Finding> found;
    for (std::int64_t step = onset; step < 1000 && found.empty(); step += 10) {
      scan.advance(step);
      found = findings_of_kind(scan.findings(), FindingKind::collapsing);
    }
    ASSERT_EQ(found.size(), 1u) << onset;
    EXPECT_EQ(found[0].steps.first, onset) << all_text(found);
  }
}

// With one expert per token the layer has not collapsed; with two, which its fullest experts allow, it has.
TEST(Collapse, OfALogWithoutTopKIsNotCheckedIfItDependsOnIt) {
  LogReader reader("shares.jsonl");
  for (int step = 0; step < 6000; step += 100) {
    std::string loads = "6000,6000";
    for (int e = 2; e < 16; ++e) loads += ",240";
    reader.read_line("{\"step\": " + std::to_string(step) + ", \"loss\": 2, \"tokens_per_expert\": [[" + loads + "]]}");
  }
  const HistoryPtr history = reader.finish().runs.front();
  ASSERT_EQ(history->info().top_k, 0);
  const std::vector<Finding> found = find_all(history);
  EXPECT_TRUE(findings_of_kind(found, FindingKind::collapsed).empty());
  EXPECT_EQ(findings_of_kind(found, FindingKind::hot).size(), 1u) << all_text(found);
  const std::vector<std::string> open = checks_of(*history, found).not_checked;
  EXPECT_TRUE(has(open, "collapse: needs the experts per token")) << open.size();
  EXPECT_TRUE(has(open, "with 2 it may have"));
}

TEST(Jumps, OneThatIsFoundLateIsDatedAtTheLargestRise) {
  SyntheticLog log({.layers = 2, .experts = 32, .top_k = 4, .tokens = 16384, .steps = 800, .lasting = 0}, 2);
  log.change = [](std::int64_t step, int layer, Shares& shares) {
    if (layer == 1 && step >= 400 && step < 460)
      for (std::size_t e = 0; e < shares.size(); e += 8) shares[e] *= 4;
    if (layer == 0 && step >= 421 && step < 460) shares[3] *= 1.5;  // until then half of the layers have jumped
  };
  const std::vector<Finding> found = jump_findings(log.history());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].steps.first, 400) << all_text(found);
}

TEST(Words, FiguresOverAllLayersAreSaidWithoutLoads) {
  LogReader reader("tinker.jsonl");
  for (int step = 0; step < 60; ++step)
    reader.read_line("{\"step\": " + std::to_string(step) +
                     ", \"loss\": 2, \"e_max_violation:mean\": " + std::to_string(2 + 0.05 * step) +
                     ", \"e_frac_with_tokens:mean\": " + std::to_string(0.98 - 0.006 * step) + "}");
  const Health health = health_of(reader.finish().runs.front());
  EXPECT_EQ(health.verdict, HealthVerdict::attention);
  EXPECT_TRUE(says(health.sentence, "MaxVio is 4.95 (2 at step 0)")) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "37.4 % of the experts get no token")) << health.sentence;
}

TEST(Words, ExpertsWithoutATokenAreNotCountedTwice) {
  const Health health = health_of(log_of(20, 100, make_collapsed));
  EXPECT_TRUE(says(health.sentence, "60 of 64 get none")) << health.sentence;
  EXPECT_FALSE(says(health.sentence, "starved")) << health.sentence;
}

TEST(Words, RanksAreNamedOnlyIfTheyAreKnown) {
  SyntheticLog log({.layers = 1, .experts = 64, .top_k = 6, .steps = 600, .lasting = 0}, 4);
  log.change = [](std::int64_t, int, Shares& shares) {
    for (std::size_t e = 16; e < 24; ++e) shares[e] *= 1.9;
  };
  const Health health = health_of(log.history());
  EXPECT_TRUE(says(health.sentence, "experts 16 to 23 together carry")) << health.sentence;
  EXPECT_FALSE(says(health.sentence, "ranks")) << health.sentence;
}

}  // namespace
}  // namespace moescope
