#include "core/frame/volume_stats.h"

#include <algorithm>
#include <numeric>

namespace moescope {

namespace {

float per_token(const std::vector<std::uint32_t>& copies, std::int64_t tokens) {
  if (copies.empty() || tokens <= 0) return kNoValue;
  const std::uint64_t sum = std::accumulate(copies.begin(), copies.end(), std::uint64_t{0});
  return static_cast<float>(sum / static_cast<double>(tokens));
}

// Standard: every copy to another node crosses the network. DeepEP: only one copy per destination node does.
double copies_across_nodes(const VolumeFrame& volume, bool deduplicated) {
  double count = 0;
  const int ranks = volume.ranks, per_node = std::max(1, volume.ranks_per_node);
  const int nodes = (ranks + per_node - 1) / per_node;
  for (int s = 0; s < ranks; ++s) {
    if (deduplicated && !volume.nodes_RN.empty()) {
      for (int n = 0; n < nodes; ++n)
        if (n != s / per_node) count += volume.nodes_RN[s * nodes + n];
    } else {
      for (int d = 0; d < ranks; ++d)
        if (d / per_node != s / per_node) count += volume.copies_RR[s * ranks + d];
    }
  }
  return count;
}

}  // namespace

float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.distinct_RR, tokens);
}

float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.nodes_RN, tokens);
}

float rank_overload(const VolumeFrame& volume) {
  const std::size_t ranks = volume.ranks;
  std::vector<std::uint64_t> received(ranks);
  for (std::size_t i = 0; i < volume.copies_RR.size(); ++i) received[i % ranks] += volume.copies_RR[i];
  const std::uint64_t sum = std::accumulate(received.begin(), received.end(), std::uint64_t{0});
  if (sum == 0) return kNoValue;
  const double largest = *std::max_element(received.begin(), received.end());
  return static_cast<float>(largest * ranks / sum);
}

DispatchTotals dispatch_totals(const VolumeFrame& volume, bool deduplicated) {
  const auto& copies = deduplicated ? volume.distinct_RR : volume.copies_RR;
  const std::size_t ranks = volume.ranks;
  std::vector<double> received(ranks, 0);
  DispatchTotals totals;
  for (std::size_t s = 0; s < ranks; ++s)
    for (std::size_t d = 0; d < ranks; ++d) {
      received[d] += copies[s * ranks + d];
      if (s != d) totals.moved += copies[s * ranks + d];
    }
  totals.across_nodes = copies_across_nodes(volume, deduplicated);
  for (const double copies_to : received) {
    totals.fullest = std::max(totals.fullest, copies_to);
    totals.received += copies_to;
  }
  if (totals.received > 0) totals.max_over_mean = totals.fullest * ranks / totals.received;
  return totals;
}

double saved_by_deepep(const VolumeFrame& volume) {
  const double standard = copies_across_nodes(volume, false);
  return standard > 0 ? 1 - copies_across_nodes(volume, true) / standard : static_cast<double>(kNoValue);
}

}  // namespace moescope
