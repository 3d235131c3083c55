#include "core/frame/coactivation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace moescope {

namespace {

// Clusters of experts, each named by one of its members, with the similarity of every pair of clusters.
class Linkage {
 public:
  // Experts that are not alive belong to no cluster.
  Linkage(std::vector<float> similarity_EE, std::vector<bool> alive)
      : size_(alive.size()),
        leaf_similarity_(std::move(similarity_EE)),
        similarity_(leaf_similarity_),
        members_(size_),
        alive_(std::move(alive)) {
    for (std::size_t i = 0; i < size_; ++i) members_[i] = {static_cast<int>(i)};
  }

  std::vector<int> order() {
    std::size_t clusters = std::ranges::count(alive_, true);
    std::vector<std::size_t> chain;
    while (clusters > 1) {
      if (chain.empty()) chain.push_back(first_alive());
      const std::size_t last = chain.back();
      const std::size_t before = chain.size() > 1 ? chain[chain.size() - 2] : size_;
      const std::size_t next = nearest(last, before);
      if (next != before) {
        chain.push_back(next);
        continue;
      }
      merge(std::min(last, before), std::max(last, before));
      chain.resize(chain.size() - 2);
      --clusters;
    }
    return leaves();
  }

 private:
  std::size_t first_alive() const { return std::ranges::find(alive_, true) - alive_.begin(); }

  // Returns the most similar living cluster. On a tie `preferred` wins, because the chain would not end otherwise, then
  // the lowest index.
  std::size_t nearest(std::size_t cluster, std::size_t preferred) const {
    const float* row = similarity_.data() + cluster * size_;
    std::size_t best = preferred;
    float best_similarity = preferred < size_ ? row[preferred] : std::numeric_limits<float>::lowest();
    for (std::size_t other = 0; other < size_; ++other) {
      if (row[other] > best_similarity && alive_[other] && other != cluster) {
        best = other;
        best_similarity = row[other];
      }
    }
    return best;
  }

  // Merges b into a; the similarity to any third cluster is the mean over the pairs of members (Lance and Williams).
  void merge(std::size_t a, std::size_t b) {
    const auto weight_a = static_cast<float>(members_[a].size());
    const auto weight_b = static_cast<float>(members_[b].size());
    for (std::size_t other = 0; other < size_; ++other) {
      if (!alive_[other] || other == a || other == b) continue;
      const float mean = (weight_a * similarity_[a * size_ + other] + weight_b * similarity_[b * size_ + other]) /
                         (weight_a + weight_b);
      similarity_[a * size_ + other] = similarity_[other * size_ + a] = mean;
    }
    alive_[b] = false;
    join(members_[a], members_[b]);
  }

  // Appends `second` to `first`, either of them reversed if that joins more similar ends.
  void join(std::vector<int>& first, std::vector<int>& second) const {
    const auto alike = [this](int i, int j) { return leaf_similarity_[i * size_ + j]; };
    const float ends[] = {alike(first.back(), second.front()), alike(first.back(), second.back()),
                          alike(first.front(), second.front()), alike(first.front(), second.back())};
    const auto best = std::ranges::max_element(ends) - ends;
    if (best >= 2) std::ranges::reverse(first);
    if (best % 2 == 1) std::ranges::reverse(second);
    first.insert(first.end(), second.begin(), second.end());
  }

  std::vector<int> leaves() const {
    const std::size_t root = first_alive();
    std::vector<int> order = root < size_ ? members_[root] : std::vector<int>{};
    std::vector<bool> placed(size_);
    for (const int expert : order) placed[expert] = true;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!placed[i]) order.push_back(i);
    }
    return order;
  }

  std::size_t size_;
  std::vector<float> leaf_similarity_, similarity_;  // [E, E]
  std::vector<std::vector<int>> members_;            // experts of each cluster, in drawing order
  std::vector<bool> alive_;
};

}  // namespace

std::vector<int> coactivation_order(std::span<const std::uint32_t> together_EE, int n_experts) {
  const std::size_t experts = n_experts;
  assert(together_EE.size() == experts * experts);
  std::vector<double> scale(experts);
  std::vector<bool> alive(experts);
  for (std::size_t i = 0; i < experts; ++i) {
    const std::uint32_t tokens = together_EE[i * experts + i];
    alive[i] = tokens > 0;
    scale[i] = tokens > 0 ? 1 / std::sqrt(static_cast<double>(tokens)) : 0;
  }
  std::vector<float> cosine(experts * experts);
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < experts; ++j)
      cosine[i * experts + j] = static_cast<float>(together_EE[i * experts + j] * scale[i] * scale[j]);
  return Linkage(std::move(cosine), std::move(alive)).order();
}

std::vector<int> similarity_order(std::vector<float> similarity_EE, int n_experts) {
  const std::size_t experts = n_experts;
  assert(similarity_EE.size() == experts * experts);
  for (float& similarity : similarity_EE)
    if (std::isnan(similarity)) similarity = -1;  // nearest() would not find a cluster by NaN
  return Linkage(std::move(similarity_EE), std::vector<bool>(experts, true)).order();
}

}  // namespace moescope
