#include "core/model/moe/moe_layer.h"

#include <algorithm>

#include "core/model/layers/operand.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/parallel.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

QuantSums* sums_of(const LayerPrecision& precision, ModelOperand transfer) {
  if (!precision.sums) return nullptr;
  const std::size_t index = operand_index(transfer.at.direction, transfer.at.operand);
  return &(*precision.sums)[static_cast<std::size_t>(transfer.gemm)][index];
}

template <class T>
void capture_rows(const LayerPrecision& precision, ModelOperand transfer, const OperandFormat& format, const T* rows_of,
                  std::size_t rows, int dim) {
  if (precision.tap && precision.tap->place() ==
                           OperandPlace{precision.layer, transfer.gemm, transfer.at.operand, transfer.at.direction})
    precision.tap->take(format, BlockAxis::row, -1, rows_of, static_cast<int>(rows), dim, size(dim), {});
}

// Rounds the row of each copy of a token before it is sent.
template <class T>
void send(TokenPayload payload, ModelOperand transfer, T* rows_of, std::size_t rows, int dim,
          const LayerPrecision& precision) {
  const OperandFormat format = transfer_format(payload, transfer);
  capture_rows(precision, transfer, format, rows_of, rows, dim);
  if (!is_plain(format)) round_rows(format, rows_of, rows, dim, sums_of(precision, transfer));
}

// Rows that the experts here receive.
std::size_t rows_at_experts(const DispatchPlan& at_experts) {
  return size(at_experts.expert_offset.back());
}

// The tokens as they are sent: each is rounded once, not each of its copies. In this thread's scratch.
template <class T>
const T* sent_tokens(TokenPayload payload, const T* h, int tokens, int dim, const LayerPrecision& precision) {
  const OperandFormat format = transfer_format(payload, kDispatch);
  capture_rows(precision, kDispatch, format, h, size(tokens), dim);
  if (is_plain(format)) return h;
  T* sent = thread_scratch<T>(size(tokens) * size(dim));
  quantize_in_bands(format, h, tokens, dim, size(dim), BlockAxis::row, {}, sent, sums_of(precision, kDispatch));
  return sent;
}

FeedForwardPrecision shared_precision(const LayerPrecision& precision) {
  return {precision.of(Gemm::shared_w1, 2), precision.of(Gemm::shared_w2)};
}

// Of products that no recipe names.
LinearPrecision unquantized(const LayerPrecision& precision) {
  return {.shard_rows = precision.shard_rows, .first_row = precision.first_row};
}

}  // namespace

template <class T>
void MoeActivations<T>::plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part) {
  const ModelConfig& m = config.model;
  const std::size_t slots = part.tokens() * size(config.router.top_k);
  const std::size_t most = part.all_tokens * size(config.router.top_k);
  router.plan(arena, part, m.n_experts, config.router.top_k);
  arena.plan(x, most * size(m.row_dim()));
  arena.plan(h13, most * size(2 * m.moe_inter));
  arena.plan(a, most * size(m.moe_inter));
  arena.plan(y, slots * size(m.row_dim()));
  latent.plan(arena, m, part.tokens());
  shared.plan(arena, part.tokens(), m.n_shared * m.moe_inter);
  shared_gate.plan(arena, m, part.tokens());
}

template <class T>
void MoeWorkspace<T>::plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part) {
  const ModelConfig& m = config.model;
  const std::size_t slots = part.tokens() * size(config.router.top_k);
  const std::size_t most = part.all_tokens * size(config.router.top_k);
  arena.plan(dy, slots * size(m.row_dim()));
  arena.plan(dx, slots * size(m.row_dim()));
  arena.plan(dh13, most * size(2 * m.moe_inter));
  arena.plan(row_experts, part.ranks ? most * size(m.row_dim()) : 0);
  arena.plan(drow_experts, part.ranks ? most * size(m.row_dim()) : 0);
  arena.plan(dmix, slots);
  arena.plan(dlogits, part.tokens() * size(m.n_experts));
  latent.plan(arena, m, part.tokens());
  shared.plan(arena, part.tokens(), m.n_shared * m.moe_inter);
  shared_gate.plan(arena, m, part.tokens());
}

