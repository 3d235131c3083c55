#include "core/model/moe/experts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/model/layers/operand_tap.h"
#include "core/model/layers/swiglu.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

// Largest number of rows in a group: a multiple of every quantization block and rotation, so that none spans two
// groups.
constexpr Index kGroupRows = 512;
// Number of the experts' random stream, different from those of all other weights.
constexpr auto kExpertsStream = static_cast<std::uint64_t>(Gemm::expert_w1);
static_assert(kExpertsStream == 14);

// Indexed by QuantSite.
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

// Returns the site that `tap` captures; nullopt if it captures another operand.
std::optional<QuantSite> tapped_site(const OperandTap* tap, int layer) {
  if (!tap || !tap->is_of(layer, GemmClass::experts)) return std::nullopt;
  for (std::size_t i = 0; i < kQuantSites; ++i) {
    const auto& [gemm, at] = kSiteOperands[i];
    if (gemm == tap->source() && tap->is(at.direction, at.operand)) return static_cast<QuantSite>(i);
  }
  return std::nullopt;
}

// Memory of the calling thread for the rows of a group, separate from its scratch, which holds operands; valid until
// the thread's next call.
template <class T>
T* group_space(std::size_t count) {
  thread_local AlignedBuffer<T> space;
  return space.sized(count);
}

// Returns the tasks sorted by their rows, the largest first, so that no thread begins a long task while the others have
// nothing left to do.
std::vector<int> largest_first(int tasks, const auto& rows_of) {
  std::vector<int> order(tasks);
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
bool GroupedExperts<T>::Pass::counted_in_forward(QuantSite site) const {
  const GemmOperand at = operand_of(site).at;
  return at.direction != Direction::forward && at.operand != OperandRole::dy &&
         quantize_alike(format(site), precision.format(Direction::forward, at.operand));
}

template <class T>
typename GroupedExperts<T>::Pass GroupedExperts<T>::pass_of(const LayerPrecision& precision) const {
  const ClassPrecision& formats = precision.step->class_precision(GemmClass::experts);
  const std::optional<QuantSite> site = tapped_site(precision.tap, precision.layer);
  return {formats,
          hash_of({static_cast<std::uint64_t>(precision.layer), kExpertsStream}),
          precision.sums && !formats.plain,
          site ? precision.tap : nullptr,
          site.value_or(QuantSite{}),
          0};
}

// Returns the largest number of rows in a group; no limit if one scale spans all rows of an expert.
template <class T>
Index GroupedExperts<T>::group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const {
  for (const QuantSite site : activations) {
    const OperandFormat& format = pass.format(site);
    const bool scale_per_feature = format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row &&
                                   operand_of(site).at.direction == Direction::wgrad;
    if (has_tensor_scale(format) || scale_per_feature) return std::numeric_limits<Index>::max();
  }
  return kGroupRows;
}

template <class T>
void GroupedExperts<T>::cut_into_groups(const DispatchPlan& plan, Index rows_at_most, bool with_empty) {
  groups_.clear();
  for (int e = first_; e < first_ + count_; ++e) {
    const Index rows = plan.tokens_of(e), first = plan.expert_offset[e];
    if (rows == 0 && with_empty) groups_.push_back({e, first, 0, 0, groups_.size()});
    for (Index done = 0, n = 0; done < rows; done += n) {
      n = std::min(rows_at_most, rows - done);
      groups_.push_back({e, first + done, done, n, groups_.size()});
    }
  }
}

template <class T>
void GroupedExperts<T>::gather_sums(const Pass& pass, QuantSite first, QuantSite last, LayerSums& sums) const {
  const int first_site = static_cast<int>(first);
  parallel_for(static_cast<int>(last) - first_site + 1, [&](int i) {
    const auto& [gemm, at] = kSiteOperands[first_site + i];
    GemmSums& gemm_sums = sums[static_cast<std::size_t>(gemm)];
    QuantSums& total = gemm_sums[operand_index(at.direction, at.operand)];
    if (pass.counted_in_forward(static_cast<QuantSite>(first_site + i))) {
      total = gemm_sums[operand_index(Direction::forward, at.operand)];
      return;
    }
    total = {};
    for (const QuantSiteSums& task : task_sums_) total.add(task[first_site + i]);
  });
}

template <class T>
RoundingKey GroupedExperts<T>::key_of(const Pass& pass, const RowGroup& group, QuantSite site) const {
  const auto& [gemm, at] = operand_of(site);
  RoundingKey key;
  key.seed = pass.precision.seed;
  key.stream = hash_of({pass.stream, static_cast<std::uint64_t>(site), static_cast<std::uint64_t>(group.expert)});
  if (at.operand != OperandRole::w) key.first_row = static_cast<std::uint32_t>(group.done);
  // Products with w1 and w3 are rotated with the same signs, because they share x and dx.
  key.rotation_seed =
      hash_of({key.seed, pass.stream, gemm == Gemm::expert_w2, static_cast<std::uint64_t>(at.direction)});
  return key;
}

// Only the first group of an expert counts the weights.
template <class T>
QuantSums* GroupedExperts<T>::sums_of(const Pass& pass, const RowGroup& group, QuantSite site) {
  const bool counted = operand_of(site).at.operand != OperandRole::w || group.done == 0;
  if (!pass.counted || !counted || pass.counted_in_forward(site)) return nullptr;
  return &task_sums_[group.task][static_cast<std::size_t>(site)];
}

template <class T>
Operand<T> GroupedExperts<T>::operand(const Pass& pass, const RowGroup& group, QuantSite site, Matrix<const T> matrix,
                                      std::optional<QuantSite> second) {
  const GemmOperand at = operand_of(site).at;
  Operand<T> operand{matrix, pass.format(site), contracting_axis(at.direction, at.operand), key_of(pass, group, site),
                     sums_of(pass, group, site)};
  if (second) {
    operand.halves = at.operand == OperandRole::w ? Halves::stacked : Halves::side_by_side;
    operand.second_key = key_of(pass, group, *second);
    operand.second_sums = sums_of(pass, group, *second);
  }
  if (pass.tap && site == pass.tapped) pass.tap->take(operand.part(0), group.expert);
  if (pass.tap && second == pass.tapped) pass.tap->take(operand.part(1), group.expert);
  return operand;
}

template <class T>
void GroupedExperts<T>::forward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
                                const ExpertForward<T>& values) {
  const Pass pass = pass_of(precision);
  cut_into_groups(plan, group_rows(pass, {QuantSite::forward_x, QuantSite::forward_a}), pass.counted || pass.tap);
  if (pass.counted) task_sums_.assign(groups_.size(), {});
  const std::vector<int> order =
      largest_first(static_cast<int>(groups_.size()), [&](int group) { return groups_[group].rows; });
  parallel_for(to_int(order.size()), [&](int task) { forward_group(pass, w, groups_[order[task]], values); });
  if (pass.counted) gather_sums(pass, QuantSite::forward_x, QuantSite::forward_w2, *precision.sums);
}

