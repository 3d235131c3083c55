// Verdicts on losses of real GPU runs whose outcome is known (tests/data/gpu_losses), and on made-up ones whose noise
// is.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>

#include "core/telemetry/findings/verdict.h"

namespace moescope {
namespace {

std::shared_ptr<History> with_losses(const std::string& name, const std::vector<double>& losses) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = static_cast<std::int64_t>(step);
    frame->ce_loss = static_cast<float>(losses[step]);
    made->append(std::move(frame));
  }
  return made;
}

// By column. Rows become steps.
std::map<std::string, HistoryPtr> gpu_losses(const std::string& file) {
  std::ifstream in(std::string(MOESCOPE_TEST_DATA) + "/data/gpu_losses/" + file);
  std::string line, cell;
  std::vector<std::string> names;
  std::getline(in, line);
  for (std::istringstream cells(line); std::getline(cells, cell, ',');) names.push_back(cell);
  std::vector<std::vector<double>> columns(names.size());
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    for (std::size_t c = 0; std::getline(cells, cell, ','); ++c) columns[c].push_back(std::stod(cell));
  }
  std::map<std::string, HistoryPtr> runs;
  for (std::size_t c = 1; c < names.size(); ++c) runs[names[c]] = with_losses(names[c], columns[c]);
  return runs;
}

class Fp4 : public testing::Test {
 protected:
  Conclusion of(const char* name) const {
    const PairedRun twins[] = {{runs_.at("bf16_again")}, {runs_.at("bf16_third")}};
    return conclude(runs_.at("bf16"), {runs_.at(name)}, twins);
  }
  std::map<std::string, HistoryPtr> runs_ = gpu_losses("fp4.csv");
};

TEST_F(Fp4, InFpropWgradAndEverywhereIsWorse) {
  const std::pair<const char*, double> known[] = {
      {"fp4_fprop", 0.0025}, {"fp4_wgrad", 0.0055}, {"fp4_everywhere", 0.0106}};
  for (const auto& [name, gap] : known) {
    const Conclusion c = of(name);
    EXPECT_EQ(c.verdict, Verdict::worse) << c.text;
    EXPECT_EQ(c.twins, 2);
    EXPECT_NEAR(c.gap, gap, 0.0005) << c.text;
    EXPECT_GT(c.gap, c.half) << c.text;
  }
  EXPECT_LT(of("fp4_fprop").half, 0.002f) << "what can be told from chance here";
}

TEST_F(Fp4, InDgradIsNotToldApart) {
  const Conclusion c = of("fp4_dgrad");
  EXPECT_TRUE(c.verdict == Verdict::equal || c.verdict == Verdict::unclear) << c.text;
  EXPECT_LT(c.gap, c.half) << c.text;
  EXPECT_GT(c.gap, 0) << c.text;
}

TEST(Mxfp8OnAGpu, IsNotToldApartAndGoodEnough) {
  const auto runs = gpu_losses("mxfp8.csv");
  const PairedRun twins[] = {{runs.at("bf16_again")}};
  const Conclusion c = conclude(runs.at("bf16"), {runs.at("mxfp8")}, twins);
  EXPECT_EQ(c.verdict, Verdict::equal) << c.text;
  EXPECT_EQ(c.steps, (StepRange{350, 699}));
  EXPECT_LT(std::fabs(c.gap), 0.0004f) << c.text;
  EXPECT_NEAR(c.matters, 0.0025 * 0.93, 1e-4) << "0.25 % of BF16's mean loss";
  EXPECT_NE(c.text.find("mxfp8 against bf16: good enough: loss gap +0.0002 +-0.0012 nats/token over steps 350 to 699, "
                        "less than the 0.0024 that matter"),
            std::string::npos)
      << c.text;
}

