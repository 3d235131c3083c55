#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "core/frame/frame.h"
#include "core/numerics/processor.h"
#include "core/training/engine/live_runs.h"
#include "core/training/engine/retrain.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class ReproduceTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove(path_); }
  void TearDown() override { fs::remove(path_); }

  // 12 steps of two runs, with changes between them; the second has portable products.
  void record() {
    RunConfig other = small_run();
    other.name = "other";
    other.seed = 7;
    other.portable = true;
    LiveRuns live({small_run(), other}, path_);
    train_to(live, 4);
    live.change({0, &RouterConfig::bias_update_rate, 0.05});
    live.change({1, &RouterConfig::killed_experts, std::string("1:3")});
    live.change(
        {0, &DataConfig::mixture, std::string("prose=1, code=2, arithmetic=3, JSON=4, brackets=1, DNA=1, log=5")});
    train_to(live, 8);
    live.change({0, &OptimizerConfig::lr, 0.0123456789});
    live.change({0, &TelemetryConfig::probe, std::string("a -> b")});
    train_to(live, 12);
  }

  static void train_to(LiveRuns& live, std::int64_t step) {
    live.run_until(step);
    while (live.status().running || live.status().step < step) live.flush();
    ASSERT_EQ(live.status().error, "");
  }

  const std::string path_ = (fs::temp_directory_path() / "moescope_reproduce.moescope").string();
};

bool go_on(std::int64_t, std::int64_t) {
  return true;
}

TEST_F(ReproduceTest, ARecordingWithLiveChangesComesOutTheSameToTheBit) {
  record();
  const RecordingReader recording(path_);
  ASSERT_EQ(recording.runs().size(), 2u);
  for (const RunInfo& info : recording.runs()) {
    const Reproduction result = reproduce(recording.runs()[0], *recording.load(info.run), -1, go_on);
    EXPECT_EQ(result.compared, 12) << info.name;
    EXPECT_EQ(result.differs_at, -1) << info.name << ": " << result.text();
    EXPECT_NE(result.text().find("12 steps"), std::string::npos);
  }
}

TEST_F(ReproduceTest, TheFirstStepThatDiffersIsNamed) {
  record();
  const RecordingReader recording(path_);
  const auto whole = recording.load(0);
  History altered(whole->info());
  for (std::int64_t step = 0; step < 12; ++step) {
    TelemetryFrame frame = *whole->frame_at(step);
    if (step >= 9) frame.ce_loss = std::nextafterf(frame.ce_loss, 9.0f);
    altered.append(std::make_shared<const TelemetryFrame>(std::move(frame)));
  }
  for (const Marker& marker : whole->markers()) altered.append(marker);
  const Reproduction result = reproduce(recording.runs()[0], altered, -1, go_on);
  EXPECT_EQ(result.differs_at, 9);
  EXPECT_EQ(result.compared, 10);
  EXPECT_NE(result.recorded, result.computed);
  EXPECT_NE(result.text().find("from step 9 on"), std::string::npos);

  History unchanged(whole->info());  // without the recorded changes
  for (std::int64_t step = 0; step < 12; ++step) unchanged.append(whole->frame_at(step));
  const std::int64_t differs_at = reproduce(recording.runs()[0], unchanged, -1, go_on).differs_at;
  EXPECT_GE(differs_at, 4);
  EXPECT_LE(differs_at, 5);
}

// A run recorded with other kernels may have the same losses; the kernels are named only if a loss differs.
TEST_F(ReproduceTest, OtherKernelsAreNamedWhereALossDiffers) {
  record();
  const RecordingReader recording(path_);
  const auto whole = recording.load(0);
  EXPECT_EQ(whole->info().kernels, kernels_here().text());
  EXPECT_EQ(recording.load(1)->info().kernels, kPortableKernels);
  const auto reproduced = [&](const std::string& kernels, float factor) {
    RunInfo info = whole->info();
    info.kernels = kernels;
    History altered(info);
    for (std::int64_t step = 0; step < 3; ++step) {
      TelemetryFrame frame = *whole->frame_at(step);
      if (step == 2) frame.ce_loss *= factor;
      altered.append(std::make_shared<const TelemetryFrame>(std::move(frame)));
    }
    return reproduce(recording.runs()[0], altered, -1, go_on).text();
  };
  const std::string other_kernels = "OpenBLAS 0.3.21 Zen9, 16-lane-tiled loops, no matrix units";
  EXPECT_EQ(reproduced(other_kernels, 1).find("Zen9"), std::string::npos);
  EXPECT_NE(reproduced(other_kernels, 2).find("Computed by " + other_kernels), std::string::npos)
      << reproduced(other_kernels, 2);
  EXPECT_NE(reproduced("", 2).find("not recorded"), std::string::npos) << reproduced("", 2);
  EXPECT_EQ(reproduced(kernels_here().text(), 2).find("ernels"), std::string::npos);
}

TEST_F(ReproduceTest, StopsWhenAskedAndTakesNoMoreStepsThanAsked) {
  record();
  const RecordingReader recording(path_);
  const auto history = recording.load(0);
  EXPECT_EQ(reproduce(recording.runs()[0], *history, 5, go_on).compared, 5);
  const auto stop = [](std::int64_t done, std::int64_t) { return done < 3; };
  EXPECT_EQ(reproduce(recording.runs()[0], *history, -1, stop).compared, 3);
}

TEST(Reproduce, RefusalNamesReason) {
  RunInfo imported;
  imported.name = "their_run";
  History log(imported);
  EXPECT_NE(reproduce_problem(imported, log).find("not trained here"), std::string::npos);

  const RunInfo info = run_info(small_run(), 0);
  History resumed(info);
  TelemetryFrame frame;
  frame.step = 100;
  resumed.append(std::make_shared<const TelemetryFrame>(frame));
  EXPECT_NE(reproduce_problem(info, resumed).find("begins with step 100"), std::string::npos);
  EXPECT_THROW(reproduce(info, resumed, -1, go_on), std::runtime_error);

  History odd(info);
  frame.step = 0;
  odd.append(std::make_shared<const TelemetryFrame>(frame));
  odd.append(change_marker(0, 0, "router.nonsense", "1", "2"));
  try {
    reproduce(info, odd, -1, go_on);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("router.nonsense"), std::string::npos) << error.what();
  }
}

TEST_F(ReproduceTest, TheFilesThatItReadsAreNamed) {
  RunInfo first, second;
  EXPECT_TRUE(inputs_to_reproduce(first, second).empty());
  first.config_toml = "[data]\npath = '/texts'\n";
  second.config_toml =
      "[model]\ninitial_weights = '/weights'\n[data]\npath = '/texts'\ntokenizer = '/tokenizer.json'\n";
  const std::set<std::string> inputs{"data.path: /texts", "data.tokenizer: /tokenizer.json",
                                     "model.initial_weights: /weights"};
  EXPECT_EQ(inputs_to_reproduce(first, second), inputs);
  second.config_toml += "[settings_of_a_later_version]\nkey = 1\n";
  EXPECT_EQ(inputs_to_reproduce(first, second), inputs);
  second.config_toml = "no TOML";
  EXPECT_EQ(inputs_to_reproduce(first, second), std::set<std::string>{"data.path: /texts"});
}

}  // namespace
}  // namespace moescope
