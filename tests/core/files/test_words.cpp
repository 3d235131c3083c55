// Lists of numbers in sentences, and numbers that are read.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/files/text/words.h"

namespace moescope {
namespace {

std::vector<int> from_to(int first, int last) {
  std::vector<int> numbers(last - first + 1);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Both branches of read_number(): that of the standard library, and in tests/portable the one for other libraries.
TEST(Words, NumbersAreReadAsAWhole) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> read[] = {{"0", 0},
                                                 {"-0", 0},
                                                 {"12", 12},
                                                 {"-3.5", -3.5},
                                                 {".5", 0.5},
                                                 {"5.", 5},
                                                 {"1e3", 1e3},
                                                 {"1E-3", 0.001},
                                                 {"1e+2", 100},
                                                 {"4.9e-324", 4.9e-324},
                                                 {"1.7976931348623157e308", 1.7976931348623157e308},
                                                 {"0e9999", 0},
                                                 {"0.1", 0.1},
                                                 {"inf", kInfinity},
                                                 {"-Infinity", -kInfinity},
                                                 {"9007199254740993", 9007199254740992.0}};
  for (const auto& [text, expected] : read) {
    double value = 7;
    EXPECT_TRUE(read_number(text, value)) << text;
    EXPECT_EQ(value, expected) << text;
  }
  double value = 0;
  EXPECT_TRUE(read_number("nan", value) && std::isnan(value));
  for (const char* text : {"",  " 1",  "1 ",    "+1",     "-+1",  "--1",   "- 1", "0x10", "1e",  "e5",      ".",
                           "-", "1,5", "1e400", "1e-400", "1.5f", "1_000", "in",  "1d3",  "\t2", "infinit", "1.2.3"})
    EXPECT_FALSE(read_number(text, value)) << text;
  EXPECT_FALSE(read_number(std::string_view("1\0002", 3), value));
  float narrow = 0;
  EXPECT_TRUE(read_number("0.1", narrow));
  EXPECT_EQ(narrow, 0.1f);
  EXPECT_FALSE(read_number("1e39", narrow));
  int whole = 0;
  EXPECT_TRUE(read_number("-12", whole));
  EXPECT_EQ(whole, -12);
  EXPECT_FALSE(read_number("12.0", whole));
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
