// A training with portable products gives the same losses to the bit on every processor, which are those of the hashes
// here.
#include <gtest/gtest.h>

#include <vector>

#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "tests/support/portable_training.h"
#include "tests/support/processors.h"

namespace moescope {
namespace {

class Portable : public testing::TestWithParam<PortableTraining> {};

TEST_P(Portable, LossesAreTheSameBitsOnEveryProcessor) {
  for_each_processor([] {
    if (hwy::SupportedTargets() == HWY_SCALAR) return;  // takes minutes
    const std::vector<float> losses = portable_losses(GetParam().config);
    EXPECT_LT(losses.back(), 0.8f * losses.front());
    EXPECT_EQ(digest_of_losses(losses), GetParam().digest);
  });
}

// The test above has one thread.
TEST_P(Portable, LossesAreTheSameBitsWithThreeThreads) {
  set_num_threads(3);
  EXPECT_EQ(digest_of_losses(portable_losses(GetParam().config)), GetParam().digest);
  set_num_threads(0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Portable, testing::ValuesIn(portable_trainings()),
                         [](const auto& info) { return info.param.name; });

TEST(PortableProducts, OpenBlasMultipliesOutsideOfTheirScope) {
  EXPECT_FALSE(PortableProducts::in_use());
  {
    const PortableProducts portable(true);
    EXPECT_FALSE(has_matrix_unit());
    bool in_use_in_task[8] = {};
    parallel_for(8, [&](int task) { in_use_in_task[task] = PortableProducts::in_use(); });
    for (const bool in_use : in_use_in_task) EXPECT_TRUE(in_use);
    const PortableProducts fast(false);
    EXPECT_FALSE(PortableProducts::in_use());
  }
  EXPECT_FALSE(PortableProducts::in_use());
}

}  // namespace
}  // namespace moescope
