#include "core/model/moe/dispatch.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kDispatchSlice = 64;

// Adds up the rows of dx of each token's choices, for the tokens [first, last).
template <class T>
void sum_choices(const DispatchPlan& plan, Index first, Index last, const Matrix<const T>& dx, const Matrix<T>& dh) {
  for (Index t = first; t < last; ++t) {
    T* out = dh.row(t);
    bool first_row = true;
    for (int j = 0; j < plan.top_k; ++j) {
      const std::int32_t slot = plan.slot_of_choice[t * plan.top_k + j];
      if (slot < 0) continue;
      if (std::exchange(first_row, false))
        std::copy_n(dx.row(slot), dx.cols, out);
      else
        add_scaled(T{1}, dx.row(slot), dx.cols, out);
    }
    if (first_row) std::fill_n(out, dh.cols, T{0});
  }
}

Index num_tokens(const DispatchPlan& plan) {
  return std::ssize(plan.slot_of_choice) / plan.top_k;
}

}  // namespace

void plan_dispatch(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, DispatchPlan& plan) {
  plan.top_k = top_k;
  plan.expert_offset.assign(n_experts + 1, 0);
  plan.slot_of_choice.resize(topk_TK.size());
  for (const std::int32_t e : topk_TK) {
    assert(e >= -1 && e < n_experts);
    if (e >= 0) ++plan.expert_offset[e + 1];
  }
  for (int e = 0; e < n_experts; ++e) plan.expert_offset[e + 1] += plan.expert_offset[e];
  plan.choice_of_slot.resize(plan.expert_offset.back());
  // expert_offset[e] is used as the next free slot of e and is shifted back afterwards.
  for (std::size_t i = 0; i < topk_TK.size(); ++i) {
    plan.slot_of_choice[i] = -1;
    if (topk_TK[i] < 0) continue;
    const std::int32_t slot = plan.expert_offset[topk_TK[i]]++;
    plan.slot_of_choice[i] = slot;
    plan.choice_of_slot[slot] = to_int(i);
  }
  for (int e = n_experts; e > 0; --e) plan.expert_offset[e] = plan.expert_offset[e - 1];
  plan.expert_offset[0] = 0;
}

template <class T>
void dispatch_forward(const DispatchPlan& plan, SlotRange range, ConstMatrix<T> h, Matrix<T> x) {
  for (Index slot = range.first; slot < range.last; ++slot)
    std::copy_n(h.row(plan.token_of(slot)), h.cols, x.row(slot - range.first));
}

template <class T>
void dispatch_forward(const DispatchPlan& plan, ConstMatrix<T> h, Matrix<T> x) {
  parallel_slices(plan.slots(), kDispatchSlice, [&](Index first, Index last) {
    dispatch_forward<T>(plan, {first, last}, h, x.row_block(first, last - first));
  });
}

template <class T>
void dispatch_backward(const DispatchPlan& plan, ConstMatrix<T> dx, Matrix<T> dh) {
  parallel_slices(num_tokens(plan), kDispatchSlice,
                  [&](Index first, Index last) { sum_choices<T>(plan, first, last, dx, dh); });
}

template <class T>
void combine_forward(const DispatchPlan& plan, ConstMatrix<T> residual, ConstMatrix<T> mix, ConstMatrix<T> expert_y,
                     Matrix<T> y) {
  parallel_slices(num_tokens(plan), kDispatchSlice, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      if (residual.data)
        std::copy_n(residual.row(t), y.cols, y.row(t));
      else
        std::fill_n(y.row(t), y.cols, T{0});
      for (Index choice = t * plan.top_k; choice < (t + 1) * plan.top_k; ++choice)
        if (const std::int32_t slot = plan.slot_of_choice[choice]; slot >= 0)
          add_scaled(mix.data[choice], expert_y.row(slot), y.cols, y.row(t));
    }
  });
}

template <class T>
void combine_backward(const DispatchPlan& plan, SlotRange range, ConstMatrix<T> dy, ConstMatrix<T> mix,
                      ConstMatrix<T> expert_y, Matrix<T> dexpert_y, Matrix<T> dmix) {
  for (Index slot = range.first; slot < range.last; ++slot) {
    const std::int32_t choice = plan.choice_of_slot[slot];
    const T* in = dy.row(plan.token_of(slot));
    T* __restrict out = dexpert_y.row(slot - range.first);
    const T weight = mix.data[choice];
    for (Index i = 0; i < dy.cols; ++i) out[i] = weight * in[i];
    dmix.data[choice] = dot(in, expert_y.row(slot), dy.cols);
  }
}

template <class T>
void combine_backward(const DispatchPlan& plan, ConstMatrix<T> dy, ConstMatrix<T> mix, ConstMatrix<T> expert_y,
                      Matrix<T> dexpert_y, Matrix<T> dmix) {
  parallel_slices(plan.slots(), kDispatchSlice, [&](Index first, Index last) {
    combine_backward<T>(plan, {first, last}, dy, mix, expert_y, dexpert_y.row_block(first, last - first), dmix);
  });
}

#define INSTANTIATE(T)                                                                                              \
  template void dispatch_forward<T>(const DispatchPlan&, ConstMatrix<T>, Matrix<T>);                                \
  template void dispatch_forward<T>(const DispatchPlan&, SlotRange, ConstMatrix<T>, Matrix<T>);                     \
  template void dispatch_backward<T>(const DispatchPlan&, ConstMatrix<T>, Matrix<T>);                               \
  template void combine_forward<T>(const DispatchPlan&, ConstMatrix<T>, ConstMatrix<T>, ConstMatrix<T>, Matrix<T>); \
  template void combine_backward<T>(const DispatchPlan&, ConstMatrix<T>, ConstMatrix<T>, ConstMatrix<T>, Matrix<T>, \
                                    Matrix<T>);                                                                     \
  template void combine_backward<T>(const DispatchPlan&, SlotRange, ConstMatrix<T>, ConstMatrix<T>, ConstMatrix<T>, \
                                    Matrix<T>, Matrix<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
