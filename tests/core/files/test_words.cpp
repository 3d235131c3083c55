// Lists of numbers in sentences.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/files/text/words.h"

namespace moescope {
namespace {

std::vector<int> from_to(int first, int last) {
  std::vector<int> numbers(last - first + 1);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(Words, ShortListsNameEveryNumber) {
  EXPECT_EQ(listed(std::vector{3}), "3");
  EXPECT_EQ(listed(std::vector{7, 3}), "7 and 3");
  EXPECT_EQ(listed(from_to(1, 6)), "1, 2, 3, 4, 5 and 6");
}

TEST(Words, LongListsOfNeighboursAreRanges) {
  EXPECT_EQ(listed(from_to(100, 139)), "100 to 139");
  std::vector<int> numbers = from_to(12, 17);
  numbers.push_back(9);
  for (const int number : from_to(1, 6)) numbers.push_back(number);
  EXPECT_EQ(listed(numbers), "1 to 6, 9 and 12 to 17");
  EXPECT_EQ(listed(std::vector{1, 2, 4, 5, 6, 7, 8}), "1, 2 and 4 to 8");
}

TEST(Words, LongListsWithoutRangesAreCut) {
  EXPECT_EQ(listed(std::vector{3, 1, 5, 7, 9, 11, 13, 15}), "3, 1, 5, 7, 9, 11 and 2 more");
  EXPECT_EQ(listed(std::vector{3, 1, 5}, 2), "3, 1 and 1 more");
}

}  // namespace
}  // namespace moescope