template <class T>
Matrix<T> GroupedExperts<T>::w13_of(const FeedForwardView<T>& w, const RowGroup& group) const {
  return w.w13.row_block(group.expert * 2 * inter_, 2 * inter_);
}

template <class T>
Matrix<T> GroupedExperts<T>::w2_of(const FeedForwardView<T>& w, const RowGroup& group) const {
  return w.w2.row_block(group.expert * dim_, dim_);
}

template <class T>
void GroupedExperts<T>::forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                                      const ExpertForward<T>& values) {
  using enum QuantSite;
  const Matrix<T> h13 = values.h13.row_block(group.first, group.rows), a = values.a.row_block(group.first, group.rows);
  const Matrix<const T> x = values.x(group.range(), {group_space<T>(group.rows * dim_), group.rows, dim_});
  multiply(Trans::no, Trans::yes, operand(pass, group, forward_x, x),
           operand(pass, group, forward_w1, w13_of(w, group), forward_w3), false, h13);
  const bool stores_bf16 = pass.precision.bf16_output;
  if (stores_bf16) round_to_bf16(h13);
  swiglu_forward(h13, a);
  if (stores_bf16) round_to_bf16(a);
  const Matrix<T> y = values.y.row_block(group.first, group.rows);
  multiply(Trans::no, Trans::yes, operand(pass, group, forward_a, a), operand(pass, group, forward_w2, w2_of(w, group)),
           false, y);
  if (stores_bf16) round_to_bf16(y);
}

