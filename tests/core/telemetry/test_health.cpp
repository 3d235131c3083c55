// The verdict on a run's routers: who, since when, and what would help.
#include <gtest/gtest.h>

#include "core/telemetry/findings/health.h"
#include "core/telemetry/frame/change_marker.h"
#include "core/telemetry/history/last_array.h"
#include "core/telemetry/history/worst_layer.h"
#include "core/telemetry/logs/import_jsonl.h"
#include "core/telemetry/recording/run_settings.h"
#include "tests/support/made_up_run.h"
#include "tests/support/sample_log.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

Health judge(const HistoryPtr& history, std::int64_t upto = INT64_MAX) {
  FindingsScan scan(history);
  scan.advance(upto);
  return judge_health(scan);
}

TEST(Health, AnUnbalancedRunNamesItsWorstLayerItsExpertsAndTheSettings) {
  const HistoryPtr history = sample_log("unbalanced_bf16");
  const Health health = judge(history);
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_EQ(health.layer, least_even_layer(*history, INT64_MAX).layer);
  EXPECT_TRUE(says(health.sentence, "3 of 8 MoE layers have collapsed (1, 2 and 3)")) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "The worst is layer " + std::to_string(health.layer))) << health.sentence;
  EXPECT_GT(health.since, 300);
  EXPECT_LT(health.since, 600);
  EXPECT_TRUE(says(health.help, "Nothing balances this router: bias_update_rate = 0, aux_coeff = 0.")) << health.help;
  // The experts that it names have the most tokens of the last 50 steps, and half of all together.
  ASSERT_GE(health.experts.size(), 2u);
  const StepRange all = history->steps();
  const auto load = history->utilisation(health.layer, {all.last - 49, all.last}, 1, Summary::mean);
  double share = 0;
  for (const int expert : health.experts) share += static_cast<double>(load[static_cast<std::size_t>(expert)]) / 64;
  EXPECT_GT(share, 0.5);
  EXPECT_EQ(std::ranges::max_element(load) - load.begin(), health.experts.front());
  for (const Finding& f : find_all(history)) EXPECT_TRUE(says(f.saw, "aux_coeff = 0")) << f.saw;
}

TEST(Health, ARunThatDoesNotRecoverNeedsAttention) {
  const HistoryPtr history = sample_log("domain_shift");
  const Health before = judge(history, 699);  // its first layer has just got to twice the share, again
  EXPECT_EQ(before.verdict, HealthVerdict::too_young) << before.sentence;
  EXPECT_TRUE(says(before.sentence, "layer 1 has been uneven since step 480, and no finding yet")) << before.sentence;
  const Health health = judge(history);
  EXPECT_EQ(health.verdict, HealthVerdict::attention);
  EXPECT_EQ(health.layer, 1);
  EXPECT_EQ(health.since, 700);
  EXPECT_TRUE(says(health.help, "bias_update_rate = 0.001")) << health.help;
}

TEST(Health, AnEvenLoadIsHealthyOnceItHasSettled) {
  MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\n");
  EXPECT_EQ(judge(run.history()).verdict, HealthVerdict::unknown);
  run.steps(100, MadeUp::even(), MadeUp::even());
  const Health young = judge(run.history());
  EXPECT_EQ(young.verdict, HealthVerdict::too_young);
  EXPECT_TRUE(says(young.sentence, "100 of about 150 steps")) << young.sentence;
  run.steps(60, MadeUp::even(), MadeUp::even());
  const Health healthy = judge(run.history());
  EXPECT_EQ(healthy.verdict, HealthVerdict::healthy);
  EXPECT_EQ(healthy.since, -1);
  EXPECT_EQ(healthy.experts.size(), 1u) << healthy.sentence;  // all of them would say nothing
  EXPECT_GT(healthy.layer, 0);
  EXPECT_EQ(healthy.help, "Balancing: bias_update_rate = 0.001, aux_mode = none.");
}

double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + words.size()));
}

// Figures beside the verdict are of the same steps, and agree with it.
TEST(Health, FiguresAgreeWithEachOtherAndWithTheVerdict) {
  for (const double share : {1.2, 1.7, 3.0, 6.0}) {
    MadeUp run;
    MadeUp::Shares shares = MadeUp::even();
    shares[3] = share;
    run.steps(300, MadeUp::even(), MadeUp::even());
    run.steps(120, shares, MadeUp::even());
    const Health health = judge(run.history());
    EXPECT_EQ(health.verdict == HealthVerdict::healthy, share < 2) << health.sentence;
    EXPECT_EQ(health.layer, 1);
    EXPECT_TRUE(says(health.sentence + " ", "the newest 50 steps together MaxVio is ")) << health.sentence;
    EXPECT_FALSE(says(health.sentence, "(window)") || says(health.sentence, "(batch)")) << health.sentence;
    const double max_vio = number_after(health.sentence, "MaxVio is ");
    EXPECT_NEAR(max_vio + 1, number_after(health.sentence, "expert 3 has "), 0.02) << health.sentence;
    EXPECT_EQ(max_vio >= 1, share > 2) << health.sentence;
  }
}

