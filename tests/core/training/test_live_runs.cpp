#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include "core/config/config_field.h"
#include "core/recording/marks.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/live_runs.h"
#include "core/training/engine/live_thread.h"
#include "tests/support/live_steps.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

using namespace std::chrono_literals;

class LiveFiles : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  TestFolder folder_{"live_runs"};
};

TEST(LiveRuns, StartsPausedAndRunsUntil) {
  LiveRuns live({one_layer()}, "");
  EXPECT_FALSE(live.status().running);
  EXPECT_EQ(live.status().step, 0);
  run_to(live, 5);
  const auto history = live.histories().at(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 4}));
  const LiveStatus status = live.status();
  const DataConfig data = one_layer().data;
  EXPECT_GT(status.steps_per_s, 0);
  EXPECT_NEAR(status.tokens_per_s / (status.steps_per_s * data.batch * data.seq), 1, 1e-12);
  EXPECT_GT(history->value_at(Metric::tokens_per_s, kWholeRun, 4), 0);
  live.run_until(3);  // already past
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(live.status().step, 5);
}

TEST(LiveRuns, OneStepAtATime) {
  LiveRuns live({one_layer()}, "");
  live.step_once();
  live.step_once();
  ASSERT_TRUE(eventually([&] { return live.status().step == 2; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(live.status().step, 2);
  EXPECT_FALSE(live.status().running);
}

TEST(LiveRuns, AnEditedProbeIsRoutedWithoutAStep) {
  RunConfig config = one_layer();
  config.telemetry.probe = "before";
  config.telemetry.texts_every = 1;
  LiveRuns live({config}, ""), same({config}, "");
  run_to(live, 3);
  run_to(same, 3);
  const auto history = live.histories().at(0);
  EXPECT_EQ(history->edited_probe_at(2), nullptr);
  live.change({0, &TelemetryConfig::probe, std::string("after")});
  live.flush();
  EXPECT_EQ(live.status().step, 3);
  const auto edited = history->edited_probe_at(2);
  ASSERT_NE(edited, nullptr);
  EXPECT_EQ(edited->text, "after");
  std::int64_t step = 2;
  EXPECT_EQ(history->text_at(TextKind::probe, step)->text, "before") << "the step keeps its own text";
  EXPECT_EQ(history->markers().size(), 1u);
  // The training is not affected, and the next step has the new text.
  run_to(live, 5);
  run_to(same, 5);
  for (step = 3; step < 5; ++step)
    EXPECT_EQ(history->value_at(Metric::ce_loss, kWholeRun, step),
              same.histories().at(0)->value_at(Metric::ce_loss, kWholeRun, step));
  step = 3;
  EXPECT_EQ(history->text_at(TextKind::probe, step)->text, "after");
  EXPECT_EQ(step, 3);
  EXPECT_EQ(history->edited_probe_at(3), nullptr);
}

TEST(LiveRuns, PauseHoldsAndRunGoesOn) {
  LiveRuns live({one_layer()}, "");
  live.run();
  ASSERT_TRUE(eventually([&] { return live.status().step > 3; }));
  live.pause();
  live.flush();
  const std::int64_t step = live.status().step;
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(live.status().step, step);
  EXPECT_EQ(live.histories().at(0)->steps().last, step - 1);
  live.run();
  EXPECT_TRUE(eventually([&] { return live.status().step > step; }));
}

TEST(LiveRuns, SpeedLimitIsKept) {
  LiveRuns live({one_layer()}, "");
  live.set_max_steps_per_s(20);
  const auto begin = std::chrono::steady_clock::now();
  run_to(live, 6);  // five waits of 50 ms
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 245ms);
  live.set_max_steps_per_s(0.01);
  live.run();
  live.set_max_steps_per_s(0);  // lifting the limit ends its wait
  EXPECT_TRUE(eventually([&] { return live.status().step > 8; }));
}

TEST(LiveRuns, TwinsAreIdenticalUntilAChange) {
  LiveRuns live({one_layer("a"), one_layer("b")}, "");
  run_to(live, 6);
  const auto a = live.histories().at(0), b = live.histories().at(1);
  EXPECT_EQ(all_losses(*a), all_losses(*b));
  live.change({.run = 1, .setting = &RouterConfig::top_k, .value = std::int64_t{1}});
  EXPECT_EQ(live.config(1).router.top_k, 1);
  EXPECT_EQ(live.config(0).router.top_k, 2);
  run_to(live, 8);
  EXPECT_NE(a->value_at(Metric::ce_loss, kWholeRun, 6), b->value_at(Metric::ce_loss, kWholeRun, 6));
  EXPECT_TRUE(a->markers().empty());
  ASSERT_EQ(b->markers().size(), 1u);
  EXPECT_EQ(b->markers()[0].kind, "change");
  EXPECT_EQ(b->markers()[0].text, "router.top_k 2 -> 1");
  EXPECT_EQ(b->markers()[0].step, 6);
}

TEST(LiveRuns, EveryLiveKeyReachesTheTrainer) {
  LiveRuns live({one_layer()}, "");
  run_to(live, 1);
  const auto change = [&](Setting setting, ConfigValue value) { live.change({0, setting, std::move(value)}); };
  change(&OptimizerConfig::lr, 3e-3);
  change(&RouterConfig::bias_update_rate, 0.02);
  change(&RouterConfig::bias_centring, false);
  change(&RouterConfig::aux_mode, std::string("batch"));
  change(&RouterConfig::aux_coeff, 0.1);
  change(&RouterConfig::z_coeff, 1e-3);
  change(&RouterConfig::top_k, std::int64_t{3});
  change(&RouterConfig::force_balance, true);
  change(&RouterConfig::route_scale, 2.0);
  change(&RouterConfig::capacity_factor, 1.25);
  change(&PrecisionConfig::experts, std::string("mxfp8_floor"));
  change(&TelemetryConfig::frame_interval, std::int64_t{2});
  change(&TelemetryConfig::quant_every, std::int64_t{3});
  run_to(live, 4);
  EXPECT_EQ(live.status().error, "");
  EXPECT_EQ(live.histories()[0]->markers().size(), 13u);
  const auto frame = live.histories()[0]->frame_at(2);
  ASSERT_NE(frame, nullptr);
  std::uint32_t slots = 0;
  for (const std::uint32_t n : frame->routers.at(0).tokens_per_expert) slots += n;
  EXPECT_EQ(slots, 3u * 2 * 16);
  EXPECT_FLOAT_EQ(frame->routers[0].max_vio, 0) << "round-robin";
}

// The validation loss is measured on text that is never trained on, at its cadence, and does not change the training.
TEST(LiveRuns, ValidationLossIsMeasuredBesideTheTraining) {
  RunConfig validated = one_layer();
  validated.telemetry.validation_every = 3;
  validated.router.gate_noise = 0.5;  // noise for the choice in training only
  RunConfig plain = validated;
  plain.telemetry.validation_every = 0;
  LiveRuns live({validated}, ""), without({plain}, "");
  run_to(live, 8);
  run_to(without, 8);
  EXPECT_EQ(all_losses(*live.histories()[0]), all_losses(*without.histories()[0])) << "to the bit";
  const std::vector<float> values = live.histories()[0]->values(Metric::val_loss, kWholeRun, {0, 7});
  for (std::size_t step = 0; step < values.size(); ++step) EXPECT_EQ(is_missing(values[step]), step % 3 != 0) << step;
  EXPECT_NEAR(values[0], std::log(256.0), 1.5) << "hardly trained";
  for (const float value : without.histories()[0]->values(Metric::val_loss, kWholeRun, {0, 7}))
    EXPECT_TRUE(is_missing(value));

  // The mean over the held-out batches, with the weights after the step.
  Trainer trainer(validated);
  const auto data = open_dataset(validated.data, validated.seed);
  trainer.step(data->batch(0));
  double sum = 0;
  for (const Batch& batch : data->held_out()) sum += trainer.held_out_loss({batch});
  EXPECT_NEAR(values[0], sum / kHeldOutBatches, 1e-5);
}

TEST(LiveRuns, MixtureOfDomainsIsOneForAllRunsAndKeptByStep) {
  LiveRuns together({one_layer("a"), one_layer("b")}, "");
  run_to(together, 4);
  EXPECT_THROW(together.change({1, &DataConfig::mixture, std::string("klingon=1")}), std::invalid_argument);
  together.change({1, &DataConfig::mixture, std::string("JSON=1")});
  EXPECT_EQ(together.config(0).data.mixture, "JSON=1");
  run_to(together, 8);
  EXPECT_EQ(together.status().error, "");
  EXPECT_EQ(all_losses(*together.histories()[0]), all_losses(*together.histories()[1]));
  for (const auto& history : together.histories()) {
    ASSERT_EQ(history->markers().size(), 1u);
    EXPECT_EQ(history->markers()[0].step, 4);
    EXPECT_EQ(history->markers()[0].text, "data.mixture none -> JSON=1 (for all runs, which read the same batches)");
  }
  LiveRuns undisturbed({one_layer("a")}, "");
  run_to(undisturbed, 8);
  const auto plain = all_losses(*undisturbed.histories()[0]), shifted = all_losses(*together.histories()[0]);
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + 4, shifted.begin()));
  EXPECT_NE(plain[4], shifted[4]);

  const int late = together.add_run(together.config(0));  // reads the old mixture up to step 4
  run_to(together, 9);
  EXPECT_EQ(all_losses(*together.histories()[2]), all_losses(*together.histories()[0]));
  EXPECT_EQ(together.config(late).data.mixture, "JSON=1");
}