template <class T>
MoeLayer<T>::MoeLayer(const RunConfig& config, const BatchPart& part)
    : config_(config),
      part_(part),
      experts_(config.model.n_experts, part.ranks ? part.ranks->rank() * (config.model.n_experts / part.of) : 0,
               config.model.n_experts / part.of, config.model.row_dim(), config.model.moe_inter) {}

template <class T>
void MoeLayer<T>::forward(const LayerView<T>& w, const T* expert_bias, const T* h, const T* residual,
                          MoeActivations<T>& a, MoeWorkspace<T>& ws, T* y, const LayerPrecision& precision,
                          PhaseClock& clock, const RoutingLimits& limits) {
  const ModelConfig& m = config_.model;
  const int tokens = static_cast<int>(part_.tokens());
  clock.enter(Phase::router);
  router_forward(config_.router, w.gate, expert_bias, h, part_, m.dim, m.n_experts, a.router, precision.of(Gemm::gate),
                 limits);
  clock.enter(Phase::dispatch);
  plan_dispatch(a.router.sent(), config_.router.top_k, m.n_experts, a.plan);
  const bool latent = m.latent_dim > 0;
  if (latent) latent_down(m, w, h, tokens, a.latent, unquantized(precision));
  dispatch_tokens(sent_tokens(config_.precision.payload, latent ? a.latent.rows : h, tokens, m.row_dim(), precision), a,
                  ws);
  experts_forward(w, a, ws, precision, clock);
  combine_forward(a.plan, latent ? nullptr : residual, a.router.mix, a.y, m.row_dim(), latent ? a.latent.mixed : y);
  if (latent) {
    parallel_copy(residual, size(tokens) * size(m.dim), y);
    latent_up(m, w, tokens, a.latent, y, unquantized(precision));
  }
  if (m.n_shared == 0) return;
  clock.enter(Phase::dense_ffn);
  shared_forward(w, h, a, y, precision);
}

template <class T>
void MoeLayer<T>::shared_forward(const LayerView<T>& w, const T* h, MoeActivations<T>& a, T* y,
                                 const LayerPrecision& precision) {
  const ModelConfig& m = config_.model;
  const int tokens = static_cast<int>(part_.tokens());
  T* shared = m.shared_expert_gate ? a.shared_gate.y : y;
  if (m.shared_expert_gate) std::fill_n(shared, size(tokens) * size(m.dim), T{0});
  feed_forward_forward(w.shared, h, tokens, m.dim, m.n_shared * m.moe_inter, a.shared, shared,
                       shared_precision(precision));
  if (m.shared_expert_gate)
    shared_gate_forward(w.shared_gate, h, tokens, m.dim, a.shared_gate, y, unquantized(precision));
}

template <class T>
void MoeLayer<T>::shared_backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy,
                                  const MoeActivations<T>& a, MoeWorkspace<T>& ws, T* dh,
                                  const LayerPrecision& precision) {
  const ModelConfig& m = config_.model;
  const int tokens = static_cast<int>(part_.tokens());
  if (m.shared_expert_gate) {
    shared_gate_backward(w.shared_gate, h, dy, tokens, m.dim, a.shared_gate, ws.shared_gate, g.shared_gate, dh,
                         unquantized(precision));
    dy = ws.shared_gate.y;
  }
  feed_forward_backward(w.shared, g.shared, h, dy, tokens, m.dim, m.n_shared * m.moe_inter, a.shared, ws.shared, dh,
                        true, shared_precision(precision));
}

// Between ranks the rows to send are in the workspace's dx.
template <class T>
void MoeLayer<T>::dispatch_tokens(const T* tokens, MoeActivations<T>& a, MoeWorkspace<T>& ws) {
  const int dim = config_.model.row_dim();
  if (!part_.ranks) return dispatch_forward(a.plan, tokens, dim, a.x);
  a.exchange.plan(a.plan, a.router.sent(), *part_.ranks);
  const OperandFormat format = transfer_format(config_.precision.payload, kDispatch);
  if (part_.ranks->over_nodes()) return a.exchange.dispatch_merged(format, tokens, part_.tokens(), dim, a.x);
  dispatch_forward(a.plan, tokens, dim, ws.dx);
  a.exchange.to_experts(format, ws.dx, dim, a.x);
}

