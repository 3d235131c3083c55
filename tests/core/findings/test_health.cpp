// The verdict on a run's routers: the layers and experts that it names, the step since which it holds, what would help.
#include <gtest/gtest.h>

#include <functional>
#include <ranges>

#include "core/findings/health.h"
#include "core/findings/interventions.h"
#include "core/frame/frame.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/recording/history/last_array.h"
#include "core/recording/history/loss_trend.h"
#include "core/recording/history/router_window.h"
#include "tests/support/made_up_run.h"
#include "tests/support/sample_log.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

using Texts = std::vector<std::string>;

Health judge(const HistoryPtr& history, std::int64_t last_step = INT64_MAX) {
  FindingsScan scan(history);
  scan.advance(last_step);
  return judge_health(scan);
}

TEST(Health, AnUnbalancedRunNamesItsWorstLayerItsExpertsAndTheSettings) {
  const HistoryPtr history = sample_log("unbalanced_bf16");
  const Health health = judge(history);
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_EQ(health.layer, least_even_layer(*history, INT64_MAX).layer);
  EXPECT_TRUE(says(health.sentence, "3 of 8 MoE layers have collapsed (1, 2 and 3)")) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "Worst: layer " + std::to_string(health.layer) + ", since step "))
      << health.sentence;
  EXPECT_GT(health.first_step, 300);
  EXPECT_LT(health.first_step, 600);
  EXPECT_EQ(health.balance, (Texts{"No balancing: bias update rate 0, no auxiliary loss", "No balancing"}));
  EXPECT_EQ(health.help, "Try bias_update_rate > 0 (DeepSeek-V3: 0.001).");
  const auto names = health.remedies | std::views::transform(&Remedy::name);
  EXPECT_EQ(Texts(names.begin(), names.end()), (Texts{"bias_update_rate", "aux_coeff", "checkpoint"}));
  EXPECT_TRUE(says(health.remedies[0].text, "now 0.0; ") && says(health.remedies[0].text, "arXiv:2408.15664"))
      << health.remedies[0].text;
  EXPECT_TRUE(says(health.sentence, ", the first since step 360.")) << health.sentence;  // layer 2
  EXPECT_TRUE(says(health.remedies.back().text, "one before step 360")) << health.remedies.back().text;
  // The named experts have the most tokens of the last 50 steps, and more than half of all tokens together.
  ASSERT_GE(health.experts.size(), 2u);
  const StepRange all = history->steps();
  const auto load = history->utilisation(health.layer, {all.last - 49, all.last}, 1, Summary::mean);
  double share = 0;
  for (const int expert : health.experts) share += static_cast<double>(load[static_cast<std::size_t>(expert)]) / 64;
  EXPECT_GT(share, 0.5);
  EXPECT_EQ(std::ranges::max_element(load) - load.begin(), health.experts.front());
  for (const Finding& f : find_all(history)) EXPECT_TRUE(says(f.observation, "aux_coeff = 0")) << f.observation;
}

