#include "core/model/moe/moe_layer.h"

#include <algorithm>

#include "core/model/layers/linear.h"
#include "core/model/layers/operand_tap.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/quantize.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kGatedTokens = 64;

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
void capture_rows(const LayerPrecision& precision, ModelOperand transfer, const OperandFormat& format,
                  const Matrix<const T>& rows) {
  if (captures(precision, transfer)) precision.tap->take(Operand<T>{rows, format}, -1);
}

// Captures and rounds rows before they are sent.
template <class T>
void send(TokenPayload payload, ModelOperand transfer, const Matrix<T>& rows, const LayerPrecision& precision) {
  const OperandFormat format = transfer_format(payload, transfer);
  capture_rows<T>(precision, transfer, format, rows);
  if (!is_plain(format)) round_rows(format, rows, sums_of(precision, transfer));
}

// Returns the first rows of `all`, as many as the plan has slots. `all` has room for the largest number of slots.
template <class T>
Matrix<T> arrived(const DispatchPlan& at_experts, const Matrix<T>& all) {
  return all.row_block(0, at_experts.expert_offset.back());
}

FeedForwardPrecision shared_precision(const LayerPrecision& precision) {
  return {precision.linear_precision(Gemm::shared_w1, 2), precision.linear_precision(Gemm::shared_w2)};
}

// Precision of the products that no recipe quantizes: the projections of latent experts and the shared experts' gate.
LinearPrecision unquantized(const LayerPrecision& precision) {
  return {.bf16_output = precision.step && precision.step->bf16_activations,
          .shard_rows = precision.shard_rows,
          .first_row = precision.first_row};
}

}  // namespace

template <class T>
void MoeActivations<T>::plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part) {
  const ModelConfig& m = config.model;
  const Index tokens = part.tokens(), top_k = config.router.top_k, max_rows = part.all_tokens * top_k;
  router.plan(arena, part, m.n_experts, config.router.top_k);
  arena.plan(sent, tokens, m.row_dim());  // also for FP32, because the payload may change during a run
  arena.plan(x, part.ranks ? max_rows : 0, m.row_dim());
  arena.plan(h13, max_rows, 2 * m.moe_inter);
  arena.plan(a, max_rows, m.moe_inter);
  arena.plan(y, tokens * top_k, m.row_dim());
  arena.plan(latent_rows, tokens, m.latent_dim);
  arena.plan(mixed, tokens, m.latent_dim);
  arena.plan(normed, m.latent_norm ? tokens : 0, m.latent_dim);
  arena.plan(normed_inv, m.latent_norm ? tokens : 0);
  shared.plan(arena, tokens, m.n_shared * m.moe_inter);
  arena.plan(shared_y, m.shared_expert_gate ? tokens : 0, m.dim);
  arena.plan(gate, m.shared_expert_gate ? tokens : 0, 1);
}

template <class T>
void MoeWorkspace<T>::plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part) {
  const ModelConfig& m = config.model;
  const Index tokens = part.tokens(), top_k = config.router.top_k, slots = tokens * top_k;
  const Index max_rows = part.ranks ? part.all_tokens * top_k : 0;
  arena.plan(dy, slots, m.row_dim());
  arena.plan(dx, slots, m.row_dim());
  arena.plan(rows_at_experts, max_rows, m.row_dim());
  arena.plan(drows_at_experts, max_rows, m.row_dim());
  arena.plan(dmix, tokens, top_k);
  arena.plan(dlogits, tokens, m.n_experts);
  arena.plan(drows, tokens, m.latent_dim);
  arena.plan(dmixed, tokens, m.latent_dim);
  arena.plan(dnormed, m.latent_norm ? tokens : 0, m.latent_dim);
  arena.plan(norm_partial, rms_norm_partials(m.latent_norm ? tokens : 0), m.latent_dim);
  shared.plan(arena, tokens, m.n_shared * m.moe_inter);
  arena.plan(dshared_y, m.shared_expert_gate ? tokens : 0, m.dim);
  arena.plan(dgate, m.shared_expert_gate ? tokens : 0, 1);
}

template <class T>
MoeLayer<T>::MoeLayer(const RunConfig& config, const BatchPart& part)
    : config_(config),
      part_(part),
      experts_(config.model.n_experts, part.ranks ? part.ranks->rank() * (config.model.n_experts / part.rank_count) : 0,
               config.model.n_experts / part.rank_count, config.model.row_dim(), config.model.moe_inter) {}

template <class T>
void MoeLayer<T>::forward(const MoePass<T>& pass, ConstMatrix<T> h, ConstMatrix<T> residual,
                          std::span<const T> expert_bias, Matrix<T> y, const RoutingInputs& limits) {
  const auto& [w, a, ws, precision, clock] = pass;
  const ModelConfig& m = config_.model;
  clock.enter(Phase::router);
  router_forward<T>(config_.router, part_, {w.gate, h, expert_bias}, a.router, precision.linear_precision(Gemm::gate),
                    limits);
  clock.enter(Phase::dispatch);
  plan_dispatch(a.router.sent(), config_.router.top_k, m.n_experts, a.plan);
  const bool latent = m.latent_dim > 0;
  if (latent) linear_forward<T>(h, w.latent_down, a.latent_rows, false, unquantized(precision));
  send_tokens(pass, h);
  experts_forward(pass, h);
  combine_forward<T>(a.plan, latent ? Matrix<const T>() : residual, a.router.mix, a.y, latent ? a.mixed : y);
  if (latent) {
    parallel_copy(residual.data, residual.size(), y.data);
    latent_up(pass, y);
  }
  if (m.n_shared == 0) return;
  clock.enter(Phase::dense_ffn);
  shared_forward(pass, h, y);
}

