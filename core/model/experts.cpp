#include "core/model/experts.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "core/model/swiglu.h"
#include "core/numerics/gemm.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

// A multiple of the quantization block, so that blocks along rows never straddle two groups.
constexpr int kGroupRows = 512;

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

std::optional<BlockFormat> block_format(Precision precision) {
  switch (precision) {
    case Precision::mxfp8_rceil:
      return BlockFormat{ElementFormat::e4m3, ScaleRule::rceil, 32};
    case Precision::mxfp8_floor:
      return BlockFormat{ElementFormat::e4m3, ScaleRule::floor, 32};
    case Precision::fp32:
    case Precision::bf16:
      return std::nullopt;
  }
  return std::nullopt;
}

template <class T>
void round_rows_bf16(const T* in, int rows, int cols, std::size_t stride, T* out) {
  for (std::size_t r = 0; r < size(rows); ++r)
    for (std::size_t i = 0; i < size(cols); ++i)
      out[r * stride + i] = static_cast<T>(round_bf16(static_cast<float>(in[r * stride + i])));
}

void quantize_rows(const BlockFormat& format, const float* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                   float* out, QuantSums* sums) {
  quantize_dequantize(format, {in, size(rows), size(cols), stride}, axis, out, stride, sums);
}

// The gradient checks' scalar: quantization sees the values rounded to float.
void quantize_rows(const BlockFormat& format, const double* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                   double* out, QuantSums* sums) {
  std::vector<float> narrow(size(rows) * size(cols));
  for (std::size_t r = 0; r < size(rows); ++r)
    for (std::size_t i = 0; i < size(cols); ++i) narrow[r * size(cols) + i] = static_cast<float>(in[r * stride + i]);
  quantize_dequantize(format, {narrow.data(), size(rows), size(cols), size(cols)}, axis, narrow.data(), size(cols),
                      sums);
  for (std::size_t r = 0; r < size(rows); ++r)
    for (std::size_t i = 0; i < size(cols); ++i) out[r * stride + i] = static_cast<double>(narrow[r * size(cols) + i]);
}

// Makes a GEMM operand: `in` itself in full precision, else its rounded copy in `out`, which has the same stride.
template <class T>
const T* operand(Precision precision, const T* in, int rows, int cols, std::size_t stride, BlockAxis axis, T* out,
                 QuantSums* sums) {
  if (precision == Precision::fp32) return in;
  if (const auto format = block_format(precision))
    quantize_rows(*format, in, rows, cols, stride, axis, out, sums);
  else
    round_rows_bf16(in, rows, cols, stride, out);
  return out;
}

// Two matrices side by side (w1|w3 or h1|h3) whose blocks must not run into each other: `step` elements apart.
template <class T>
const T* operand_pair(Precision precision, const T* in, std::size_t step, int rows, int cols, std::size_t stride,
                      BlockAxis axis, T* out, QuantSums* first, QuantSums* second) {
  if (precision == Precision::fp32) return in;
  operand(precision, in, rows, cols, stride, axis, out, first);
  operand(precision, in + step, rows, cols, stride, axis, out + step, second);
  return out;
}

}  // namespace

const std::array<QuantSource, kQuantSources> kQuantSourceTable = {{
    {ExpertWeight::w1, Operand::x, Direction::forward, QuantSite::forward_x},
    {ExpertWeight::w1, Operand::w, Direction::forward, QuantSite::forward_w1},
    {ExpertWeight::w1, Operand::dy, Direction::dgrad, QuantSite::dgrad_dh1},
    {ExpertWeight::w1, Operand::w, Direction::dgrad, QuantSite::dgrad_w1},
    {ExpertWeight::w1, Operand::dy, Direction::wgrad, QuantSite::wgrad_dh1},
    {ExpertWeight::w1, Operand::x, Direction::wgrad, QuantSite::wgrad_x},
    {ExpertWeight::w2, Operand::x, Direction::forward, QuantSite::forward_a},
    {ExpertWeight::w2, Operand::w, Direction::forward, QuantSite::forward_w2},
    {ExpertWeight::w2, Operand::dy, Direction::dgrad, QuantSite::dgrad_dy},
    {ExpertWeight::w2, Operand::w, Direction::dgrad, QuantSite::dgrad_w2},
    {ExpertWeight::w2, Operand::dy, Direction::wgrad, QuantSite::wgrad_dy},
    {ExpertWeight::w2, Operand::x, Direction::wgrad, QuantSite::wgrad_a},
    {ExpertWeight::w3, Operand::x, Direction::forward, QuantSite::forward_x},
    {ExpertWeight::w3, Operand::w, Direction::forward, QuantSite::forward_w3},
    {ExpertWeight::w3, Operand::dy, Direction::dgrad, QuantSite::dgrad_dh3},
    {ExpertWeight::w3, Operand::w, Direction::dgrad, QuantSite::dgrad_w3},
    {ExpertWeight::w3, Operand::dy, Direction::wgrad, QuantSite::wgrad_dh3},
    {ExpertWeight::w3, Operand::x, Direction::wgrad, QuantSite::wgrad_x},
}};