TEST(Health, AssumedLoadsGetNoVerdictBeforeTheyAreConfirmed) {
  const auto runs = import_jsonl(std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/unbalanced_bf16.jsonl").runs;
  runs.front()->append(Marker{0, 0, kAssumptionMarker, "loads assumed from `util`: confirm"});
  const Health health = judge(runs.front());
  EXPECT_EQ(health.verdict, HealthVerdict::assumed);
  EXPECT_TRUE(says(health_text(health), "Loads assumed: from `util`: confirm. The verdict would be \"Unhealthy\": "))
      << health_text(health);
  EXPECT_TRUE(health.help.empty());
}

TEST(Health, ARunThatDoesNotRecoverNeedsAttention) {
  const HistoryPtr history = sample_log("domain_shift");
  const Health before = judge(history, 699);  // an expert of the first layer has just reached twice its share again
  EXPECT_EQ(before.verdict, HealthVerdict::too_young) << before.sentence;
  EXPECT_TRUE(says(before.sentence, "Layer 1 has been uneven since step 480: expert ")) << before.sentence;
  const Health health = judge(history);
  EXPECT_EQ(health.verdict, HealthVerdict::attention);
  EXPECT_EQ(health.layer, 1);
  EXPECT_EQ(health.first_step, 700);
  EXPECT_TRUE(says(health.balance.at(0), "bias update rate 0.001")) << advice_text(health);
  EXPECT_EQ(health.help, "Try a higher bias_update_rate, or aux_coeff > 0.");
}

TEST(Health, ForcedBalanceShowsNothingAboutTheRouter) {
  MadeUp run("[router]\nforce_balance = true\n");
  for (int step = 0; step < 200; ++step) {
    run.next().routers = {run.router(1, MadeUp::even())};
    run.push();
  }
  for (const std::int64_t step : {20, 199}) {
    const Health health = judge(run.history(), step);
    EXPECT_EQ(health.verdict, HealthVerdict::unknown);
    EXPECT_TRUE(says(health.sentence, "Balance is forced: the load does not show")) << health.sentence;
  }
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
  EXPECT_EQ(healthy.first_step, -1);
  EXPECT_EQ(healthy.experts.size(), 1u) << healthy.sentence;  // naming all of them would say nothing
  EXPECT_GT(healthy.layer, 0);
  EXPECT_EQ(healthy.balance, (Texts{"Balance: bias update rate 0.001, no auxiliary loss", "Balance: bias 0.001"}));
  EXPECT_EQ(healthy.help, "");
}

// A window shows the longest form that fits.
TEST(Health, TheFormsOfASentenceGetShorterAndKeepTheVerdict) {
  MadeUp::Shares dead = MadeUp::even(), full = MadeUp::even();
  dead[5] = dead[11] = 0;
  full[3] = 6;
  for (const MadeUp::Shares& shares : {MadeUp::even(), dead, full})
    for (const int steps : {0, 12, 160, 900}) {
      MadeUp run("[router]\nbias_update_rate = 0.0\naux_coeff = 0.0\n");
      run.steps(steps, MadeUp::even(), shares);
      const Health health = judge(run.history());
      EXPECT_TRUE(std::isupper(health.sentence.front()) || std::isdigit(health.sentence.front())) << health.sentence;
      std::size_t before = health.sentence.size();
      for (const std::string& form : health.shorter) {
        EXPECT_LT(form.size(), before) << form;
        EXPECT_EQ(form.back(), '.') << form;
        before = form.size();
      }
      if (steps > 0) {
        EXPECT_LT(before, 60u) << health.sentence;
      }
    }
}

TEST(Health, TheMostUnevenLayerIsNamedWithItsFullestExpert) {
  MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"batch\"\naux_coeff = 0.01\n");
  MadeUp::Shares shares = MadeUp::even();
  shares[3] = 1.6;
  run.steps(200, shares, MadeUp::even());
  const Health health = judge(run.history());
  EXPECT_TRUE(says(health.sentence,
                   "No expert is dead, starved or far too full. Most uneven in steps 150 to 199: layer 1, "
                   "where expert 3 gets 1.5"))
      << health.sentence;
  EXPECT_EQ(health.balance,
            (Texts{"Balance: bias update rate 0.001, auxiliary loss 0.01", "Balance: bias 0.001, auxiliary 0.01"}));
}

TEST(Health, NoExpertIsTheFullestOfEqualLoads) {
  MadeUp run("[router]\nbias_update_rate = 0.001\n");
  for (int step = 0; step < 200; ++step) {
    RouterFrame router = run.router(1, MadeUp::even());
    std::ranges::fill(router.tokens_per_expert, 128u);
    router.max_vio = 0;
    run.next().routers = {router};
    run.push();
  }
  EXPECT_EQ(judge(run.history()).sentence,
            "No expert is dead, starved or far too full. All experts get their fair share in steps 150 to 199.");
}

TEST(RouterWindow, IsTheMeanOfTheLast50Steps) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(60, dead, MadeUp::even());
  const RouterWindow before = router_window(*run.history(), INT64_MAX);
  ASSERT_EQ(before.layers.size(), 2u);
  EXPECT_EQ(before.steps, (StepRange{10, 59}));
  EXPECT_EQ(before.find_layer(1)->silent, 1);
  EXPECT_EQ(before.find_layer(2)->silent, 0);
  EXPECT_EQ(before.worst(&LayerWindow::cv)->layer, 1);
  EXPECT_LT(before.find_layer(1)->entropy, before.find_layer(2)->entropy);
  EXPECT_NEAR(static_cast<double>(before.find_layer(1)->utilisation[2]), 16.0 / 15, 0.03);
  EXPECT_GT(before.chance_max_vio, 0);
  EXPECT_LT(before.chance_max_vio, 0.2);
  run.steps(100, MadeUp::even(), MadeUp::even());
  EXPECT_EQ(router_window(*run.history(), INT64_MAX).find_layer(1)->silent, 0);
  EXPECT_EQ(router_window(*run.history(), 59).find_layer(1)->silent, 1);
}

