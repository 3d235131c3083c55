// The routed experts of one layer: SwiGLU units as grouped GEMMs, with optional low-precision operands.
//
// Legend: N slots (rows grouped by expert), D dim, F hidden width, E experts. Per expert, with W of w1, w3 or w2:
//   forward  Y  = X W^T    operands X, W  in blocks along in
//   dgrad    dX = dY W     operands dY, W in blocks along out
//   wgrad    dW = dY^T X   operands dY, X in blocks along the expert's rows, the last block padded with zero rows
// Both operands of all three GEMMs are quantized by the recipe and decoded again (torchao, prototype/moe_training, for
// MXFP8). The product of the decoded numbers is as exact as in hardware, up to the order of the sum. A tensor-wide
// scale belongs to one expert. SiLU, mixing weights and everything else between the products are computed in full
// precision; with bf16_output, the results of products and SwiGLU are rounded to BF16.
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

// Every tensor that is quantized, once per direction. w1 and w3 have the same X. The order must not change, because the
// random bits of the quantizers depend on it.
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

// Function that returns the rows of the slots in `range`: a view of existing rows, or `space`, to which it writes the
// rows and which has room for them. Each row is requested once per pass, by the task that multiplies it, so that the
// row is still in the task's cache.
template <class T>
using SlotRows = std::function<Matrix<const T>(SlotRange range, Matrix<T> space)>;

// Inputs and outputs of a forward pass.
template <class T>
struct ExpertForward {
  const SlotRows<T>& x;  // [N, D]
  Matrix<T> h13, a, y;   // [N, 2F], [N, F], [N, D]
};
// Inputs and outputs of a backward pass.
template <class T>
struct ExpertBackward {
  const FeedForwardView<T>& weights;
  const SlotRows<T>&x, &dy;  // [N, D]
  Matrix<const T> h13, a;    // from the forward pass
  Matrix<T> dx;              // [N, D]
};

template <class T>
class GroupedExperts {
 public:
  // Computes the experts [first, first + count) and their statistics. The other experts must have no rows.
  GroupedExperts(int n_experts, int first, int count, int dim, int inter)
      : experts_(n_experts), first_(first), count_(count), dim_(dim), inter_(inter) {}

  // `precision.layer` selects the random bits of the layer. `precision.sums` and `precision.tap`, if given, receive the
  // statistics of the experts' operands and the captured rows.
  void forward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
               const ExpertForward<T>& values);
  void backward(const LayerPrecision& precision, const FeedForwardView<T>& w, const DispatchPlan& plan,
                const ExpertBackward<T>& gradients);

 private:
  // Rows of one expert that one task handles.
  struct RowGroup {
    int expert;
    Index first;  // index of its first slot
    Index done;   // number of earlier rows of the expert
    Index rows;
    std::size_t task;  // index of its statistics in task_sums_

    SlotRange range() const { return {first, first + rows}; }
  };
  // Values that all tasks of a pass share.
  struct Pass {
    const ClassPrecision& precision;
    std::uint64_t stream;  // random stream of the layer
    bool counted;
    OperandTap* tap;   // nullptr if nothing is captured in this layer's experts
    QuantSite tapped;  // site where the tap captures
    Index wgrad_rows;  // largest number of rows of one wgrad product, in a backward pass
    const OperandFormat& format(QuantSite site) const;
    // True if the operand has the same numbers as in the forward pass, which has counted them.
    bool counted_in_forward(QuantSite site) const;
  };
  Pass pass_of(const LayerPrecision& precision) const;
  Index group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const;
  void cut_into_groups(const DispatchPlan& plan, Index rows_at_most, bool with_empty);
  void gather_sums(const Pass& pass, QuantSite first, QuantSite last, LayerSums& sums) const;
  // Makes the operand of a matrix of the group's expert, or of two matrices that share no scale (w1|w3 or h1|h3).
  // `second` is the site of the second matrix.
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
  // Computes dw = dy^T x, which is added to dw from an expert's second group on, and dx = dy w. wgrad_dy(rows) and
  // x(rows) return the operands of the rows of a group.
  void backward_products(const Pass& pass, const RowGroup& group, const auto& wgrad_dy, const auto& x,
                         const GradientProducts<T>& products);

  int experts_, first_, count_;
  Index dim_, inter_;
  std::vector<RowGroup> groups_;
  std::vector<QuantSiteSums> task_sums_;  // added in task order
};

}  // namespace moescope
