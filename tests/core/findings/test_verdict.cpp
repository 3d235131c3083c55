// Verdicts on made-up losses whose noise is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/made_up_losses.h"

namespace moescope {
namespace {

// Losses of a run: a fall that all runs share, and its own deviations.
using Deviation = std::function<double(std::size_t)>;
HistoryPtr made_up(const char* name, std::size_t steps, const Deviation& deviation) {
  std::vector<double> losses(steps);
  for (std::size_t step = 0; step < steps; ++step)
    losses[step] = 2 + 3 * std::exp(-static_cast<double>(step) / 100) + deviation(step);
  return with_losses(name, losses);
}

// Returns an autoregressive process with a memory of `memory` steps (0: none) around `offset`.
Deviation noise(unsigned seed, double sigma, double memory = 0, double offset = 0) {
  auto rng = std::make_shared<std::mt19937>(seed);
  auto normal = std::make_shared<std::normal_distribution<double>>();
  auto state = std::make_shared<double>((*normal)(*rng));
  const double memory_share = memory > 0 ? std::exp(-1 / memory) : 0;
  return [=](std::size_t) {
    *state = memory_share * *state + std::sqrt(1 - memory_share * memory_share) * (*normal)(*rng);
    return offset + sigma * *state;
  };
}

// 200 comparisons of equal runs with each kind of noise. The intervals must be right although the noise of neighboring
// steps is correlated.
TEST(Verdict, RarelyCallsEqualRunsDifferent) {
  for (const double memory : {0.0, 5.0, 20.0, 60.0}) {
    int different = 0;
    constexpr int kTrials = 200;
    for (unsigned trial = 0; trial < kTrials; ++trial) {
      const auto run = [&](unsigned place) { return made_up("run", 400, noise(4 * trial + place, 0.05, memory)); };
      const PairedRun twins[] = {{run(1)}};
      const Conclusion c = conclude(run(0), {run(2)}, twins);
      different += says_different(c);
    }
    EXPECT_LE(different, 0.1 * kTrials) << "a memory of " << memory << " steps";
  }
}

// Of equal runs about 1 in 20 may be called different, whatever their luck is. Beside one twin it is 1 in 12 if nearly
// all luck lasts (verdict.h); the limits here allow for the chance of 200 comparisons.
TEST(Verdict, CallsEqualRunsDifferentOnceInTwentyOrTwelve) {
  constexpr int kTrials = 200;
  std::mt19937 random(7);
  for (const int twins : {1, 2}) {
    double all = 0;
    for (const Luck& luck : kLucks) {
      int different = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        const HistoryPtr a = lucky_run(luck, 300, random), run = lucky_run(luck, 300, random);
        std::vector<PairedRun> twin_runs;
        for (int twin = 0; twin < twins; ++twin) twin_runs.push_back({lucky_run(luck, 300, random)});
        different += says_different(conclude(a, {run}, twin_runs));
      }
      EXPECT_LE(different, 0.12 * kTrials) << luck.name << ", " << twins << " twins";
      all += different;
    }
    EXPECT_LE(all, 0.04 * kTrials * static_cast<double>(std::size(kLucks))) << twins << " twins";
  }
}

// A gap of eight standard deviations of one run's mean is found beside two twins.
TEST(Verdict, FindsGapsThatAreLargeComparedWithChance) {
  constexpr int kTrials = 100;
  std::mt19937 random(8);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Luck white{.name = "white"};
    const double gap = 8 * 0.01 / std::sqrt(150.0);
    const HistoryPtr a = lucky_run(white, 300, random), run = lucky_run(white, 300, random, gap);
    const PairedRun twin_runs[] = {{lucky_run(white, 300, random)}, {lucky_run(white, 300, random)}};
    const Conclusion c = conclude(a, {run}, twin_runs);
    found += c.gap > c.half_width;
  }
  EXPECT_GE(found, 0.8 * kTrials);
}

// The gap is that to run A itself, however far the noise twins are from it.
TEST(Verdict, MeasuresTheGapToRunA) {
  const std::vector<double> a(400, 2.0), run(400, 2.0072), twin(400, 2.0024);
  const PairedRun twins[] = {{with_losses("N", twin)}, {with_losses("M", twin)}};
  for (const bool same_start : {true, false}) {
    const Conclusion c = conclude(with_losses("A", a), {with_losses("B", run), same_start}, twins);
    EXPECT_NEAR(c.gap, 0.0072, 1e-6) << verdict_sentence(c);
    EXPECT_NE(verdict_sentence(c).find("loss gap +0.0072"), std::string::npos) << verdict_sentence(c);
  }
}