TEST(LiveRuns, RefusesChangesThatCannotBe) {
  LiveRuns live({one_layer()}, "");
  EXPECT_THROW(live.change({0, &RouterConfig::top_k, std::int64_t{5}}), std::invalid_argument);
  EXPECT_THROW(live.change({0, &RouterConfig::top_k, 2.0}), std::invalid_argument);
  EXPECT_THROW(live.change({0, &ModelConfig::dim, std::int64_t{64}}), std::invalid_argument);
  EXPECT_THROW(live.change({1, &RouterConfig::top_k, std::int64_t{1}}), std::invalid_argument);
  EXPECT_THROW(live.change({0, &OptimizerConfig::lr, std::nan("")}), std::invalid_argument);
  EXPECT_EQ(live.config(0).router.top_k, 2);
  live.flush();
  EXPECT_TRUE(live.histories()[0]->markers().empty());
}

TEST(LiveRuns, SameNamesGetNumbers) {
  LiveRuns live({one_layer("x"), one_layer("x"), one_layer("x-2")}, "");
  EXPECT_EQ(live.config(0).name, "x");
  EXPECT_EQ(live.config(1).name, "x-2");
  EXPECT_EQ(live.config(2).name, "x-2-2");
}

TEST(LiveRuns, LateTwinEqualsTwinFromStepZero) {
  RunConfig coarse = one_layer("b");
  coarse.precision.experts = Recipe::mxfp8_rceil;
  LiveRuns together({one_layer("a"), coarse}, "");
  run_to(together, 12);

  LiveRuns live({one_layer("a")}, "");
  run_to(live, 8);
  EXPECT_EQ(live.add_run(coarse), 1);
  ASSERT_EQ(live.histories().size(), 2u) << "at once";
  ASSERT_EQ(live.status().catching_up.size(), 1u);
  EXPECT_EQ(live.status().catching_up[0].run, 1);
  EXPECT_EQ(live.status().step, 8);
  live.step_once();  // only the run that lags behind takes this step
  ASSERT_TRUE(eventually([&] { return live.status().catching_up.at(0).step == 1; }));
  EXPECT_EQ(live.status().step, 8);
  live.run_until(8);
  ASSERT_TRUE(eventually([&] { return live.status().catching_up.empty() && !live.status().running; }));
  live.flush();
  EXPECT_EQ(live.histories()[0]->steps(), (StepRange{0, 7}));
  EXPECT_EQ(live.histories()[1]->steps(), (StepRange{0, 7}));
  run_to(live, 12);
  EXPECT_EQ(all_losses(*live.histories()[0]), all_losses(*together.histories()[0]));
  EXPECT_EQ(all_losses(*live.histories()[1]), all_losses(*together.histories()[1]));
}

