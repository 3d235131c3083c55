// The gate on made-up runs whose noise and faults are known.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/findings/comparison/regression_gate.h"
#include "core/frame/router_stats.h"
#include "tests/support/made_up_losses.h"

namespace moescope {
namespace {

constexpr std::int64_t kSteps = 300;
constexpr int kExperts = 8;

RunInfo named_info(const std::string& name) {
  RunInfo info;
  info.name = name;
  return info;
}

RunInfo routed_info() {
  RunInfo info = named_info("run");
  info.n_layers = 3;
  info.moe_layers = {1, 2};
  info.n_experts = kExperts;
  info.top_k = 2;
  info.tokens_per_step = 2048;
  info.window = 50;
  return info;
}

// A run with a falling loss, whose noise is correlated over 20 steps, and loads of two layers.
struct GateRun {
  unsigned seed = 1;
  std::int64_t steps = kSteps, first_step = 0;
  std::function<double(std::int64_t)> added_loss = [](std::int64_t) { return 0; };
  std::function<double(int layer, int expert, std::int64_t)> share = [](int, int, std::int64_t) { return 1; };
  RunInfo info = routed_info();

  std::shared_ptr<History> history() const {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    auto run = std::make_shared<History>(info);
    double noise = normal(random);
    std::vector<LoadWindow> windows(info.n_layers, LoadWindow(info.n_experts, info.window));
    for (std::int64_t step = first_step; step < first_step + steps; ++step) {
      noise = 0.95 * noise + 0.31 * normal(random);
      TelemetryFrame frame;
      frame.step = step;
      frame.ce_loss = static_cast<float>(2 + std::exp(-0.01 * step) + 0.02 * noise + added_loss(step));
      for (const int layer : info.moe_layers) {
        RouterFrame router;
        router.layer = layer;
        for (int expert = 0; expert < info.n_experts; ++expert) {
          const double mean = 512 * share(layer, expert, step);
          const double count = mean + std::sqrt(mean) * normal(random);
          router.tokens_per_expert.push_back(static_cast<std::uint32_t>(std::max(0.0, count)));
        }
        windows[layer].push(router.tokens_per_expert);
        fill_derived_figures(router, windows[layer]);
        frame.routers.push_back(std::move(router));
      }
      run->append(std::make_shared<const TelemetryFrame>(std::move(frame)));
    }
    return run;
  }
};

std::vector<HistoryPtr> good_runs(int count) {
  std::vector<HistoryPtr> runs;
  for (int run = 0; run < count; ++run) runs.push_back(GateRun{.seed = 100u + run}.history());
  return runs;
}

GateReport judged(const GateRun& run, int good = 2) {
  return judge_gate(run.history(), good_runs(good));
}

TEST(RegressionGate, EqualRunsAreTheSame) {
  int alarms = 0;
  for (unsigned seed = 1; seed <= 20; ++seed)
    for (const int good : {1, 2, 3}) {
      const GateReport report = judged({.seed = seed}, good);
      EXPECT_NE(report.verdict, GateVerdict::too_early);
      alarms += report.verdict != GateVerdict::same;
    }
  EXPECT_LE(alarms, 5) << "of 60";
}

TEST(RegressionGate, IdenticalRunIsTheSame) {
  const std::vector<HistoryPtr> good = good_runs(2);
  const GateReport report = judge_gate(good.front(), good);
  EXPECT_EQ(report.verdict, GateVerdict::same) << gate_sentence(report);
  const HistoryPtr only[] = {good.front()};
  EXPECT_EQ(judge_gate(good.front(), only).verdict, GateVerdict::same);
}

// A program that repeats a run to the bit, or a copy of a log, does not show how far equal runs lie apart.
TEST(RegressionGate, GoodRunsWithTheSameValuesCountOnce) {
  const HistoryPtr run = GateRun{.seed = 7}.history(), first = GateRun{.seed = 100}.history();
  const HistoryPtr copies[] = {first, GateRun{.seed = 100}.history(), first};
  const GateReport one_report = judge_gate(run, {&first, 1}), copies_report = judge_gate(run, copies);
  EXPECT_EQ(copies_report.repeated_runs, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(copies_report.verdict, one_report.verdict);
  EXPECT_EQ(gate_sentence(copies_report), gate_sentence(one_report));
  EXPECT_EQ(copies_report.series.front().half_width, one_report.series.front().half_width);
  EXPECT_NE(gate_notes(copies_report).at(2).find("has the same values: run, run."), std::string::npos);
  const HistoryPtr two[] = {first, copies[1], GateRun{.seed = 101}.history()};
  const GateReport two_report = judge_gate(run, two);
  EXPECT_EQ(two_report.repeated_runs, std::vector<std::size_t>{1});
  EXPECT_EQ(two_report.good_runs(), 2u);
}

TEST(RegressionGate, HigherLossRegressesAtItsStep) {
  for (const int good : {1, 2, 4}) {
    const GateReport report = judged({.added_loss = [](auto step) { return step >= 200 ? 1.0 : 0.0; }}, good);
    ASSERT_EQ(report.verdict, GateVerdict::regressed) << gate_sentence(report);
    const GateExit& first = report.exits.front();
    EXPECT_EQ(report.series[first.series].figure.info, &metric_info(Metric::ce_loss));
    EXPECT_NEAR(first.first_step(), 200, 10);
    EXPECT_FALSE(first.is_over) << good << ": " << exit_text(report, first);
    EXPECT_EQ(first.last_step(), kSteps - 1);
  }
}

TEST(RegressionGate, LowerLossIsBetter) {
  const GateReport report = judged({.added_loss = [](auto) { return -0.8; }});
  EXPECT_EQ(report.verdict, GateVerdict::better) << gate_sentence(report);
}

TEST(RegressionGate, SingleStepOutsideIsNoRegression) {
  for (const std::int64_t spike : {0, 97, 150, 299}) {
    const GateReport report = judged({.added_loss = [=](auto step) { return step == spike ? 0.8 : 0.0; }});
    EXPECT_EQ(report.verdict, GateVerdict::same) << gate_sentence(report);
  }
}

TEST(RegressionGate, NamesLayerAndExpertOfALoad) {
  const auto share = [](int layer, int expert, std::int64_t step) {
    return layer == 2 && expert == 5 && step >= 150 ? 2.0 : 1.0;
  };
  const GateReport report = judged({.share = share});
  ASSERT_EQ(report.verdict, GateVerdict::regressed);
  for (const GateExit& exit : report.exits) {
    EXPECT_EQ(report.series[exit.series].figure.layer, 2) << exit_text(report, exit);
    EXPECT_NEAR(exit.first_step(), 150, 10) << exit_text(report, exit);
    EXPECT_EQ(exit.expert, 5);
    EXPECT_NEAR(exit.expert_load, 2 * 8 / 9.0, 0.1);
  }
}

TEST(RegressionGate, LossThatIsNotFiniteRegressesAtItsStep) {
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const GateReport report = judged({.added_loss = [=](auto step) { return step >= 233 ? loss : 0.0; }});
    ASSERT_EQ(report.verdict, GateVerdict::regressed);
    EXPECT_EQ(report.exits.front().first_step(), 233);
    EXPECT_EQ(report.exits.front().not_finite_step, 233);
  }
  EXPECT_EQ(judged({.added_loss = [](auto) { return NAN; }}).verdict, GateVerdict::regressed) << "from the first step";
}

TEST(RegressionGate, AFigureIsNamedOnceHoweverOftenItLeaves) {
  const auto added = [](std::int64_t step) -> double {
    if (step >= 280) return NAN;
    if (step >= 40 && step < 70) return -1.0;
    return (step >= 100 && step < 130) || (step >= 200 && step < 230) ? 1.0 : 0.0;
  };
  const GateReport report = judged({.steps = 280, .added_loss = added});
  ASSERT_EQ(report.exits.size(), 1u) << "one figure";
  const GateExit& loss = report.exits.front();
  EXPECT_TRUE(loss.is_worse) << "the times on the better side do not count";
  ASSERT_EQ(loss.times.size(), 2u);
  EXPECT_NEAR(loss.first_step(), 100, 10);
  EXPECT_NEAR(loss.last_step(), 229, 10);
  EXPECT_NE(exit_text(report, loss).find(", 2 times"), std::string::npos) << exit_text(report, loss);
  const GateReport broken = judged({.added_loss = added});
  ASSERT_EQ(broken.exits.size(), 1u);
  EXPECT_EQ(broken.exits.front().not_finite_step, 280);
  EXPECT_NEAR(broken.exits.front().first_step(), 100, 10);
  EXPECT_NE(gate_sentence(broken).find("at step 1"), std::string::npos) << gate_sentence(broken);
}

TEST(RegressionGate, GoodRunWithANaNIsNamed) {
  std::vector<HistoryPtr> good = good_runs(2);
  good[1] = GateRun{.added_loss = [](auto step) { return step == 12 ? NAN : 0.0; }}.history();
  const GateReport report = judge_gate(GateRun().history(), good);
  EXPECT_EQ(report.verdict, GateVerdict::too_early);
  EXPECT_EQ(report.problem, GateProblem::good_run_not_finite);
  EXPECT_EQ(report.bad_good_run, 1u);
}

TEST(RegressionGate, NamesWhyThereIsNoVerdict) {
  EXPECT_EQ(judged({.first_step = 1000}).problem, GateProblem::no_common_steps);
  EXPECT_EQ(judged({.steps = 39}).problem, GateProblem::few_steps);
  EXPECT_EQ(judged({.steps = 1}).problem, GateProblem::few_steps);
  EXPECT_EQ(judged({.steps = 0}).problem, GateProblem::no_common_steps);
  EXPECT_EQ(judged({.steps = 40}).problem, GateProblem::none);
  auto without_figures = std::make_shared<History>(named_info("empty"));
  for (std::int64_t step = 0; step < kSteps; ++step) {
    TelemetryFrame frame;
    frame.step = step;
    frame.aux_loss = frame.z_loss = kNoValue;
    without_figures->append(std::make_shared<const TelemetryFrame>(frame));
  }
  const GateReport report = judge_gate(without_figures, good_runs(2));
  EXPECT_EQ(report.problem, GateProblem::no_common_figures);
  for (const GateProblem problem : {GateProblem::no_common_steps, GateProblem::few_steps,
                                    GateProblem::no_common_figures, GateProblem::good_run_not_finite}) {
    GateReport named;
    named.good_names = {"good"};
    named.problem = problem;
    EXPECT_NE(gate_sentence(named), "");
  }
}

TEST(RegressionGate, PairsByTokensIfBatchesDiffer) {
  GateRun run{.steps = 2 * kSteps};
  run.info.tokens_per_step = 1024;
  // As far as the loss of the good runs after as many tokens.
  run.added_loss = [](auto step) { return std::exp(-0.005 * step) - std::exp(-0.01 * step); };
  const GateReport report = judged(run);
  EXPECT_TRUE(report.by_tokens);
  EXPECT_EQ(report.common_steps, kSteps);
  EXPECT_EQ(report.steps, (StepRange{0, 2 * kSteps - 1}));
  EXPECT_EQ(report.verdict, GateVerdict::same) << gate_sentence(report);
}

TEST(RegressionGate, LayersThatNotAllRunsHaveAreNamed) {
  GateRun run;
  run.info.moe_layers = {1};
  run.info.n_experts = 16;
  const GateReport report = judged(run);
  EXPECT_NE(report.verdict, GateVerdict::too_early);
  const auto named = std::ranges::find(report.not_in_all, "MaxVio (batch), layer 2");
  EXPECT_NE(named, report.not_in_all.end());
}

TEST(RegressionGate, NamesSettingsThatDiffer) {
  const auto with_config = [](const char* name, std::int64_t seed, int top_k) {
    RunConfig config;
    config.name = name;
    config.seed = seed;
    config.router.top_k = top_k;
    RunInfo info = named_info(name);
    info.config_toml = to_toml(config);
    return std::make_shared<History>(info);
  };
  const HistoryPtr good[] = {with_config("good", 1, 2), with_config("other", 2, 2)};
  auto run = with_config("new", 1, 2);
  run->append(std::make_shared<const TelemetryFrame>());
  run->append(change_marker(0, 0, "router.top_k", "2", "4"));
  run->append(change_marker(0, 0, "router.killed_experts", "", "1:5"));
  const GateReport report = judge_gate(run, good);
  ASSERT_EQ(report.settings.size(), 3u);
  EXPECT_EQ(setting_text(report.settings[0]), "router.killed_experts: 1:5 (good runs: none), since step 0");
  EXPECT_EQ(report.settings[1].name, "router.top_k");
  EXPECT_EQ(report.settings[1].value, "4");
  EXPECT_EQ(report.settings[1].good, (std::vector<std::string>{"2", "2"}));
  EXPECT_EQ(report.settings[1].changed_at, 0);
  EXPECT_FALSE(report.settings[1].differs_among_good);
  EXPECT_EQ(report.settings[2].name, "seed");
  EXPECT_TRUE(report.settings[2].differs_among_good);
}

TEST(RegressionGate, NamesSettingsThatLogsState) {
  const auto with_log = [](const char* settings) {
    auto log = std::make_shared<History>(named_info("log"));
    log->append(std::make_shared<const TelemetryFrame>());
    Marker marker;
    marker.kind = kSettingsMarker;
    marker.text = settings;
    log->append(marker);
    return log;
  };
  const HistoryPtr good[] = {with_log(R"({"moe_aux_loss_coeff": 0.01, "name": "x"})")};
  const GateReport report = judge_gate(with_log(R"({"moe_aux_loss_coeff": 0.1, "lr": 1, "name": "y"})"), good);
  ASSERT_EQ(report.settings.size(), 2u);
  EXPECT_EQ(setting_text(report.settings[0]), "moe_aux_loss_coeff: 0.1 (good runs: 0.01)") << "both runs state it";
  EXPECT_EQ(setting_text(report.settings[1]), "lr: 1 (good runs: not given)");
}

}  // namespace
}  // namespace moescope