// The noise twins are those of run A, also if two other runs are compared.
TEST(Verdict, AnyRunCanBeTheBaseline) {
  const auto a = made_up("A", 600, noise(1, 0.02)), b = made_up("B", 600, noise(3, 0.02, 0, 0.01)),
             c = made_up("C", 600, noise(4, 0.02, 0, 0.04));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.02))}};
  const Conclusion against_a = conclude(a, {c}, twins), against_b = conclude(a, {c, true, b}, twins);
  EXPECT_NEAR(against_a.gap, 0.04, 0.006);
  EXPECT_NEAR(against_b.gap, 0.03, 0.006);
  EXPECT_EQ(against_b.verdict, Verdict::worse) << verdict_sentence(against_b);
  EXPECT_EQ(verdict_sentence(against_b).rfind("C against B: worse", 0), 0u) << verdict_sentence(against_b);
  EXPECT_NEAR(conclude(a, {a, true, b}, twins).gap, -conclude(a, {b}, twins).gap, 1e-6);
  // Twins that do not show what chance does to a pair give it no interval.
  const Conclusion without_twins = conclude(a, {c, true, b, false}, twins);
  EXPECT_EQ(without_twins.verdict, Verdict::no_twin);
  EXPECT_NEAR(without_twins.gap, against_b.gap, 1e-9);
}

// Run A's luck is part of the interval of run A's own gaps, so that the interval between two other runs is wider.
TEST(Verdict, AnotherBaselineHasAWiderInterval) {
  const auto run = [](const char* name, double loss) { return with_losses(name, std::vector<double>(400, loss)); };
  const HistoryPtr a = run("A", 2), b = run("B", 2.01), c = run("C", 2.04);
  const PairedRun twins[] = {{run("N", 2.001)}};
  const float half_width = conclude(a, {c}, twins).half_width;
  EXPECT_NEAR(conclude(a, {c, true, b}, twins).half_width / half_width, std::sqrt(2 / 1.5), 1e-3);
  EXPECT_EQ(conclude(a, {a, true, c}, twins).half_width, half_width) << "the same pair in the other order";
}

TEST(Verdict, FindsALargeGapWithItsSign) {
  const auto a = made_up("A", 600, noise(1, 0.02));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.02))}};
  const Conclusion worse = conclude(a, {made_up("B", 600, noise(3, 0.02, 0, 0.03))}, twins);
  EXPECT_EQ(worse.verdict, Verdict::worse) << verdict_sentence(worse);
  EXPECT_NEAR(worse.gap, 0.03, 0.006);
  EXPECT_NE(verdict_sentence(worse).find("B against A: worse: loss gap +0.0"), std::string::npos)
      << verdict_sentence(worse);
  EXPECT_NE(verdict_sentence(worse).find("cannot be told from chance here"), std::string::npos)
      << verdict_sentence(worse);
  const Conclusion better = conclude(a, {made_up("B", 600, noise(3, 0.02, 0, -0.03))}, twins);
  EXPECT_EQ(better.verdict, Verdict::better) << verdict_sentence(better);
}

TEST(Verdict, SaysNoSignOfAGapThatRoundsToZero) {
  const auto a = made_up("A", 600, noise(1, 0.01));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.01)), false}};
  for (const double gap : {-1e-6, 1e-6}) {
    const auto run =
        made_up("B", 600, [=, deviation = noise(1, 0.01)](std::size_t step) { return gap + deviation(step); });
    const Conclusion c = conclude(a, {run, false}, twins);
    EXPECT_NE(verdict_sentence(c).find("loss gap 0.000"), std::string::npos) << verdict_sentence(c);
  }
}

TEST(Verdict, SaysWhetherAGapThatIsThereMatters) {
  const auto a = made_up("A", 600, noise(1, 0.001));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.001))}};
  const auto with_gap = [&](double gap) {
    return verdict_sentence(conclude(a, {made_up("B", 600, noise(3, 0.001, 0, gap))}, twins));
  };
  EXPECT_NE(with_gap(0.002).find(", less than the 0.005"), std::string::npos) << with_gap(0.002);
  EXPECT_NE(with_gap(0.02).find(", more than the 0.005"), std::string::npos) << with_gap(0.02);
  EXPECT_NE(with_gap(0.0051).find(", more than chance, may be less or more than the 0.00"), std::string::npos)
      << with_gap(0.0051);
}

// The luck of a run's start lasts. One twin tells little, three tell more, and the interval that another twin was said
// to give is reached.
TEST(Verdict, NeedsSeveralTwinsWhereStartsLast) {
  std::mt19937 rng(11);
  std::normal_distribution<double> luck(0, 0.03);
  double with_one = 0, with_three = 0, promised = 0;
  for (unsigned trial = 0; trial < 40; ++trial) {
    const auto run = [&](unsigned place) {
      return made_up("run", 300, noise(10 * trial + place, 0.005, 0, luck(rng)));
    };
    const HistoryPtr a = run(0), b = run(1);
    std::vector<PairedRun> twins;
    for (unsigned twin = 2; twin < 5; ++twin) twins.push_back({run(twin), false});
    const Conclusion one = conclude(a, {b}, std::span(twins).first(1));
    EXPECT_NE(one.verdict, Verdict::equal) << verdict_sentence(one);
    const Conclusion three = conclude(a, {b}, twins);
    with_one += one.half_width;
    promised += is_missing(one.half_with_another) ? one.half_width : one.half_with_another;
    with_three += three.half_width;
  }
  EXPECT_GT(with_one, 2 * with_three);
  EXPECT_LT(promised, 0.5 * with_one);
}