TEST(Health, AnUnevenLoadThatGetsEvenIsStillSettling) {
  MadeUp run;
  for (int step = 0; step < 420; ++step) {
    MadeUp::Shares shares = MadeUp::even();
    shares[3] = 1 + 6 * std::exp(-step / 300.0);
    run.next().routers = {run.router(1, shares), run.router(2, MadeUp::even())};
    run.push();
  }
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::too_young) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "layer 1 is still settling")) << health.sentence;
}

TEST(Health, SaysThatCopiesAreDropped) {
  MadeUp run(
      "[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\ntoken_drop = \"probs\"\ncapacity_factor = 1.25\n");
  run.steps(160, MadeUp::even(), MadeUp::even());
  EXPECT_TRUE(says(judge(run.history()).help,
                   "aux_mode = none. Beyond capacity copies are dropped: token_drop = probs, capacity_factor = 1.25."));
}

// A finding only once it has lasted; healthy it is not meanwhile.
TEST(Health, AnExpertThatIsFarTooFullJustNowIsNotHealthy) {
  MadeUp run;
  MadeUp::Shares full = MadeUp::even();
  full[5] = 8;
  run.steps(200, full, MadeUp::even());
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::too_young) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "far too full since step 0, and no finding yet")) << health.sentence;
  EXPECT_EQ(health.experts, std::vector<int>{5});
  EXPECT_EQ(health.since, 0);
}

TEST(Health, ExpertsWithoutATokenAreNamedBeforeTheyCountAsDead) {
  MadeUp run;
  MadeUp::Shares silent = MadeUp::even();
  silent[3] = silent[7] = 0;
  run.steps(200, MadeUp::even(), MadeUp::even());
  run.steps(40, MadeUp::even(), silent);
  EXPECT_EQ(judge(run.history()).verdict, HealthVerdict::healthy);
  run.steps(60, MadeUp::even(), silent);
  EXPECT_TRUE(find_all(run.history()).empty());
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::attention);
  EXPECT_EQ(health.layer, 2);
  EXPECT_EQ(health.since, 200);
  EXPECT_EQ(health.experts, (std::vector<int>{3, 7}));
  EXPECT_TRUE(says(health.sentence, "layer 2 has had experts without a token since step 200, and no finding yet"))
      << health.sentence;
  EXPECT_TRUE(says(health.sentence, "Experts 3 and 7 get no token")) << health.sentence;
}

TEST(Health, QuantilesBalanceWithoutARate) {
  MadeUp run("[router]\nbalance_rule = \"quantile_batch\"\nbias_update_rate = 0.0\naux_mode = \"none\"\n");
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(300, dead, MadeUp::even());
  const Health health = judge(run.history());
  EXPECT_FALSE(says(health.help, "Nothing balances")) << health.help;
  EXPECT_TRUE(says(health.help, "Balancing: balance_rule = quantile_batch, aux_mode = none.")) << health.help;
  EXPECT_FALSE(says(health.help, "bias_update_rate")) << health.help;
  for (const Finding& f : find_all(run.history()))
    for (const std::string& knob : f.knobs) EXPECT_NE(knob, "router.bias_update_rate") << f.title;
  const auto stated = main_settings(*run.history(), 0);
  EXPECT_EQ(std::ranges::count(stated, std::string("bias_update_rate"), &StatedSetting::name), 0);
  EXPECT_EQ(std::ranges::count(stated, std::string("balance_rule"), &StatedSetting::name), 1);
}

TEST(Health, DeadExpertsAreNamedByNumber) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = dead[11] = 0;
  run.steps(300, MadeUp::even(), dead);
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_EQ(health.layer, 2);
  EXPECT_EQ(health.experts, (std::vector<int>{5, 11}));
  EXPECT_EQ(health.since, 0);
  EXPECT_TRUE(says(health.sentence, "experts 5 and 11 get no token")) << health.sentence;
  EXPECT_TRUE(says(health.help, "not known")) << health.help;
}

