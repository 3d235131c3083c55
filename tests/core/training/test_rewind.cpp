// Runs are rewound to a kept checkpoint, and new runs start from one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/config/config_check.h"
#include "core/frame/model_scans.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/live_runs.h"
#include "tests/support/live_steps.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

RunConfig two_layers(const char* name = "tiny") {
  RunConfig c;
  c.name = name;
  c.model.dim = 32;
  c.model.n_layers = 2;
  c.model.dense_inter = 64;
  c.model.n_heads = 2;
  c.model.kv_lora_rank = 16;
  c.model.qk_nope_head_dim = 8;
  c.model.qk_rope_head_dim = 8;
  c.model.v_head_dim = 16;
  c.model.n_experts = 4;
  c.model.moe_inter = 32;
  c.data.batch = 2;
  c.data.seq = 16;
  c.parallel.ranks = 2;
  c.optimizer.warmup_steps = 2;
  c.router.gate_noise = 0.1;
  c.telemetry.checkpoint_every = 4;
  return c;
}

std::vector<float> losses(const LiveRuns& live, std::size_t place, std::int64_t from = 0) {
  const auto history = live.histories().at(place);
  std::vector<float> values;
  for (std::int64_t step = from; step <= history->steps().last; ++step)
    values.push_back(history->value_at(Metric::ce_loss, kWholeRun, step));
  return values;
}

std::vector<std::int64_t> steps_of(const std::vector<KeptCheckpoint>& all) {
  std::vector<std::int64_t> steps;
  for (const KeptCheckpoint& checkpoint : all) steps.push_back(checkpoint.step);
  return steps;
}

TEST(Rewind, TrainedAgainIsTheSameToTheBit) {
  LiveRuns live({two_layers("a"), two_layers("b")}, "");
  live.change({1, &RouterConfig::top_k, std::int64_t{1}});
  run_to(live, 6);
  live.change({0, &OptimizerConfig::lr, 4e-3});
  live.change({0, &DataConfig::mixture, std::string("JSON=1")});
  run_to(live, 10);
  const auto a = losses(live, 0), b = losses(live, 1);
  EXPECT_EQ(steps_of(live.checkpoints()), (std::vector<std::int64_t>{0, 4, 8}));

  live.rewind(8);  // after the changes
  EXPECT_EQ(live.config(0).optimizer.lr, 4e-3);
  live.flush();
  EXPECT_EQ(live.status().step, 8);
  EXPECT_EQ(live.histories()[0]->steps(), (StepRange{0, 7}));
  run_to(live, 10);
  EXPECT_EQ(losses(live, 0), a);
  EXPECT_EQ(losses(live, 1), b);

  live.rewind(4);  // before the changes
  EXPECT_EQ(live.config(0).optimizer.lr, two_layers().optimizer.lr);
  EXPECT_EQ(live.config(0).data.mixture, "");
  EXPECT_EQ(live.config(1).router.top_k, 1);
  EXPECT_EQ(steps_of(live.checkpoints()), (std::vector<std::int64_t>{0, 4}));
  run_to(live, 6);
  EXPECT_EQ(losses(live, 0), std::vector<float>(a.begin(), a.begin() + 6));
  live.change({0, &OptimizerConfig::lr, 4e-3});
  live.change({0, &DataConfig::mixture, std::string("JSON=1")});
  run_to(live, 10);
  EXPECT_EQ(losses(live, 0), a);
  EXPECT_EQ(losses(live, 1), b);
  std::vector<std::string> texts;
  for (const Marker& marker : live.histories()[0]->markers()) texts.push_back(marker.text);
  EXPECT_EQ(texts.front(), "rewound from step 10 to the checkpoint here") << "what was done later is forgotten";
  EXPECT_EQ(texts.size(), 3u);
}

TEST(Rewind, DataOfLaterStepsAreDeleted) {
  LiveRuns live({two_layers()}, "");
  run_to(live, 10);
  for (const std::int64_t step : {4, 8}) live.pin({0, step, kExpertsMarker, "{}"});
  live.rewind(4);
  live.flush();
  std::vector<std::int64_t> marked_steps;
  for (const Marker& marker : live.histories()[0]->markers())
    if (marker.kind == kExpertsMarker) marked_steps.push_back(marker.step);
  EXPECT_EQ(marked_steps, std::vector<std::int64_t>{4});
}

