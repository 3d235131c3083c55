// Moves the rows of tokens to their chosen experts and back: permute, and weighted un-permute.
//
// Legend: T tokens, D dim, E experts, K top_k, N slots: one for each of the T*K choices that is not dropped. Slots are
// grouped by expert and keep token order inside an expert. A token's rows are always summed in the order of its
// choices, so that no sum depends on the rank that computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/numerics/matrix.h"

namespace moescope {

struct DispatchPlan {
  int top_k = 0;
  std::vector<std::int32_t> expert_offset;   // [E + 1], expert e owns slots offset[e] .. offset[e + 1]
  std::vector<std::int32_t> slot_of_choice;  // [T*K]; -1 if dropped
  std::vector<std::int32_t> choice_of_slot;  // [N], choice in [0, T*K)

  Index token_of(Index slot) const { return choice_of_slot[slot] / top_k; }
  Index slots() const { return std::ssize(choice_of_slot); }
  int experts() const { return to_int(expert_offset.size()) - 1; }
  int tokens_of(int expert) const { return expert_offset[expert + 1] - expert_offset[expert]; }
};

// Plans by a stable counting sort. topk_TK holds the chosen experts, token-major; -1 if dropped.
void plan_dispatch(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, DispatchPlan& plan);

// Slots [first, last).
struct SlotRange {
  Index first, last;
  Index count() const { return last - first; }
};

// Copies x_ND[slot] = h_TD[token of slot]. The first function copies all slots on all threads; the second one copies a
// range of slots on the calling thread, and its x begins with the first slot of the range.
template <class T>
void dispatch_forward(const DispatchPlan& plan, ConstMatrix<T> h, Matrix<T> x);
template <class T>
void dispatch_forward(const DispatchPlan& plan, SlotRange range, ConstMatrix<T> h, Matrix<T> x);
// dh_TD = sum over choices of dx_ND.
template <class T>
void dispatch_backward(const DispatchPlan& plan, ConstMatrix<T> dx, Matrix<T> dh);

// y_TD = residual_TD + sum_j mix_TK y_ND[slot of choice j]. A residual without memory counts as zero. Here and below,
// the rows of mix and dmix have no gaps.
template <class T>
void combine_forward(const DispatchPlan& plan, ConstMatrix<T> residual, ConstMatrix<T> mix, ConstMatrix<T> expert_y,
                     Matrix<T> y);
// dexpert_y_ND = mix dy; dmix_TK = dy . expert_y, which is not written for dropped choices. The first function handles
// all slots on all threads; the second one handles a range of slots on the calling thread, and its dexpert_y begins
// with the first slot of the range.
template <class T>
void combine_backward(const DispatchPlan& plan, ConstMatrix<T> dy, ConstMatrix<T> mix, ConstMatrix<T> expert_y,
                      Matrix<T> dexpert_y, Matrix<T> dmix);
template <class T>
void combine_backward(const DispatchPlan& plan, SlotRange range, ConstMatrix<T> dy, ConstMatrix<T> mix,
                      ConstMatrix<T> expert_y, Matrix<T> dexpert_y, Matrix<T> dmix);

}  // namespace moescope
