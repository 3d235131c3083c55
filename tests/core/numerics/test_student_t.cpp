// Quantiles of Student's distribution against printed tables.
#include <gtest/gtest.h>

#include "core/numerics/statistics.h"

namespace moescope {
namespace {

// Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10.
TEST(Student, IsThatOfTheTables) {
  EXPECT_NEAR(student_95(1), 12.706, 2e-3);
  EXPECT_NEAR(student_95(2), 4.303, 1e-3);
  EXPECT_NEAR(student_95(3), 3.182, 1e-3);
  EXPECT_NEAR(student_95(4), 2.776, 1e-3);
  EXPECT_NEAR(student_95(10), 2.228, 1e-3);
  EXPECT_NEAR(student_95(60), 2.000, 1e-3);
  EXPECT_NEAR(student_95(1e4), 1.960, 1e-2);
}

// Values of adaptive quadrature (SciPy). 2.958 is also in printed tables (Stoline and Ury, Technometrics 21, 1979).
TEST(Student, LargestOfSeveralThatShareADeviation) {
  EXPECT_DOUBLE_EQ(largest_student_95(4, 1), student_95(4));
  EXPECT_NEAR(largest_student_95(1, 2), 17.98, 0.05);
  EXPECT_NEAR(largest_student_95(1, 15), 32.70, 0.1);
  EXPECT_NEAR(largest_student_95(1.5, 3), 9.305, 0.02);
  EXPECT_NEAR(largest_student_95(4, 3), 3.745, 0.005);
  EXPECT_NEAR(largest_student_95(8, 3), 2.958, 0.005);
  EXPECT_NEAR(largest_student_95(16, 15), 3.377, 0.005);
  EXPECT_NEAR(largest_student_95(1e4, 3), 2.388, 0.01);
  EXPECT_NEAR(student_quantile(2, 1 - 0.05 / 3), 7.649, 0.02);
}

}  // namespace
}  // namespace moescope