TEST(Rewind, ToTheBeginningWhileItRuns) {
  LiveRuns live({two_layers()}, "");
  run_to(live, 5);
  const auto before = losses(live, 0);
  live.run();
  std::this_thread::sleep_for(30ms);
  live.rewind(0);
  live.flush();
  EXPECT_FALSE(live.status().running);
  EXPECT_EQ(live.status().step, 0);
  EXPECT_EQ(steps_of(live.checkpoints()), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(live.histories()[0]->steps().empty());
  run_to(live, 5);
  EXPECT_EQ(losses(live, 0), before);
}

TEST(Rewind, ChangesAfterACheckpointByHandAtTheSameStepAreTakenBack) {
  LiveRuns live({two_layers()}, "");
  run_to(live, 5);
  live.change({0, &RouterConfig::top_k, std::int64_t{3}});
  live.keep_checkpoint();
  live.flush();
  live.change({0, &RouterConfig::top_k, std::int64_t{1}});
  live.change({0, &DataConfig::mixture, std::string("DNA=1")});
  run_to(live, 7);
  live.rewind(5);
  EXPECT_EQ(live.config(0).router.top_k, 3);
  run_to(live, 7);
  const auto repeated = losses(live, 0);
  LiveRuns other({two_layers()}, "");
  run_to(other, 5);
  other.change({0, &RouterConfig::top_k, std::int64_t{3}});
  run_to(other, 7);
  EXPECT_EQ(repeated, losses(other, 0));
  EXPECT_TRUE(live.checkpoints().back().by_hand);
}

TEST(Rewind, HealsALossThatIsNoNumber) {
  RunConfig config = two_layers();
  config.optimizer.clip = 1e9;
  LiveRuns live({config}, "");
  run_to(live, 5);
  live.change({0, &OptimizerConfig::lr, 1.0});
  live.change({0, &RouterConfig::route_scale, 100.0});
  live.run_until(300);
  for (int i = 0; i < 1000 && live.status().running; ++i) std::this_thread::sleep_for(10ms);
  live.rewind(0);
  run_to(live, 8);
  EXPECT_EQ(live.status().error, "");
  EXPECT_TRUE(std::ranges::all_of(losses(live, 0), [](float loss) { return loss < 8; }));
}

TEST(Rewind, RefusesUnknownStepsAndSettings) {
  LiveRuns live({two_layers("a")}, "");
  run_to(live, 9);
  EXPECT_THROW(live.rewind(5), std::invalid_argument);
  EXPECT_THROW(live.branch(0, 5, {}), std::invalid_argument);
  EXPECT_THROW(live.branch(7, 4, {}), std::invalid_argument);
  EXPECT_THROW(live.branch(0, 4, {{0, &ModelConfig::dim, std::int64_t{64}}}), std::invalid_argument);
  EXPECT_THROW(live.branch(0, 4, {{0, &DataConfig::mixture, std::string("JSON=1")}}), std::invalid_argument);
  EXPECT_THROW(live.branch(0, 4, {{0, &RouterConfig::top_k, std::int64_t{9}}}), std::invalid_argument);
  live.branch(0, 8, {});
  EXPECT_THROW(live.rewind(4), std::invalid_argument) << "the twin began at 8";
  EXPECT_EQ(live.status().step, 9);
  run_to(live, 10);
  live.rewind(8);
  run_to(live, 10);
  EXPECT_EQ(losses(live, 1, 8), losses(live, 0, 8));
}

TEST(Branch, WithoutAChangeIsTheSameRunAndWithOneAnother) {
  LiveRuns live({two_layers("a")}, "");
  run_to(live, 6);
  live.change({0, &OptimizerConfig::lr, 4e-3});
  live.change({0, &DataConfig::mixture, std::string("JSON=1")});
  run_to(live, 10);
  const int branch = live.branch(0, 4, {});
  const int other = live.branch(0, 4, {{0, &RouterConfig::killed_experts, std::string("1:2")}});
  EXPECT_EQ(live.status().catching_up.size(), 2u);
  EXPECT_EQ(live.status().catching_up[0].step, 4);
  EXPECT_EQ(live.config(branch).optimizer.lr, 4e-3) << "it gets what was changed later";
  EXPECT_EQ(live.config(other).router.killed_experts, "1:2");
  run_to(live, 14);
  EXPECT_EQ(live.histories()[1]->steps(), (StepRange{4, 13}));
  EXPECT_EQ(losses(live, 1, 4), losses(live, 0, 4));
  EXPECT_NE(losses(live, 2, 4), losses(live, 0, 4));
  for (std::int64_t step = 4; step < 14; ++step)
    EXPECT_EQ(live.histories()[2]->frame_at(step)->routers.at(0).tokens_per_expert.at(2), 0u);
  EXPECT_NE(live.histories()[2]->markers().front().text.find("branched off run a at step 4, router.killed_experts"),
            std::string::npos);
  EXPECT_EQ(live.status().error, "");
}

TEST(Branch, OfARunThatCatchesUpCanBeRewoundWithTheOthers) {
  LiveRuns live({two_layers("a")}, "");
  run_to(live, 9);
  live.add_run(two_layers("b"));
  run_to(live, 10);  // passes 4 and 8, the checkpoints of the first run
  EXPECT_EQ(live.checkpoints()[1].runs, (std::vector<int>{0, 1}));
  const auto a = losses(live, 0), b = losses(live, 1);
  live.rewind(4);
  run_to(live, 10);
  EXPECT_EQ(losses(live, 0), a);
  EXPECT_EQ(losses(live, 1), b);
}

TEST(Ring, StaysBoundedAndKeepsFirstAndManualCheckpoints) {
  RunConfig config = two_layers();
  config.telemetry.checkpoint_every = 1;
  config.telemetry.checkpoints_kept = 6;
  LiveRuns live({config}, "");
  run_to(live, 13);
  live.keep_checkpoint();
  run_to(live, 60);
  const auto kept_steps = steps_of(live.checkpoints());
  ASSERT_EQ(kept_steps.size(), 6u);
  EXPECT_EQ(kept_steps.front(), 0);
  EXPECT_EQ(kept_steps.back(), 59);
  EXPECT_TRUE(std::ranges::count(kept_steps, 13));
  EXPECT_GT(live.checkpoints()[0].bytes, 12 * parameter_count(config) * 0.99);
  EXPECT_LT(kept_steps[5] - kept_steps[4], kept_steps[2] - kept_steps[0]) << "closer together near the newest";
}

class RingFolder : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_ring_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_;
};

