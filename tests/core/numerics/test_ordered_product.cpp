// Products in one order: every processor gives the bits of three plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "core/numerics/gemm.h"
#include "core/numerics/kernels/ordered_product.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/rng.h"
#include "tests/support/processors.h"

namespace moescope {
namespace {

struct ProductShape {
  Index m, n, k;
};

template <class T>
std::vector<T> random_values(Index count, int purpose) {
  const RandomStream stream(purpose, "ordered product");
  std::vector<T> values(count);
  for (Index i = 0; i < count; ++i) values[i] = static_cast<T>(stream.normal(i));
  return values;
}

// A matrix with gaps of three elements between its rows.
template <class T>
struct Stored {
  Index rows, cols;
  std::vector<T> values;

  Stored(Trans trans, Index n_rows, Index n_cols, int purpose)
      : rows(trans == Trans::yes ? n_cols : n_rows),
        cols(trans == Trans::yes ? n_rows : n_cols),
        values(random_values<T>(rows * (cols + 3), purpose)) {}
  Matrix<T> view() { return {values.data(), rows, cols, cols + 3}; }
  SteppedMatrix<T> stepped(Trans trans) const {
    const Index row_step = cols + 3;
    return trans == Trans::yes ? SteppedMatrix<T>{values.data(), 1, row_step}
                               : SteppedMatrix<T>{values.data(), row_step, 1};
  }
  T at(Trans trans, Index row, Index col) const {
    return trans == Trans::yes ? values[col * (cols + 3) + row] : values[row * (cols + 3) + col];
  }
};

template <class T>
T plain_element(T alpha, const std::vector<T>& products, T beta, T c) {
  constexpr std::size_t kSummed = 256;
  for (std::size_t begin = 0; begin == 0 || begin < products.size(); begin += kSummed) {
    T sum = 0;
    for (std::size_t i = begin; i < std::min(begin + kSummed, products.size()); ++i) sum += products[i];
    const T factor = begin == 0 ? beta : T{1};
    c = factor == 0 ? alpha * sum : alpha * sum + factor * c;
  }
  return c;
}

template <class T>
void expect_plain_bits(ProductShape shape, Trans ta, Trans tb, T alpha, T beta) {
  Stored<T> a(ta, shape.m, shape.k, 1), b(tb, shape.k, shape.n, 2), c(Trans::no, shape.m, shape.n, 3);
  if (beta == 0) c.values.assign(c.values.size(), std::numeric_limits<T>::quiet_NaN());
  std::vector<T> expected = c.values;
  for (Index row = 0; row < shape.m; ++row)
    for (Index col = 0; col < shape.n; ++col) {
      std::vector<T> products(shape.k);
      for (Index i = 0; i < shape.k; ++i) products[i] = a.at(ta, row, i) * b.at(tb, i, col);
      T& element = expected[row * (shape.n + 3) + col];
      element = plain_element(alpha, products, beta, element);
    }
  const PortableProducts portable(true);
  Stored<T> gemm_c = c;
  ordered_product(alpha, a.stepped(ta), b.stepped(tb), shape.k, beta, c.view());
  gemm(ta, tb, alpha, a.view(), b.view(), beta, gemm_c.view());
  Bits plain_bits;
  append(plain_bits, expected);
  for (const Stored<T>* found : {&c, &gemm_c}) {
    Bits found_bits;
    append(found_bits, found->values);
    EXPECT_EQ(found_bits, plain_bits) << shape.m << " x " << shape.n << " x " << shape.k;
  }
}

template <class T>
void expect_plain_bits_of_all_forms(ProductShape shape) {
  for (const Trans ta : {Trans::no, Trans::yes})
    for (const Trans tb : {Trans::no, Trans::yes}) {
      expect_plain_bits<T>(shape, ta, tb, T{1}, T{0});
      expect_plain_bits<T>(shape, ta, tb, T{1}, T{1});
      expect_plain_bits<T>(shape, ta, tb, static_cast<T>(0.3), static_cast<T>(-1.7));
    }
}

TEST(OrderedProduct, BitsAreThoseOfPlainLoopsOnEveryProcessor) {
  for_each_processor([] {
    for (const ProductShape shape : {ProductShape{1, 1, 1},
                                     {5, 3, 2},
                                     {6, 16, 8},
                                     {12, 32, 256},
                                     {13, 33, 257},
                                     {25, 7, 600},
                                     {1, 65, 4},
                                     {65, 1, 5},
                                     {40, 48, 31},
                                     {3, 9, 0}}) {
      expect_plain_bits_of_all_forms<float>(shape);
      expect_plain_bits_of_all_forms<double>(shape);
    }
  });
}

}  // namespace
}  // namespace moescope