// The loads of a log of every 20th step are 10 positions apart, so that five of them are in a window of 50.
TEST(RouterWindow, HasTheStepsOfMaxVioOfTheWindow) {
  const HistoryPtr log = sample_log("unbalanced_bf16");
  const RouterWindow window = router_window(*log, INT64_MAX);
  EXPECT_EQ(window.steps, (StepRange{1300, 1380}));
  for (const LayerWindow& layer : window.layers)
    EXPECT_NEAR(layer.max_vio, log->value_at(Metric::max_vio_window, layer.layer, 1380), 1e-4);
}

TEST(RouterWindow, ATrackGrowsWithTheRunAndKeepsItsPlaces) {
  MadeUp run;
  MadeUp::Shares full = MadeUp::even();
  full[3] = 4;
  for (int i = 0; i < 5; ++i) {
    run.steps(130, i < 2 ? full : MadeUp::even(), MadeUp::even());
    const auto points = window_track(*run.history(), 1, INT64_MAX);
    EXPECT_LE(std::ssize(points), kTrackPoints);
    EXPECT_GT(std::ssize(points), kTrackPoints / 2);
    EXPECT_GT(points.front().max_vio, 2);
    const std::int64_t last = run.history()->steps().last;
    const auto stride = last / static_cast<std::int64_t>(points.size() - 1);
    EXPECT_EQ(points[10].max_vio, layer_window(*run.history(), 1, 10 * stride).max_vio);
  }
  EXPECT_LT(window_track(*run.history(), 1, INT64_MAX).back().max_vio, 0.5);
  EXPECT_GT(window_track(*run.history(), 1, 200).back().max_vio, 2);
  EXPECT_LT(window_track(*run.history(), 2, INT64_MAX).front().max_vio, 0.5);
}

TEST(RouterWindow, TheLastStepAboveALimitIsFoundToTheStep) {
  History history(RunInfo{});
  for (int step = 0; step < 2000; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = step == 1234 ? 5.0f : 1.0f;
    history.append(std::move(frame));
  }
  EXPECT_EQ(last_step_at_least(history, Metric::ce_loss, kWholeRun, 3), 1234);
  EXPECT_EQ(last_step_at_least(history, Metric::ce_loss, kWholeRun, 9), -1);
}

std::shared_ptr<History> history_of_losses(int steps, const std::function<float(int)>& loss) {
  auto history = std::make_shared<History>(RunInfo{});
  for (int step = 0; step < steps; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = loss(step);
    history->append(std::move(frame));
  }
  return history;
}