template <class T>
void GroupedExperts<T>::cut_into_groups(const DispatchPlan& plan, bool with_empty) {
  groups_.clear();
  for (int e = 0; e < experts_; ++e) {
    const int rows = plan.tokens_of(e);
    const std::size_t first = size(plan.expert_offset[size(e)]);
    if (rows == 0 && with_empty) groups_.push_back({e, first, 0, true});
    for (int done = 0; done < rows; done += kGroupRows)
      groups_.push_back({e, first + size(done), std::min(kGroupRows, rows - done), done == 0});
  }
}

template <class T>
QuantSums* GroupedExperts<T>::sums_of(std::size_t task, QuantSite site, bool wanted) {
  return wanted ? &task_sums_[task][static_cast<std::size_t>(site)] : nullptr;
}

template <class T>
void GroupedExperts<T>::gather_sums(QuantSite first, QuantSite last, QuantSiteSums& sums) const {
  const int first_site = static_cast<int>(first);
  parallel_for(static_cast<int>(last) - first_site + 1, [&](int i) {
    QuantSums& total = sums[size(first_site + i)];
    total = {};
    for (const QuantSiteSums& task : task_sums_) total.add(task[size(first_site + i)]);
  });
}

template <class T>
void GroupedExperts<T>::forward(Precision precision, const FeedForwardView<T>& w, const DispatchPlan& plan, const T* x,
                                T* h13, T* a, T* y, QuantSiteSums* sums) {
  const bool wanted = sums && block_format(precision);
  cut_into_groups(plan, wanted);
  if (wanted) task_sums_.assign(groups_.size(), {});
  parallel_for(static_cast<int>(groups_.size()),
               [&](int task) { forward_group(precision, w, groups_[size(task)], size(task), x, h13, a, y, wanted); });
  if (wanted) gather_sums(QuantSite::forward_x, QuantSite::forward_w2, *sums);
}

template <class T>
void GroupedExperts<T>::forward_group(Precision precision, const FeedForwardView<T>& w, const RowGroup& group,
                                      std::size_t task, const T* x, T* h13, T* a, T* y, bool wanted) {
  const std::size_t d = size(dim_), f = size(inter_), rows = size(group.rows), matrix = d * f;
  T* wq = thread_scratch<T>(precision == Precision::fp32 ? 0 : 2 * matrix + rows * (d + f));
  T *xq = wq + 2 * matrix, *aq = xq + rows * d;
  const bool count_w = wanted && group.leading;
  x += group.first * d, h13 += group.first * 2 * f, a += group.first * f, y += group.first * d;

  const T* w13 =
      operand_pair(precision, w.w13 + size(group.expert) * 2 * matrix, matrix, inter_, dim_, d, BlockAxis::row, wq,
                   sums_of(task, QuantSite::forward_w1, count_w), sums_of(task, QuantSite::forward_w3, count_w));
  const T* x_in =
      operand(precision, x, group.rows, dim_, d, BlockAxis::row, xq, sums_of(task, QuantSite::forward_x, wanted));
  gemm(Trans::no, Trans::yes, group.rows, 2 * inter_, dim_, T{1}, x_in, dim_, w13, dim_, T{0}, h13, 2 * inter_);
  swiglu_forward(h13, rows, inter_, a);
  const T* w2 = operand(precision, w.w2 + size(group.expert) * matrix, dim_, inter_, f, BlockAxis::row, wq,
                        sums_of(task, QuantSite::forward_w2, count_w));
  const T* a_in =
      operand(precision, a, group.rows, inter_, f, BlockAxis::row, aq, sums_of(task, QuantSite::forward_a, wanted));
  gemm(Trans::no, Trans::yes, group.rows, dim_, inter_, T{1}, a_in, inter_, w2, inter_, T{0}, y, dim_);
}

template <class T>
void GroupedExperts<T>::backward(Precision precision, const FeedForwardView<T>& w, const FeedForwardView<T>& g,
                                 const DispatchPlan& plan, const T* x, const T* h13, const T* a, const T* dy, T* dh13,
                                 T* dx, QuantSiteSums* sums) {
  const bool wanted = sums && block_format(precision);
  cut_into_groups(plan, wanted);
  if (wanted) task_sums_.assign(std::max(groups_.size(), size(2 * experts_)), {});
  parallel_for(static_cast<int>(groups_.size()), [&](int task) {
    dgrad_group(precision, w, groups_[size(task)], size(task), h13, dy, dh13, dx, wanted);
  });
  const std::size_t matrix = size(dim_) * size(inter_);
  parallel_for(2 * experts_, [&](int task) {
    const int expert = task / 2;
    if (task % 2 == 0)
      wgrad_w13(precision, g.w13 + size(expert) * 2 * matrix, plan, expert, x, dh13, wanted);
    else
      wgrad_w2(precision, g.w2 + size(expert) * matrix, plan, expert, a, dy, wanted);
  });
  if (wanted) gather_sums(QuantSite::dgrad_dy, QuantSite::wgrad_x, *sums);
}

