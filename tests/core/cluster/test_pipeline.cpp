// The layers of the pipeline's stages, and its schedule, compared with values worked out by hand.
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "core/cluster/step_model.h"

namespace moescope {
namespace {

std::vector<int> moe_by_rank(const ModelShape& shape, int ranks, int stages_per_rank) {
  std::vector<int> moe(static_cast<std::size_t>(ranks));
  const auto stages = layers_by_stage(shape, ranks * stages_per_rank);
  for (std::size_t s = 0; s < stages.size(); ++s) moe[s % moe.size()] += stages[s].moe;
  return moe;
}

TEST(Pipeline, LayersOfThePublishedRuns) {
  const ModelShape& shape = model_shape("671B");
  const auto stages = layers_by_stage(shape, 4);  // 256 B200s
  std::vector<int> layers;
  for (const StageLayers& stage : stages) layers.push_back(stage.dense + stage.moe);
  EXPECT_EQ(layers, (std::vector<int>{15, 16, 16, 14}));
  EXPECT_EQ(stages[0].dense, 3);
  EXPECT_TRUE(stages[3].head);
  EXPECT_FALSE(stages[0].head);
  EXPECT_EQ(moe_by_rank(shape, 2, 2), (std::vector<int>{28, 30}));
  EXPECT_EQ(moe_by_rank(shape, 8, 2), (std::vector<int>{4, 8, 8, 8, 8, 8, 8, 6}));  // 512 H100s
}

TEST(Pipeline, EveryLayerIsInOneStage) {
  for (const char* name : {"debugmodel", "16B", "236B", "671B"}) {
    const ModelShape& shape = model_shape(name);
    for (int stages = 1; stages <= shape.n_layers + 2; ++stages) {
      int dense = 0, moe = 0;
      for (const StageLayers& stage : layers_by_stage(shape, stages)) {
        EXPECT_GE(stage.dense + stage.moe, 0);
        dense += stage.dense;
        moe += stage.moe;
      }
      EXPECT_EQ(dense, shape.n_dense_layers) << shape.name << " " << stages;
      EXPECT_EQ(moe, shape.n_moe_layers()) << shape.name << " " << stages;
    }
  }
  EXPECT_THROW(layers_by_stage(model_shape("671B"), 64), std::runtime_error);
}

// arXiv:2104.04473: if all stages are alike, the bubble is (P - 1) / (V M) of the work.
TEST(Pipeline, EvenStagesHaveTheKnownBubble) {
  for (const int ranks : {2, 4, 8})
    for (const int stages_per_rank : {1, 2, 3})
      for (const int rounds : {1, 2, 8, 100}) {
        const int microbatches = rounds * ranks;
        const std::vector<double> forward(static_cast<std::size_t>(ranks * stages_per_rank), 0.7);
        const PipelineStretch stretch = pipeline_stretch(forward, ranks, microbatches, 2);
        EXPECT_NEAR(stretch.imbalance, 1, 1e-12);
        EXPECT_NEAR(stretch.total, 1 + (ranks - 1.0) / (stages_per_rank * microbatches), 1e-9)
            << ranks << " " << stages_per_rank << " " << microbatches;
      }
}

// Two ranks, two microbatches, stages of 1 and 2, a backward pass as long as a forward pass. Rank 0: F 0-1, F 1-2,
// waits, B 5-6 after rank 1's F 1-3 and B 3-5, B 9-10 after F 5-7 and B 7-9.
TEST(Pipeline, ASmallScheduleByHand) {
  const double forward[] = {1, 2};
  const PipelineStretch stretch = pipeline_stretch(forward, 2, 2, 1);
  EXPECT_NEAR(stretch.imbalance, 2 / 1.5, 1e-12);
  EXPECT_NEAR(stretch.total, 10 / (2 * 1.5 * 2), 1e-12);
}

TEST(Pipeline, IsNeverFasterThanItsBusiestRankAndGoesOnAtItsPace) {
  const std::vector<double> forward{3, 4, 4, 4, 4, 4, 4, 2};
  for (const int microbatches : {1, 2, 3, 4, 8, 16, 64, 256, 1024}) {
    const PipelineStretch stretch = pipeline_stretch(forward, 4, microbatches, 3);
    EXPECT_NEAR(stretch.imbalance, 8 / 7.25, 1e-12);
    EXPECT_GE(stretch.total, stretch.imbalance);
  }
  // Steps of many microbatches are not simulated to their end, and the result is the same.
  const auto extra = [&](int m) {
    const PipelineStretch s = pipeline_stretch(forward, 4, m, 3);
    return (s.total - s.imbalance) * m;
  };
  EXPECT_NEAR(extra(256), extra(128), 1e-9);
  EXPECT_NEAR(extra(4096), extra(128), 1e-9);
  EXPECT_NEAR(pipeline_stretch(forward, 4, 1 << 20, 3).total, 8 / 7.25, 1e-4);
}

TEST(Pipeline, OneRankHasNoBubbleAndOddRoundsAreRefused) {
  const double forward[] = {1, 5};
  EXPECT_EQ(pipeline_stretch(forward, 1, 7, 2).total, 1);
  const std::vector<double> sixteen(16, 1.0);
  try {
    pipeline_stretch(sixteen, 8, 17, 2);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("a multiple of 8"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(pipeline_stretch(std::vector<double>(8, 1.0), 8, 17, 2));
}

}  // namespace
}  // namespace moescope
