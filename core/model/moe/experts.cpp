#include "core/model/moe/experts.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/model/layers/operand.h"
#include "core/model/layers/operand_tap.h"
#include "core/model/layers/swiglu.h"
#include "core/numerics/gemm.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

// A multiple of every quantization block and rotation, so that none straddles two groups.
constexpr int kGroupRows = 512;
// Apart from the streams of all other weights.
constexpr auto kExpertsStream = static_cast<std::uint64_t>(Gemm::expert_w1);
static_assert(kExpertsStream == 14);

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

// By QuantSite.
constexpr std::array<ModelOperand, kQuantSites> kSiteOperands = {{
    {Gemm::expert_w1, {Direction::forward, Operand::x}},
    {Gemm::expert_w1, {Direction::forward, Operand::w}},
    {Gemm::expert_w3, {Direction::forward, Operand::w}},
    {Gemm::expert_w2, {Direction::forward, Operand::x}},
    {Gemm::expert_w2, {Direction::forward, Operand::w}},
    {Gemm::expert_w2, {Direction::dgrad, Operand::dy}},
    {Gemm::expert_w2, {Direction::dgrad, Operand::w}},
    {Gemm::expert_w1, {Direction::dgrad, Operand::dy}},
    {Gemm::expert_w3, {Direction::dgrad, Operand::dy}},
    {Gemm::expert_w1, {Direction::dgrad, Operand::w}},
    {Gemm::expert_w3, {Direction::dgrad, Operand::w}},
    {Gemm::expert_w2, {Direction::wgrad, Operand::dy}},
    {Gemm::expert_w2, {Direction::wgrad, Operand::x}},
    {Gemm::expert_w1, {Direction::wgrad, Operand::dy}},
    {Gemm::expert_w3, {Direction::wgrad, Operand::dy}},
    {Gemm::expert_w1, {Direction::wgrad, Operand::x}},
}};

const ModelOperand& operand_of(QuantSite site) {
  return kSiteOperands[static_cast<std::size_t>(site)];
}

// The site that `tap` asks for; nothing: it looks elsewhere.
std::optional<QuantSite> tapped_site(const OperandTap* tap, int layer) {
  if (!tap || !tap->is_of(layer, GemmClass::experts)) return std::nullopt;
  for (std::size_t i = 0; i < kQuantSites; ++i) {
    const auto& [gemm, at] = kSiteOperands[i];
    if (gemm == tap->source() && tap->is(at.direction, at.operand)) return static_cast<QuantSite>(i);
  }
  return std::nullopt;
}

}  // namespace

template <class T>
const OperandFormat& GroupedExperts<T>::Pass::format(QuantSite site) const {
  const GemmOperand at = operand_of(site).at;
  return precision.format(at.direction, at.operand);
}

template <class T>
typename GroupedExperts<T>::Pass GroupedExperts<T>::pass_of(const ClassPrecision& precision, int layer, bool counted,
                                                            OperandTap* tap) const {
  const std::optional<QuantSite> site = tapped_site(tap, layer);
  return {precision, hash_of({static_cast<std::uint64_t>(layer), kExpertsStream}), counted && !precision.plain,
          site ? tap : nullptr, site.value_or(QuantSite{})};
}

// All rows of an expert where one scale reaches over them.
template <class T>
int GroupedExperts<T>::group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const {
  for (const QuantSite site : activations) {
    const OperandFormat& format = pass.format(site);
    const bool scale_per_feature = format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row &&
                                   operand_of(site).at.direction == Direction::wgrad;
    if (has_tensor_scale(format) || scale_per_feature) return std::numeric_limits<int>::max();
  }
  return kGroupRows;
}