// A run that swings more than run A and its twin is not called worse because of its last swing.
TEST(Verdict, KnowsARunsOwnSwings) {
  const auto a = made_up("A", 400, noise(1, 0.001));
  const PairedRun twins[] = {{made_up("N", 400, noise(2, 0.001))}};
  const auto swings =
      made_up("B", 400, [](std::size_t step) { return 0.1 * std::sin(0.012 * static_cast<double>(step)); });
  const Conclusion c = conclude(a, {swings}, twins);
  EXPECT_EQ(c.verdict, Verdict::unclear) << verdict_sentence(c);
  EXPECT_TRUE(is_missing(c.half_with_another)) << "another twin would not help";
}

// Share of the tokens for which the routing of a run differs from run A's, at every tenth step.
using Share = std::function<float(std::int64_t)>;
Share always(float share) {
  return [=](std::int64_t) { return share; };
}
HistoryPtr drifted(const char* name, const Share& share, const Deviation& deviation) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < 400; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(2 + deviation(static_cast<std::size_t>(step)));
    if (step % 10 == 0) frame->flips = {{.layer = 1, .flip_rate = share(step)}};
    made->append(std::move(frame));
  }
  return made;
}

// A gap may stand out beside twins that have drifted as far, but not beside twins that are still near run A.
TEST(Verdict, AllowsForTwinsThatHaveDriftedLess) {
  const auto a = drifted("A", always(0), noise(1, 0.002));
  const auto judged = [&](float twins_share) {
    const PairedRun twins[] = {{drifted("N", always(twins_share), noise(2, 0.002))},
                               {drifted("M", always(twins_share), noise(4, 0.002))}};
    return conclude(a, {drifted("B", always(0.9f), noise(3, 0.002, 0, -0.006))}, twins);
  };
  const Conclusion as_far = judged(0.9f), near = judged(0.4f);
  EXPECT_EQ(as_far.verdict, Verdict::better) << verdict_sentence(as_far);
  EXPECT_EQ(verdict_sentence(as_far).find("drifted"), std::string::npos) << verdict_sentence(as_far);
  EXPECT_EQ(near.verdict, Verdict::unclear) << verdict_sentence(near);
  EXPECT_NEAR(near.half_width / judged(0.6f).half_width, 0.36 / 0.16, 1e-3) << "the square of the drifts' ratio";
  EXPECT_NEAR(near.drift_of_twins, 0.4f, 1e-6);
  EXPECT_NE(verdict_sentence(near).find("differs from run A's for 40 % of the tokens, this run's for 90 %"),
            std::string::npos)
      << verdict_sentence(near);
}

// The growth of differences by chance was measured for twins whose routing differs for a tenth of the tokens or more.
TEST(Verdict, HasNoIntervalWhereTheTwinsHaveNotDriftedApart) {
  const auto a = drifted("A", always(0.0f), noise(1, 0.002));
  const auto run = drifted("B", always(0.9f), noise(3, 0.002, 0, -0.01));
  const auto judged = [&](const Share& twin_share) {
    const PairedRun twins[] = {{drifted("N", twin_share, noise(2, 0.002))}};
    return conclude(a, {run}, twins);
  };
  for (const float share : {0.0f, 0.01f, 0.09f}) {
    const Conclusion c = judged(always(share));
    EXPECT_EQ(c.verdict, Verdict::twins_near) << verdict_sentence(c);
    EXPECT_TRUE(is_missing(c.half_width)) << verdict_sentence(c);
    EXPECT_TRUE(is_missing(c.half_with_another));
    EXPECT_FALSE(is_missing(c.gap));
    EXPECT_NE(verdict_sentence(c).find("have not drifted apart yet"), std::string::npos) << verdict_sentence(c);
    EXPECT_EQ(verdict_sentence(c).find("+-"), std::string::npos) << verdict_sentence(c);
  }
  EXPECT_EQ(judged(always(0.11f)).verdict, Verdict::unclear);
  // Twins that have drifted as little as the run itself are enough.
  const PairedRun twin_runs[] = {{drifted("N", always(0.01f), noise(2, 0.002))}};
  const Conclusion c = conclude(a, {drifted("B", always(0.0102f), noise(3, 0.002, 0, -0.01))}, twin_runs);
  EXPECT_EQ(c.verdict, Verdict::better) << verdict_sentence(c);
}

