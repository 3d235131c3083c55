#include "core/model/moe/dispatch.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/numerics/threads.h"
#include "core/numerics/row_math.h"

namespace moescope {
namespace {

constexpr std::size_t kDispatchSlice = 64;

// All for tokens [first, last).
template <class T>
void sum_choices(const std::int32_t* slots, std::size_t k, std::size_t first, std::size_t last, const T* dx,
                 std::size_t dim, T* dh) {
  for (std::size_t t = first; t < last; ++t) {
    T* out = dh + t * dim;
    bool first_row = true;
    for (std::size_t j = 0; j < k; ++j) {
      if (slots[t * k + j] < 0) continue;
      const T* row = dx + static_cast<std::size_t>(slots[t * k + j]) * dim;
      if (std::exchange(first_row, false))
        std::copy_n(row, dim, out);
      else
        add_scaled(T{1}, row, dim, out);
    }
    if (first_row) std::fill_n(out, dim, T{0});
  }
}

template <class T>
void mix_choices(const std::int32_t* slots, std::size_t k, std::size_t first, std::size_t last, const T* residual,
                 const T* mix, const T* expert_y, std::size_t dim, T* y) {
  for (std::size_t t = first; t < last; ++t) {
    T* out = y + t * dim;
    if (residual)
      std::copy_n(residual + t * dim, dim, out);
    else
      std::fill_n(out, dim, T{0});
    for (std::size_t j = 0; j < k; ++j)
      if (slots[t * k + j] >= 0)
        add_scaled(mix[t * k + j], expert_y + static_cast<std::size_t>(slots[t * k + j]) * dim, dim, out);
  }
}

std::size_t num_tokens(const DispatchPlan& plan) {
  return plan.slot_of_choice.size() / static_cast<std::size_t>(plan.top_k);
}

}  // namespace

void plan_dispatch(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, DispatchPlan& plan) {
  plan.top_k = top_k;
  plan.expert_offset.assign(static_cast<std::size_t>(n_experts) + 1, 0);
  plan.slot_of_choice.resize(topk_TK.size());
  for (const std::int32_t e : topk_TK) {
    assert(e >= -1 && e < n_experts);
    if (e >= 0) ++plan.expert_offset[static_cast<std::size_t>(e) + 1];
  }
  for (int e = 0; e < n_experts; ++e)
    plan.expert_offset[static_cast<std::size_t>(e) + 1] += plan.expert_offset[static_cast<std::size_t>(e)];
  plan.choice_of_slot.resize(static_cast<std::size_t>(plan.expert_offset.back()));
  // expert_offset[e] serves as the next free slot of e and is shifted back afterwards.
  for (std::size_t i = 0; i < topk_TK.size(); ++i) {
    plan.slot_of_choice[i] = -1;
    if (topk_TK[i] < 0) continue;
    const std::int32_t slot = plan.expert_offset[static_cast<std::size_t>(topk_TK[i])]++;
    plan.slot_of_choice[i] = slot;
    plan.choice_of_slot[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(i);
  }
  for (int e = n_experts; e > 0; --e)
    plan.expert_offset[static_cast<std::size_t>(e)] = plan.expert_offset[static_cast<std::size_t>(e) - 1];
  plan.expert_offset[0] = 0;
}

template <class T>
void dispatch_forward(const DispatchPlan& plan, SlotRange range, const T* h, int dim, T* x) {
  const std::size_t d = static_cast<std::size_t>(dim);
  for (std::size_t slot = range.first; slot < range.last; ++slot)
    std::copy_n(h + plan.token_of(slot) * d, d, x + (slot - range.first) * d);
}

template <class T>
void dispatch_forward(const DispatchPlan& plan, const T* h, int dim, T* x) {
  parallel_slices(plan.choice_of_slot.size(), kDispatchSlice, [&](std::size_t first, std::size_t last) {
    dispatch_forward(plan, {first, last}, h, dim, x + first * static_cast<std::size_t>(dim));
  });
}

template <class T>
void dispatch_backward(const DispatchPlan& plan, const T* dx, int dim, T* dh) {
  parallel_slices(num_tokens(plan), kDispatchSlice, [&](std::size_t first, std::size_t last) {
    sum_choices(plan.slot_of_choice.data(), static_cast<std::size_t>(plan.top_k), first, last, dx,
                static_cast<std::size_t>(dim), dh);
  });
}

template <class T>
void combine_forward(const DispatchPlan& plan, const T* residual, const T* mix, const T* expert_y, int dim, T* y) {
  parallel_slices(num_tokens(plan), kDispatchSlice, [&](std::size_t first, std::size_t last) {
    mix_choices(plan.slot_of_choice.data(), static_cast<std::size_t>(plan.top_k), first, last, residual, mix, expert_y,
                static_cast<std::size_t>(dim), y);
  });
}

template <class T>
void combine_backward(const DispatchPlan& plan, SlotRange range, const T* dy, const T* mix, const T* expert_y, int dim,
                      T* dexpert_y, T* dmix) {
  const std::size_t d = static_cast<std::size_t>(dim);
  for (std::size_t slot = range.first; slot < range.last; ++slot) {
    const auto choice = static_cast<std::size_t>(plan.choice_of_slot[slot]);
    const T* in = dy + plan.token_of(slot) * d;
    T* __restrict out = dexpert_y + (slot - range.first) * d;
    const T weight = mix[choice];
    for (std::size_t i = 0; i < d; ++i) out[i] = weight * in[i];
    dmix[choice] = dot(in, expert_y + slot * d, d);
  }
}

template <class T>
void combine_backward(const DispatchPlan& plan, const T* dy, const T* mix, const T* expert_y, int dim, T* dexpert_y,
                      T* dmix) {
  parallel_slices(plan.choice_of_slot.size(), kDispatchSlice, [&](std::size_t first, std::size_t last) {
    combine_backward(plan, {first, last}, dy, mix, expert_y, dim, dexpert_y + first * static_cast<std::size_t>(dim),
                     dmix);
  });
}

#define INSTANTIATE(T)                                                                               \
  template void dispatch_forward<T>(const DispatchPlan&, const T*, int, T*);                         \
  template void dispatch_forward<T>(const DispatchPlan&, SlotRange, const T*, int, T*);              \
  template void dispatch_backward<T>(const DispatchPlan&, const T*, int, T*);                        \
  template void combine_forward<T>(const DispatchPlan&, const T*, const T*, const T*, int, T*);      \
  template void combine_backward<T>(const DispatchPlan&, const T*, const T*, const T*, int, T*, T*); \
  template void combine_backward<T>(const DispatchPlan&, SlotRange, const T*, const T*, const T*, int, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