template <class T>
void MoeLayer<T>::experts_forward(const LayerView<T>& w, MoeActivations<T>& a, MoeWorkspace<T>& ws,
                                  const LayerPrecision& precision, PhaseClock& clock) {
  const int dim = config_.model.row_dim();
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  T* y = part_.ranks ? ws.row_experts : a.y;
  clock.enter(Phase::experts);
  experts_.forward(precision.step->of(GemmClass::experts), precision.layer, w.experts, plan, a.x, a.h13, a.a, y,
                   precision.sums, precision.tap);
  clock.enter(Phase::combine);
  const TokenPayload payload = config_.precision.payload;
  send(payload, kCombine, y, rows_at_experts(plan), dim, precision);
  if (part_.ranks) a.exchange.from_experts(transfer_format(payload, kCombine), y, dim, a.y);
}

template <class T>
void MoeLayer<T>::backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy,
                           const MoeActivations<T>& a, MoeWorkspace<T>& ws, T* dh, const LayerPrecision& precision,
                           PhaseClock& clock) {
  const ModelConfig& m = config_.model;
  clock.enter(Phase::combine);
  const int tokens = static_cast<int>(part_.tokens());
  const bool latent = m.latent_dim > 0;
  if (latent) latent_up_backward(m, w, g, dy, tokens, a.latent, ws.latent, unquantized(precision));
  combine_backward(a.plan, latent ? ws.latent.dmixed : dy, a.router.mix, a.y, m.row_dim(), ws.dy, ws.dmix);
  experts_backward(w, g, a, ws, precision, clock);
  dispatch_backward(a.plan, ws.dx, m.row_dim(), latent ? ws.latent.drows : dh);
  if (latent) latent_down_backward(m, w, g, h, tokens, ws.latent, dh, unquantized(precision));
  if (m.n_shared > 0) {
    clock.enter(Phase::dense_ffn);
    shared_backward(w, g, h, dy, a, ws, dh, precision);
  }
  clock.enter(Phase::router);
  router_backward(config_.router, w.gate, h, ws.dmix, part_, m.dim, m.n_experts, a.router, ws.dlogits, g.gate, dh, true,
                  precision.of(Gemm::gate));
}

template <class T>
void MoeLayer<T>::experts_backward(const LayerView<T>& w, const LayerView<T>& g, const MoeActivations<T>& a,
                                   MoeWorkspace<T>& ws, const LayerPrecision& precision, PhaseClock& clock) {
  const int dim = config_.model.row_dim();
  const TokenPayload payload = config_.precision.payload;
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  send(payload, kCombineGradient, ws.dy, rows_at_experts(a.plan), dim, precision);
  T* dy = part_.ranks ? ws.row_experts : ws.dy;
  T* dx = part_.ranks ? ws.drow_experts : ws.dx;
  if (part_.ranks) a.exchange.to_experts(transfer_format(payload, kCombineGradient), ws.dy, dim, dy);
  clock.enter(Phase::experts);
  experts_.backward(precision.step->of(GemmClass::experts), precision.layer, w.experts, g.experts, plan, a.x, a.h13,
                    a.a, dy, ws.dh13, dx, precision.sums, precision.tap);
  clock.enter(Phase::dispatch);
  send(payload, kDispatchGradient, dx, rows_at_experts(plan), dim, precision);
  if (part_.ranks) a.exchange.from_experts(transfer_format(payload, kDispatchGradient), dx, dim, ws.dx);
}

template struct MoeActivations<float>;
template struct MoeActivations<double>;
template struct MoeWorkspace<float>;
template struct MoeWorkspace<double>;
template class MoeLayer<float>;
template class MoeLayer<double>;

}  // namespace moescope
