#include "core/telemetry/volume_stats.h"

#include <algorithm>
#include <numeric>

namespace moescope {

namespace {

float per_token(const std::vector<std::uint32_t>& copies, std::int64_t tokens) {
  if (copies.empty() || tokens <= 0) return kNoValue;
  const std::uint64_t sum = std::accumulate(copies.begin(), copies.end(), std::uint64_t{0});
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(tokens));
}

}  // namespace

float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.distinct_RR, tokens);
}

float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.nodes_RN, tokens);
}

float rank_overload(const VolumeFrame& volume) {
  const auto ranks = static_cast<std::size_t>(volume.ranks);
  std::vector<std::uint64_t> received(ranks);
  for (std::size_t i = 0; i < volume.copies_RR.size(); ++i) received[i % ranks] += volume.copies_RR[i];
  const std::uint64_t sum = std::accumulate(received.begin(), received.end(), std::uint64_t{0});
  if (sum == 0) return kNoValue;
  const double largest = static_cast<double>(*std::max_element(received.begin(), received.end()));
  return static_cast<float>(largest * static_cast<double>(ranks) / static_cast<double>(sum));
}

}  // namespace moescope