// A replay twin has run A's routing, so that it has no drift of its own. Only the noise twins show how far chance has
// come.
TEST(Verdict, AsksTheNoiseTwinsWhetherAReplayTwinHasAnInterval) {
  const auto paired_run = [](const char* name, const std::string& settings, float share, double gap, unsigned seed) {
    RunInfo info;
    info.name = name;
    info.config_toml = settings;
    auto made = std::make_shared<History>(info);
    const Deviation deviation = noise(seed, 2e-5, 0, gap);
    for (std::int64_t step = 0; step < 400; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = static_cast<float>(2 + deviation(static_cast<std::size_t>(step)));
      if (step % 10 == 0) frame->flips = {{.layer = 1, .flip_rate = share}};
      made->append(std::move(frame));
    }
    return made;
  };
  const std::string replays = "[router]\nreplay = true\n", forced = "[router]\nforce_balance = true\n";
  const auto judged = [&](const std::string& settings, float share_of_twin) {
    const PairedRun twins[] = {{paired_run("N", settings, share_of_twin, 0, 2)}};
    return conclude(paired_run("A", settings, 0, 0, 1), {paired_run("B", settings + replays, 0, -0.01, 3)}, twins);
  };
  for (const float share : {0.0f, 0.09f}) {
    const Conclusion near = judged("", share);
    EXPECT_EQ(near.verdict, Verdict::twins_near) << verdict_sentence(near);
    EXPECT_TRUE(is_missing(near.half_width)) << verdict_sentence(near);
    EXPECT_NE(verdict_sentence(near).find("this run replays run A's routing"), std::string::npos)
        << verdict_sentence(near);
    EXPECT_GT(near.missing_steps + (share > 0), 0);
  }
  const Conclusion conclusion = judged("", 0.2f);
  EXPECT_EQ(conclusion.verdict, Verdict::better) << verdict_sentence(conclusion);
  EXPECT_NE(verdict_sentence(conclusion).find("this run replays run A's routing, so that it is not known"),
            std::string::npos)
      << verdict_sentence(conclusion);
  EXPECT_EQ(judged(forced, 0).verdict, Verdict::better) << "with forced balance no run has another routing";
}

TEST(Verdict, SaysHowManyStepsTheTwinsNeedToDriftApart) {
  const auto a = drifted("A", always(0.0f), noise(1, 0.002));
  const auto run = drifted("B", always(0.9f), noise(3, 0.002));
  const auto judged = [&](const Share& twin_share) {
    const PairedRun twins[] = {{drifted("N", twin_share, noise(2, 0.002))}};
    return conclude(a, {run}, twins);
  };
  // The share doubles every 50 steps from 0.01 at step 300: it is 0.1 at step 466, which is three quarters of 621.
  const Conclusion grows =
      judged([](std::int64_t step) { return 0.01f * std::exp2(static_cast<float>(step - 300) / 50); });
  EXPECT_NEAR(grows.missing_steps, 621 - 400, 40) << verdict_sentence(grows);
  EXPECT_NE(verdict_sentence(grows).find("about " + std::to_string(grows.missing_steps) +
                                         " more steps, if it grows as it did"),
            std::string::npos)
      << verdict_sentence(grows);
  const Conclusion none = judged(always(0.0f));
  EXPECT_EQ(none.missing_steps, 400);
  EXPECT_NE(verdict_sentence(none).find("400 more steps, as many as so far"), std::string::npos)
      << verdict_sentence(none);
  const Conclusion conclusion = judged(always(0.05f));
  EXPECT_EQ(conclusion.missing_steps, 0);
  EXPECT_NE(verdict_sentence(conclusion).find("does not grow any more; a noise twin with another seed would give"),
            std::string::npos)
      << verdict_sentence(conclusion);
}

TEST(Verdict, SaysThatTheDriftIsNotKnown) {
  const auto a = made_up("A", 400, noise(1, 0.002));
  const PairedRun twins[] = {{made_up("N", 400, noise(2, 0.002))}};
  const Conclusion c = conclude(a, {made_up("B", 400, noise(3, 0.002, 0, 0.1))}, twins);
  EXPECT_EQ(c.verdict, Verdict::worse);
  EXPECT_NE(verdict_sentence(c).find("routing flips were not counted, so that it is not known"), std::string::npos)
      << verdict_sentence(c);
  const PairedRun seed_twins[] = {{made_up("N", 400, noise(2, 0.002)), false}};
  EXPECT_EQ(verdict_sentence(conclude(a, {made_up("B", 400, noise(3, 0.002)), false}, seed_twins)).find("flips"),
            std::string::npos);
}

