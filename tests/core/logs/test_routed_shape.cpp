// Shapes and empty slots of flat arrays of experts.
#include <gtest/gtest.h>

#include <random>

#include "core/logs/routing/routed_shape.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

// A response whose tokens have two different experts of eight in each of four layers.
RoutedSequence response(std::size_t tokens, unsigned seed) {
  std::mt19937 random(seed);
  RoutedSequence sequence;
  for (std::size_t i = 0; i < 4 * tokens; ++i) {
    const int first = static_cast<int>(random() % 8);
    sequence.ids.insert(sequence.ids.end(), {first, (first + 1 + static_cast<int>(random() % 7)) % 8});
  }
  sequence.most_tokens = tokens;
  return sequence;
}

RowShape shape_of(const std::vector<RoutedSequence>& sequences, const RoutedShape& stated = {}) {
  return shape_of_rows(sequences, stated, "x.json");
}
template <class Error = std::runtime_error>
std::string refusal(const std::vector<RoutedSequence>& sequences, const RoutedShape& stated = {}) {
  try {
    shape_of(sequences, stated);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RowShape, IsShownByManyResponsesOfDifferentLengths) {
  const RowShape shape = shape_of({response(40, 1), response(50, 2)});
  EXPECT_EQ(shape.layers, 4u);
  EXPECT_EQ(shape.top_k, 2u);
  EXPECT_EQ(shape.ids(), 8u);
}

TEST(RowShape, OfFewTokensIsAskedFor) {
  EXPECT_TRUE(says(refusal<AmbiguousRouting>({response(4, 1), response(5, 2)}), "--top-k"));
  EXPECT_EQ(shape_of({response(4, 1), response(5, 2)}, {.top_k = 2}).layers, 4u);
  EXPECT_TRUE(says(refusal<AmbiguousRouting>({response(40, 1)}), "--layers"));  // one length
}

TEST(RowShape, StatedContradictsTheFile) {
  EXPECT_TRUE(says(refusal({response(40, 1)}, {.layers = 3, .top_k = 3}), "not rows of 3 layers of 3 experts"));
  EXPECT_TRUE(says(refusal({response(40, 1)}, {.layers = 1, .top_k = 1}), "more rows than its 40 tokens"));
  RoutedSequence known = response(40, 1), other = known;
  known.layers = 4;
  known.top_k = 2;
  EXPECT_TRUE(says(refusal({known}, {.layers = 3}), "has 4 layers, but --layers is 3"));
  EXPECT_TRUE(says(refusal({known, other}), "sequence 1 has another number of layers"));
}

TEST(EmptySlots, AreNegativeOrAFillingThatARowRepeats) {
  const RowShape shape{1, 3};
  const std::vector<RoutedSequence> filled = {{.ids = {1, 255, 255, 4, 5, 6}}};
  const EmptySlots slots(filled, shape, 0, "x");
  EXPECT_TRUE(slots.is_empty(255) && slots.is_empty(-1));
  EXPECT_FALSE(slots.is_empty(6) || slots.is_empty(0));
}

// Either there are 256 experts, of which no token chose 7 to 254, or 255 marks a slot without an expert.
TEST(EmptySlots, OfOneFillingAreAskedFor) {
  const std::vector<RoutedSequence> one = {{.ids = {1, 255, 4, 6}}};
  EXPECT_TRUE(says(problem_of([&] { EmptySlots(one, {1, 2}, 0, "x"); }), "no other number is near"));
  EXPECT_FALSE(EmptySlots(one, {1, 2}, 256, "x").is_empty(255));
  EXPECT_TRUE(EmptySlots(one, {1, 2}, 8, "x").is_empty(255));
  EXPECT_TRUE(says(problem_of([&] { EmptySlots(one, {1, 2}, 5, "x"); }), "has expert 6, but --experts is 5"));
}

}  // namespace
}  // namespace moescope
