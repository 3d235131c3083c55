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
#include "core/model/layers/product.h"
#include "core/model/moe/dispatch.h"
#include "core/numerics/block_quantize.h"

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
using SlotRows = std::function<const T*(SlotRange range, T* space)>;

template <class T>
class GroupedExperts {
 public:
  // Statistics are of the experts [first, first + count) only; the others must have no rows.
  GroupedExperts(int n_experts, int first, int count, int dim, int inter)
      : experts_(n_experts), first_(first), count_(count), dim_(dim), inter_(inter) {}

  // x_ND -> h13_N2F, a_NF, y_ND. `layer` keeps the random bits of layers apart. `sums`, if given, receives the
  // statistics of the experts' operands; `tap`, if given, what it asks for.
  void forward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w, const DispatchPlan& plan,
               const SlotRows<T>& x, T* h13, T* a, T* y, LayerSums* sums, OperandTap* tap = nullptr);
  // dy_ND -> dx_ND and the weights' gradients in `g`.
  void backward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w, const FeedForwardView<T>& g,
                const DispatchPlan& plan, const SlotRows<T>& x, const T* h13, const T* a, const SlotRows<T>& dy, T* dx,
                LayerSums* sums, OperandTap* tap = nullptr);

 private:
  // Rows of one expert that one task handles.
  struct RowGroup {
    int expert;
    std::size_t first;  // slot
    int done;           // rows of the expert before it
    int rows;

    SlotRange range() const { return {first, first + static_cast<std::size_t>(rows)}; }
  };
  // What all tasks of a pass know.
  struct Pass {
    const ClassPrecision& precision;
    std::uint64_t stream;  // of the layer
    bool counted;
    OperandTap* tap;   // nullptr: nothing is captured in this layer's experts
    QuantSite tapped;  // at which it takes
    const OperandFormat& format(QuantSite site) const;
    // Whether the operand is the same numbers that the forward pass took, and counted.
    bool counted_before(QuantSite site) const;
  };
  Pass pass_of(const ClassPrecision& precision, int layer, bool counted, OperandTap* tap) const;
  int group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const;
  void cut_into_groups(const DispatchPlan& plan, int rows_at_most, bool with_empty);
  void gather_sums(const Pass& pass, QuantSite first, QuantSite last, LayerSums& sums) const;
  // An operand of one expert: a matrix, or two that share no scale (w1|w3 or h1|h3).
  struct Matrix {
    QuantSite site;
    const T* in;
    int rows, cols, stride;
    int expert, done;  // rows of the expert before it
    std::size_t task;  // whose sums it is counted in
    bool counted;      // weights are by the first group of an expert alone
    std::optional<QuantSite> other;
    std::size_t other_step;  // elements from the first matrix to the other
  };
  Matrix w13_of(QuantSite w1, QuantSite w3, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task) const;
  Matrix w2_of(QuantSite w2, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task) const;
  Matrix rows_of(QuantSite site, const T* in, int cols, const RowGroup& group, std::size_t task) const;
  Matrix dh13_of(QuantSite h1, QuantSite h3, const T* in, const RowGroup& group, std::size_t task) const;
  OperandSource<T> operand(const Pass& pass, const Matrix& matrix);
  OperandPart<T> part_of(const Pass& pass, QuantSite site, const Matrix& matrix, const T* in);
  // out[m,n] = op(a)[m,k] op(b)[k,n], of quantized operands; added to `out` if `adds`.
  struct Extents {
    int m, n, k;
  };
  void product(const Pass& pass, Trans ta, Trans tb, Extents extents, const Matrix& a, const Matrix& b, bool adds,
               T* out);
  void forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task,
                     const SlotRows<T>& x, T* h13, T* a, T* y);
  // Of the backward pass: what it reads and where its results go.
  struct Gradients {
    const FeedForwardView<T>&w, &g;
    const SlotRows<T>&x, &dy;
    const T *h13, *a;
    T* dx;
    int wgrad_rows;  // added at a time
  };
  void backward_group(const Pass& pass, const Gradients& gradients, const RowGroup& group);
  // dw = dy^T x, added from an expert's second group on, and dx = dy w. wgrad_dy(rows) and x(rows): operands of the
  // rows of a group.
  void backward_products(const Pass& pass, const RowGroup& group, int wgrad_rows, const auto& wgrad_dy, const auto& x,
                         const Matrix& dgrad_dy, const Matrix& w, T* dw, T* dx);

  int experts_, first_, count_, dim_, inter_;
  std::vector<RowGroup> groups_;
  std::vector<QuantSiteSums> task_sums_;  // added up in task order
};

extern template class GroupedExperts<float>;
extern template class GroupedExperts<double>;

}  // namespace moescope