// Each candidate may be called different by chance: of comparisons of 15 equal runs with one, 1 in 20 names any.
TEST(Verdict, AllowsForSeveralCandidates) {
  constexpr int kTrials = 60, kCandidates = 15;
  int named = 0, named_alone = 0;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    const auto run = [&](unsigned place) { return made_up("run", 200, noise(100 * trial + place, 0.05, 20)); };
    const HistoryPtr a = run(0);
    const std::vector<PairedRun> twins{{run(1)}, {run(2)}};
    bool any = false, any_alone = false;
    for (unsigned place = 3; place < 3 + kCandidates; ++place) {
      const PairedRun candidate{run(place)};
      any |= says_different(conclude(a, candidate, twins, {kRelevantGap, kCandidates}));
      any_alone |= says_different(conclude(a, candidate, twins));
    }
    named += any;
    named_alone += any_alone;
  }
  EXPECT_LE(named, kTrials / 10);
  EXPECT_GE(named_alone, kTrials / 8) << "what a 95 % interval for each would do";
  const auto a = made_up("A", 200, noise(1, 0.05));
  const PairedRun twins[] = {{made_up("N", 200, noise(2, 0.05))}};
  const Conclusion three = conclude(a, {made_up("B", 200, noise(3, 0.05))}, twins, {kRelevantGap, 3});
  EXPECT_NE(verdict_sentence(three).find("the interval allows for the 3 candidates that are compared with one run"),
            std::string::npos)
      << verdict_sentence(three);
  EXPECT_GT(three.half_width, conclude(a, {made_up("B", 200, noise(3, 0.05))}, twins).half_width);
}

// The validation loss is known at some steps only.
TEST(Verdict, JudgesValidationLossesToo) {
  const auto run = [](const char* name, double gap) {
    RunInfo info;
    info.name = name;
    auto made = std::make_shared<History>(info);
    for (std::int64_t step = 0; step < 400; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = 2;
      if (step % 20 == 0) frame->val_loss = static_cast<float>(2 + gap + 0.001 * std::sin(gap * 1e5 + 0.3 * step));
      made->append(std::move(frame));
    }
    return made;
  };
  const auto a = run("A", 0);
  const PairedRun twins[] = {{run("N", 1e-4)}, {run("M", -2e-4)}};
  const Conclusion c = conclude(a, {run("B", 0.05)}, twins);
  EXPECT_EQ(c.verdict, Verdict::worse) << verdict_sentence(c);
  EXPECT_NEAR(c.gap, 0.05, 0.002) << verdict_sentence(c);
  EXPECT_NE(verdict_sentence(c).find("B against A: worse: validation loss gap +0.0498"), std::string::npos)
      << verdict_sentence(c);
  const auto never = made_up("A", 400, noise(1, 0.05));
  EXPECT_TRUE(is_missing(conclude(never, {made_up("B", 400, noise(2, 0.05))}, {}, {}, Metric::val_loss).gap));
}

TEST(Verdict, TakesAValidationLossInEachQuarterOfTheJudgedSteps) {
  const auto run = [](const char* name, std::int64_t steps, double gap) {
    RunInfo info;
    info.name = name;
    info.config_toml = "[telemetry]\nvalidation_every = 50\n";
    auto made = std::make_shared<History>(info);
    for (std::int64_t step = 0; step < steps; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = static_cast<float>(2 + gap);
      if (step % 50 == 0) frame->val_loss = static_cast<float>(2 + gap * (1 + 0.001 * static_cast<double>(step)));
      made->append(std::move(frame));
    }
    return made;
  };
  const auto conclusion_of = [&](std::int64_t steps) {
    const PairedRun twins[] = {{run("N", steps, 1e-4)}};
    return conclude(run("A", steps, 0), {run("B", steps, 0.05)}, twins);
  };
  const Conclusion short_run = conclusion_of(160);
  EXPECT_EQ(short_run.verdict, Verdict::too_short);
  EXPECT_EQ(short_run.missing_steps, 240);
  EXPECT_NE(verdict_sentence(short_run).find(
                "too few values of the validation loss were measured for a verdict: each quarter of the last half of "
                "the steps needs one; verdict in 240 steps"),
            std::string::npos)
      << verdict_sentence(short_run);
  EXPECT_EQ(conclusion_of(400).verdict, Verdict::worse) << verdict_sentence(conclusion_of(400));
  const auto a = run("A", 400, 0);
  EXPECT_EQ(conclude(a, {a}, {}).verdict, Verdict::identical);
}

// Between two measurements of the validation loss, the training loss shows that a run is lost.
TEST(Verdict, FindsARunThatIsLostByItsTrainingLoss) {
  const auto run = [](const char* name, bool lost) {
    RunInfo info;
    info.name = name;
    info.config_toml = "[telemetry]\nvalidation_every = 50\n";
    auto made = std::make_shared<History>(info);
    for (std::int64_t step = 0; step < 430; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = lost && step >= 410 ? std::nanf("") : 2.0f;
      if (step % 50 == 0) frame->val_loss = 2;
      made->append(std::move(frame));
    }
    return made;
  };
  const Conclusion c = conclude(run("A", false), {run("B", true)}, {});
  EXPECT_EQ(c.verdict, Verdict::lost) << verdict_sentence(c);
  EXPECT_EQ(c.steps.first, 410);
}

