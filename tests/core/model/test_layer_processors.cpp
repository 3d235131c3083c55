// The layers' own loops give the same bits with every set of vector instructions that this processor has.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "core/model/layers/rms_norm.h"
#include "core/model/layers/swiglu.h"
#include "core/model/optimizer.h"
#include "tests/support/processors.h"
#include "tests/support/sample_matrices.h"

namespace moescope {
namespace {

constexpr int kRows = 5, kDim = 45;
constexpr std::size_t kSize = kRows * kDim;

template <class T>
std::vector<T> numbers(std::size_t count, int seed) {
  const std::vector<float> v = normal_matrix(1, count, seed).v;
  return {v.begin(), v.end()};
}

template <class T>
Bits swiglu_results() {
  const std::vector<T> h13 = numbers<T>(2 * kSize, 1), da = numbers<T>(kSize, 2);
  std::vector<T> a(kSize), dh13(2 * kSize);
  const Matrix<const T> in(h13.data(), kRows, 2 * kDim);
  swiglu_forward(in, {a.data(), kRows, kDim});
  swiglu_backward({da.data(), kRows, kDim}, in, {dh13.data(), kRows, 2 * kDim});
  Bits bits;
  append(bits, a);
  append(bits, dh13);
  return bits;
}

template <class T>
Bits rms_norm_results() {
  const std::vector<T> x = numbers<T>(kSize, 1), dy = numbers<T>(kSize, 2), weight = numbers<T>(kDim, 3);
  std::vector<T> y(kSize), inv(kRows), dx(kSize), dweight(kDim);
  std::vector<T> partial(rms_norm_partials(kRows) * kDim);
  const Matrix<const T> in(x.data(), kRows, kDim);
  rms_norm_forward<T>(in, weight, 1e-5, {y.data(), kRows, kDim}, inv);
  rms_norm_backward<T>({dy.data(), kRows, kDim}, {in, weight, inv}, {dx.data(), kRows, kDim}, false,
                       {dweight, {partial.data(), rms_norm_partials(kRows), kDim}});
  Bits bits;
  for (const auto* values : {&y, &inv, &dx, &dweight}) append(bits, *values);
  return bits;
}

template <class T>
Bits adamw_results() {
  const std::vector<T> gradients = numbers<T>(kSize, 1);
  std::vector<T> weights = numbers<T>(kSize, 2), moment1 = numbers<T>(kSize, 3), moment2(kSize, T(0.5));
  const ParameterRun all{0, kSize, -1};
  adamw_update<T>({}, 3, 1e-3, 0.9, std::span(&all, 1), {gradients, weights, moment1, moment2});
  Bits bits;
  for (const auto* values : {&weights, &moment1, &moment2}) append(bits, *values);
  return bits;
}

template <class T>
Bits muon_results() {
  OptimizerConfig config;
  Bits bits;
  for (const bool nesterov : {true, false})
    for (const double momentum : {0.95, 0.3}) {
      config.muon_nesterov = nesterov;
      config.muon_momentum = momentum;
      const std::vector<T> gradient = numbers<T>(kSize, 1);
      std::vector<T> moment = numbers<T>(kSize, 2), prepared(kSize);
      muon_prepare<T>(MuonFactors<T>(config, 0.9), {gradient.data(), kRows, kDim}, {moment.data(), kRows, kDim},
                      {prepared.data(), kRows, kDim});
      append(bits, moment);
      append(bits, prepared);
    }
  return bits;
}

TEST(LayerProcessors, SwigluAlike) {
  expect_same_bits_everywhere(swiglu_results<float>);
  expect_same_bits_everywhere(swiglu_results<double>);
}

TEST(LayerProcessors, RmsNormAlike) {
  expect_same_bits_everywhere(rms_norm_results<float>);
  expect_same_bits_everywhere(rms_norm_results<double>);
}

TEST(LayerProcessors, MuonAlike) {
  expect_same_bits_everywhere(muon_results<float>);
  expect_same_bits_everywhere(muon_results<double>);
}

TEST(LayerProcessors, AdamWAlike) {
  expect_same_bits_everywhere(adamw_results<float>);
  expect_same_bits_everywhere(adamw_results<double>);
}

}  // namespace
}  // namespace moescope