TEST(LossTrend, AFallIsToldFromNoise) {
  const auto noise = [](int step) { return 0.1f * static_cast<float>(step * 7 % 11 - 5); };
  const auto trend = [&](int steps, float slope) {
    return loss_trend(
        *history_of_losses(steps, [&](int step) { return 3 + slope * static_cast<float>(step) + noise(step); }),
        INT64_MAX);
  };
  EXPECT_EQ(trend(30, -0.01f).direction, LossTrend::too_early);
  EXPECT_EQ(trend(30, -0.01f).steps, 30);
  const LossTrend falling = trend(500, -0.002f);
  EXPECT_EQ(falling.direction, LossTrend::falling);
  EXPECT_EQ(falling.span, 200);
  EXPECT_NEAR(falling.change, 0.4, 0.05);
  EXPECT_EQ(trend(500, 0.002f).direction, LossTrend::rising);
  const LossTrend flat = trend(500, 0);
  EXPECT_EQ(flat.direction, LossTrend::flat);
  // Two standard errors of the difference; that of a median is sqrt(3) times that of a mean for uniform noise.
  EXPECT_NEAR(flat.change, 2 * std::sqrt(3) * std::hypot(0.32, 0.32) / std::sqrt(50), 0.03);
  EXPECT_EQ(trend(100, -0.01f).span, 25);
  EXPECT_EQ(trend(100, -0.01f).window, 25);
  const auto one_noisy = history_of_losses(500, [](int step) { return step == 499 || step == 270 ? 90.0f : 3.0f; });
  EXPECT_EQ(loss_trend(*one_noisy, INT64_MAX).direction, LossTrend::flat);
  const auto skipped = history_of_losses(
      500, [](int step) { return step == 400 ? std::nanf("") : 5 - 0.005f * static_cast<float>(step); });
  EXPECT_EQ(loss_trend(*skipped, INT64_MAX).direction, LossTrend::falling);
  const auto zero = history_of_losses(500, [](int step) { return step < 300 ? 2.0f : 0.0f; });
  EXPECT_EQ(loss_trend(*zero, INT64_MAX).direction, LossTrend::zero);
  const auto on_few = history_of_losses(
      2000, [](int step) { return step % 20 == 0 ? 5 - 0.001f * static_cast<float>(step) : kNoValue; });
  EXPECT_EQ(loss_trend(*on_few, INT64_MAX).direction, LossTrend::falling) << "100 losses";
  const auto unlogged = history_of_losses(500, [](int step) { return step < 300 ? 2.0f : kNoValue; });
  EXPECT_EQ(loss_trend(*unlogged, INT64_MAX).direction, LossTrend::unlogged);
  EXPECT_EQ(loss_trend(*unlogged, INT64_MAX).newest_step, 299);
  const auto lost = history_of_losses(100, [](int step) { return step < 99 ? 2.0f : std::nanf(""); });
  EXPECT_EQ(loss_trend(*lost, INT64_MAX).direction, LossTrend::lost);
  EXPECT_NE(loss_trend(*lost, 98).direction, LossTrend::lost);
}

double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + words.size()));
}

// The figures beside the verdict are of the same steps as the verdict, and agree with it.
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
    const double told_share = number_after(health.sentence, "expert 3 gets ");
    const RouterWindow window = router_window(*run.history(), INT64_MAX);
    EXPECT_NEAR(told_share - 1, window.worst(&LayerWindow::max_vio)->max_vio, 0.006) << health.sentence;
    EXPECT_EQ(told_share >= 2, share > 2) << health.sentence;
    EXPECT_TRUE(says(health.sentence,
                     "in steps " + std::to_string(window.steps.first) + " to " + std::to_string(window.steps.last)))
        << health.sentence;
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
  EXPECT_TRUE(says(health.sentence, "Layer 1 has been uneven since step 0, but less than before")) << health.sentence;
}

TEST(Health, SaysThatCopiesAreDropped) {
  MadeUp run(
      "[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\ntoken_drop = \"probs\"\ncapacity_factor = 1.25\n");
  run.steps(160, MadeUp::even(), MadeUp::even());
  EXPECT_EQ(judge(run.history()).balance.front(),
            "Balance: bias update rate 0.001, no auxiliary loss, dropping beyond capacity 1.25");
}

// A short overload is no finding yet, but the router is not healthy meanwhile.
TEST(Health, AnExpertThatIsFarTooFullJustNowIsNotHealthy) {
  MadeUp run;
  MadeUp::Shares full = MadeUp::even();
  full[5] = 8;
  run.steps(200, full, MadeUp::even());
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::too_young) << health.sentence;
  EXPECT_TRUE(says(health.sentence, "Layer 1 has had an expert that is far too full since step 0: expert 5 gets "))
      << health.sentence;
  EXPECT_EQ(health.experts, std::vector<int>{5});
  EXPECT_EQ(health.first_step, 0);
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
  EXPECT_EQ(health.first_step, 200);
  EXPECT_EQ(health.experts, (std::vector<int>{3, 7}));
  EXPECT_TRUE(says(health.sentence,
                   "Layer 2 has had experts without a token since step 200: experts 3 and 7 get no token. It becomes a "
                   "finding after "))
      << health.sentence;
}

