// The scan of a checkpoint as its recording keeps it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/frame/model_scans.h"

namespace moescope {
namespace {

TEST(PrecisionScan, AsTextAndBack) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const PrecisionScan scan{
      .recipe = Recipe::mxfp4,
      .pieces = 1,
      .loss = 3.25,
      .twins = {{.scope = PrecisionTwin::Scope::all_operands, .divergence = {0.5, none}, .behind = {0, none}},
                {.layer = 2,
                 .gemm_class = GemmClass::shared_experts,
                 .operand = OperandRole::w,
                 .loss_change = {-0.125, 0.01},
                 .divergence = {0.1, 0.02},
                 .flips = {0.2, 0.03},
                 .behind = {0.4, 0.05}}}};
  const auto read = scan_in(scan_json(scan));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->recipe, scan.recipe);
  EXPECT_EQ(read->pieces, 1);
  EXPECT_EQ(read->loss, 3.25);
  ASSERT_EQ(read->twins.size(), 2u);
  EXPECT_EQ(twin_name(read->twins[0]), "all operands");
  EXPECT_TRUE(std::isnan(read->twins[0].divergence.interval));
  EXPECT_EQ(twin_name(read->twins[1]), "layer 2, shared_experts, W");
  EXPECT_EQ(read->twins[1].loss_change.mean, -0.125);
  EXPECT_EQ(read->twins[1].behind.interval, 0.05);
  EXPECT_EQ(read->costliest(), &read->twins[1]);
}

TEST(PrecisionScan, OtherTextsAreNone) {
  std::string text = scan_json({.recipe = Recipe::mxfp4, .pieces = 1, .twins = {{}}});
  for (const char* other : {"", "[]", "{}", "{\"recipe\": \"mxfp4\"}", "{\"recipe\": 3}"}) EXPECT_FALSE(scan_in(other));
  text.replace(text.find("\"one layer\""), 11, "\"one word\"");
  EXPECT_FALSE(scan_in(text));
}

}  // namespace
}  // namespace moescope