TEST(LiveRuns, TwinGetsTheChangesOfTheFirstAtTheSameSteps) {
  LiveRuns live({one_layer("a")}, "");
  run_to(live, 3);
  live.change({0, &RouterConfig::bias_update_rate, 0.05});
  live.change({0, &RouterConfig::top_k, std::int64_t{3}});
  run_to(live, 6);
  live.change({0, &OptimizerConfig::lr, 4e-3});
  RunConfig equal_config = live.config(0);
  RunConfig other = live.config(0);
  other.router.top_k = 2;  // the value at the start, now a deliberate difference
  const int twin = live.add_run(equal_config), changed_run = live.add_run(other);
  EXPECT_EQ(live.config(twin).optimizer.lr, 4e-3);
  EXPECT_EQ(live.config(changed_run).router.top_k, 2);
  EXPECT_EQ(live.config(changed_run).name, "a-3");
  run_to(live, 9);
  const auto all = live.histories();
  EXPECT_EQ(all_losses(*all[1]), all_losses(*all[0]));
  EXPECT_NE(all_losses(*all[2]), all_losses(*all[0]));
  const auto texts = [](const History& history) {
    std::vector<std::string> list;
    for (const Marker& marker : history.markers()) list.push_back(std::to_string(marker.step) + ": " + marker.text);
    return list;
  };
  EXPECT_EQ(texts(*all[1]), texts(*all[0]));
  EXPECT_EQ(texts(*all[2]),
            (std::vector<std::string>{"3: router.bias_update_rate 0.001 -> 0.05", "6: optimizer.lr 0.002 -> 0.004"}));
  EXPECT_EQ(live.status().error, "");
}

