// Attention of a head against its definition, with windows and sinks; and on matrix units against sgemm with operands
// that are rounded alike. These results differ by the order of sums alone, and where that changes a rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/model/layers/attention_head.h"
#include "core/numerics/matrix_units.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

struct HeadShape {
  int length, nope, rope, value;
  int qk() const { return nope + rope; }
};

struct Head {
  HeadShape shape;
  TestMatrix q, k_nope, k_rope, v, d_o;

  explicit Head(const HeadShape& s)
      : shape(s),
        q(sample(s.qk(), 1)),
        k_nope(sample(s.nope, 2)),
        k_rope(sample(s.rope, 3)),
        v(sample(s.value, 4)),
        d_o(sample(s.value, 5)) {}
  TestMatrix sample(int cols, int seed) const {
    return normal_matrix(static_cast<std::size_t>(shape.length), static_cast<std::size_t>(cols), seed, 0.7f);
  }
  HeadInputs<float> inputs() const {
    return {q.view(), k_nope.view(), k_rope.view(), v.view(), 1 / std::sqrt(static_cast<float>(shape.qk()))};
  }
};

struct Results {
  TestMatrix o, lse, dq, dk_nope, dk_rope, dv;
  float largest = 0;

  Results(const Head& head, bool on_units)
      : o(head.v), lse(head.v.rows, 1), dq(head.q), dk_nope(head.k_nope), dk_rope(head.k_rope), dv(head.v) {
    const HeadOutputs<float> out{o.view(), lse.v, largest};
    if (on_units)
      head_forward_on_units(head.inputs(), out);
    else
      head_forward(head.inputs(), true, out);
    const HeadGradients<float> gradients{o.view(),       head.d_o.view(), lse.v,    dq.view(),
                                         dk_nope.view(), dk_rope.view(),  dv.view()};
    if (on_units)
      head_backward_on_units(head.inputs(), gradients);
    else
      head_backward(head.inputs(), true, gradients);
  }
};

// Returns the norm of a - b, divided by the norm of b.
double difference(const TestMatrix& a, const TestMatrix& b) {
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < a.v.size(); ++i) {
    distance += std::pow(static_cast<double>(a.v[i]) - static_cast<double>(b.v[i]), 2);
    length += std::pow(static_cast<double>(b.v[i]), 2);
  }
  return std::sqrt(distance / length);
}

}  // namespace

TEST(AttentionHead, OnUnitsIsTheSameButForTheOrderOfSums) {
  if (!has_matrix_unit()) GTEST_SKIP() << matrix_unit_text();
  // A BF16 rounding in the other direction changes one number of many by 2^-8.
  constexpr double kFp32 = 2e-6, kTurnedRoundings = 1e-3;
  for (const HeadShape& shape : {HeadShape{256, 32, 16, 32},
                                 {1, 8, 8, 8},
                                 {63, 8, 4, 20},
                                 {64, 64, 32, 64},
                                 {65, 5, 2, 7},
                                 {200, 16, 16, 48},
                                 {130, 24, 8, 16}}) {
    const Head head(shape);
    const Results units(head, true), sgemm(head, false);
    const std::string what = std::to_string(shape.length) + " tokens, dq " + std::to_string(shape.qk());
    EXPECT_LT(difference(units.lse, sgemm.lse), kFp32) << what;
    EXPECT_NEAR(units.largest, sgemm.largest, 1e-5f * std::fabs(sgemm.largest)) << what;
    EXPECT_LT(difference(units.o, sgemm.o), kTurnedRoundings) << what;
    EXPECT_LT(difference(units.dv, sgemm.dv), kTurnedRoundings) << what;
    if (shape.length == 1) continue;  // one probability, 1, whose score has no gradient
    EXPECT_LT(difference(units.dq, sgemm.dq), kTurnedRoundings) << what;
    EXPECT_LT(difference(units.dk_nope, sgemm.dk_nope), kTurnedRoundings) << what;
    EXPECT_LT(difference(units.dk_rope, sgemm.dk_rope), kTurnedRoundings) << what;
  }
}

TEST(AttentionHead, OnUnitsLeavesOtherHeadsAlone) {
  if (!has_matrix_unit()) GTEST_SKIP() << matrix_unit_text();
  const Head head({70, 12, 4, 20});
  std::vector<float> o(70 * 64, 7), lse(70);
  float largest = 0;
  head_forward_on_units(head.inputs(), {{o.data() + 10, 70, 20, 64}, lse, largest});
  for (std::size_t i = 0; i < o.size(); ++i)
    if (i % 64 < 10 || i % 64 >= 30) {
      ASSERT_EQ(o[i], 7) << i;
    }
}

// Compares with the definition, the softmax over the visible keys and the sink. The matrices are parts of wider ones,
// and there are more keys than queries.
TEST(AttentionHead, WindowsSinksAndEarlierTokens) {
  constexpr Index kNew = 70, kAll = 75, kQuery = 6, kValue = 5, kWindow = 9;
  constexpr float kScale = 0.4f, kSink = 0.7f;
  const TestMatrix q = normal_matrix(kNew, 2 * kQuery, 1, 1), k = normal_matrix(kAll, 3 * kQuery, 2, 1),
                   v = normal_matrix(kAll, 2 * kValue, 3, 1);
  for (const Index window : {Index{0}, kWindow})
    for (const std::optional<float> sink : {std::optional<float>(), std::optional(kSink)}) {
      TestMatrix o(kNew, kValue), lse(kNew, 1);
      float largest = 0;
      const HeadInputs<float> in{.q = q.view().col_block(kQuery, kQuery),
                                 .k_nope = k.view().col_block(kQuery, kQuery),
                                 .k_rope = k.view().col_block(0, 0),
                                 .v = v.view().col_block(kValue, kValue),
                                 .scale = kScale,
                                 .window = window,
                                 .sink = sink};
      head_forward(in, false, {o.view(), lse.v, largest});
      for (Index t = 0; t < kNew; ++t) {
        const Index last = kAll - kNew + t, first = window > 0 ? std::max<Index>(0, last - window + 1) : 0;
        double sum = sink ? std::exp(double{*sink}) : 0;
        std::vector<double> want(kValue);
        for (Index key = first; key <= last; ++key) {
          double score = 0;
          for (Index i = 0; i < kQuery; ++i) score += double{in.q.at(t, i)} * double{in.k_nope.at(key, i)};
          const double p = std::exp(double{kScale} * score);
          sum += p;
          for (Index i = 0; i < kValue; ++i) want[static_cast<std::size_t>(i)] += p * double{in.v.at(key, i)};
        }
        ASSERT_NEAR(lse.v[static_cast<std::size_t>(t)], std::log(sum), 1e-5) << t << ' ' << window;
        for (Index i = 0; i < kValue; ++i)
          ASSERT_NEAR(o.view().at(t, i), want[static_cast<std::size_t>(i)] / sum, 1e-5) << t << ' ' << window;
      }
    }
}
