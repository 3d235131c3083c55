// The part of the batch that this process holds, and the order in which sums over tokens are added.
//
// A batch is cut into shards of neighbouring sequences. A sum over tokens is first taken inside each shard, in token
// order; then shards are added pairwise, (0 + 1) + (2 + 3). A single process holds all shards, and each of R ranks
// holds an equal number of neighbouring shards. Therefore every R that divides the number of shards adds the same
// numbers in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/ranks/ranks.h"
#include "core/numerics/matrix.h"

namespace moescope {

// Returns the number of shards of a batch: at most four, fewer if a shard would not consist of whole sequences with a
// multiple of 64 tokens in total (so that no tile of a GEMM and no block of a format spans two shards).
inline constexpr int kMaxShards = 4;
inline constexpr int kShardRows = 64;
inline int batch_shards(int sequences, int length) {
  int shards = kMaxShards;
  while (shards > 1 && (sequences % shards || sequences / shards * length % kShardRows)) shards /= 2;
  return shards;
}

// The part of a batch of `sequences` x `length` that one of the ranks holds. R must divide batch_shards().
struct BatchPart {
  BatchPart(int all_sequences, int length, Ranks* ranks_or_null = nullptr)
      : ranks(ranks_or_null),
        rank_count(ranks ? ranks->size() : 1),
        sequences(all_sequences / rank_count),
        first_sequence(ranks ? ranks->rank() * sequences : 0),
        length(length),
        shards(batch_shards(all_sequences, length) / rank_count),
        all_tokens(all_sequences * static_cast<std::size_t>(length)) {}

  Ranks* ranks;    // nullptr for a single process
  int rank_count;  // R
  int sequences, first_sequence, length;
  int shards;              // shards of this part
  std::size_t all_tokens;  // tokens of the whole batch

  std::size_t tokens() const { return sequences * static_cast<std::size_t>(length); }
  std::size_t first_token() const { return first_sequence * static_cast<std::size_t>(length); }
  int shard_rows() const { return sequences / shards * length; }
  int all_sequences() const { return sequences * rank_count; }
};

// Adds the rows of `parts` pairwise into the first. Their number must be a power of two.
template <class T>
void add_pairwise(const Matrix<T>& parts) {
  for (Index distance = 1; distance < parts.rows; distance *= 2)
    for (Index p = 0; p + distance < parts.rows; p += 2 * distance) {
      T* sum = parts.row(p);
      const T* other = parts.row(p + distance);
      for (Index i = 0; i < parts.cols; ++i) sum[i] += other[i];
    }
}

// Marks tokens or experts; empty: none.
using Mask = std::span<const std::uint8_t>;
inline bool is_set(Mask mask, std::size_t i) {
  return !mask.empty() && mask[i] != 0;
}

// Returns the sum of a figure over all tokens of the batch. `shard_sum(first, end)` returns the sum over the tokens
// [first, end) of one shard, added in token order.
template <class ShardSum>
double sum_over_batch(const BatchPart& part, const ShardSum& shard_sum) {
  std::vector<double> sums;
  const auto rows = static_cast<std::size_t>(part.shard_rows());
  for (int s = 0; s < part.shards; ++s) sums.push_back(shard_sum(s * rows, (s + 1) * rows));
  add_pairwise(Matrix<double>(sums.data(), sums.size(), 1));
  sum_over_ranks(part.ranks, std::span(sums).first(1));
  return sums[0];
}

}  // namespace moescope