// Of equal runs that only differ in a start that lasts, none is called worse for what its start did.
TEST(Mxfp8OnAGpu, IsJudgedByTwinsOfItsOwnStart) {
  const auto runs = gpu_losses("mxfp8.csv");
  const PairedRun other_start[] = {{runs.at("bf16_again"), false}};
  const PairedRun a_start_of_its_own{runs.at("mxfp8"), false};
  EXPECT_EQ(
      conclude(runs.at("bf16"), a_start_of_its_own, std::vector<PairedRun>{{runs.at("bf16_again"), true}}).verdict,
      Verdict::no_twin);
  const Conclusion by_seeds = conclude(runs.at("bf16"), {runs.at("mxfp8")}, other_start);
  EXPECT_EQ(by_seeds.twins, 1) << "better than none";
}

// Losses of a run: a fall that all share, and deviations of its own.
using Deviation = std::function<double(std::size_t)>;
HistoryPtr made_up(const char* name, std::size_t steps, const Deviation& deviation) {
  std::vector<double> losses(steps);
  for (std::size_t step = 0; step < steps; ++step)
    losses[step] = 2 + 3 * std::exp(-static_cast<double>(step) / 100) + deviation(step);
  return with_losses(name, losses);
}

// An autoregressive process with a memory of `memory` steps (0: none) around `offset`.
Deviation noise(unsigned seed, double sigma, double memory = 0, double offset = 0) {
  auto rng = std::make_shared<std::mt19937>(seed);
  auto normal = std::make_shared<std::normal_distribution<double>>();
  auto state = std::make_shared<double>((*normal)(*rng));
  const double kept = memory > 0 ? std::exp(-1 / memory) : 0;
  return [=](std::size_t) {
    *state = kept * *state + std::sqrt(1 - kept * kept) * (*normal)(*rng);
    return offset + sigma * *state;
  };
}

// 200 comparisons of equal runs with each kind of noise: what 95 % intervals must hold, and by how much neighbours'
// correlation would fool an interval that took steps as independent.
TEST(Verdict, RarelyCallsEqualRunsDifferent) {
  for (const double memory : {0.0, 5.0, 20.0, 60.0}) {
    int different = 0;
    constexpr int kTrials = 200;
    for (unsigned trial = 0; trial < kTrials; ++trial) {
      const auto run = [&](unsigned place) { return made_up("run", 400, noise(4 * trial + place, 0.05, memory)); };
      const PairedRun twins[] = {{run(1)}};
      const Conclusion c = conclude(run(0), {run(2)}, twins);
      different += c.verdict == Verdict::worse || c.verdict == Verdict::better;
    }
    EXPECT_LE(different, 0.1 * kTrials) << "a memory of " << memory << " steps";
  }
}

TEST(Verdict, FindsAGapThatStandsOutAndSaysWhichWay) {
  const auto a = made_up("A", 600, noise(1, 0.02));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.02))}};
  const Conclusion worse = conclude(a, {made_up("B", 600, noise(3, 0.02, 0, 0.03))}, twins);
  EXPECT_EQ(worse.verdict, Verdict::worse) << worse.text;
  EXPECT_NEAR(worse.gap, 0.03, 0.006);
  EXPECT_NE(worse.text.find("B against A: worse: loss gap +0.0"), std::string::npos) << worse.text;
  EXPECT_NE(worse.text.find("cannot be told from chance here"), std::string::npos) << worse.text;
  const Conclusion better = conclude(a, {made_up("B", 600, noise(3, 0.02, 0, -0.03))}, twins);
  EXPECT_EQ(better.verdict, Verdict::better) << better.text;
}

TEST(Verdict, SaysWhetherAGapThatIsThereMatters) {
  const auto a = made_up("A", 600, noise(1, 0.001));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.001))}};
  const auto with_gap = [&](double gap) {
    return conclude(a, {made_up("B", 600, noise(3, 0.001, 0, gap))}, twins).text;
  };
  EXPECT_NE(with_gap(0.002).find(", less than the 0.005"), std::string::npos) << with_gap(0.002);
  EXPECT_NE(with_gap(0.02).find(", more than the 0.005"), std::string::npos) << with_gap(0.02);
  EXPECT_NE(with_gap(0.0051).find("that matter not excluded"), std::string::npos) << with_gap(0.0051);
}

