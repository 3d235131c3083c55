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
#include <initializer_list>
#include <vector>

#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"
#include "core/model/moe/dispatch.h"
#include "core/numerics/block_quantize.h"
#include "core/telemetry/frame/frame.h"

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

// Which site a frame's (weight, operand, direction) reads.
struct QuantSource {
  ExpertWeight weight;
  Operand operand;
  Direction direction;
  QuantSite site;
};
inline constexpr int kQuantSources = 18;
extern const std::array<QuantSource, kQuantSources> kQuantSourceTable;

template <class T>
class GroupedExperts {
 public:
  // Statistics are of the experts [first, first + count) only; the others must have no rows.
  GroupedExperts(int n_experts, int first, int count, int dim, int inter)
      : experts_(n_experts), first_(first), count_(count), dim_(dim), inter_(inter) {}

  // x_ND -> h13_N2F, a_NF, y_ND. `layer` keeps the random bits of layers apart. `sums`, if given, receives the
  // statistics of the forward sites; `tap`, if given, what it asks for.
  void forward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w, const DispatchPlan& plan,
               const T* x, T* h13, T* a, T* y, QuantSiteSums* sums, OperandTap* tap = nullptr);
  // dy_ND -> dx_ND and the weights' gradients in `g`; dh13_N2F is scratch.
  void backward(const ClassPrecision& precision, int layer, const FeedForwardView<T>& w, const FeedForwardView<T>& g,
                const DispatchPlan& plan, const T* x, const T* h13, const T* a, const T* dy, T* dh13, T* dx,
                QuantSiteSums* sums, OperandTap* tap = nullptr);

 private:
  // Rows of one expert that one task handles.
  struct RowGroup {
    int expert;
    std::size_t first;  // slot
    int done;           // rows of the expert before it
    int rows;
  };
  // What all tasks of a pass know.
  struct Pass {
    const ClassPrecision& precision;
    std::uint64_t stream;  // of the layer
    bool counted;
    OperandTap* tap;   // nullptr: nothing is captured in this layer's experts
    QuantSite tapped;  // at which it takes
    const OperandFormat& format(QuantSite site) const;
    bool plain() const { return precision.plain; }
  };
  Pass pass_of(const ClassPrecision& precision, int layer, bool counted, OperandTap* tap) const;
  int group_rows(const Pass& pass, std::initializer_list<QuantSite> activations) const;
  void cut_into_groups(const DispatchPlan& plan, int rows_at_most, bool with_empty);
  QuantSums* sums_of(const Pass& pass, std::size_t task, QuantSite site);
  void gather_sums(QuantSite first, QuantSite last, QuantSiteSums& sums) const;
  // A GEMM operand of `expert`, `done` rows from its first: `in` itself, or its quantized copy in `out`, which has the
  // same stride.
  const T* operand(const Pass& pass, QuantSite site, int expert, int done, const T* in, int rows, int cols,
                   std::size_t stride, T* out, QuantSums* sums) const;
  // Two matrices side by side (w1|w3 or h1|h3), `step` elements apart, which share no scale.
  const T* operand_pair(const Pass& pass, QuantSite first, QuantSite second, int expert, int done, const T* in,
                        std::size_t step, int rows, int cols, std::size_t stride, T* out, QuantSums* first_sums,
                        QuantSums* second_sums) const;
  void forward_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task, const T* x,
                     T* h13, T* a, T* y);
  void dgrad_group(const Pass& pass, const FeedForwardView<T>& w, const RowGroup& group, std::size_t task, const T* h13,
                   const T* dy, T* dh13, T* dx);
  void wgrad_w2(const Pass& pass, T* dw2, const DispatchPlan& plan, int expert, int rows_at_most, const T* a,
                const T* dy);
  void wgrad_w13(const Pass& pass, T* dw13, const DispatchPlan& plan, int expert, int rows_at_most, const T* x,
                 const T* dh13);

  int experts_, first_, count_, dim_, inter_;
  std::vector<RowGroup> groups_;
  std::vector<QuantSiteSums> task_sums_;  // added up in task order
};

extern template class GroupedExperts<float>;
extern template class GroupedExperts<double>;

}  // namespace moescope