// Adds the projection of the mixed rows to y.
template <class T>
void MoeLayer<T>::latent_up(const MoePass<T>& pass, Matrix<T> y) {
  const auto& [w, a, ws, precision, clock] = pass;
  const ModelConfig& m = config_.model;
  const LinearPrecision plain = unquantized(precision);
  if (m.latent_norm) rms_norm_forward<T>(a.mixed, w.latent_norm, m.norm_eps, a.normed, a.normed_inv);
  if (m.latent_norm && plain.bf16_output) round_all_to_bf16(a.normed);
  linear_forward<T>(m.latent_norm ? a.normed : a.mixed, w.latent_up, y, true, plain);
}

// Computes the gradients of the mixed rows and of the weights.
template <class T>
void MoeLayer<T>::latent_up_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> dy) {
  const auto& [w, a, ws, precision, clock] = pass;
  const bool norm = config_.model.latent_norm;
  linear_backward<T>(dy, norm ? a.normed : a.mixed, w.latent_up, g.latent_up, norm ? ws.dnormed : ws.dmixed, false,
                     unquantized(precision));
  if (norm)
    rms_norm_backward<T>(ws.dnormed, {a.mixed, w.latent_norm, a.normed_inv}, ws.dmixed, false,
                         {g.latent_norm, ws.norm_partial, precision.shard_rows});
}

template <class T>
void MoeLayer<T>::shared_forward(const MoePass<T>& pass, ConstMatrix<T> h, Matrix<T> y) {
  MoeActivations<T>& a = pass.a;
  const bool gated = config_.model.shared_expert_gate;
  const Matrix<T> shared = gated ? a.shared_y : y;
  if (gated) std::fill_n(shared.data, shared.size(), T{0});
  feed_forward_forward<T>(pass.w.shared, h, a.shared, shared, shared_precision(pass.precision));
  if (!gated) return;
  linear_forward<T>(h, pass.w.shared_gate, a.gate, false, unquantized(pass.precision));
  parallel_slices(h.rows, kGatedTokens, [&](Index first, Index last) {
    sigmoid_row(a.gate.row(first), last - first, a.gate.row(first));
    for (Index t = first; t < last; ++t) add_scaled(*a.gate.row(t), shared.row(t), y.cols, y.row(t));
  });
}

template <class T>
void MoeLayer<T>::shared_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy,
                                  Matrix<T> dh) {
  const MoeActivations<T>& a = pass.a;
  MoeWorkspace<T>& ws = pass.ws;
  if (config_.model.shared_expert_gate) {
    parallel_slices(h.rows, kGatedTokens, [&](Index first, Index last) {
      for (Index t = first; t < last; ++t) {
        const T gate = *a.gate.row(t);
        const T* in = dy.row(t);
        T* __restrict out = ws.dshared_y.row(t);
        for (Index i = 0; i < dy.cols; ++i) out[i] = gate * in[i];
        *ws.dgate.row(t) = dot(in, a.shared_y.row(t), dy.cols) * gate * (T{1} - gate);
      }
    });
    linear_backward<T>(ws.dgate, h, pass.w.shared_gate, g.shared_gate, dh, true, unquantized(pass.precision));
    dy = ws.dshared_y;
  }
  feed_forward_backward<T>(pass.w.shared, h, dy, a.shared, {g.shared, ws.shared, dh, true},
                           shared_precision(pass.precision));
}

template <class T>
Matrix<const T> MoeLayer<T>::tokens_to_send(ConstMatrix<T> h, const MoeActivations<T>& a) const {
  return config_.model.latent_dim > 0 ? a.latent_rows : h;
}

template <class T>
Matrix<const T> MoeLayer<T>::sent_tokens(ConstMatrix<T> h, const MoeActivations<T>& a) const {
  return config_.precision.payload == TokenPayload::fp32 ? tokens_to_send(h, a) : a.sent;
}

// Rounds each token once, not each of its copies. With several ranks, the workspace's dx holds the rows to send.
template <class T>
void MoeLayer<T>::send_tokens(const MoePass<T>& pass, ConstMatrix<T> h) {
  MoeActivations<T>& a = pass.a;
  const OperandFormat format = transfer_format(config_.precision.payload, kDispatch);
  const Operand<T> tokens{tokens_to_send(h, a), format, BlockAxis::row, {}, sums_of(pass.precision, kDispatch)};
  capture_rows<T>(pass.precision, kDispatch, format, tokens.matrix);
  if (!is_plain(format)) quantize_operand(tokens, a.sent, Threads::all);
  if (!part_.ranks) return;
  const Matrix<const T> sent = sent_tokens(h, a);
  a.exchange.plan(a.plan, a.router.sent(), *part_.ranks);
  if (part_.ranks->over_nodes()) return a.exchange.dispatch_merged(format, sent, a.x);
  dispatch_forward<T>(a.plan, sent, pass.ws.dx);
  a.exchange.to_experts(format, pass.ws.dx, a.x);
}