// What the start of a run was lucky in lasts: one twin tells little then, three tell more, and the promise of another
// twin is kept.
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
    EXPECT_NE(one.verdict, Verdict::equal) << one.text;
    const Conclusion three = conclude(a, {b}, twins);
    with_one += one.half;
    promised += is_missing(one.half_with_another) ? one.half : one.half_with_another;
    with_three += three.half;
  }
  EXPECT_GT(with_one, 2 * with_three);
  EXPECT_LT(promised, 0.5 * with_one);
}

// A run that swings more than run A and its twin do is not called worse for where it swung last.
TEST(Verdict, KnowsARunsOwnSwings) {
  const auto a = made_up("A", 400, noise(1, 0.001));
  const PairedRun twins[] = {{made_up("N", 400, noise(2, 0.001))}};
  const auto swings =
      made_up("B", 400, [](std::size_t step) { return 0.1 * std::sin(0.012 * static_cast<double>(step)); });
  const Conclusion c = conclude(a, {swings}, twins);
  EXPECT_EQ(c.verdict, Verdict::unclear) << c.text;
  EXPECT_TRUE(is_missing(c.half_with_another)) << "another twin would not help";
}

// The losses of a run whose routing differs from run A's by a share of the tokens at every tenth step.
HistoryPtr drifted(const char* name, float share, const Deviation& deviation) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < 400; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(2 + deviation(static_cast<std::size_t>(step)));
    if (step % 10 == 0) frame->flips = {{.layer = 1, .flip_rate = share}};
    made->append(std::move(frame));
  }
  return made;
}

// A gap that stands out beside twins which have drifted as far does not beside twins that are still near run A.
TEST(Verdict, AllowsForTwinsThatHaveDriftedLess) {
  const auto a = drifted("A", 0, noise(1, 0.002));
  const auto judged = [&](float twins_share) {
    const PairedRun twins[] = {{drifted("N", twins_share, noise(2, 0.002))},
                               {drifted("M", twins_share, noise(4, 0.002))}};
    return conclude(a, {drifted("B", 0.9f, noise(3, 0.002, 0, -0.002))}, twins);
  };
  const Conclusion as_far = judged(0.9f), near = judged(0.4f);
  EXPECT_EQ(as_far.verdict, Verdict::better) << as_far.text;
  EXPECT_EQ(as_far.text.find("drifted"), std::string::npos) << as_far.text;
  EXPECT_EQ(near.verdict, Verdict::unclear) << near.text;
  EXPECT_NEAR(near.drift_of_twins, 0.4f, 1e-6);
  EXPECT_NE(near.text.find("by 40 % of the tokens only, this run's by 90 %"), std::string::npos) << near.text;
  EXPECT_EQ(judged(0).verdict, Verdict::unclear);
}

// Known at some steps only.
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
  const Conclusion c = conclude(a, {run("B", 0.05)}, twins, kMatters, Metric::val_loss);
  EXPECT_EQ(c.verdict, Verdict::worse) << c.text;
  EXPECT_NEAR(c.gap, 0.05, 0.002) << c.text;
  EXPECT_NE(c.text.find("B against A: worse: validation loss gap +0.05"), std::string::npos) << c.text;
  const auto never = made_up("A", 400, noise(1, 0.05));
  EXPECT_TRUE(is_missing(conclude(never, {made_up("B", 400, noise(2, 0.05))}, {}, kMatters, Metric::val_loss).gap));
}