template <class T>
void GroupedExperts<T>::cut_into_groups(const DispatchPlan& plan, int rows_at_most, bool with_empty) {
  groups_.clear();
  for (int e = first_; e < first_ + count_; ++e) {
    const int rows = plan.tokens_of(e);
    const std::size_t first = size(plan.expert_offset[size(e)]);
    if (rows == 0 && with_empty) groups_.push_back({e, first, 0, 0});
    for (int done = 0, n = 0; done < rows; done += n) {
      n = std::min(rows_at_most, rows - done);
      groups_.push_back({e, first + size(done), done, n});
    }
  }
}

template <class T>
QuantSums* GroupedExperts<T>::sums_of(const Pass& pass, std::size_t task, QuantSite site) {
  return pass.counted ? &task_sums_[task][static_cast<std::size_t>(site)] : nullptr;
}

template <class T>
void GroupedExperts<T>::gather_sums(QuantSite first, QuantSite last, LayerSums& sums) const {
  const int first_site = static_cast<int>(first);
  parallel_for(static_cast<int>(last) - first_site + 1, [&](int i) {
    const auto& [gemm, at] = kSiteOperands[size(first_site + i)];
    QuantSums& total = sums[static_cast<std::size_t>(gemm)][operand_index(at.direction, at.operand)];
    total = {};
    for (const QuantSiteSums& task : task_sums_) total.add(task[size(first_site + i)]);
  });
}

template <class T>
const T* GroupedExperts<T>::operand(const Pass& pass, QuantSite site, int expert, int done, const T* in, int rows,
                                    int cols, std::size_t stride, T* out, QuantSums* sums) const {
  const OperandFormat& format = pass.format(site);
  const bool tapped = pass.tap && site == pass.tapped;
  if (is_plain(format) && !tapped) return in;
  const auto& [gemm, at] = operand_of(site);
  const BlockAxis axis = contracting_axis(at.direction, at.operand);
  RoundingKey key;
  key.seed = pass.precision.seed;
  key.stream = hash_of({pass.stream, static_cast<std::uint64_t>(site), static_cast<std::uint64_t>(expert)});
  key.first_row = static_cast<std::uint32_t>(done);
  // Products with w1 and w3 share their signs of rotation, as they share x and dx.
  key.rotation_seed =
      hash_of({key.seed, pass.stream, gemm == Gemm::expert_w2, static_cast<std::uint64_t>(at.direction)});
  if (tapped) pass.tap->take(format, axis, expert, in, rows, cols, stride, key);
  if (is_plain(format)) return in;
  quantize_alone(format, in, rows, cols, stride, axis, key, out, sums);
  return out;
}

template <class T>
const T* GroupedExperts<T>::operand_pair(const Pass& pass, QuantSite first, QuantSite second, int expert, int done,
                                         const T* in, std::size_t step, int rows, int cols, std::size_t stride, T* out,
                                         QuantSums* first_sums, QuantSums* second_sums) const {
  operand(pass, first, expert, done, in, rows, cols, stride, out, first_sums);
  operand(pass, second, expert, done, in + step, rows, cols, stride, out + step, second_sums);
  return is_plain(pass.format(first)) ? in : out;
}

template <class T>
void GroupedExperts<T>::forward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w,
                                const DispatchPlan& plan, const T* x, T* h13, T* a, T* y, LayerSums* sums,
                                OperandTap* tap) {
  const Pass pass = pass_of(precision, layer, sums != nullptr, tap);
  cut_into_groups(plan, group_rows(pass, {QuantSite::forward_x, QuantSite::forward_a}), pass.counted || pass.tap);
  if (pass.counted) task_sums_.assign(groups_.size(), {});
  parallel_for(static_cast<int>(groups_.size()),
               [&](int task) { forward_group(pass, w, groups_[size(task)], size(task), x, h13, a, y); });
  if (pass.counted) gather_sums(QuantSite::forward_x, QuantSite::forward_w2, *sums);
}