// In a single process, each task of the experts copies the rows that it multiplies.
template <class T>
SlotRows<T> MoeLayer<T>::arrived_rows(ConstMatrix<T> h, const MoeActivations<T>& a) const {
  if (part_.ranks) return [x = a.x](SlotRange range, Matrix<T>) { return x.row_block(range.first, range.count()); };
  return [sent = sent_tokens(h, a), &plan = a.plan](SlotRange range, Matrix<T> space) {
    dispatch_forward<T>(plan, range, sent, space);
    return space;
  };
}

template <class T>
void MoeLayer<T>::experts_forward(const MoePass<T>& pass, ConstMatrix<T> h) {
  const auto& [w, a, ws, precision, clock] = pass;
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  const Matrix<T> y = part_.ranks ? ws.rows_at_experts : a.y;
  clock.enter(Phase::experts);
  experts_.forward(precision, w.experts, plan, {arrived_rows(h, a), a.h13, a.a, y});
  clock.enter(Phase::combine);
  const TokenPayload payload = config_.precision.payload;
  send(payload, kCombine, arrived(plan, y), precision);
  if (part_.ranks) a.exchange.from_experts(transfer_format(payload, kCombine), y, a.y);
}

template <class T>
void MoeLayer<T>::backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy,
                           Matrix<T> dh) {
  const auto& [w, a, ws, precision, clock] = pass;
  const ModelConfig& m = config_.model;
  clock.enter(Phase::combine);
  const bool latent = m.latent_dim > 0;
  if (latent) latent_up_backward(pass, g, dy);
  experts_backward(pass, g, h, latent ? Matrix<const T>(ws.dmixed) : dy);
  dispatch_backward<T>(a.plan, ws.dx, latent ? ws.drows : dh);
  if (latent) linear_backward<T>(ws.drows, h, w.latent_down, g.latent_down, dh, false, unquantized(precision));
  if (m.n_shared > 0) {
    clock.enter(Phase::dense_ffn);
    shared_backward(pass, g, h, dy, dh);
  }
  clock.enter(Phase::router);
  router_backward<T>(config_.router, {w.gate, h}, a.router, {ws.dmix, ws.dlogits, g.gate, dh, true},
                     precision.linear_precision(Gemm::gate));
}

// In a single process, each task of the experts computes the rows that it multiplies, unless all rows must be rounded
// or captured first.
template <class T>
SlotRows<T> MoeLayer<T>::gradient_rows(const MoePass<T>& pass, ConstMatrix<T> dy) {
  MoeActivations<T>& a = pass.a;
  MoeWorkspace<T>& ws = pass.ws;
  const TokenPayload payload = config_.precision.payload;
  std::fill_n(ws.dmix.data, ws.dmix.size(), T{0});  // the gradients of dropped copies are 0
  if (!part_.ranks && payload == TokenPayload::fp32 && !captures(pass.precision, kCombineGradient))
    return [dy, &a, &ws](SlotRange range, Matrix<T> space) {
      combine_backward<T>(a.plan, range, dy, a.router.mix, a.y, space, ws.dmix);
      return space;
    };
  combine_backward<T>(a.plan, dy, a.router.mix, a.y, ws.dy, ws.dmix);
  send(payload, kCombineGradient, arrived(a.plan, ws.dy), pass.precision);
  const Matrix<T> rows = part_.ranks ? ws.rows_at_experts : ws.dy;
  if (part_.ranks) a.exchange.to_experts(transfer_format(payload, kCombineGradient), ws.dy, rows);
  return [rows](SlotRange range, Matrix<T>) { return rows.row_block(range.first, range.count()); };
}

template <class T>
void MoeLayer<T>::experts_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy) {
  const auto& [w, a, ws, precision, clock] = pass;
  const TokenPayload payload = config_.precision.payload;
  const DispatchPlan& plan = part_.ranks ? a.exchange.at_experts() : a.plan;
  const Matrix<T> dx = part_.ranks ? ws.drows_at_experts : ws.dx;
  const SlotRows<T> dy_rows = gradient_rows(pass, dy);
  clock.enter(Phase::experts);
  experts_.backward(precision, w.experts, plan, {g.experts, arrived_rows(h, a), dy_rows, a.h13, a.a, dx});
  clock.enter(Phase::dispatch);
  send(payload, kDispatchGradient, arrived(plan, dx), precision);
  if (part_.ranks) a.exchange.from_experts(transfer_format(payload, kDispatchGradient), dx, ws.dx);
}

template struct MoeActivations<float>;
template struct MoeActivations<double>;
template struct MoeWorkspace<float>;
template struct MoeWorkspace<double>;
template class MoeLayer<float>;
template class MoeLayer<double>;

}  // namespace moescope
