#include "core/model/moe/experts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "core/model/layers/gradient_inputs.h"
#include "core/model/layers/operand_tap.h"
#include "core/model/layers/swiglu.h"
#include "core/numerics/aligned_buffer.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// A multiple of every quantization block and rotation, so that none straddles two groups.
constexpr int kGroupRows = 512;
// Apart from the streams of all other weights.
constexpr auto kExpertsStream = static_cast<std::uint64_t>(Gemm::expert_w1);
static_assert(kExpertsStream == 14);

// By QuantSite.
constexpr std::array<ModelOperand, kQuantSites> kSiteOperands = {{
    {Gemm::expert_w1, {Direction::forward, OperandRole::x}},
    {Gemm::expert_w1, {Direction::forward, OperandRole::w}},
    {Gemm::expert_w3, {Direction::forward, OperandRole::w}},
    {Gemm::expert_w2, {Direction::forward, OperandRole::x}},
    {Gemm::expert_w2, {Direction::forward, OperandRole::w}},
    {Gemm::expert_w2, {Direction::dgrad, OperandRole::dy}},
    {Gemm::expert_w2, {Direction::dgrad, OperandRole::w}},
    {Gemm::expert_w1, {Direction::dgrad, OperandRole::dy}},
    {Gemm::expert_w3, {Direction::dgrad, OperandRole::dy}},
    {Gemm::expert_w1, {Direction::dgrad, OperandRole::w}},
    {Gemm::expert_w3, {Direction::dgrad, OperandRole::w}},
    {Gemm::expert_w2, {Direction::wgrad, OperandRole::dy}},
    {Gemm::expert_w2, {Direction::wgrad, OperandRole::x}},
    {Gemm::expert_w1, {Direction::wgrad, OperandRole::dy}},
    {Gemm::expert_w3, {Direction::wgrad, OperandRole::dy}},
    {Gemm::expert_w1, {Direction::wgrad, OperandRole::x}},
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

// Memory of the calling thread for the rows of a group, apart from its scratch, which holds operands; valid until the
// thread's next call.
template <class T>
T* group_space(std::size_t count) {
  thread_local AlignedBuffer<T> space;
  return space.of(count);
}

// Tasks by their rows, the largest first: no thread begins a long one while the others have nothing left.
std::vector<int> largest_first(int tasks, const auto& rows_of) {
  std::vector<int> order(size(tasks));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), rows_of);
  return order;
}

}  // namespace

template <class T>
const OperandFormat& GroupedExperts<T>::Pass::format(QuantSite site) const {
  const GemmOperand at = operand_of(site).at;
  return precision.format(at.direction, at.operand);
}

