#include "core/model/rank_gather.h"

#include <algorithm>
#include <type_traits>

namespace moescope {
namespace {

static_assert(std::is_trivially_copyable_v<QuantSums>);

// Replaces each of `sums` by its total over ranks where `is_shared` says so.
template <class IsShared>
void add_over_ranks(Ranks& ranks, QuantSums* sums, std::size_t count, const IsShared& is_shared) {
  std::vector<QuantSums> all(count * static_cast<std::size_t>(ranks.size()));
  ranks.gather_all(sums, count * sizeof(QuantSums), all.data());
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = all[i];
    for (std::size_t r = 1; r < static_cast<std::size_t>(ranks.size()) && is_shared(i); ++r)
      sums[i].add(all[r * count + i]);
  }
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
  whole_.ids.resize(part.all_tokens * k);
  part.ranks->gather_all(here.ids.data(), here.ids.size() * sizeof(std::int32_t), whole_.ids.data());
}

void WholeRouter::gather(const float* here, std::size_t width, std::vector<float>& all, float*& view) const {
  all.resize(part_.all_tokens * width);
  part_.ranks->gather_all(here, part_.tokens() * width * sizeof(float), all.data());
  view = all.data();
}

WholeQuantSums::WholeQuantSums(const Transformer<float>& model)
    : experts(model.quant_sums()), linears(model.linear_sums()), transfers(model.transfer_sums()) {
  Ranks* ranks = model.part().ranks;
  if (!ranks) return;
  for (QuantSiteSums& layer : experts)
    add_over_ranks(*ranks, layer.data(), layer.size(), [](std::size_t) { return true; });
  for (TransferSums& layer : transfers)
    add_over_ranks(*ranks, layer.data(), layer.size(), [](std::size_t) { return true; });
  for (LayerSums& layer : linears)
    for (LinearSums& linear : layer)
      add_over_ranks(*ranks, linear.data(), linear.size(),
                     [](std::size_t i) { return kGemmOperands[i].operand != Operand::w; });
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
