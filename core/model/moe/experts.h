// The routed experts of one layer: SwiGLU units as grouped GEMMs, with optional low-precision operands.
//
// Legend: N slots (rows grouped by expert), D dim, F hidden width, E experts. Per expert, with W of w1, w3 or w2:
//   forward  Y  = X W^T    operands X, W  in blocks along in
//   dgrad    dX = dY W     operands dY, W in blocks along out
//   wgrad    dW = dY^T X   operands dY, X in blocks along the expert's rows, the last block padded with zero rows
// Both operands of all three are quantized as the recipe says and decoded again (torchao, prototype/moe_training, for
// MXFP8); the product of such numbers is exact in hardware as here, up to the order of the sum. A tensor-wide scale is
// one expert's. SiLU, mixing weights and everything between the products stay in full precision.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"
#include "core/model/moe/dispatch.h"
#include "core/numerics/product.h"

namespace moescope {

// Every tensor that is quantized, once per direction. X feeds both w1 and w3.
enum class QuantSite {
  forward_x,
  forward_w1,
  forward_w3,
  forward_a,
  forward_w2,
  dgrad_dy,
  dgrad_w2,
  dgrad_dh1,
  dgrad_dh3,
  dgrad_w1,
  dgrad_w3,
  wgrad_dy,
  wgrad_a,
  wgrad_dh1,
  wgrad_dh3,
  wgrad_x,
};
inline constexpr int kQuantSites = 16;
using QuantSiteSums = std::array<QuantSums, kQuantSites>;

// Rows of some slots: where they lie, or put into `space`, which has room for them. Each is asked for once in a pass,
// by the task that multiplies it: rows that are made then are still in its cache.
template <class T>
using SlotRows = std::function<Matrix<const T>(SlotRange range, Matrix<T> space)>;

// What a forward pass reads and writes.
template <class T>
struct ExpertForward {
  const SlotRows<T>& x;  // [N, D]
  Matrix<T> h13, a, y;   // [N, 2F], [N, F], [N, D]
};
// What a backward pass reads, and where its results go.
template <class T>
struct ExpertBackward {
  const FeedForwardView<T>& weights;
  const SlotRows<T>&x, &dy;  // [N, D]
  Matrix<const T> h13, a;    // of the forward pass
  Matrix<T> dx;              // [N, D]
};

template <class T>
class GroupedExperts {
 public:
  // Statistics are of the experts [first, first + count) only; the others must have no rows.
  GroupedExperts(int n_experts, int first, int count, int dim, int inter)
      : experts_(n_experts), first_(first), count_(count), dim_(dim), inter_(inter) {}

  // The precision's layer keeps the random bits of layers apart; its sums, if given, receive the statistics of the
  // experts' operands; its tap, if given, what it asks for.
  void forward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
               const ExpertForward<T>& values);
  void backward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
                const ExpertBackward<T>& gradients);

 private:
  // Rows of one expert that one task handles.
  struct RowGroup {
    int expert;
    Index first;  // slot
    Index done;   // rows of the expert before it
    Index rows;
    std::size_t task;  // whose sums it is counted in

    SlotRange range() const { return {first, first + rows}; }
  };
  // What all tasks of a pass know.
  struct Pass {
    const ClassPrecision& precision;
    std::uint64_t stream;  // of the layer
    bool counted;
    OperandTap* tap;   // nullptr: nothing is captured in this layer's experts
    QuantSite tapped;  // at which it takes
    Index wgrad_rows;  // added at a time, in a backward pass
    const OperandFormat& format(QuantSite site) const;
    // Whether the operand is the same numbers that the forward pass took, and counted.
    bool counted_before(QuantSite site) const;
  };
  Pass pass_of(const LayerPrecision& precision) const;
  Index group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const;
  void cut_into_groups(const DispatchPlan& plan, Index rows_at_most, bool with_empty);
  void gather_sums(const Pass& pass, QuantSite first, QuantSite last, LayerSums& sums) const;
  // A matrix of the group's expert, or two that share no scale (w1|w3 or h1|h3), the other one's site being `second`.
  Operand<T> operand(const Pass& pass, const RowGroup& group, QuantSite site, Matrix<const T> matrix,
                     std::optional<QuantSite> second = {});
  RoundingKey key_of(const Pass& pass, const RowGroup& group, QuantSite site) const;
  QuantSums* sums_of(const Pass& pass, const RowGroup& group, QuantSite site);
  Matrix<T> w13_of(const FeedForwardView<T>& w, const RowGroup& group) const;
  Matrix<T> w2_of(const FeedForwardView<T>& w, const RowGroup& group) const;
  void forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                     const ExpertForward<T>& values);
  void backward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group,
                      const ExpertBackward<T>& gradients);
  // dw = dy^T x, added from an expert's second group on, and dx = dy w. wgrad_dy(rows) and x(rows): operands of the
  // rows of a group.
  void backward_products(const Pass& pass, const RowGroup& group, const auto& wgrad_dy, const auto& x,
                         const GradientProducts<T>& products);

  int experts_, first_, count_;
  Index dim_, inter_;
  std::vector<RowGroup> groups_;
  std::vector<QuantSiteSums> task_sums_;  // added up in task order
};

extern template class GroupedExperts<float>;
extern template class GroupedExperts<double>;

}  // namespace moescope