template <class T>
void GroupedExperts<T>::forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                                      std::size_t task, const T* x, T* h13, T* a, T* y) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_), rows = size(group.rows), matrix = d * f;
  const int e = group.expert;
  T* wq = thread_scratch<T>(pass.plain() ? 0 : 2 * matrix + rows * (d + f));
  T *xq = wq + 2 * matrix, *aq = xq + rows * d;
  const auto weight_sums = [&](QuantSite site) { return group.done == 0 ? sums_of(pass, task, site) : nullptr; };
  x += group.first * d, h13 += group.first * 2 * f, a += group.first * f, y += group.first * d;

  const T* w13 = operand_pair(pass, forward_w1, forward_w3, e, 0, w.w13 + size(e) * 2 * matrix, matrix, inter_, dim_, d,
                              wq, weight_sums(forward_w1), weight_sums(forward_w3));
  const T* x_in = operand(pass, forward_x, e, group.done, x, group.rows, dim_, d, xq, sums_of(pass, task, forward_x));
  gemm(Trans::no, Trans::yes, group.rows, 2 * inter_, dim_, T{1}, x_in, dim_, w13, dim_, T{0}, h13, 2 * inter_);
  swiglu_forward(h13, rows, inter_, a);
  const T* w2 = operand(pass, forward_w2, e, 0, w.w2 + size(e) * matrix, dim_, inter_, f, wq, weight_sums(forward_w2));
  const T* a_in = operand(pass, forward_a, e, group.done, a, group.rows, inter_, f, aq, sums_of(pass, task, forward_a));
  gemm(Trans::no, Trans::yes, group.rows, dim_, inter_, T{1}, a_in, inter_, w2, inter_, T{0}, y, dim_);
}

template <class T>
void GroupedExperts<T>::backward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w,
                                 const FeedForwardView<T>& g, const DispatchPlan& plan, const T* x, const T* h13,
                                 const T* a, const T* dy, T* dh13, T* dx, LayerSums* sums, OperandTap* tap) {
  using enum QuantSite;
  const Pass pass = pass_of(precision, layer, sums != nullptr, tap);
  cut_into_groups(plan, group_rows(pass, {dgrad_dy, dgrad_dh1}), pass.counted || pass.tap);
  if (pass.counted) task_sums_.assign(std::max(groups_.size(), size(2 * experts_)), {});
  parallel_for(static_cast<int>(groups_.size()),
               [&](int task) { dgrad_group(pass, w, groups_[size(task)], size(task), h13, dy, dh13, dx); });
  const std::size_t matrix = size(dim_) * size(inter_);
  const int at_most = group_rows(pass, {wgrad_dy, wgrad_a});
  parallel_for(2 * count_, [&](int task) {
    const int expert = first_ + task / 2;
    if (task % 2 == 0)
      wgrad_w13(pass, g.w13 + size(expert) * 2 * matrix, plan, expert, at_most, x, dh13);
    else
      wgrad_w2(pass, g.w2 + size(expert) * matrix, plan, expert, at_most, a, dy);
  });
  if (pass.counted) gather_sums(dgrad_dy, wgrad_x, *sums);
}

