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

}  // namespace

WholeRouter::WholeRouter(const RouterActivations<float>& own_routing, const BatchPart& part)
    : own_routing_(own_routing), part_(part) {
  if (!part.ranks) return;
  whole_ = own_routing;
  const auto rows = [&](const Matrix<float>& rank_rows, std::vector<float>& all_rows) {
    return Matrix<float>(gather(rank_rows.data, rank_rows.cols, all_rows), part.all_tokens, rank_rows.cols);
  };
  whole_.logits = rows(own_routing.logits, logits_);
  whole_.scores = rows(own_routing.scores, scores_);
  whole_.mix = rows(own_routing.mix, mix_);
  whole_.lse = gather(own_routing.lse, 1, lse_);
  whole_.margin = gather(own_routing.margin, 1, margin_);
  whole_.cutoff = gather(own_routing.cutoff, 1, cutoff_);
  if (!own_routing.levelled_scores.empty())
    gather(own_routing.levelled_scores.data(), own_routing.scores.cols, whole_.levelled_scores);
  gather(own_routing.ids, whole_.ids);
  if (!own_routing.not_dropped.empty()) gather(own_routing.not_dropped, whole_.not_dropped);
}

float* WholeRouter::gather(const float* own_values, std::size_t width, std::vector<float>& all) const {
  all.resize(part_.all_tokens * width);
  part_.ranks->gather_all(own_values, part_.tokens() * width * sizeof(float), all.data());
  return all.data();
}

void WholeRouter::gather(const std::vector<std::int32_t>& own_values, std::vector<std::int32_t>& all) const {
  all.resize(own_values.size() * part_.rank_count);
  part_.ranks->gather_all(own_values.data(), own_values.size() * sizeof(std::int32_t), all.data());
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
