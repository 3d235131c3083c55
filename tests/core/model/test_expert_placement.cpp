#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/model/moe/expert_placement.h"

namespace moescope {
namespace {

TEST(ExpertPlacement, ReplanPeriodIsParsed) {
  const PlacementChoice choice = parse_placement_choice("balanced:50");
  EXPECT_EQ(choice.kind, PlacementChoice::Kind::balanced);
  EXPECT_EQ(choice.replan_every, 50);
  EXPECT_EQ(placement_choice_text(choice), "balanced:50");
  EXPECT_EQ(placement_choice_text(parse_placement_choice("packed:50")), "packed:50");
  EXPECT_EQ(parse_placement_choice("balanced").replan_every, 0);
  for (const char* text :
       {"balanced:", "balanced:0", "balanced:-1", "balanced:10001", "balanced:5x", "balanced:5:6", "packed:0"})
    EXPECT_THROW(parse_placement_choice(text), std::runtime_error) << text;
}

TEST(ExpertPlacement, BalancedIsContiguousBeforeTheFirstPlan) {
  const PlacementChoice choice = parse_placement_choice("balanced:50");
  const std::vector<std::uint64_t> load{90, 10, 10, 10};
  EXPECT_TRUE(place(choice, {1, 2, 8, 1}, 4, load).replicated());
  EXPECT_FALSE(place(parse_placement_choice("packed:50"), {1, 2, 8, 1}, 4, load).replicated());
  EXPECT_EQ(place(choice, {1, 2, 8, 1}, 4, {}).replica_rank, place_contiguous(4, 2).replica_rank);
}

}  // namespace
}  // namespace moescope