TEST(Verdict, RunsThatCannotBeComparedGetNoVerdict) {
  const auto a = made_up("A", 600, noise(1, 0.05)), b = made_up("B", 600, noise(3, 0.05));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.05))}};
  const Conclusion conclusion = conclude(a, {b}, {});
  EXPECT_EQ(conclusion.verdict, Verdict::no_twin);
  EXPECT_FALSE(is_missing(conclusion.gap));
  EXPECT_TRUE(is_missing(conclusion.half_width)) << "the effect of chance is not known";
  EXPECT_EQ(verdict_sentence(conclusion).rfind("B against A: not judged: loss gap ", 0), 0u)
      << verdict_sentence(conclusion);
  EXPECT_EQ(verdict_sentence(conclusion).find("+-"), std::string::npos) << verdict_sentence(conclusion);
  EXPECT_EQ(conclude(a, {b}, std::vector<PairedRun>{{b}}).verdict, Verdict::no_twin) << "not by itself";
  EXPECT_EQ(conclude(a, {made_up("B", 20, noise(3, 0.05))}, twins).verdict, Verdict::too_short);
  EXPECT_EQ(conclude(a, {b}, {}).missing_steps, 0) << "more steps alone do not help";
  EXPECT_EQ(conclude(a, {std::make_shared<History>(RunInfo{})}, twins).verdict, Verdict::too_short);
  EXPECT_EQ(conclude(a, {a}, twins).verdict, Verdict::identical);
  const Conclusion lost =
      conclude(a, {made_up("B", 600, [](std::size_t step) { return step < 599 ? 0 : std::nan(""); })}, twins);
  EXPECT_EQ(lost.verdict, Verdict::lost);
  EXPECT_EQ(lost.steps.first, 599);
}

TEST(Verdict, SaysHowManyStepsAreMissing) {
  const auto a = made_up("A", 600, noise(1, 0.05)), b = made_up("B", 600, noise(3, 0.05));
  const PairedRun twins[] = {{made_up("N", 12, noise(2, 0.05))}};
  const Conclusion soon = conclude(a, {made_up("B", 20, noise(3, 0.05))}, twins);
  EXPECT_EQ(soon.missing_steps, 30);
  EXPECT_EQ(verdict_sentence(soon), "B against A: too early to tell: verdict in 30 steps");
  EXPECT_EQ(conclude(a, {made_up("B", 49, noise(3, 0.05))}, twins).missing_steps, 1);
  EXPECT_NE(conclude(a, {made_up("B", 50, noise(3, 0.05))}, twins).verdict, Verdict::too_short);
  const Conclusion behind = conclude(a, {b}, twins);
  EXPECT_EQ(behind.verdict, Verdict::no_twin);
  EXPECT_EQ(behind.missing_steps, 38);
  EXPECT_NE(verdict_sentence(behind).find("verdict in 38 steps, when its noise twin has taken 50"), std::string::npos)
      << verdict_sentence(behind);
  const PairedRun enough[] = {{made_up("N", 50, noise(2, 0.05))}};
  EXPECT_EQ(conclude(a, {b}, enough).missing_steps, 0);
  EXPECT_EQ(conclude(a, {b}, enough).twins, 1);
}

// Gaps 0.01, 0.02 and 0.03 of three seeds: mean 0.02, standard error 0.01 / sqrt(3), Student's t of 2 degrees of
// freedom 4.303.
TEST(Verdict, OverSeedsIsOfTheMeanGap) {
  Conclusion seed;
  seed.matters = 0.001f;
  seed.verdict = Verdict::worse;
  seed.held_from = 40;
  std::vector<Conclusion> seeds;
  for (const float gap : {0.01f, 0.02f, 0.03f}) {
    seed.gap = gap;
    seeds.push_back(seed);
  }
  Conclusion mean = over_seeds(seeds);
  EXPECT_NEAR(mean.gap, 0.02, 1e-6);
  EXPECT_NEAR(mean.half_width, 4.3027 * 0.01 / std::sqrt(3), 1e-5);
  EXPECT_EQ(verdict_name(mean), "Not told apart");
  for (Conclusion& seed_conclusion : seeds) seed_conclusion.gap = 0.02f + 0.1f * (seed_conclusion.gap - 0.02f);
  EXPECT_EQ(verdict_name(over_seeds(seeds)), "Worse");
  seeds[1].gap = kNoValue;
  seeds[1].verdict = Verdict::lost;
  EXPECT_EQ(over_seeds(seeds).verdict, Verdict::lost) << "a NaN loss with one of the seeds";
}