TEST(Verdict, WhatCannotBeSaidIsNotSaid) {
  const auto a = made_up("A", 600, noise(1, 0.05)), b = made_up("B", 600, noise(3, 0.05));
  const PairedRun twins[] = {{made_up("N", 600, noise(2, 0.05))}};
  EXPECT_EQ(conclude(a, {b}, {}).verdict, Verdict::no_twin);
  EXPECT_FALSE(is_missing(conclude(a, {b}, {}).gap));
  EXPECT_EQ(conclude(a, {b}, std::vector<PairedRun>{{b}}).verdict, Verdict::no_twin) << "not by itself";
  EXPECT_EQ(conclude(a, {made_up("B", 20, noise(3, 0.05))}, twins).verdict, Verdict::too_short);
  EXPECT_EQ(conclude(a, {b}, {}).lacking, 0) << "more steps alone do not help";
  EXPECT_EQ(conclude(a, {std::make_shared<History>(RunInfo{})}, twins).verdict, Verdict::too_short);
  EXPECT_EQ(conclude(a, {a}, twins).verdict, Verdict::identical);
  const Conclusion lost =
      conclude(a, {made_up("B", 600, [](std::size_t step) { return step < 599 ? 0 : std::nan(""); })}, twins);
  EXPECT_EQ(lost.verdict, Verdict::lost);
  EXPECT_EQ(lost.steps.first, 599);
}

TEST(Verdict, SaysHowManyStepsAreLacking) {
  const auto a = made_up("A", 600, noise(1, 0.05)), b = made_up("B", 600, noise(3, 0.05));
  const PairedRun twins[] = {{made_up("N", 12, noise(2, 0.05))}};
  const Conclusion soon = conclude(a, {made_up("B", 20, noise(3, 0.05))}, twins);
  EXPECT_EQ(soon.lacking, 30);
  EXPECT_EQ(soon.text, "B against A: 20 of the 50 steps that a verdict takes; 30 more");
  EXPECT_EQ(conclude(a, {made_up("B", 49, noise(3, 0.05))}, twins).lacking, 1);
  EXPECT_NE(conclude(a, {made_up("B", 50, noise(3, 0.05))}, twins).verdict, Verdict::too_short);
  const Conclusion behind = conclude(a, {b}, twins);
  EXPECT_EQ(behind.verdict, Verdict::no_twin);
  EXPECT_EQ(behind.lacking, 38);
  EXPECT_NE(behind.text.find("its noise twin has taken 12 of the 50 steps that a verdict takes; 38 more"),
            std::string::npos)
      << behind.text;
  const PairedRun enough[] = {{made_up("N", 50, noise(2, 0.05))}};
  EXPECT_EQ(conclude(a, {b}, enough).lacking, 0);
  EXPECT_EQ(conclude(a, {b}, enough).twins, 1);
}

TEST(Verdict, JudgesOnlyWhereATwinHasGot) {
  const auto a = made_up("A", 1000, noise(1, 0.05));
  const auto jump = noise(3, 0.05);
  const auto b = made_up("B", 1000, [&](std::size_t step) { return jump(step) + (step < 400 ? 0 : 9); });
  const PairedRun twins[] = {{made_up("N", 300, noise(2, 0.05))}};
  const Conclusion c = conclude(a, {b}, twins);
  EXPECT_EQ(c.steps, (StepRange{150, 299}));
  EXPECT_EQ(c.verdict, Verdict::unclear) << c.text;
  // One that has only begun to catch up is not waited for.
  const PairedRun more[] = {{made_up("N", 900, noise(2, 0.05))}, {made_up("M", 30, noise(5, 0.05))}};
  EXPECT_EQ(conclude(a, {b}, more).twins, 1);
  EXPECT_EQ(conclude(a, {b}, more).steps.last, 899);
}

// Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10.
TEST(Student, IsThatOfTheTables) {
  EXPECT_NEAR(student_95(1), 12.706, 2e-3);
  EXPECT_NEAR(student_95(2), 4.303, 1e-3);
  EXPECT_NEAR(student_95(3), 3.182, 1e-3);
  EXPECT_NEAR(student_95(4), 2.776, 1e-3);
  EXPECT_NEAR(student_95(10), 2.228, 1e-3);
  EXPECT_NEAR(student_95(60), 2.000, 1e-3);
  EXPECT_NEAR(student_95(1e4), 1.960, 1e-2);
}

}  // namespace
}  // namespace moescope
