// Folders whose files are the parts of one run: a file for each step, or for each layer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/logs/account.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

TEST(FilesOfOneRun, AFileForEachStep) {
  const TestFolder folder("files_of_steps");
  for (const std::string step : {"1", "2", "10"})
    write_bytes(folder / ("step_" + step + ".json"),
                "{\"step\":" + step + ",\"loss\":" + step + ".5,\"expert_load\":[[3,5],[2,6]]}");
  const OpenedRuns opened = open_runs({std::string(folder / "")}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  EXPECT_EQ(opened.histories[0]->count(), 3);
  EXPECT_EQ(opened.histories[0]->value_at(Metric::ce_loss, kWholeRun, 10), 10.5f);
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "loss: 3 values, 1.5 to 10.5"));
}

TEST(FilesOfOneRun, AFileForEachLayer) {
  const TestFolder folder("files_of_layers");
  for (const std::string layer : {"0", "1"})
    write_bytes(folder / ("layer" + layer + "_expert_counts.json"), "{\"0\":4,\"1\":5,\"2\":7}");
  const OpenedRuns opened = open_runs({std::string(folder / "")}, {}, 1);
  EXPECT_EQ(opened.histories.at(0)->info().moe_layers, (std::vector{0, 1}));
  EXPECT_EQ(opened.histories.at(0)->frame_at(0)->routers.at(1).tokens_per_expert,
            (std::vector<std::uint32_t>{4, 5, 7}));
}

}  // namespace
}  // namespace moescope
