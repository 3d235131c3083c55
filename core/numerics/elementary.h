// Elementary functions with equal bits on every processor: additions, multiplications and divisions of double in a
// fixed order. Those of the C library differ in the last place between libraries, and between processors with and
// without fused multiply-add. At most 4 units in the last place from exact; powers 4 + 2 |y ln x|.
#pragma once

namespace moescope {

double ordered_exp(double x);
double ordered_expm1(double x);
double ordered_log(double x);            // NaN below 0
double ordered_log1p(double x);          // x >= 0
double ordered_pow(double x, double y);  // x >= 0
double ordered_tanh(double x);
double ordered_cos(double x);  // less exact from |x| = 2^20 on
double ordered_sin(double x);

}  // namespace moescope
