#include <gtest/gtest.h>

#include "core/training/train_totals.h"

namespace moescope {
namespace {

TelemetryFrame frame_of(float loss, std::initializer_list<float> max_vios) {
  TelemetryFrame frame;
  frame.ce_loss = loss;
  for (const float max_vio : max_vios) {
    RouterFrame& router = frame.routers.emplace_back();
    router.max_vio = max_vio;
    router.max_vio_window = max_vio / 2;
  }
  return frame;
}

TEST(LastSteps, HaveTheMeanOfTwentyLossesAndTheLayersOfTheLast) {
  LastSteps last;
  for (int step = 0; step < 30; ++step) last.add(frame_of(static_cast<float>(step), {1, 3}));
  EXPECT_DOUBLE_EQ(last.mean_loss(), 19.5);  // of 10 to 29
  EXPECT_FLOAT_EQ(last.max_vio, 2);
  EXPECT_FLOAT_EQ(last.max_vio_window, 1);
  last.add(frame_of(50, {}));  // a step without routers
  EXPECT_DOUBLE_EQ(last.mean_loss(), 21.5);
  EXPECT_FLOAT_EQ(last.max_vio, 2);
}

TEST(WireTotals, CompareSentBytesWithThoseOfTheRouting) {
  RunConfig config;
  config.model.dim = 32;
  TelemetryFrame frame = frame_of(1, {1});
  WireTotals totals;
  totals.add(frame, config);
  EXPECT_EQ(totals.text(), "") << "one process";
  frame.wire = {2, false, {900, 256, 384, 900}, {3, 5}};  // 900: stays on its rank
  VolumeFrame& volume = frame.routers.front().volume;
  volume.ranks = volume.ranks_per_node = 2;
  volume.copies_RR = volume.distinct_RR = {9, 1, 2, 9};
  volume.nodes_RN = {9, 9};
  totals.add(frame, config);
  totals.add(frame, config);
  EXPECT_DOUBLE_EQ(totals.sent, 2 * (256 + 384));
  // A row of 32 numbers in FP32 goes there and back, forward and backward.
  EXPECT_DOUBLE_EQ(totals.counted, 2 * 3 * 4 * 128);
  EXPECT_EQ(totals.text(), "640 bytes a step between 2 ranks measured, 1536 by the routing; 4.0 ms a step");
}

}  // namespace
}  // namespace moescope
