#include "core/model/rank_gather.h"

#include <algorithm>
#include <type_traits>

namespace moescope {
namespace {

static_assert(std::is_trivially_copyable_v<QuantSums>);

// True if each rank has only a part of the operand: operands of experts and payload, and all operands with rows of
// tokens. The other weights are equal on all ranks.
bool is_split_over_ranks(std::size_t gemm, std::size_t operand) {
  const GemmClass of = gemm_class_of(static_cast<Gemm>(gemm));
  return of == GemmClass::experts || of == GemmClass::payload || kGemmOperands[operand].operand != OperandRole::w;
}

}  // namespace

WholeRouter::WholeRouter(const RouterActivations<float>& here, const BatchPart& part, int n_experts, int top_k)
    : here_(here), part_(part) {
  if (!part.ranks) return;
  whole_ = here;
  const auto experts = static_cast<std::size_t>(n_experts), k = static_cast<std::size_t>(top_k);
  gather(here.logits, experts, logits_, whole_.logits);
  gather(here.scores, experts, scores_, whole_.scores);
  gather(here.lse, 1, lse_, whole_.lse);
  gather(here.mix, k, mix_, whole_.mix);
  gather(here.margin, 1, margin_, whole_.margin);
  gather(here.cutoff, 1, cutoff_, whole_.cutoff);
  float* levelled_scores = nullptr;
  if (!here.levelled_scores.empty())
    gather(here.levelled_scores.data(), experts, whole_.levelled_scores, levelled_scores);
  gather(here.ids, whole_.ids);
  if (!here.not_dropped.empty()) gather(here.not_dropped, whole_.not_dropped);
}

void WholeRouter::gather(const float* here, std::size_t width, std::vector<float>& all, float*& view) const {
  all.resize(part_.all_tokens * width);
  part_.ranks->gather_all(here, part_.tokens() * width * sizeof(float), all.data());
  view = all.data();
}

void WholeRouter::gather(const std::vector<std::int32_t>& here, std::vector<std::int32_t>& all) const {
  all.resize(here.size() * static_cast<std::size_t>(part_.of));
  part_.ranks->gather_all(here.data(), here.size() * sizeof(std::int32_t), all.data());
}

std::vector<LayerSums> gather_quant_sums(const Transformer<float>& model) {
  std::vector<LayerSums> whole = model.quant_sums();
  Ranks* ranks = model.part().ranks;
  if (!ranks) return whole;
  std::vector<LayerSums> all(static_cast<std::size_t>(ranks->size()));
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
  const auto size = static_cast<std::size_t>(wire.ranks);
  wire.sent_RR.resize(size * size);
  ranks->gather_all(traffic.sent.data(), size * sizeof(std::uint64_t), wire.sent_RR.data());
  const auto ms = static_cast<float>(traffic.ms);
  wire.all_to_all_ms_R.resize(size);
  ranks->gather_all(&ms, sizeof ms, wire.all_to_all_ms_R.data());
  return wire;
}

}  // namespace moescope