template <class T>
void GroupedExperts<T>::dgrad_group(Precision precision, const FeedForwardView<T>& w, const RowGroup& group,
                                    std::size_t task, const T* h13, const T* dy, T* dh13, T* dx, bool wanted) {
  const std::size_t d = size(dim_), f = size(inter_), rows = size(group.rows), matrix = d * f;
  const bool rounded = precision != Precision::fp32;
  T* da = thread_scratch<T>(rows * f + (rounded ? 2 * matrix + rows * std::max(d, 2 * f) : 0));
  T *wq = da + rows * f, *dyq = wq + 2 * matrix;
  const bool count_w = wanted && group.leading;
  h13 += group.first * 2 * f, dy += group.first * d, dh13 += group.first * 2 * f, dx += group.first * d;

  const T* w2 = operand(precision, w.w2 + size(group.expert) * matrix, dim_, inter_, f, BlockAxis::column, wq,
                        sums_of(task, QuantSite::dgrad_w2, count_w));
  const T* dy_in =
      operand(precision, dy, group.rows, dim_, d, BlockAxis::row, dyq, sums_of(task, QuantSite::dgrad_dy, wanted));
  gemm(Trans::no, Trans::no, group.rows, inter_, dim_, T{1}, dy_in, dim_, w2, inter_, T{0}, da, inter_);
  swiglu_backward(da, h13, rows, inter_, dh13);
  const T* w13 =
      operand_pair(precision, w.w13 + size(group.expert) * 2 * matrix, matrix, inter_, dim_, d, BlockAxis::column, wq,
                   sums_of(task, QuantSite::dgrad_w1, count_w), sums_of(task, QuantSite::dgrad_w3, count_w));
  const T* dh_in =
      operand_pair(precision, dh13, f, group.rows, inter_, 2 * f, BlockAxis::row, dyq,
                   sums_of(task, QuantSite::dgrad_dh1, wanted), sums_of(task, QuantSite::dgrad_dh3, wanted));
  gemm(Trans::no, Trans::no, group.rows, dim_, 2 * inter_, T{1}, dh_in, 2 * inter_, w13, dim_, T{0}, dx, dim_);
}

template <class T>
void GroupedExperts<T>::wgrad_w2(Precision precision, T* dw2, const DispatchPlan& plan, int expert, const T* a,
                                 const T* dy, bool wanted) {
  const std::size_t d = size(dim_), f = size(inter_), first = size(plan.expert_offset[size(expert)]);
  const int rows = plan.tokens_of(expert);
  if (rows == 0) std::fill_n(dw2, d * f, T{0});
  for (int done = 0; done < rows; done += kGroupRows) {
    const int n = std::min(kGroupRows, rows - done);
    const std::size_t at = first + size(done);
    T* dyq = thread_scratch<T>(size(n) * (d + f));
    T* aq = dyq + size(n) * d;
    const T* dy_in = operand(precision, dy + at * d, n, dim_, d, BlockAxis::column, dyq,
                             sums_of(size(2 * expert + 1), QuantSite::wgrad_dy, wanted));
    const T* a_in = operand(precision, a + at * f, n, inter_, f, BlockAxis::column, aq,
                            sums_of(size(2 * expert + 1), QuantSite::wgrad_a, wanted));
    gemm(Trans::yes, Trans::no, dim_, inter_, n, T{1}, dy_in, dim_, a_in, inter_, done ? T{1} : T{0}, dw2, inter_);
  }
}

template <class T>
void GroupedExperts<T>::wgrad_w13(Precision precision, T* dw13, const DispatchPlan& plan, int expert, const T* x,
                                  const T* dh13, bool wanted) {
  const std::size_t d = size(dim_), f = size(inter_), first = size(plan.expert_offset[size(expert)]);
  const int rows = plan.tokens_of(expert);
  if (rows == 0) std::fill_n(dw13, 2 * d * f, T{0});
  for (int done = 0; done < rows; done += kGroupRows) {
    const int n = std::min(kGroupRows, rows - done);
    const std::size_t at = first + size(done);
    T* xq = thread_scratch<T>(size(n) * (d + 2 * f));
    T* dhq = xq + size(n) * d;
    const T* x_in = operand(precision, x + at * d, n, dim_, d, BlockAxis::column, xq,
                            sums_of(size(2 * expert), QuantSite::wgrad_x, wanted));
    const T* dh_in = operand_pair(precision, dh13 + at * 2 * f, f, n, inter_, 2 * f, BlockAxis::column, dhq,
                                  sums_of(size(2 * expert), QuantSite::wgrad_dh1, wanted),
                                  sums_of(size(2 * expert), QuantSite::wgrad_dh3, wanted));
    gemm(Trans::yes, Trans::no, 2 * inter_, dim_, n, T{1}, dh_in, 2 * inter_, x_in, dim_, done ? T{1} : T{0}, dw13,
         dim_);
  }
}

template class GroupedExperts<float>;
template class GroupedExperts<double>;

}  // namespace moescope