TEST_F(RingFolder, EqualsMemoryAndKeepsNewestAndManualAtEnd) {
  const std::string folder = (root_ / "r.checkpoints").string();
  std::vector<float> whole;
  {
    LiveRuns live({two_layers("z"), two_layers("b")}, (root_ / "r.moescope").string());
    live.change({0, &RouterConfig::pinned_bias, std::string("1:0=0.2")});
    run_to(live, 3);
    live.keep_checkpoint();
    run_to(live, 9);
    for (int i = 0; i < 1500 && checkpoint_steps(folder).size() < 4; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{0, 3, 4, 8})) << "while it trains";
    run_to(live, 11);
    whole = losses(live, 0, 8);
  }
  EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{3, 8}));
  EXPECT_EQ(fs::path(newest_checkpoint(folder, 7).front()).parent_path().filename(), "3");
  EXPECT_EQ(fs::path(newest_checkpoint(folder, 1).front()).parent_path().filename(), "3") << "the oldest that there is";
  std::vector<Trainer> trainers;
  for (const std::string& file : newest_checkpoint(folder)) trainers.push_back(Trainer::resume(file));
  ASSERT_EQ(trainers.size(), 2u);
  EXPECT_EQ(trainers[0].config().name, "z") << "the first run first";
  LiveRuns live(std::move(trainers), "");
  run_to(live, 11);
  EXPECT_EQ(losses(live, 0, 8), whole);

  RunConfig twin = live.config(0);
  twin.router.top_k = 1;
  live.add_run(twin);
  EXPECT_EQ(live.status().catching_up.at(0).step, 8) << "begins where the others were resumed";
  twin.model.rope_theta = 5e4;
  EXPECT_THROW(live.add_run(twin), std::invalid_argument);
  run_to(live, 12);
  EXPECT_EQ(live.histories()[2]->steps(), (StepRange{8, 11}));
  EXPECT_NE(losses(live, 2, 8), losses(live, 0, 8));
}

TEST(Checkpoints, RemovedFolderIsReportedAndWrittenAgain) {
  const fs::path folder = fs::temp_directory_path() / ("moescope_removed_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  {
    LiveRuns live({two_layers()}, (folder / "r.moescope").string());
    const fs::path checkpoints = folder / "r.checkpoints";
    const auto wait_for = [](const auto& happened) {
      for (int i = 0; i < 3000 && !happened(); ++i) std::this_thread::sleep_for(10ms);
    };
    run_to(live, 5);
    wait_for([&] { return fs::exists(checkpoints / "4" / "tiny.safetensors"); });
    ASSERT_TRUE(fs::exists(checkpoints / "4"));
    fs::remove_all(checkpoints);
    run_to(live, 9);
    wait_for([&] { return fs::exists(checkpoints / "8"); });
    EXPECT_TRUE(fs::exists(checkpoints / "4" / "tiny.safetensors")) << "from memory";
    wait_for([&] {
      live.flush();
      return !live.status().warning.empty();
    });
    EXPECT_NE(live.status().warning.find("removed while training"), std::string::npos) << live.status().warning;
    EXPECT_NE(live.status().warning.find(checkpoints.string()), std::string::npos);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace moescope
