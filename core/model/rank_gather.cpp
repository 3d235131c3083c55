#include "core/model/rank_gather.h"

#include <type_traits>

namespace moescope {
namespace {

static_assert(std::is_trivially_copyable_v<QuantSums>);

// True if each rank has only a part of the operand: operands of experts and payload, and all operands with rows of
// tokens. The other weights are equal on all ranks.
bool is_split_over_ranks(std::size_t gemm, std::size_t operand) {
  const GemmClass gemm_class = gemm_class_of(static_cast<Gemm>(gemm));
  return gemm_class == GemmClass::experts || gemm_class == GemmClass::payload ||
         kGemmOperands[operand].operand != OperandRole::w;
}

// Gathers the values of all ranks' tokens in `all`, and returns them.
template <class T>
std::span<T> gather(const BatchPart& part, std::type_identity_t<std::span<const T>> own_values, std::vector<T>& all) {
  all.resize(own_values.size() * part.rank_count);
  if (!all.empty()) part.ranks->gather_all(own_values.data(), own_values.size_bytes(), all.data());
  return all;
}

Matrix<float> gather_rows(const BatchPart& part, const Matrix<float>& own_rows, std::vector<float>& all) {
  gather(part, {own_rows.data, static_cast<std::size_t>(own_rows.size())}, all);
  return {all.data(), part.all_tokens, own_rows.cols};
}

}  // namespace

WholeRouter::WholeRouter(const RouterActivations<float>& own_routing, const BatchPart& part)
    : own_routing_(own_routing), part_(part) {
  if (!part.ranks) return;
  whole_ = own_routing;
  whole_.logits = gather_rows(part, own_routing.logits, logits_);
  whole_.scores = gather_rows(part, own_routing.scores, scores_);
  whole_.mix = gather_rows(part, own_routing.mix, mix_);
  whole_.lse = gather(part, own_routing.lse, lse_);
  whole_.margin = gather(part, own_routing.margin, margin_);
  whole_.cutoff = gather(part, own_routing.cutoff, cutoff_);
  gather(part, own_routing.levelled_scores, whole_.levelled_scores);
  gather(part, own_routing.ids, whole_.ids);
  gather(part, own_routing.not_dropped, whole_.not_dropped);
}

std::vector<LayerSums> gather_quant_sums(const Transformer<float>& model) {
  std::vector<LayerSums> whole = model.quant_sums();
  Ranks* ranks = model.part().ranks;
  if (!ranks) return whole;
  std::vector<LayerSums> all(ranks->size());
  for (LayerSums& layer : whole) {
    ranks->gather_all(&layer, sizeof layer, all.data());
    layer = all.front();
    for (std::size_t gemm = 0; gemm < layer.size(); ++gemm)
      for (std::size_t i = 0; i < layer[gemm].size(); ++i)
        for (std::size_t rank = 1; rank < all.size() && is_split_over_ranks(gemm, i); ++rank)
          layer[gemm][i].add(all[rank][gemm][i]);
  }
  return whole;
}

WireFrame gather_wire(Ranks* ranks) {
  WireFrame wire;
  if (!ranks) return wire;
  wire.ranks = ranks->size();
  wire.over_nodes = ranks->over_nodes();
  const Ranks::Traffic traffic = ranks->take_traffic();
  const std::size_t size = wire.ranks;
  wire.sent_RR.resize(size * size);
  ranks->gather_all(traffic.sent.data(), size * sizeof(std::uint64_t), wire.sent_RR.data());
  const auto ms = static_cast<float>(traffic.ms);
  wire.all_to_all_ms_R.resize(size);
  ranks->gather_all(&ms, sizeof ms, wire.all_to_all_ms_R.data());
  return wire;
}

}  // namespace moescope