TEST(Health, ALostLossGoesFirst) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(300, dead, MadeUp::even());
  for (int i = 0; i < 20; ++i) run.next().ce_loss = std::nanf(""), run.push();
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_EQ(health.since, 300);
  EXPECT_TRUE(says(health.help, "Settings that move it: optimizer.lr, optimizer.clip, precision.experts."))
      << health.help;
}

TEST(Health, WithoutLoadsThereIsNoVerdict) {
  RunInfo info;
  info.moe_layers = {1, 2};
  info.n_experts = 8;
  auto history = std::make_shared<History>(info);
  for (int step = 0; step < 200; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = 2;
    history->append(std::move(frame));
  }
  EXPECT_EQ(judge(history).verdict, HealthVerdict::unknown);
}

TEST(LogSettings, AreFoundUnderTheNamesThatProgramsGiveThem) {
  RunInfo info;
  info.moe_layers = {0};
  info.n_experts = 4;
  History history(info);
  history.append(Marker{0, 0, kSettingsMarker, R"({"load_balance_coeff": 0.001, "precision": "bf16", "lr": 6e-4})"});
  EXPECT_EQ(setting_at(history, "router.bias_update_rate", 0), "0.001");
  EXPECT_EQ(number_at(history, "optimizer.lr", 0), 6e-4);
  EXPECT_EQ(setting_at(history, "router.aux_coeff", 0), std::nullopt);
  const auto stated = main_settings(history, 0);
  ASSERT_EQ(stated.size(), 3u);
  EXPECT_EQ(stated[0].name, "load_balance_coeff");
  EXPECT_EQ(stated[1].value, "bf16");
}

TEST(LogSettings, ABalanceThatIsNamedIsNotNone) {
  const auto balancing = [](const char* settings) {
    MadeUp run;
    MadeUp::Shares dead = MadeUp::even();
    dead[5] = 0;
    run.steps(300, dead, MadeUp::even());
    run.history()->append(Marker{0, 0, kSettingsMarker, settings});
    return judge(run.history()).help;
  };
  EXPECT_TRUE(says(balancing(R"({"bias_update_rate": 0, "aux_coeff": 0})"), "Nothing balances"));
  EXPECT_FALSE(says(balancing(R"({"bias_update_rate": 0})"), "Nothing balances"));  // aux_coeff is not known
  const std::string quantile = balancing(R"({"bias_update_rate": 0, "aux_coeff": 0, "balance": "quantile"})");
  EXPECT_FALSE(says(quantile, "Nothing balances")) << quantile;
  EXPECT_TRUE(says(quantile, "balance = quantile")) << quantile;
}

TEST(LogSettings, ASettingsLineMayHaveAConfigOfItsOwn) {
  LogReader reader("log");
  reader.read_line(R"({"run": "a", "config": {"qb": "1"}, "precision": "bf16"})");
  reader.read_line(R"({"step": 0, "loss": 2, "tokens_per_expert": [[1, 2], [2, 1]]})");
  reader.finish_step();
  EXPECT_EQ(reader.bad_lines(), 0);
  ASSERT_TRUE(reader.history());
  EXPECT_TRUE(reader.history()->info().config_toml.empty());
  EXPECT_EQ(log_settings(*reader.history()).at("precision"), "bf16");
}

TEST(LastArray, IsThatOfTheLastStepThatHasIt) {
  MadeUp run;
  for (int step = 0; step < 450; ++step) {
    TelemetryFrame& frame = run.next();
    frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
    if (step % 10 == 0 && step <= 100) frame.routers[1].expert_bias.assign(16, static_cast<float>(step));
    run.push();
  }
  LastArray bias(&RouterFrame::expert_bias), mass(&RouterFrame::gate_mass);
  const History& history = *run.history();
  for (const int step : {0, 9, 10, 57, 55, 3, 99, 100, 101, 250}) {
    const LastArray::Found& found = bias.at(history, 2, step);
    ASSERT_EQ(found.step, std::min(step / 10 * 10, 100)) << step;
    EXPECT_EQ(found.values, std::vector<float>(16, static_cast<float>(found.step)));
    EXPECT_EQ(bias.at(history, 1, step).step, -1) << step;
    EXPECT_EQ(mass.at(history, 2, step).step, -1);
  }
  EXPECT_EQ(bias.at(history, 2, 449).step, -1);  // too far back
  for (int step = 100; step < 290; ++step) EXPECT_EQ(bias.at(history, 2, step).step, 100) << step;
}

}  // namespace
}  // namespace moescope