TEST(LiveRuns, ChangeToARunThatCatchesUpWaitsForTheStepOfTheFirst) {
  LiveRuns live({one_layer("a")}, "");
  run_to(live, 5);
  const int twin = live.add_run(one_layer("b"));
  live.change({twin, &OptimizerConfig::lr, 1e-3});
  run_to(live, 7);
  const auto markers = live.histories()[1]->markers();
  ASSERT_EQ(markers.size(), 1u);
  EXPECT_EQ(markers[0].step, 5);
  const auto losses_a = all_losses(*live.histories()[0]), losses_b = all_losses(*live.histories()[1]);
  EXPECT_TRUE(std::equal(losses_a.begin(), losses_a.begin() + 6, losses_b.begin()))
      << "step 5's loss is of the weights before";
  EXPECT_NE(losses_a[6], losses_b[6]);
}

std::vector<PinnedChange> changes_of_run_a(const ChangeLog& log, std::uint64_t after = 0,
                                           std::set<Setting> except = {}) {
  return log.inherited({0, after, std::move(except)});
}

TEST(ChangeLog, InheritedChangesAreThoseOfTheRunAfterItsSettings) {
  ChangeLog log;
  const Setting rate(&RouterConfig::bias_update_rate), lr(&OptimizerConfig::lr);
  const std::uint64_t first = log.add({0, rate, 0.1}, {}).id, other = log.add({1, rate, 0.2}, {}).id,
                      last = log.add({0, lr, 0.3}, {}).id;
  EXPECT_LT(first, other);
  EXPECT_EQ(changes_of_run_a(log).size(), 2u);
  EXPECT_EQ(changes_of_run_a(log, first).front().id, last);
  EXPECT_EQ(changes_of_run_a(log, 0, {lr}).front().id, first);
  log.set_step(first, 7);
  EXPECT_EQ(changes_of_run_a(log).front().step, 7);
  EXPECT_EQ(changes_of_run_a(log).back().step, PinnedChange::kNotYet);
}