template <class T>
void GroupedExperts<T>::backward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
                                 const ExpertBackward<T>& gradients) {
  using enum QuantSite;
  Pass pass = pass_of(precision);
  pass.wgrad_rows = group_rows(pass, {wgrad_dy, wgrad_a});
  cut_into_groups(plan, std::max(group_rows(pass, {dgrad_dy, dgrad_dh1}), pass.wgrad_rows), true);
  for (RowGroup& group : groups_) group.task = group.expert;
  if (pass.counted) task_sums_.assign(experts_, {});
  const std::vector<int> order = largest_first(count_, [&](int index) { return plan.tokens_of(first_ + index); });
  parallel_for(count_, [&](int task) {
    for (const RowGroup& group : groups_)
      if (group.expert == first_ + order[task]) backward_group(pass, w, group, gradients);
  });
  if (pass.counted) gather_sums(pass, dgrad_dy, wgrad_x, *precision.sums);
}

// The groups of an expert are handled one after the other, because they add to the gradients of the same weights.
template <class T>
void GroupedExperts<T>::backward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                                       const ExpertBackward<T>& gradients) {
  using enum QuantSite;
  const Index n = group.rows;
  T* memory = group_space<T>(n * (dim_ + 3 * inter_));
  const Matrix<T> da(memory, n, inter_), dh13(memory + n * inter_, n, 2 * inter_);
  const Matrix<T> space(memory + n * 3 * inter_, n, dim_);  // for dy, then for x
  const auto in_group = [&](const Matrix<const T>& all, const RowGroup& rows) {
    return all.row_block(rows.first - group.first, rows.rows);
  };
  const Matrix<const T> dy = gradients.dy(group.range(), space);
  backward_products(
      pass, group, [&](const RowGroup& rows) { return operand(pass, rows, wgrad_dy, in_group(dy, rows)); },
      [&](const RowGroup& rows) { return operand(pass, rows, wgrad_a, gradients.a.row_block(rows.first, rows.rows)); },
      {.dgrad_dy = operand(pass, group, dgrad_dy, dy),
       .w = operand(pass, group, dgrad_w2, w2_of(w, group)),
       .dw = w2_of(gradients.weights, group),
       .dx = da});
  const bool stores_bf16 = pass.precision.bf16_output;
  if (stores_bf16) round_to_bf16(da);
  swiglu_backward(da, gradients.h13.row_block(group.first, n), dh13);
  if (stores_bf16) round_to_bf16(dh13);
  const Matrix<const T> x = gradients.x(group.range(), space);
  backward_products(
      pass, group,
      [&](const RowGroup& rows) { return operand(pass, rows, wgrad_dh1, in_group(dh13, rows), wgrad_dh3); },
      [&](const RowGroup& rows) { return operand(pass, rows, wgrad_x, in_group(x, rows)); },
      {.dgrad_dy = operand(pass, group, dgrad_dh1, dh13, dgrad_dh3),
       .w = operand(pass, group, dgrad_w1, w13_of(w, group), dgrad_w3),
       .dw = w13_of(gradients.weights, group),
       .dx = gradients.dx.row_block(group.first, n)});
  if (stores_bf16) round_to_bf16(gradients.dx.row_block(group.first, n));
}

template <class T>
void GroupedExperts<T>::backward_products(const Pass& pass, const RowGroup& group, const auto& wgrad_dy, const auto& x,
                                          const GradientProducts<T>& products) {
  if (pass.wgrad_rows >= group.rows) {
    GradientProducts<T> both = products;
    both.wgrad_dy = wgrad_dy(group);
    both.x = x(group);
    both.adds_dw = group.done > 0;
    return multiply(both);
  }
  // A scale of dgrad may span more rows than one product of wgrad.
  for (Index done = 0, n = 0; done < group.rows; done += n) {
    n = std::min(pass.wgrad_rows, group.rows - done);
    const RowGroup rows{group.expert, group.first + done, done, n, group.task};
    multiply(Trans::yes, Trans::no, wgrad_dy(rows), x(rows), done > 0, products.dw);
  }
  multiply(Trans::no, Trans::no, products.dgrad_dy, products.w, false, products.dx);
}

template class GroupedExperts<float>;
template class GroupedExperts<double>;

}  // namespace moescope