// While the runs go on, a verdict waits until it has held for a fifth of the steps.
TEST(Verdict, IsGivenOnceItHasHeldWhileTheRunsGoOn) {
  const auto judged = [](std::size_t steps, bool goes_on) {
    const PairedRun twins[] = {{made_up("N", steps, noise(2, 0.001))}};
    const auto late_gap = [deviation = noise(3, 0.001)](std::size_t step) {
      return deviation(step) + (step < 300 ? 0 : 0.02);
    };
    return conclude(made_up("A", steps, noise(1, 0.001)), {made_up("B", steps, late_gap)}, twins, {.goes_on = goes_on});
  };
  std::size_t steps = 400;
  while (judged(steps, false).verdict != Verdict::worse) ASSERT_LT(++steps, 700u);
  const Conclusion held = judged(steps, true);
  EXPECT_EQ(held.verdict, Verdict::unclear);
  EXPECT_EQ(held.held_back, Verdict::worse);
  const auto missing_steps = static_cast<std::size_t>(held.missing_steps);
  EXPECT_EQ(verdict_reasons(held).front(), "worse since step " + std::to_string(steps - 1) + ", verdict in " +
                                               std::to_string(missing_steps) + " steps if this holds");
  EXPECT_EQ(verdict_word(held), VerdictWord::not_settled);
  EXPECT_NE(verdict_sentence(held).find("not settled: "), std::string::npos) << verdict_sentence(held);
  EXPECT_NEAR(held.missing_steps, 0.25 * static_cast<double>(steps), 4);
  const std::string late = ", only since step " + std::to_string(steps - 1);
  EXPECT_TRUE(verdict_reasons(judged(steps, false)).front().ends_with(late)) << "at the end of the runs";
  EXPECT_EQ(judged(steps + missing_steps - 10, true).verdict, Verdict::unclear);
  EXPECT_EQ(judged(steps + missing_steps, true).verdict, Verdict::worse) << "at the step that was promised";
  EXPECT_EQ(verdict_name(judged(steps, false)), "Worse, unconfirmed") << "at the end of the runs";
  EXPECT_NE(verdict_sentence(judged(steps, false)).find(": worse, unconfirmed: "), std::string::npos);
  const Conclusion so_far = judged(steps + missing_steps + 10, true), last = judged(steps + missing_steps + 10, false);
  EXPECT_EQ(so_far.verdict, Verdict::worse);
  EXPECT_EQ(verdict_name(so_far), "So far: worse");
  EXPECT_NE(verdict_sentence(so_far).find("B against A: so far worse: "), std::string::npos)
      << verdict_sentence(so_far);
  EXPECT_EQ(verdict_name(last), "Worse");
  EXPECT_NE(verdict_sentence(last).find("B against A: worse: "), std::string::npos) << verdict_sentence(last);
  EXPECT_EQ(verdict_name(held), "Not settled");
}

// A gap that closes: its verdict is withdrawn. The verdict of an earlier step is that of a training up to this step.
TEST(Verdict, WithdrawnLeavesATrace) {
  const auto run = [](const char* name, std::size_t steps, unsigned seed) {
    const auto gap = [deviation = noise(seed, 0.001), is_b = name == std::string("B")](std::size_t step) {
      return deviation(step) + (is_b && step < 300 ? 0.02 : 0);
    };
    return made_up(name, steps, gap);
  };
  constexpr std::size_t kSteps = 900;
  const auto a = run("A", kSteps, 1), b = run("B", kSteps, 3), n = run("N", kSteps, 2);
  const auto at = [&](std::size_t steps) {
    return conclude(a, {b}, std::vector<PairedRun>{{n}},
                    {.goes_on = true, .last_step = static_cast<std::int64_t>(steps) - 1});
  };
  for (const std::size_t steps : {40u, 90u, 300u, 420u, 700u}) {
    const PairedRun twins[] = {{run("N", steps, 2)}};
    const Conclusion shorter = conclude(run("A", steps, 1), {run("B", steps, 3)}, twins, {.goes_on = true});
    EXPECT_EQ(verdict_sentence(at(steps)), verdict_sentence(shorter)) << steps << " steps";
    EXPECT_EQ(at(steps).missing_steps, shorter.missing_steps) << steps << " steps";
  }
  const PairedTrack track = paired_track(a, {b}, Metric::ce_loss);
  std::vector<PairedTrack> tracks{track, paired_track(a, {n}, Metric::ce_loss)};
  for (PairedTrack& paired : tracks) paired.track.update();
  VerdictTrace trace;
  trace.update(tracks[0], std::span(tracks).subspan(1), {});
  ASSERT_FALSE(trace.past().empty());
  for (std::size_t i = 0; i < trace.past().size(); ++i) {
    const PastVerdict& verdict = trace.past()[i];
    for (const std::int64_t step : {verdict.steps.first, verdict.steps.last})
      EXPECT_EQ(verdict_word(at(static_cast<std::size_t>(step) + 1)), verdict.word) << "at step " << step;
    if (i == 0) continue;
    EXPECT_EQ(trace.past()[i - 1].steps.last + 1, verdict.steps.first);
  }
  const auto worse = std::ranges::find(trace.past(), VerdictWord::worse, &PastVerdict::word);
  ASSERT_NE(worse, trace.past().end());
  const Conclusion last = conclude(a, {b}, std::vector<PairedRun>{{n}});
  EXPECT_EQ(verdict_word(last), VerdictWord::good_enough);
  EXPECT_TRUE(withdrawn_text(trace.past(), last).ends_with(": worse")) << withdrawn_text(trace.past(), last);
  EXPECT_EQ(withdrawn_text(trace.past(), at(static_cast<std::size_t>(worse->steps.first) + 1)), "");
}