template <class T>
bool GroupedExperts<T>::Pass::counted_before(QuantSite site) const {
  const GemmOperand at = operand_of(site).at;
  return at.direction != Direction::forward && at.operand != OperandRole::dy &&
         quantize_alike(format(site), precision.format(Direction::forward, at.operand));
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
void GroupedExperts<T>::gather_sums(const Pass& pass, QuantSite first, QuantSite last, LayerSums& sums) const {
  const int first_site = static_cast<int>(first);
  parallel_for(static_cast<int>(last) - first_site + 1, [&](int i) {
    const auto& [gemm, at] = kSiteOperands[size(first_site + i)];
    GemmSums& of_gemm = sums[static_cast<std::size_t>(gemm)];
    QuantSums& total = of_gemm[operand_index(at.direction, at.operand)];
    if (pass.counted_before(static_cast<QuantSite>(first_site + i))) {
      total = of_gemm[operand_index(Direction::forward, at.operand)];
      return;
    }
    total = {};
    for (const QuantSiteSums& task : task_sums_) total.add(task[size(first_site + i)]);
  });
}

template <class T>
OperandSource<T> GroupedExperts<T>::operand(const Pass& pass, const Matrix& m) {
  OperandSource<T> source;
  source.format = &pass.format(m.site);
  source.axis = contracting_axis(operand_of(m.site).at.direction, operand_of(m.site).at.operand);
  source.rows = m.rows, source.cols = m.cols, source.stride = m.stride;
  source.parts = m.other ? 2 : 1;
  source.part[0] = part_of(pass, m.site, m, m.in);
  if (m.other) source.part[1] = part_of(pass, *m.other, m, m.in + m.other_step);
  return source;
}

template <class T>
OperandPart<T> GroupedExperts<T>::part_of(const Pass& pass, QuantSite site, const Matrix& m, const T* in) {
  const auto& [gemm, at] = operand_of(site);
  OperandPart<T> part{in, {}, nullptr};
  if (pass.counted && m.counted && !pass.counted_before(site))
    part.sums = &task_sums_[m.task][static_cast<std::size_t>(site)];
  part.key.seed = pass.precision.seed;
  part.key.stream = hash_of({pass.stream, static_cast<std::uint64_t>(site), static_cast<std::uint64_t>(m.expert)});
  part.key.first_row = static_cast<std::uint32_t>(m.done);
  // Products with w1 and w3 share their signs of rotation, as they share x and dx.
  part.key.rotation_seed =
      hash_of({part.key.seed, pass.stream, gemm == Gemm::expert_w2, static_cast<std::uint64_t>(at.direction)});
  if (pass.tap && site == pass.tapped)
    pass.tap->take(pass.format(site), contracting_axis(at.direction, at.operand), m.expert, in, m.rows, m.cols,
                   size(m.stride), part.key);
  return part;
}

template <class T>
void GroupedExperts<T>::product(const Pass& pass, Trans ta, Trans tb, Extents c, const Matrix& a, const Matrix& b,
                                bool adds, T* out) {
  const OperandSource<T> a_source = operand(pass, a), b_source = operand(pass, b);
  const auto inputs = quantized(a_source, b_source, false, thread_scratch<T>(scratch_for(a_source, b_source)));
  multiply(ta, tb, c.m, c.n, c.k, inputs.a, inputs.b, adds, out, c.n);
}

template <class T>
void GroupedExperts<T>::forward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w,
                                const DispatchPlan& plan, const SlotRows<T>& x, T* h13, T* a, T* y, LayerSums* sums,
                                OperandTap* tap) {
  const Pass pass = pass_of(precision, layer, sums != nullptr, tap);
  cut_into_groups(plan, group_rows(pass, {QuantSite::forward_x, QuantSite::forward_a}), pass.counted || pass.tap);
  if (pass.counted) task_sums_.assign(groups_.size(), {});
  const std::vector<int> order =
      largest_first(static_cast<int>(groups_.size()), [&](int group) { return groups_[size(group)].rows; });
  parallel_for(static_cast<int>(order.size()), [&](int task) {
    const std::size_t group = size(order[size(task)]);
    forward_group(pass, w, groups_[group], group, x, h13, a, y);
  });
  if (pass.counted) gather_sums(pass, QuantSite::forward_x, QuantSite::forward_w2, *sums);
}

template <class T>
auto GroupedExperts<T>::w13_of(QuantSite w1, QuantSite w3, const FeedForwardView<T>& w, const RowGroup& group,
                               std::size_t task) const -> Matrix {
  const std::size_t matrix = size(dim_) * size(inter_);
  const T* in = w.w13 + size(group.expert) * 2 * matrix;
  return {w1, in, inter_, dim_, dim_, group.expert, 0, task, group.done == 0, w3, matrix};
}

template <class T>
auto GroupedExperts<T>::w2_of(QuantSite w2, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task) const
    -> Matrix {
  const T* in = w.w2 + size(group.expert) * size(dim_) * size(inter_);
  return {w2, in, dim_, inter_, inter_, group.expert, 0, task, group.done == 0, {}, 0};
}

template <class T>
auto GroupedExperts<T>::rows_of(QuantSite site, const T* in, int cols, const RowGroup& group, std::size_t task) const
    -> Matrix {
  return {site, in, group.rows, cols, cols, group.expert, group.done, task, true, {}, 0};
}

template <class T>
auto GroupedExperts<T>::dh13_of(QuantSite h1, QuantSite h3, const T* in, const RowGroup& group, std::size_t task) const
    -> Matrix {
  return {h1, in, group.rows, inter_, 2 * inter_, group.expert, group.done, task, true, h3, size(inter_)};
}

template <class T>
void GroupedExperts<T>::forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                                      std::size_t task, const SlotRows<T>& x, T* h13, T* a, T* y) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_);
  h13 += group.first * 2 * f, a += group.first * f, y += group.first * d;
  const T* in = x(group.range(), group_space<T>(size(group.rows) * d));
  product(pass, Trans::no, Trans::yes, {group.rows, 2 * inter_, dim_}, rows_of(forward_x, in, dim_, group, task),
          w13_of(forward_w1, forward_w3, w, group, task), false, h13);
  swiglu_forward(h13, size(group.rows), inter_, a);
  product(pass, Trans::no, Trans::yes, {group.rows, dim_, inter_}, rows_of(forward_a, a, inter_, group, task),
          w2_of(forward_w2, w, group, task), false, y);
}

