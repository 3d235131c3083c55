#include "core/model/routing_flips.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/frame/thinning.h"
#include "core/model/transformer.h"

namespace moescope {
namespace {

// Returns the number of experts in both of two ascending lists of `n`.
std::size_t in_common(const std::uint16_t* a, const std::uint16_t* b, std::size_t n) {
  std::size_t common = 0;
  for (std::size_t i = 0, j = 0; i < n && j < n;) {
    common += a[i] == b[j];
    const bool advance_a = a[i] <= b[j], advance_b = b[j] <= a[i];
    i += advance_a;
    j += advance_b;
  }
  return common;
}

FlipFrame flips_of_layer(const KeptRouting& reference, const KeptRouting& other) {
  FlipFrame frame;
  frame.layer = reference.layer;
  const std::size_t top_k = reference.top_k;
  const std::size_t tokens = reference.margin_T.size();
  std::size_t flipped = 0, common = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto* ids = reference.ids_TK.data() + t * top_k;
    const auto* other_ids = other.ids_TK.data() + t * top_k;
    const bool flip = !std::equal(ids, ids + top_k, other_ids);
    flipped += flip;
    common += flip ? in_common(ids, other_ids, top_k) : top_k;
    if (std::isnan(reference.margin_T[t])) continue;
    const std::size_t bin = half_octave_bin(reference.margin_T[t]);
    ++frame.margin_tokens[bin];
    frame.margin_flipped[bin] += flip;
  }
  if (tokens == 0) return frame;
  frame.flip_rate = static_cast<float>(flipped / static_cast<double>(tokens));
  frame.overlap = static_cast<float>(common / static_cast<double>(tokens * top_k));
  return frame;
}

const KeptRouting* same_layer(const KeptRouting& a, const std::vector<KeptRouting>& other) {
  const auto found = std::ranges::find_if(other, [&](const KeptRouting& b) {
    return a.layer == b.layer && a.n_experts == b.n_experts && a.top_k == b.top_k && a.ids_TK.size() == b.ids_TK.size();
  });
  return found == other.end() ? nullptr : &*found;
}

std::size_t bytes_of(const std::vector<KeptRouting>& routing) {
  std::size_t bytes = 0;
  for (const KeptRouting& layer : routing)
    bytes += sizeof layer + layer.ids_TK.size() * sizeof(std::uint16_t) + layer.margin_T.size() * sizeof(float);
  return bytes;
}

}  // namespace

std::vector<LayerRouting> routing_of(const Transformer<float>& model) {
  std::vector<LayerRouting> layers;
  const ModelConfig& shape = model.config().model;
  const int top_k = model.top_k();
  for (const auto& moe : model.moe())
    layers.push_back(
        {shape.n_dense_layers + to_int(layers.size()), shape.n_experts, top_k, moe.router.ids, moe.router.margin});
  return layers;
}

std::vector<KeptRouting> keep_routing(const std::vector<LayerRouting>& routing) {
  std::vector<KeptRouting> kept_routing;
  for (const LayerRouting& layer : routing) {
    KeptRouting& to = kept_routing.emplace_back();
    to.layer = layer.layer;
    to.n_experts = layer.n_experts;
    to.top_k = layer.top_k;
    to.ids_TK.assign(layer.ids_TK.begin(), layer.ids_TK.end());
    to.margin_T.assign(layer.margin_T.begin(), layer.margin_T.end());
    // Experts are already in ascending order, unless balance is forced.
    for (auto token = to.ids_TK.begin(); token != to.ids_TK.end(); token += layer.top_k)
      if (!std::is_sorted(token, token + layer.top_k)) std::sort(token, token + layer.top_k);
  }
  return kept_routing;
}

std::vector<FlipFrame> routing_flips(const std::vector<KeptRouting>& reference, const std::vector<KeptRouting>& other) {
  std::vector<FlipFrame> flips;
  for (const KeptRouting& layer : reference) {
    if (const KeptRouting* other_layer = same_layer(layer, other)) flips.push_back(flips_of_layer(layer, *other_layer));
  }
  return flips;
}

float flipped_in_any_layer(const std::vector<KeptRouting>& reference, const std::vector<KeptRouting>& other) {
  std::vector<bool> flipped;
  for (const KeptRouting& layer : reference) {
    const KeptRouting* other_layer = same_layer(layer, other);
    if (!other_layer) continue;
    flipped.resize(layer.margin_T.size());
    const std::size_t top_k = layer.top_k;
    for (std::size_t t = 0; t < flipped.size(); ++t) {
      const auto* ids = layer.ids_TK.data() + t * top_k;
      if (!std::equal(ids, ids + top_k, other_layer->ids_TK.data() + t * top_k)) flipped[t] = true;
    }
  }
  if (flipped.empty()) return kNoValue;
  return static_cast<float>(std::ranges::count(flipped, true) / static_cast<double>(flipped.size()));
}

void RoutingArchive::put(std::int64_t step, std::vector<KeptRouting> routing) {
  while (!entries_.empty() && entries_.back().step >= step) {
    bytes_ -= bytes_of(entries_.back().routing);
    entries_.pop_back();
  }
  bytes_ += bytes_of(routing);
  entries_.push_back({step, next_ordinal_++, std::move(routing)});
  while (bytes_ > budget_ && entries_.size() > 2) thin();
}

void RoutingArchive::thin() {
  const std::size_t half_count = entries_.size() / 2;
  const int level = finest_level(std::span<const Entry>(entries_).first(half_count));
  auto end = entries_.begin() + half_count;
  // If only the very first entry is left in the older half, drops the oldest of the newer half.
  auto kept_end = level < 0 ? end : std::stable_partition(entries_.begin(), end, [level](const Entry& entry) {
    return !is_dropped(entry.ordinal, level);
  });
  if (kept_end == end) ++end;
  for (auto dropped = kept_end; dropped != end; ++dropped) bytes_ -= bytes_of(dropped->routing);
  entries_.erase(kept_end, end);
}

const std::vector<KeptRouting>* RoutingArchive::find(std::int64_t step) const {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), step,
                       [](const Entry& e, std::int64_t searched_step) { return e.step < searched_step; });
  return entry == entries_.end() || entry->step != step ? nullptr : &entry->routing;
}

}  // namespace moescope
