#include "core/frame/expert_map.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "core/files/text/no_value.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr int kSweeps = 30;                   // largest number of sweeps of Jacobi rotations; far fewer are needed
constexpr double kRelativeTolerance = 1e-12;  // share of the trace; smaller values are rounding errors
constexpr double kSameDistance = 1e-9;        // coordinates that differ by less count as equal

using Rows = std::vector<std::vector<double>>;

// Returns the centred rows of the experts that have tokens, and appends the ids of these experts to `experts`.
Rows centred_rows(std::span<const std::uint32_t> counts_FE, int n_experts, std::vector<std::size_t>& experts) {
  const std::size_t columns = n_experts;
  const std::size_t kinds = counts_FE.size() / columns;
  Rows rows;
  for (std::size_t e = 0; e < columns; ++e) {
    double total = 0;
    for (std::size_t f = 0; f < kinds; ++f) total += counts_FE[f * columns + e];
    if (total == 0) continue;
    experts.push_back(e);
    std::vector<double>& row = rows.emplace_back(kinds);
    for (std::size_t f = 0; f < kinds; ++f) row[f] = std::sqrt(counts_FE[f * columns + e] / total);
  }
  for (std::size_t f = 0; f < kinds && !rows.empty(); ++f) {
    double mean = 0;
    for (const auto& row : rows) mean += row[f] / rows.size();
    for (auto& row : rows) row[f] -= mean;
  }
  return rows;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Rotates rows and columns p and q of the symmetric matrix, and rows p and q of the vectors, so that (p, q) becomes 0.
void rotate(Rows& matrix, Rows& vectors, std::size_t p, std::size_t q) {
  const double theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q]);
  const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0), s = t * c;
  const auto turn = [c, s](double& a, double& b) {
    const double old = a;
    a = c * a - s * b;
    b = s * old + c * b;
  };
  for (std::size_t i = 0; i < matrix.size(); ++i) turn(matrix[i][p], matrix[i][q]);
  for (std::size_t i = 0; i < matrix.size(); ++i) turn(matrix[p][i], matrix[q][i]);
  for (std::size_t i = 0; i < matrix.size(); ++i) turn(vectors[p][i], vectors[q][i]);
}

// Diagonalises a symmetric matrix by cyclic Jacobi rotations; returns its eigenvectors as rows.
Rows diagonalise(Rows& matrix, double trace) {
  const std::size_t n = matrix.size();
  Rows vectors(n, std::vector<double>(n, 0));
  for (std::size_t i = 0; i < n; ++i) vectors[i][i] = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool done = true;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (std::fabs(matrix[p][q]) <= kRelativeTolerance * trace) continue;
        done = false;
        rotate(matrix, vectors, p, q);
      }
    if (done) break;
  }
  return vectors;
}

void fix_sign(std::vector<double>& coordinates) {
  std::size_t farthest = 0;
  for (std::size_t i = 1; i < coordinates.size(); ++i)
    if (std::fabs(coordinates[i]) > std::fabs(coordinates[farthest]) + kSameDistance) farthest = i;
  if (coordinates[farthest] < 0)
    for (double& coordinate : coordinates) coordinate = -coordinate;
}

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
    for (std::size_t i = 0; i < size_; ++i) members_[i] = {to_int(i)};
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
      if (!placed[i]) order.push_back(to_int(i));
    }
    return order;
  }

  std::size_t size_;
  std::vector<float> leaf_similarity_, similarity_;  // [E, E]
  std::vector<std::vector<int>> members_;            // experts of each cluster, in drawing order
  std::vector<bool> alive_;
};

}  // namespace

// The Gram matrix of the rows has the eigenvalues of their covariance, and its eigenvectors u give the coordinates
// sqrt(lambda) u.
ExpertMap expert_map(std::span<const std::uint32_t> counts_FE, int n_experts) {
  assert(n_experts > 0 && counts_FE.size() % static_cast<std::size_t>(n_experts) == 0);
  ExpertMap map;
  map.x_E.assign(n_experts, kNoValue);
  map.y_E = map.x_E;
  std::vector<std::size_t> experts;
  const Rows rows = centred_rows(counts_FE, n_experts, experts);
  const std::size_t n = rows.size();
  Rows gram(n, std::vector<double>(n));
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) gram[i][j] = gram[j][i] = dot(rows[i], rows[j]);
    trace += gram[i][i];
  }
  const Rows vectors = diagonalise(gram, trace);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return gram[a][a] > gram[b][b]; });
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    const double lambda = axis < n ? gram[order[axis]][order[axis]] : 0;
    const bool varies = lambda > kRelativeTolerance * n && lambda > 0;
    std::vector<double> coordinates(n, 0);
    if (varies) {
      for (std::size_t i = 0; i < n; ++i) coordinates[i] = std::sqrt(lambda) * vectors[order[axis]][i];
      fix_sign(coordinates);
    }
    for (std::size_t i = 0; i < n; ++i)
      (axis == 0 ? map.x_E : map.y_E)[experts[i]] = static_cast<float>(coordinates[i]);
    (axis == 0 ? map.x_share : map.y_share) = varies ? static_cast<float>(lambda / trace) : 0;
  }
  return map;
}

std::vector<int> coactivation_order(std::span<const std::uint32_t> together_EE, int n_experts) {
  const std::size_t experts = n_experts;
  assert(together_EE.size() == experts * experts);
  std::vector<double> scale(experts);
  std::vector<bool> alive(experts);
  for (std::size_t i = 0; i < experts; ++i) {
    const std::uint32_t tokens = together_EE[i * experts + i];
    alive[i] = tokens > 0;
    scale[i] = tokens > 0 ? 1 / std::sqrt(tokens) : 0;
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