template <class T>
void GroupedExperts<T>::backward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w,
                                 const FeedForwardView<T>& g, const DispatchPlan& plan, const SlotRows<T>& x,
                                 const T* h13, const T* a, const SlotRows<T>& dy, T* dx, LayerSums* sums,
                                 OperandTap* tap) {
  using enum QuantSite;
  const Pass pass = pass_of(precision, layer, sums != nullptr, tap);
  const int wgrad_rows = group_rows(pass, {wgrad_dy, wgrad_a});
  cut_into_groups(plan, std::max(group_rows(pass, {dgrad_dy, dgrad_dh1}), wgrad_rows), true);
  if (pass.counted) task_sums_.assign(size(experts_), {});
  const Gradients gradients{w, g, x, dy, h13, a, dx, wgrad_rows};
  const std::vector<int> order = largest_first(count_, [&](int index) { return plan.tokens_of(first_ + index); });
  parallel_for(count_, [&](int task) {
    const int expert = first_ + order[size(task)];
    for (const RowGroup& group : groups_)
      if (group.expert == expert) backward_group(pass, gradients, group);
  });
  if (pass.counted) gather_sums(pass, dgrad_dy, wgrad_x, *sums);
}

// One after the other for the groups of an expert, whose weights' gradients they add to.
template <class T>
void GroupedExperts<T>::backward_group(const Pass& pass, const Gradients& of, const RowGroup& group) {
  using enum QuantSite;
  const std::size_t d = size(dim_), f = size(inter_), task = size(group.expert), n = size(group.rows);
  T* da = group_space<T>(n * (d + 3 * f));
  T *dh13 = da + n * f, *space = dh13 + n * 2 * f;  // for dy, then for x
  const auto row_in_group = [&](const RowGroup& rows) { return rows.first - group.first; };
  const T* dy = of.dy(group.range(), space);
  const auto dy_of = [&](QuantSite site, const RowGroup& rows) {
    return rows_of(site, dy + row_in_group(rows) * d, dim_, rows, task);
  };
  backward_products(
      pass, group, of.wgrad_rows, [&](const RowGroup& rows) { return dy_of(wgrad_dy, rows); },
      [&](const RowGroup& rows) { return rows_of(wgrad_a, of.a + rows.first * f, inter_, rows, task); },
      dy_of(dgrad_dy, group), w2_of(dgrad_w2, of.w, group, task), of.g.w2 + size(group.expert) * d * f, da);
  swiglu_backward(da, of.h13 + group.first * 2 * f, n, inter_, dh13);
  const T* x = of.x(group.range(), space);
  const auto dh13_at = [&](QuantSite h1, QuantSite h3, const RowGroup& rows) {
    return dh13_of(h1, h3, dh13 + row_in_group(rows) * 2 * f, rows, task);
  };
  backward_products(
      pass, group, of.wgrad_rows, [&](const RowGroup& rows) { return dh13_at(wgrad_dh1, wgrad_dh3, rows); },
      [&](const RowGroup& rows) { return rows_of(wgrad_x, x + row_in_group(rows) * d, dim_, rows, task); },
      dh13_at(dgrad_dh1, dgrad_dh3, group), w13_of(dgrad_w1, dgrad_w3, of.w, group, task),
      of.g.w13 + size(group.expert) * 2 * d * f, of.dx + group.first * d);
}

template <class T>
void GroupedExperts<T>::backward_products(const Pass& pass, const RowGroup& group, int wgrad_rows, const auto& wgrad_dy,
                                          const auto& x, const Matrix& dgrad_dy, const Matrix& w, T* dw, T* dx) {
  const int out = (w.other ? 2 : 1) * w.rows, in = w.cols;
  if (wgrad_rows < group.rows) {  // a scale of dgrad's reaches over more rows than wgrad adds at a time
    for (int done = 0, n = 0; done < group.rows; done += n) {
      n = std::min(wgrad_rows, group.rows - done);
      const RowGroup rows{group.expert, group.first + size(done), done, n};
      product(pass, Trans::yes, Trans::no, {out, in, n}, wgrad_dy(rows), x(rows), done > 0, dw);
    }
    return product(pass, Trans::no, Trans::no, {group.rows, in, out}, dgrad_dy, w, false, dx);
  }
  GradientInputs<T> inputs(operand(pass, wgrad_dy(group)), operand(pass, x(group)), operand(pass, dgrad_dy),
                           operand(pass, w), false);
  const GemmInputs<T> for_dw = inputs.wgrad();
  if (group.rows == 0)
    std::fill_n(dw, size(out) * size(in), T{0});  // of an expert that got no token
  else
    multiply(Trans::yes, Trans::no, out, in, group.rows, for_dw.a, for_dw.b, group.done > 0, dw, in);
  const GemmInputs<T> for_dx = inputs.dgrad();
  multiply(Trans::no, Trans::no, group.rows, in, out, for_dx.a, for_dx.b, false, dx, in);
}

template class GroupedExperts<float>;
template class GroupedExperts<double>;

}  // namespace moescope