TEST(Health, BalancingOfALogIsNamedOnce) {
  RouterBalance balance;
  balance.other = "balance = quantile histogram";
  EXPECT_EQ(balance_text(balance).front(), "Balance: quantile histogram");
  balance.other = "load_balancing = sinkhorn";
  EXPECT_EQ(balance_text(balance).front(), "Balance: load_balancing = sinkhorn");
}

TEST(Health, QuantilesBalanceWithoutARate) {
  MadeUp run("[router]\nbalance_rule = \"quantile_batch\"\nbias_update_rate = 0.0\naux_mode = \"none\"\n");
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(300, dead, MadeUp::even());
  const Health health = judge(run.history());
  EXPECT_EQ(health.balance.front(), "Balance: bias by quantiles, no auxiliary loss");
  EXPECT_FALSE(says(health.help, "bias_update_rate")) << health.help;
  for (const Finding& f : find_all(run.history()))
    for (const Setting knob : f.knobs) EXPECT_FALSE(knob == &RouterConfig::bias_update_rate) << f.title;
}

// No rate of the bias helps while another finding says why it cannot.
TEST(Health, AdviceNamesTheFaultThatMustBeMendedFirst) {
  const auto help = [](const MadeUp::Shares& shares, bool has_bias) {
    MadeUp run;
    run.history()->append(Marker{0, 0, kSettingsMarker, R"({"bias_update_rate": 0.001, "aux_coeff": 0})"});
    for (int step = 0; step < 900; ++step) {
      TelemetryFrame& frame = run.next();
      frame.routers = {run.router(1, shares), run.router(2, MadeUp::even())};
      if (has_bias) frame.routers[0].expert_bias.assign(MadeUp::kExperts, 0.25f);
      run.push();
    }
    const Health health = judge(run.history());
    EXPECT_EQ(health.verdict, HealthVerdict::attention) << health.sentence;
    return health.help;
  };
  MadeUp::Shares full = MadeUp::even(), padded = MadeUp::even();
  full[3] = 4;
  padded[3] = padded[9] = 5;
  EXPECT_EQ(help(full, false), "Try a higher bias_update_rate, or aux_coeff > 0.");
  EXPECT_TRUE(says(help(full, true), "First find out why expert_bias does not change")) << help(full, true);
  EXPECT_TRUE(says(help(padded, false), "First leave padding out of the counted load")) << help(padded, false);
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
  EXPECT_EQ(health.first_step, 0);
  EXPECT_TRUE(says(health.sentence, "experts 5 and 11 get no token")) << health.sentence;
  EXPECT_TRUE(says(health.help, "not known")) << health.help;
}

TEST(Health, ALostLossGoesFirst) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(300, dead, MadeUp::even());
  for (int i = 0; i < 20; ++i) {
    run.next().ce_loss = std::nanf("");
    run.push();
  }
  const Health health = judge(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::lost);
  EXPECT_EQ(health.router, HealthVerdict::unhealthy);
  EXPECT_EQ(health.first_step, 300);
  EXPECT_TRUE(says(health.help, "Settings that affect it: optimizer.lr, optimizer.clip, precision.experts."))
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
  const auto settings = history.settings_at(0);
  EXPECT_FALSE(settings->config()) << "of another program";
  EXPECT_EQ(settings->value(&RouterConfig::bias_update_rate), 0.001);
  EXPECT_EQ(settings->value(&OptimizerConfig::lr), 6e-4);
  EXPECT_EQ(settings->value(&RouterConfig::aux_coeff), std::nullopt);
  EXPECT_EQ(settings->stated(&RouterConfig::bias_update_rate)->name, "load_balance_coeff");
  EXPECT_EQ(settings->text(&PrecisionConfig::experts), "bf16");
  EXPECT_EQ(settings->text(&RouterConfig::top_k), std::nullopt);
}

TEST(LogSettings, ABalanceThatIsNamedIsNotNone) {
  const auto balancing = [](const char* settings) {
    MadeUp run;
    MadeUp::Shares dead = MadeUp::even();
    dead[5] = 0;
    run.steps(300, dead, MadeUp::even());
    run.history()->append(Marker{0, 0, kSettingsMarker, settings});
    return advice_text(judge(run.history()));
  };
  EXPECT_TRUE(says(balancing(R"({"bias_update_rate": 0, "aux_coeff": 0})"), "No balancing"));
  EXPECT_FALSE(says(balancing(R"({"bias_update_rate": 0})"), "No balancing"));  // aux_coeff is not known
  const std::string quantile = balancing(R"({"bias_update_rate": 0, "aux_coeff": 0, "balance": "quantile"})");
  EXPECT_FALSE(says(quantile, "No balancing")) << quantile;
  EXPECT_TRUE(says(quantile, "Balance: quantile,")) << quantile;
}

