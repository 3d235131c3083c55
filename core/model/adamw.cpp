#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/model/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/model/adamw.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "core/numerics/elementary.h"
#include "core/numerics/kernels/lanes.h"
#include "core/numerics/threads.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE void update_body(const AdamWFactors<T>& k, std::size_t count, const T* gradients, T* weights, T* moment1,
                            T* moment2) {
  for (std::size_t i = 0; i < count; i += kLanes<T>) {
    const std::size_t n = count - i;
    const Lanes<T> g = load_first(gradients + i, n) * k.gradient_scale, p = load_first(weights + i, n);
    const Lanes<T> m = fused(splat(k.keep1), load_first(moment1 + i, n), g * k.take1);
    const Lanes<T> v = fused(splat(k.keep2), load_first(moment2 + i, n), g * k.take2 * g);
    const Lanes<T> move = m * k.step_size / fused(square_root(v), splat(k.inv_correction2), splat(k.eps));
    store_first(moment1 + i, m, n);
    store_first(moment2 + i, v, n);
    store_first(weights + i, fused(p, splat(k.decay), -move), n);
  }
}

void update_float(const AdamWFactors<float>& k, std::size_t count, const float* g, float* p, float* m, float* v) {
  update_body(k, count, g, p, m, v);
}
void update_double(const AdamWFactors<double>& k, std::size_t count, const double* g, double* p, double* m, double* v) {
  update_body(k, count, g, p, m, v);
}

// Adds in double, which loses no small squares and needs no more memory bandwidth. Memory delivers a single array more
// slowly than several arrays, so later values are prefetched.
double squares_float(const float* g, std::size_t count) {
  constexpr std::size_t kPrefetchDistance = 1024;
  Lanes<double> low = zero<double>(), high = low;
  std::size_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) {
    hwy::Prefetch(g + i + kPrefetchDistance);
    const Lanes<double> a = load_doubles(g + i), b = load_doubles(g + i + kLanes<double>);
    low += a * a;
    high += b * b;
  }
  double part[kLanes<float>], sum = 0;
  store(part, low);
  store(part + kLanes<double>, high);
  for (; i < count; ++i) part[0] += g[i] * static_cast<double>(g[i]);
  for (const double value : part) sum += value;
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {
namespace {

MOESCOPE_EXPORT_KERNEL(update);
HWY_EXPORT(squares_float);

constexpr std::size_t kSlice = 1 << 15;

double squares(const float* g, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(squares_float)(g, count);
}
double squares(const double* g, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += g[i] * g[i];
  return sum;
}

}  // namespace

std::vector<ParameterRun> optimizer_slices(std::span<const ParameterRun> runs) {
  std::vector<ParameterRun> slices;
  for (const ParameterRun& run : runs)
    for (std::size_t done = 0; done < run.count; done += kSlice)
      slices.push_back({run.offset + done, std::min(kSlice, run.count - done), run.expert, run.tensor});
  return slices;
}

bool is_of_rank(const ParameterRun& run, const Ranks* ranks, int n_experts) {
  return run.expert < 0 || !ranks || run.expert / (n_experts / ranks->size()) == ranks->rank();
}

template <class T>
double gradient_norm(std::span<const T> gradients, std::span<const ParameterRun> slices, int n_experts, Ranks* ranks) {
  static thread_local std::vector<double> sum_of_slice;
  sum_of_slice.assign(slices.size(), 0.0);
  const std::span<double> sums = sum_of_slice;
  parallel_for(to_int(slices.size()), [&](int i) {
    const ParameterRun& slice = slices[i];
    const bool counts = slice.expert < 0 ? !ranks || ranks->rank() == 0 : is_of_rank(slice, ranks, n_experts);
    if (counts) sums[i] = squares(gradients.data() + slice.offset, slice.count);
  });
  sum_over_ranks(ranks, sums);  // exact: for each sum, all ranks but one have 0
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

double learning_rate(const OptimizerConfig& config, std::int64_t step) {
  if (step < config.warmup_steps) return config.lr * (step + 1) / config.warmup_steps;
  if (config.schedule == Schedule::constant) return config.lr;
  const double length = std::max(1, config.total_steps - config.warmup_steps);
  const double u = std::min(1.0, (step - config.warmup_steps) / length);
  return config.lr_min + (config.lr - config.lr_min) * 0.5 * (1 + ordered_cos(std::numbers::pi * u));
}

template <class T>
void adamw_update(const OptimizerConfig& config, std::int64_t step, double lr, double gradient_scale,
                  std::span<const ParameterRun> slices, const OptimizerArenas<T>& arenas) {
  const double n = step + 1;
  const AdamWFactors<T> factors{
      .decay = static_cast<T>(1 - lr * config.weight_decay),
      .keep1 = static_cast<T>(config.beta1),
      .take1 = static_cast<T>(1 - config.beta1),
      .keep2 = static_cast<T>(config.beta2),
      .take2 = static_cast<T>(1 - config.beta2),
      .step_size = static_cast<T>(lr / (1 - ordered_pow(config.beta1, n))),
      .inv_correction2 = static_cast<T>(1 / std::sqrt(1 - ordered_pow(config.beta2, n))),
      .eps = static_cast<T>(config.eps),
      .gradient_scale = static_cast<T>(gradient_scale),
  };
  const auto update = MOESCOPE_KERNEL(update, T);
  parallel_for(to_int(slices.size()), [&](int i) {
    const ParameterRun& slice = slices[i];
    update(factors, slice.count, slice.in(arenas.gradients).data(), slice.in(arenas.weights).data(),
           slice.in(arenas.moment1).data(), slice.in(arenas.moment2).data());
  });
}

#define INSTANTIATE(T)                                                                                               \
  template double gradient_norm<T>(std::span<const T>, std::span<const ParameterRun>, int, Ranks*);                  \
  template void adamw_update<T>(const OptimizerConfig&, std::int64_t, double, double, std::span<const ParameterRun>, \
                                const OptimizerArenas<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
#endif