TEST(ChangeLog, ARewindUndoesTheChangesAfterTheCheckpoint) {
  ChangeLog log;
  const Setting lr(&OptimizerConfig::lr);
  const std::uint64_t kept_id = log.add({0, lr, 0.1}, {}).id;
  log.note_checkpoint(10, kept_id);
  log.note_checkpoint(20, log.add({0, lr, 0.2}, {}).id);
  log.undo_after(10);
  ASSERT_EQ(changes_of_run_a(log).size(), 1u);
  EXPECT_EQ(changes_of_run_a(log).front().id, kept_id);
  EXPECT_EQ(log.last_before(10), kept_id);
  EXPECT_EQ(log.last_before(20), 0u) << "its checkpoint is gone";
}

TEST(LiveRuns, RefusesTwinsThatCannotBe) {
  LiveRuns live({one_layer("a")}, "");
  RunConfig longer = one_layer("b"), wrong = one_layer("b");
  longer.data.batch = 4;
  wrong.router.top_k = 9;
  EXPECT_THROW(live.add_run(longer), std::invalid_argument);
  EXPECT_THROW(live.add_run(wrong), std::invalid_argument);
  live.change({0, &RouterConfig::top_k, std::int64_t{4}});
  RunConfig fewer = live.config(0);
  fewer.model.n_experts = 2;
  fewer.router.top_k = 1;
  EXPECT_NO_THROW(live.add_run(fewer)) << "its own top_k is kept from the change that would not fit";
  EXPECT_THROW(live.remove_run(0), std::invalid_argument);
  EXPECT_THROW(live.remove_run(7), std::invalid_argument);
  live.add_run(one_layer("c"));
  while (std::ssize(live.histories()) < kMaxRuns) live.add_run(one_layer("d"));
  EXPECT_THROW(live.add_run(one_layer("e")), std::invalid_argument);
  EXPECT_EQ(std::ssize(live.histories()), kMaxRuns);
}

TEST_F(LiveFiles, RemovedRunsStayInTheRecordingAndTheirNumbersTheirs) {
  {
    LiveRuns live({one_layer("a"), one_layer("b")}, path("r.moescope"));
    run_to(live, 3);
    live.remove_run(1);
    EXPECT_EQ(live.histories().size(), 1u);
    EXPECT_THROW(live.config(1), std::invalid_argument);
    run_to(live, 5);
    EXPECT_EQ(live.add_run(one_layer("c")), 2);
    run_to(live, 6);
    EXPECT_EQ(live.histories()[1]->info().run, 2);
  }
  const RecordingReader reader(path("r.moescope"));
  ASSERT_EQ(reader.runs().size(), 3u);
  EXPECT_EQ(reader.load(0)->steps(), (StepRange{0, 5}));
  EXPECT_EQ(reader.load(1)->steps(), (StepRange{0, 2}));
  EXPECT_EQ(reader.load(2)->steps(), (StepRange{0, 5}));
}