TEST(LogSettings, AdviceHasTheNamesOfTheProgramThatWroteTheLog) {
  // `program`: empty if the settings tell it.
  const auto advice = [](const char* program, const char* settings) {
    MadeUp run;
    MadeUp::Shares full = MadeUp::even();
    full[5] = 12;
    run.steps(500, full, MadeUp::even());
    run.history()->append(Marker{0, 0, kSettingsMarker, settings});
    if (*program) run.history()->append(Marker{0, 0, kProgramMarker, program});
    return advice_text(judge(run.history())) + '\n' + all_text(find_all(run.history()));
  };
  const std::string megatron = advice(
      "", R"({"moe_aux_loss_coeff": 0, "moe_router_bias_update_rate": 0.001, "num_layers": 4, "seq_length": 64})");
  EXPECT_TRUE(says(megatron, "Try a higher --moe-router-bias-update-rate, or --moe-aux-loss-coeff > 0.")) << megatron;
  EXPECT_TRUE(says(megatron, "Settings that affect it: --moe-router-bias-update-rate, --moe-aux-loss-coeff"));
  const std::string trainer = advice("Hugging Face Trainer", R"({"router_aux_loss_coef": 0.001})");
  EXPECT_TRUE(says(trainer, "Settings that affect it: router_aux_loss_coef\n")) << trainer;
  EXPECT_FALSE(says(trainer, "bias_update_rate")) << trainer;  // it has no such setting
  const std::string titan = advice("TorchTitan", "{}");
  EXPECT_TRUE(says(titan, "The balancing settings are not known. Try a higher load_balance_coeff.")) << titan;
  // What is off would have to be switched on, not raised.
  EXPECT_TRUE(says(advice("TorchTitan", R"({"load_balance_coeff": 0})"), "Try load_balance_coeff > 0."));
  EXPECT_TRUE(says(advice("Hugging Face Trainer", R"({"router_aux_loss_coef": 0})"), "Try router_aux_loss_coef > 0."));
  const std::string unknown = advice("", "{}");
  EXPECT_TRUE(says(unknown, "Try a higher bias update rate or auxiliary loss weight.")) << unknown;
  EXPECT_TRUE(says(advice("TorchTitan", R"({"load_balance_coeff": null})"), "Try load_balance_coeff > 0."));
  // Megatron-LM states the update rate of a bias that is off.
  const std::string switched_off = advice("", R"({"moe_router_enable_expert_bias": false, "seq_length": 64,
    "moe_router_bias_update_rate": 0.001, "moe_aux_loss_coeff": 0.01, "moe_router_load_balancing_type": "aux_loss"})");
  EXPECT_TRUE(says(switched_off, "Balance: bias update rate 0, auxiliary loss 0.01")) << switched_off;
  EXPECT_TRUE(says(switched_off, "Settings that affect it: --moe-router-enable-expert-bias, --moe-aux-loss-coeff"));
  const std::string nothing = advice("", R"({"moe_router_enable_expert_bias": false, "seq_length": 64,
    "moe_aux_loss_coeff": 0, "moe_router_load_balancing_type": "aux_loss"})");
  EXPECT_TRUE(says(nothing, "Try --moe-router-enable-expert-bias.")) << nothing;
}

TEST(LogSettings, ASettingsLineMayHaveAConfigOfItsOwn) {
  LogReader reader("log");
  reader.read_line(R"({"run": "a", "config": {"qb": "1"}, "precision": "bf16"})");
  reader.read_line(R"({"step": 0, "loss": 2, "tokens_per_expert": [[1, 2], [2, 1]]})");
  reader.finish_step();
  EXPECT_EQ(reader.bad().count(), 0);
  ASSERT_TRUE(reader.history());
  EXPECT_TRUE(reader.history()->info().config_toml.empty());
  EXPECT_EQ(reader.history()->settings_at_start()->log().at("precision"), "bf16");
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
