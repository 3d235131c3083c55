#include "core/model/moe/moe_layer.h"

#include <algorithm>

#include "core/model/layers/operand.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

QuantSums* sums_of(const LayerPrecision& precision, ModelOperand transfer) {
  if (!precision.sums) return nullptr;
  const std::size_t index = operand_index(transfer.at.direction, transfer.at.operand);
  return &(*precision.sums)[static_cast<std::size_t>(transfer.gemm)][index];
}

bool captures(const LayerPrecision& precision, ModelOperand transfer) {
  return precision.tap && precision.tap->place() ==
                              OperandPlace{precision.layer, transfer.gemm, transfer.at.operand, transfer.at.direction};
}

template <class T>
void capture_rows(const LayerPrecision& precision, ModelOperand transfer, const OperandFormat& format, const T* rows_of,
                  std::size_t rows, int dim) {
  if (captures(precision, transfer))
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
std::size_t rows_of(const DispatchPlan& at_experts) {
  return size(at_experts.expert_offset.back());
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
  arena.plan(sent, config.precision.payload == TokenPayload::fp32 ? 0 : part.tokens() * size(m.row_dim()));
  arena.plan(x, part.ranks ? most * size(m.row_dim()) : 0);
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
  send_tokens(h, a, ws, precision);
  experts_forward(w, h, a, ws, precision, clock);
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

template <class T>
const T* MoeLayer<T>::tokens_to_send(const T* h, const MoeActivations<T>& a) const {
  return config_.model.latent_dim > 0 ? a.latent.rows : h;
}

template <class T>
const T* MoeLayer<T>::sent_tokens(const T* h, const MoeActivations<T>& a) const {
  return config_.precision.payload == TokenPayload::fp32 ? tokens_to_send(h, a) : a.sent;
}

// Each token is rounded once, not each of its copies. Between ranks the rows to send are in the workspace's dx.
template <class T>
void MoeLayer<T>::send_tokens(const T* h, MoeActivations<T>& a, MoeWorkspace<T>& ws, const LayerPrecision& precision) {
  const int dim = config_.model.row_dim(), tokens = static_cast<int>(part_.tokens());
  const OperandFormat format = transfer_format(config_.precision.payload, kDispatch);
  const T* rows = tokens_to_send(h, a);
  capture_rows(precision, kDispatch, format, rows, size(tokens), dim);
  if (!is_plain(format))
    quantize_in_bands(format, rows, tokens, dim, size(dim), BlockAxis::row, {}, a.sent, sums_of(precision, kDispatch));
  if (!part_.ranks) return;
  const T* sent = sent_tokens(h, a);
  a.exchange.plan(a.plan, a.router.sent(), *part_.ranks);
  if (part_.ranks->over_nodes()) return a.exchange.dispatch_merged(format, sent, part_.tokens(), dim, a.x);
  dispatch_forward(a.plan, sent, dim, ws.dx);
  a.exchange.to_experts(format, ws.dx, dim, a.x);
}

// On one process each task of the experts copies its own rows.
template <class T>
SlotRows<T> MoeLayer<T>::arrived_rows(const T* h, const MoeActivations<T>& a) const {
  const int dim = config_.model.row_dim();
  if (part_.ranks) return [x = a.x, dim](SlotRange range, T*) { return x + range.first * size(dim); };
  return [sent = sent_tokens(h, a), &plan = a.plan, dim](SlotRange range, T* space) {
    dispatch_forward(plan, range, sent, dim, space);
    return space;
  };
}

template <class T>
void MoeLayer<T>::experts_forward(const LayerView<T>& w, const T* h, MoeActivations<T>& a, MoeWorkspace<T>& ws,
                                  const LayerPrecision& precision, PhaseClock& clock) {
  const int dim = config_.model.row_dim();
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  T* y = part_.ranks ? ws.row_experts : a.y;
  clock.enter(Phase::experts);
  experts_.forward(precision.step->of(GemmClass::experts), precision.layer, w.experts, plan, arrived_rows(h, a), a.h13,
                   a.a, y, precision.sums, precision.tap);
  clock.enter(Phase::combine);
  const TokenPayload payload = config_.precision.payload;
  send(payload, kCombine, y, rows_of(plan), dim, precision);
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
  experts_backward(w, g, h, latent ? ws.latent.dmixed : dy, a, ws, precision, clock);
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

// On one process each task of the experts makes its own rows, unless they are rounded or captured as a whole.
template <class T>
SlotRows<T> MoeLayer<T>::gradient_rows(const T* dy, const MoeActivations<T>& a, MoeWorkspace<T>& ws,
                                       const LayerPrecision& precision) {
  const int dim = config_.model.row_dim();
  const TokenPayload payload = config_.precision.payload;
  std::fill_n(ws.dmix, a.plan.slot_of_choice.size(), T{0});  // of what was dropped
  if (!part_.ranks && payload == TokenPayload::fp32 && !captures(precision, kCombineGradient))
    return [dy, &a, &ws, dim](SlotRange range, T* space) {
      combine_backward(a.plan, range, dy, a.router.mix, a.y, dim, space, ws.dmix);
      return space;
    };
  combine_backward(a.plan, dy, a.router.mix, a.y, dim, ws.dy, ws.dmix);
  send(payload, kCombineGradient, ws.dy, rows_of(a.plan), dim, precision);
  T* rows = part_.ranks ? ws.row_experts : ws.dy;
  if (part_.ranks) a.exchange.to_experts(transfer_format(payload, kCombineGradient), ws.dy, dim, rows);
  return [rows, dim](SlotRange range, T*) { return rows + range.first * size(dim); };
}

template <class T>
void MoeLayer<T>::experts_backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy,
                                   const MoeActivations<T>& a, MoeWorkspace<T>& ws, const LayerPrecision& precision,
                                   PhaseClock& clock) {
  const int dim = config_.model.row_dim();
  const TokenPayload payload = config_.precision.payload;
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  T* dx = part_.ranks ? ws.drow_experts : ws.dx;
  const SlotRows<T> dy_rows = gradient_rows(dy, a, ws, precision);
  clock.enter(Phase::experts);
  experts_.backward(precision.step->of(GemmClass::experts), precision.layer, w.experts, g.experts, plan,
                    arrived_rows(h, a), a.h13, a.a, dy_rows, dx, precision.sums, precision.tap);
  clock.enter(Phase::dispatch);
  send(payload, kDispatchGradient, dx, rows_of(plan), dim, precision);
  if (part_.ranks) a.exchange.from_experts(transfer_format(payload, kDispatchGradient), dx, dim, ws.dx);
}

template struct MoeActivations<float>;
template struct MoeActivations<double>;
template struct MoeWorkspace<float>;
template struct MoeWorkspace<double>;
template class MoeLayer<float>;
template class MoeLayer<double>;

}  // namespace moescope