TEST(LiveRuns, RoutingIsReplayedFromARunThatChoosesAndFromTheStartOn) {
  const RunConfig a = one_layer("a");
  RunConfig replayed = one_layer("replayed");
  replayed.router.replay = true;
  const auto problem = [](std::vector<RunConfig> runs) -> std::string {
    try {
      LiveRuns live(std::move(runs), "");
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(problem({replayed}).find("set router.replay for a twin only"), std::string::npos);
  EXPECT_NE(problem({replayed, a}).find("set router.replay for a twin only"), std::string::npos);
  RunConfig other = replayed;
  other.router.top_k = 1;
  EXPECT_NE(problem({a, other}).find("router.top_k is 1 against 2"), std::string::npos);
  EXPECT_EQ(problem({a, replayed}), "");

  LiveRuns live({a}, "");
  live.add_run(replayed);
  run_to(live, 4);
  EXPECT_EQ(all_losses(*live.histories()[1]), all_losses(*live.histories()[0]));
  EXPECT_THROW(live.add_run(replayed), std::invalid_argument) << "the routing of four steps is gone";
  EXPECT_THROW(live.change({0, &RouterConfig::top_k, std::int64_t{1}}), std::invalid_argument);
  EXPECT_THROW(live.change({1, &RouterConfig::killed_experts, std::string("1:2")}), std::invalid_argument);
  live.change({0, &RouterConfig::killed_experts, std::string("1:2")});
  run_to(live, 6);
  EXPECT_EQ(live.histories()[1]->frame_at(5)->routers[0].tokens_per_expert[2], 0u) << "killed in run A, so here, too";
  EXPECT_EQ(live.status().error, "");
}

TEST(LiveRuns, FlipsAreAgainstTheFirstRunWheneverTheTwinJoined) {
  RunConfig a = one_layer("a");
  a.telemetry.flips_every = 2;
  RunConfig b = a;
  b.precision.experts = Recipe::mxfp8_rceil;
  b.optimizer.lr = 5e-3;
  LiveRuns together({a, b}, "");
  run_to(together, 9);
  LiveRuns live({a}, "");
  run_to(live, 9);
  live.add_run(b);
  live.add_run(a);
  run_to(live, 9);
  const auto early = together.histories()[1], late = live.histories()[1], equal = live.histories()[2];
  EXPECT_EQ(together.histories()[0]->flip_frame_at(8), nullptr) << "the first is what others are compared with";
  for (std::int64_t step = 0; step < 9; step += 2) {
    const auto one = early->flip_frame_at(step), other = late->flip_frame_at(step);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(other, nullptr);
    ASSERT_EQ(one->step, step);
    EXPECT_EQ(one->flips.at(0).margin_flipped, other->flips.at(0).margin_flipped);
    EXPECT_EQ(one->flips[0].flip_rate, other->flips[0].flip_rate);
    std::uint32_t tokens = 0, flipped = 0;
    for (const std::uint32_t n : other->flips[0].margin_tokens) tokens += n;
    for (const std::uint32_t n : other->flips[0].margin_flipped) flipped += n;
    EXPECT_EQ(tokens, 2u * 16);
    EXPECT_FLOAT_EQ(other->flips[0].flip_rate, static_cast<float>(flipped) / 32);
  }
  EXPECT_EQ(early->value_at(Metric::flip_rate, 1, 0), 0) << "the router comes before the experts";
  EXPECT_GT(early->value_at(Metric::flip_rate, 1, 8), 0);
  EXPECT_EQ(equal->value_at(Metric::flip_rate, kWholeRun, 8), 0);
  EXPECT_TRUE(is_missing(early->values(Metric::flip_rate, 1, {7, 7})[0]));
}

TEST(LiveRuns, RefusesRunsThatCannotBeInLockStep) {
  RunConfig longer = one_layer("b");
  longer.data.seq = 32;
  EXPECT_THROW(LiveRuns({one_layer("a"), longer}, ""), std::runtime_error);
  EXPECT_THROW(LiveRuns(std::vector<RunConfig>{}, ""), std::runtime_error);
  EXPECT_THROW(LiveRuns(std::vector<RunConfig>(kMaxRuns + 1, one_layer()), ""), std::runtime_error);
  RunConfig lost = one_layer();
  lost.data.path = "/nonexistent/text";
  EXPECT_THROW(LiveRuns({lost}, ""), std::runtime_error);
  EXPECT_THROW(LiveRuns({one_layer()}, "/nonexistent/folder/x.moescope"), std::runtime_error);
}

TEST_F(LiveFiles, ResumedEqualsUninterrupted) {
  std::vector<float> whole;
  {
    LiveRuns live({one_layer("a"), one_layer("b")}, "");
    live.change({1, &PrecisionConfig::experts, std::string("mxfp8_rceil")});
    run_to(live, 4);
    live.save_checkpoint(path("kept"));
    run_to(live, 8);
    EXPECT_EQ(live.status().warning, "");
    whole = all_losses(*live.histories()[1]);
    const auto saved = checkpoint_before(*live.histories()[1], 8);
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->text, "checkpoint saved: " + path("kept") + "/4");
    EXPECT_EQ(saved->step, 4);
    EXPECT_EQ(marks_of(*live.histories()[1]).back().title, "checkpoint saved");
  }
  std::vector<Trainer> trainers;
  for (const std::string& file : newest_checkpoint(path("kept"))) trainers.push_back(Trainer::resume(file));
  ASSERT_EQ(trainers.size(), 2u);
  LiveRuns live(std::move(trainers), "");
  EXPECT_EQ(live.status().step, 4);
  run_to(live, 8);
  const auto repeated = all_losses(*live.histories()[1]);
  EXPECT_EQ(repeated, std::vector<float>(whole.begin() + 4, whole.end()));
}

TEST_F(LiveFiles, CheckpointThatCannotBeWrittenIsAWarning) {
  std::ofstream(path("file")) << "x";
  LiveRuns live({one_layer()}, "");
  run_to(live, 1);
  live.save_checkpoint(path("file"));
  live.flush();
  EXPECT_NE(live.status().warning.find("could not be written"), std::string::npos) << live.status().warning;
  EXPECT_EQ(live.status().error, "");
  run_to(live, 2);
}

TEST_F(LiveFiles, RecordingEqualsHistory) {
  std::vector<float> losses;
  {
    LiveRuns live({one_layer()}, path("r.moescope"));
    run_to(live, 5);
    live.pin({0, 4, kNoteKind, "n"});
    live.flush();
    losses = all_losses(*live.histories()[0]);
    EXPECT_EQ(all_losses(*RecordingReader(path("r.moescope")).load(0)), losses) << "after flush(), while open";
  }
  const auto read = RecordingReader(path("r.moescope")).load(0);
  EXPECT_EQ(all_losses(*read), losses);
  EXPECT_EQ(read->markers().size(), 1u);
}

TEST(LiveRuns, LossThatIsNoNumberPausesAndSaysWhere) {
  RunConfig wild = one_layer();
  wild.optimizer = {.lr = 1,
                    .lr_min = 0,
                    .schedule = Schedule::constant,
                    .warmup_steps = 0,
                    .total_steps = 1000,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 10,
                    .clip = 1e9};
  wild.router.z_coeff = 1;
  LiveRuns live({wild}, "");
  live.run_until(3000);
  ASSERT_TRUE(eventually([&] { return !live.status().running; }));
  if (live.status().step == 3000) GTEST_SKIP() << "this model survived";
  live.flush();
  const std::int64_t lost = live.status().step - 1;
  EXPECT_NE(live.status().error.find("at step " + std::to_string(lost)), std::string::npos) << live.status().error;
  const auto history = live.histories()[0];
  EXPECT_EQ(history->steps().last, lost) << "the frame is kept";
  ASSERT_FALSE(history->markers().empty());
  EXPECT_EQ(history->markers().back().kind, "event");
  EXPECT_EQ(history->markers().back().step, lost);
}

TEST(LiveRuns, DestructionStopsWithinAStep) {
  for (int i = 0; i < 8; ++i) {
    LiveRuns live({one_layer("a"), one_layer("b"), one_layer("c"), one_layer("d")}, "");
    live.run();
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * i));
  }
  LiveRuns waiting({one_layer()}, "");
  waiting.set_max_steps_per_s(0.001);  // a thousand seconds to the next step
  waiting.run();
  ASSERT_TRUE(eventually([&] { return waiting.status().step == 1; }));
}

TEST(LiveRuns, ManyThreadsMayAskAtOnce) {
  LiveRuns live({one_layer()}, "");
  live.run();
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 4; ++asker)
    askers.emplace_back([&live, asker] {
      for (int i = 0; i < 20; ++i) {
        live.change({0, &OptimizerConfig::lr, 1e-3 * (1 + asker)});
        live.pin({0, i, kNoteKind, "n"});
        live.status();
        live.config(0);
        live.histories()[0]->sequence();
        if (i % 7 == asker) live.pause();
        if (i % 7 == 6) live.run();
        if (i % 10 == 0) live.flush();
      }
    });
  for (std::thread& asker : askers) asker.join();
  live.flush();
  const auto markers = live.histories()[0]->markers();
  EXPECT_EQ(std::ranges::count(markers, "change", &Marker::kind), 80);
  EXPECT_GE(std::ranges::count(markers, kNoteKind, &Marker::kind), 1) << "one a step: the last one stays";
  EXPECT_EQ(live.status().error, "");
}

}  // namespace
}  // namespace moescope
