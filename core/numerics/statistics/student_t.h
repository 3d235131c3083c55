// Quantiles of Student's t distribution, for intervals of a mean.
#pragma once

namespace moescope {

// Returns t with P(|T| <= t) = 0.95 for Student's distribution of `degrees` >= 1 degrees of freedom, not necessarily
// whole.
double student_95(double degrees);
// Returns t with P(|T| <= t) = `inside` for that distribution.
double student_quantile(double degrees, double inside);
// Returns c with P(all of `count` |T| <= c) = 0.95 for T with independent numerators and one common denominator.
double largest_student_95(double degrees, int count);

}  // namespace moescope