template <class T>
void GroupedExperts<T>::dgrad_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                                    std::size_t task, const T* h13, const T* dy, T* dh13, T* dx) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_), rows = size(group.rows), matrix = d * f;
  const int e = group.expert;
  T* da = thread_scratch<T>(rows * f + (pass.plain() ? 0 : 2 * matrix + rows * std::max(d, 2 * f)));
  T *wq = da + rows * f, *dyq = wq + 2 * matrix;
  const auto weight_sums = [&](QuantSite site) { return group.done == 0 ? sums_of(pass, task, site) : nullptr; };
  h13 += group.first * 2 * f, dy += group.first * d, dh13 += group.first * 2 * f, dx += group.first * d;

  const T* w2 = operand(pass, dgrad_w2, e, 0, w.w2 + size(e) * matrix, dim_, inter_, f, wq, weight_sums(dgrad_w2));
  const T* dy_in = operand(pass, dgrad_dy, e, group.done, dy, group.rows, dim_, d, dyq, sums_of(pass, task, dgrad_dy));
  gemm(Trans::no, Trans::no, group.rows, inter_, dim_, T{1}, dy_in, dim_, w2, inter_, T{0}, da, inter_);
  swiglu_backward(da, h13, rows, inter_, dh13);
  const T* w13 = operand_pair(pass, dgrad_w1, dgrad_w3, e, 0, w.w13 + size(e) * 2 * matrix, matrix, inter_, dim_, d, wq,
                              weight_sums(dgrad_w1), weight_sums(dgrad_w3));
  const T* dh_in = operand_pair(pass, dgrad_dh1, dgrad_dh3, e, group.done, dh13, f, group.rows, inter_, 2 * f, dyq,
                                sums_of(pass, task, dgrad_dh1), sums_of(pass, task, dgrad_dh3));
  gemm(Trans::no, Trans::no, group.rows, dim_, 2 * inter_, T{1}, dh_in, 2 * inter_, w13, dim_, T{0}, dx, dim_);
}

template <class T>
void GroupedExperts<T>::wgrad_w2(const Pass& pass, T* dw2, const DispatchPlan& plan, int expert, int rows_at_most,
                                 const T* a, const T* dy) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_), first = size(plan.expert_offset[size(expert)]);
  const std::size_t task = size(2 * expert + 1);
  const int rows = plan.tokens_of(expert);
  if (rows == 0) std::fill_n(dw2, d * f, T{0});
  for (int done = 0, n = 0; done < rows; done += n) {
    n = std::min(rows_at_most, rows - done);
    const std::size_t at = first + size(done);
    T* dyq = thread_scratch<T>(pass.plain() ? 0 : size(n) * (d + f));
    T* aq = dyq + size(n) * d;
    const T* dy_in = operand(pass, wgrad_dy, expert, done, dy + at * d, n, dim_, d, dyq, sums_of(pass, task, wgrad_dy));
    const T* a_in = operand(pass, wgrad_a, expert, done, a + at * f, n, inter_, f, aq, sums_of(pass, task, wgrad_a));
    gemm(Trans::yes, Trans::no, dim_, inter_, n, T{1}, dy_in, dim_, a_in, inter_, done ? T{1} : T{0}, dw2, inter_);
  }
}

template <class T>
void GroupedExperts<T>::wgrad_w13(const Pass& pass, T* dw13, const DispatchPlan& plan, int expert, int rows_at_most,
                                  const T* x, const T* dh13) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_), first = size(plan.expert_offset[size(expert)]);
  const std::size_t task = size(2 * expert);
  const int rows = plan.tokens_of(expert);
  if (rows == 0) std::fill_n(dw13, 2 * d * f, T{0});
  for (int done = 0, n = 0; done < rows; done += n) {
    n = std::min(rows_at_most, rows - done);
    const std::size_t at = first + size(done);
    T* xq = thread_scratch<T>(pass.plain() ? 0 : size(n) * (d + 2 * f));
    T* dhq = xq + size(n) * d;
    const T* x_in = operand(pass, wgrad_x, expert, done, x + at * d, n, dim_, d, xq, sums_of(pass, task, wgrad_x));
    const T* dh_in = operand_pair(pass, wgrad_dh1, wgrad_dh3, expert, done, dh13 + at * 2 * f, f, n, inter_, 2 * f, dhq,
                                  sums_of(pass, task, wgrad_dh1), sums_of(pass, task, wgrad_dh3));
    gemm(Trans::yes, Trans::no, 2 * inter_, dim_, n, T{1}, dh_in, 2 * inter_, x_in, dim_, done ? T{1} : T{0}, dw13,
         dim_);
  }
}

template class GroupedExperts<float>;
template class GroupedExperts<double>;

}  // namespace moescope
