#include "core/model/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/model/muon.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "core/numerics/bf16_rounding.h"
#include "core/numerics/gemm.h"
#include "core/numerics/kernels/lanes.h"
#include "core/numerics/threads.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// Interpolates from the nearer end, as torch.lerp does.
template <class T>
HWY_INLINE Lanes<T> between(Lanes<T> start, Lanes<T> end, T weight) {
  const bool near_start = weight < T{0.5};
  return fused(splat(near_start ? weight : weight - T{1}), end - start, near_start ? start : end);
}

template <class T>
HWY_INLINE void prepare_body(const MuonFactors<T>& k, std::size_t count, const T* gradients, T* moment, T* prepared) {
  for (std::size_t i = 0; i < count; i += kLanes<T>) {
    const std::size_t n = count - i;
    const Lanes<T> g = load_first(gradients + i, n) * k.gradient_scale;
    const Lanes<T> m = between(load_first(moment + i, n), g, k.take);
    store_first(moment + i, m, n);
    store_first(prepared + i, k.nesterov ? between(g, m, k.momentum) : m, n);
  }
}

void prepare_float(const MuonFactors<float>& k, std::size_t count, const float* g, float* m, float* u) {
  prepare_body(k, count, g, m, u);
}
void prepare_double(const MuonFactors<double>& k, std::size_t count, const double* g, double* m, double* u) {
  prepare_body(k, count, g, m, u);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {
namespace {

MOESCOPE_EXPORT_KERNEL(prepare);

constexpr int kIterations = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kMinNorm = 1e-7;

template <class T>
double norm_of_values(const T* values, std::size_t count) {
  double part[16] = {}, sum = 0;
  const auto add = [&](std::size_t i, std::size_t lane) {
    part[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  };
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < 16; ++k) add(i + k, k);
  for (; i < count; ++i) add(i, 0);
  for (const double value : part) sum += value;
  return std::sqrt(sum);
}

template <class T>
Index shorter(const Matrix<T>& matrix) {
  return std::min(matrix.rows, matrix.cols);
}

// Number of elements that the five steps need besides the direction.
template <class T>
Index steps_scratch(const Matrix<T>& matrix) {
  return 2 * shorter(matrix) * shorter(matrix) + matrix.size();
}

// Computes one step from x into `next`; `scratch` holds A and B.
template <class T>
void newton_schulz_step(bool in_bf16, const Matrix<const T>& x, const Matrix<T>& next, T* scratch) {
  const bool wide = x.rows <= x.cols;
  const Index s = std::min(x.rows, x.cols);
  const Matrix<T> a(scratch, s, s), b(scratch + a.size(), s, s);
  if (wide)
    gemm(Trans::no, Trans::yes, T{1}, x, x, T{0}, a);
  else
    gemm(Trans::yes, Trans::no, T{1}, x, x, T{0}, a);
  if (in_bf16) round_to_bf16(a);
  std::copy_n(a.data, a.size(), b.data);
  gemm(Trans::no, Trans::no, static_cast<T>(kC), a, a, static_cast<T>(kB), b);
  if (in_bf16) round_to_bf16(b);
  std::copy_n(x.data, x.size(), next.data);
  if (wide)
    gemm(Trans::no, Trans::no, T{1}, b, x, static_cast<T>(kA), next);
  else
    gemm(Trans::no, Trans::yes, T{1}, x, b, static_cast<T>(kA), next);
  if (in_bf16) round_to_bf16(next);
}

// `scratch` has steps_scratch() elements.
template <class T>
void orthogonalise_in(bool in_bf16, const Matrix<const T>& prepared, const Matrix<T>& direction, T* scratch) {
  const Index count = prepared.size(), square = shorter(prepared) * shorter(prepared);
  Matrix<T> x = direction, next(scratch + 2 * square, direction.rows, direction.cols);
  static_assert(kIterations % 2 == 1);
  std::swap(x, next);  // after an odd number of steps the result is in `direction`
  std::copy_n(prepared.data, count, x.data);
  if (in_bf16) round_to_bf16(x);
  const T norm = static_cast<T>(std::max(norm_of_values(x.data, count), kMinNorm));
  for (Index i = 0; i < count; ++i) x.data[i] /= norm;
  if (in_bf16) round_to_bf16(x);
  for (int i = 0; i < kIterations; ++i) {
    newton_schulz_step<T>(in_bf16, x, next, scratch);
    std::swap(x, next);
  }
}

double muon_cost(const MuonMatrix& m) {
  const double s = std::min(m.rows, m.cols), l = std::max(m.rows, m.cols);
  return s * s * (2 * l + s);
}

// Number of rows of one head; 0 if the tensor is one matrix.
int head_rows(const ModelConfig& config, const ParameterTensor& tensor) {
  if (tensor.name.ends_with(".wq.weight") || tensor.name.ends_with(".wq_b.weight"))
    return config.qk_nope_head_dim + config.qk_rope_head_dim;
  return tensor.name.ends_with(".wkv_b.weight") ? config.qk_nope_head_dim + config.v_head_dim : 0;
}

}  // namespace

bool is_moved_by_muon(const ParameterTensor& tensor) {
  return tensor.shape.size() > 1 && tensor.name.starts_with("layers.");
}

std::vector<MuonMatrix> muon_matrices(const ModelConfig& config, std::span<const ParameterTensor> tensors) {
  std::vector<MuonMatrix> matrices;
  for (const ParameterTensor& tensor : tensors) {
    if (!is_moved_by_muon(tensor)) continue;
    const std::size_t axis = tensor.shape.size() - 2, cols = tensor.shape[axis + 1];
    const int head = head_rows(config, tensor);
    const std::size_t rows = head ? size(head) : tensor.shape[axis];
    for (std::size_t block = 0; block < tensor.blocks(); ++block)
      for (std::size_t row = 0; row < tensor.shape[axis]; row += rows)
        matrices.push_back({tensor.offset + block * tensor.outer_stride + row * cols, to_int(rows), to_int(cols),
                            axis == 1 ? to_int(block) : -1, &tensor});
  }
  std::ranges::stable_sort(matrices, std::ranges::greater(), muon_cost);
  return matrices;
}

double muon_ratio(MuonScale scale, int rows, int cols) {
  const double m = rows, n = cols;
  switch (scale) {
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(m, n));
    case MuonScale::original:
      return std::sqrt(std::max(1.0, m / n));
    case MuonScale::spectral:
      return std::sqrt(m / n);
  }
  return 1;
}

template <class T>
void muon_prepare(const MuonFactors<T>& factors, ConstMatrix<T> g, Matrix<T> m, Matrix<T> u) {
  MOESCOPE_KERNEL(prepare, T)(factors, g.size(), g.data, m.data, u.data);
}

template <class T>
void orthogonalise(bool in_bf16, ConstMatrix<T> prepared, Matrix<T> direction) {
  orthogonalise_in<T>(in_bf16, prepared, direction, thread_scratch<T>(steps_scratch(direction)));
}

template <class T>
void muon_update(const OptimizerConfig& config, double lr, double gradient_scale, std::span<const MuonMatrix> matrices,
                 const OptimizerArenas<T>& arenas) {
  const T decay = static_cast<T>(1 - lr * config.weight_decay);
  const MuonFactors<T> factors(config, gradient_scale);
  parallel_for(to_int(matrices.size()), [&](int i) {
    const MuonMatrix& m = matrices[i];
    const Matrix<T> w = m.in(arenas.weights);
    const Index count = w.size();
    const Matrix<T> prepared(thread_scratch<T>(2 * count + steps_scratch(w)), m.rows, m.cols);
    const Matrix<T> direction(prepared.data + count, m.rows, m.cols);
    muon_prepare<T>(factors, m.in(arenas.gradients), m.in(arenas.moment1), prepared);
    orthogonalise_in<T>(config.muon_bf16, prepared, direction, direction.data + count);
    const T step = static_cast<T>(lr * muon_ratio(config.muon_scale, m.rows, m.cols));
    for (Index k = 0; k < count; ++k) w.data[k] = w.data[k] * decay - step * direction.data[k];
  });
}

#define INSTANTIATE(T)                                                                              \
  template void muon_prepare<T>(const MuonFactors<T>&, ConstMatrix<T>, Matrix<T>, Matrix<T>);       \
  template void orthogonalise<T>(bool, ConstMatrix<T>, Matrix<T>);                                  \
  template void muon_update<T>(const OptimizerConfig&, double, double, std::span<const MuonMatrix>, \
                               const OptimizerArenas<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
#endif