// Runs that differ later are identical up to an earlier step.
TEST(Verdict, IsIdenticalUpToTheJudgedStep) {
  const auto run = [](const char* name, double gap) {
    return made_up(name, 400, [gap](std::size_t step) { return step < 300 ? 0 : gap; });
  };
  const auto a = run("A", 0), b = run("B", 0.5);
  for (const std::int64_t step : {100, 299, 300})
    EXPECT_EQ(conclude(a, {b}, {}, {.last_step = step}).verdict == Verdict::identical, step < 300)
        << "at step " << step;
}

TEST(Verdict, JudgesOnlyStepsThatATwinHas) {
  const auto a = made_up("A", 1000, noise(1, 0.05));
  const auto jump = noise(3, 0.05);
  const auto b = made_up("B", 1000, [&](std::size_t step) { return jump(step) + (step < 400 ? 0 : 9); });
  const PairedRun twins[] = {{made_up("N", 300, noise(2, 0.05))}};
  const Conclusion c = conclude(a, {b}, twins);
  EXPECT_EQ(c.steps, (StepRange{150, 299}));
  EXPECT_EQ(c.verdict, Verdict::unclear) << verdict_sentence(c);
  // A twin that has only begun to catch up is not waited for.
  const PairedRun more[] = {{made_up("N", 900, noise(2, 0.05))}, {made_up("M", 30, noise(5, 0.05))}};
  EXPECT_EQ(conclude(a, {b}, more).twins, 1);
  EXPECT_EQ(conclude(a, {b}, more).steps.last, 899);
}

// A log of 120 steps whose text changes at `shift_step` (0: never).
HistoryPtr log_of_text(std::int64_t shift_step, const std::string& dataset, const std::function<double(int)>& loss) {
  LogReader reader("log.jsonl");
  reader.read_line("{\"run\": \"log\", \"dataset\": \"" + dataset +
                   "\", \"domain_shift_step\": " + std::to_string(shift_step) + "}");
  for (int step = 0; step < 120; ++step)
    reader.read_line("{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(loss(step)) + "}");
  return reader.finish().runs.front();
}

TEST(Verdict, IsOnTheStepsOfTheSameText) {
  const HistoryPtr a = log_of_text(0, "web", [](int) { return 2.0; });
  const auto judged = [&](std::int64_t shift_step, const std::string& dataset) {
    const auto loss = [=](int step) { return step < shift_step ? 2.01 : 3.0; };
    return conclude(a, {log_of_text(shift_step, dataset, loss)}, {});
  };
  const Conclusion long_part = judged(60, "web");
  EXPECT_EQ(long_part.verdict, Verdict::no_twin);
  EXPECT_EQ(long_part.steps, (StepRange{10, 59}));
  const Conclusion short_part = judged(40, "web");
  EXPECT_EQ(short_part.verdict, Verdict::too_short);
  EXPECT_EQ(short_part.steps, (StepRange{20, 39}));
  for (const Conclusion& c : {long_part, short_part}) {
    EXPECT_NEAR(c.gap, 0.01, 1e-4);
    EXPECT_EQ(c.other_text_from, c.steps.last + 1);
    EXPECT_EQ(c.missing_steps, 0) << "no more steps of the same text will come";
    EXPECT_EQ(verdict_word(c), VerdictWord::not_judged);
    EXPECT_NE(verdict_sentence(c).find(" on the runs read different text"), std::string::npos) << verdict_sentence(c);
    EXPECT_NE(verdict_reasons(c).front().find("different text from step "), std::string::npos);
  }
  const Conclusion none = judged(0, "books");
  EXPECT_EQ(none.other_text_from, 0);
  EXPECT_TRUE(is_missing(none.gap));
  EXPECT_EQ(what_settles(std::vector{short_part, none}, true).how, Settlement::How::nothing);
}

}  // namespace
}  // namespace moescope
