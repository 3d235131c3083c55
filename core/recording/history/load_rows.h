// Utilisation u = n_e E / sum n of every expert over time, for plots: 16-bit codes with one unit for each row. A row of
// one step holds the counts themselves if they fit, so that nothing is rounded.
//
// Each layer has its own rows, one for each step whose frame has the layer. A row that thinning merged from several
// steps holds two values for each expert: the value farthest from 1 (in log2), and the mean.
//
// Not thread-safe: History locks it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/index.h"
#include "core/recording/history/pyramid.h"

namespace moescope {

class LoadRows {
 public:
  explicit LoadRows(int n_experts) : n_experts_(n_experts) {}  // 0: taken from the first row
  // Steps must rise.
  void append(std::int64_t step, std::span<const RouterFrame> routers) {
    for (const RouterFrame& router : routers) {
      const std::span<const std::uint32_t> counts = router.tokens_per_expert;
      if (n_experts_ == 0) n_experts_ = to_int(counts.size());
      std::uint32_t bits = 0;
      for (const std::uint32_t n : counts) bits |= n;
      if (bits == 0 || counts.size() != static_cast<std::size_t>(n_experts_)) continue;
      const double sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
      Layer& layer = layers_[router.layer];
      Chunk& chunk = chunk_for_next_row(layer);
      const std::size_t before = chunk.rows.empty() ? 0 : chunk.bytes(), at = chunk.codes.size();
      chunk.codes.resize(at + counts.size());
      const float per_count = encode_counts(counts, bits, chunk.codes.data() + at);
      const float unit = per_count * static_cast<float>(counts.size() / sum);
      chunk.rows.push_back({step, 1, unit, unit, static_cast<float>(sum)});
      layer.bytes += chunk.bytes() - before;
      bytes_ += chunk.bytes() - before;
    }
  }

  // Forgets rows at and after `step`.
  void truncate(std::int64_t step) {
    for (auto& [number, layer] : layers_) {
      std::vector<Chunk>& chunks = layer.chunks;
      while (!chunks.empty() && chunks.back().rows.front().step >= step) chunks.pop_back();
      if (!chunks.empty()) {
        Chunk& last = chunks.back();
        while (last.rows.back().step >= step) last.rows.pop_back();
        last.codes.resize(last.rows.size() * n_experts_);
        if (!last.means.empty()) last.means.resize(last.codes.size());
      }
      count_bytes(layer);
    }
  }

  // Halves the number of rows in the least thinned part of the older half of the layer that takes the most memory;
  // false if no rows are left to merge.
  // Merges the first of the least merged chunks, together with the next one if that has been merged as often. Merging a
  // chunk for the first time saves no memory: a merged row has two values for each expert.
  bool thin() {
    const auto largest = std::ranges::max_element(layers_, {}, [](const auto& layer) { return layer.second.bytes; });
    if (largest == layers_.end()) return false;
    std::vector<Chunk>& chunks = largest->second.chunks;
    const auto end = chunks.begin() + chunks.size() / 2;
    const auto first = std::ranges::min_element(chunks.begin(), end, {}, &Chunk::merges);
    if (first == end || (end - chunks.begin() == 1 && first->rows.size() < 2)) return false;
    const bool two = first + 1 != end && first[0].merges == first[1].merges;
    *first = merged(std::span(first, two ? std::size_t{2} : std::size_t{1}), n_experts_);
    if (two) chunks.erase(first + 1);
    count_bytes(largest->second);
    return true;
  }

  std::size_t bytes() const { return bytes_; }
  int n_experts() const { return n_experts_; }

  // Implement History::utilisation, History::expert_utilisation and History::assignments. Bin b holds the steps
  // [edges[b], edges[b + 1]).
  std::vector<float> farthest(int layer, std::span<const std::int64_t> edges) const {
    const std::size_t experts = n_experts_;
    std::vector<float> lowest((edges.size() - 1) * experts, std::numeric_limits<float>::infinity());
    std::vector<float> image(lowest.size(), -1);
    visit_rows(chunks_of(layer), edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
      const std::uint16_t* const codes = chunk.codes.data() + r * experts;
      const float unit = chunk.rows[r].unit;
      float* const lower = lowest.data() + bin * experts;
      float* const higher = image.data() + bin * experts;
      for (std::size_t e = 0; e < experts; ++e) {
        const float u = codes[e] * unit;
        lower[e] = std::min(lower[e], u);
        higher[e] = std::max(higher[e], u);
      }
    });
    for (std::size_t i = 0; i < image.size(); ++i)
      image[i] = image[i] < 0 ? std::numeric_limits<float>::quiet_NaN() : farther_from_one(lowest[i], image[i]);
    return image;
  }

  std::vector<float> means(int layer, std::span<const std::int64_t> edges) const {
    const std::size_t experts = n_experts_;
    std::vector<float> image((edges.size() - 1) * experts);
    std::vector<float> steps(edges.size() - 1);
    visit_rows(chunks_of(layer), edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
      const std::uint16_t* const codes = chunk.mean_codes() + r * experts;
      const auto weight = static_cast<float>(chunk.rows[r].steps);
      const float weighted_unit = weight * chunk.rows[r].mean_unit;
      float* const sum = image.data() + bin * experts;
      for (std::size_t e = 0; e < experts; ++e) sum[e] += codes[e] * weighted_unit;
      steps[bin] += weight;
    });
    for (std::size_t i = 0; i < image.size(); ++i) {
      const float bin_steps = steps[i / experts];
      image[i] = bin_steps > 0 ? image[i] / bin_steps : std::numeric_limits<float>::quiet_NaN();
    }
    return image;
  }

  std::vector<PyramidBin> expert_series(int layer, std::size_t expert, std::span<const std::int64_t> edges) const {
    const std::size_t experts = n_experts_;
    std::vector<PyramidBin> bins(edges.size() - 1);
    if (expert >= experts) return bins;
    visit_rows(chunks_of(layer), edges, [&](std::size_t b, const Chunk& chunk, std::size_t r) {
      const Row& row = chunk.rows[r];
      const std::size_t at = r * experts + expert;
      const float mean = chunk.mean_codes()[at] * row.mean_unit;
      const float farthest = chunk.codes[at] * row.unit;
      if (bins[b].finite == 0) bins[b].min = bins[b].max = mean;
      bins[b].sum += row.steps * static_cast<double>(mean);
      bins[b].finite += row.steps;
      bins[b].min = std::min(bins[b].min, farthest);
      bins[b].max = std::max(bins[b].max, farthest);
    });
    return bins;
  }

  // Uses the first layer that has rows in the bin: all layers have the same assignments, except for dropped copies.
  std::vector<float> assignments(std::span<const std::int64_t> edges) const {
    std::vector<float> assignments_by_bin(edges.size() - 1, kNoValue);
    std::vector<int> layer_by_bin(assignments_by_bin.size(), -1);
    for (const auto& [number, layer] : layers_)
      visit_rows(layer.chunks, edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
        if (layer_by_bin[bin] < 0) layer_by_bin[bin] = number;
        if (layer_by_bin[bin] == number) assignments_by_bin[bin] = chunk.rows[r].assignments;
      });
    return assignments_by_bin;
  }

  struct Row {
    std::int64_t step;
    std::uint32_t steps;    // number of steps that were merged into this row
    float unit, mean_unit;  // u = code * unit
    float assignments;      // T K of the first of these steps
  };
  struct Chunk {
    std::vector<Row> rows;
    std::vector<std::uint16_t> codes;  // [rows, n_experts], farthest from 1
    std::vector<std::uint16_t> means;  // [rows, n_experts]; empty: each mean equals its code
    int merges = 0;                    // how often its rows were merged with their neighbours
    const std::uint16_t* mean_codes() const { return means.empty() ? codes.data() : means.data(); }
    std::size_t bytes() const {
      return sizeof(Chunk) + kAroundChunk + rows.capacity() * sizeof(Row) +
             (codes.capacity() + means.capacity()) * sizeof(std::uint16_t);
    }
  };

 private:
  static constexpr std::size_t kChunkRows = 64;
  static constexpr std::size_t kAroundChunk = 64;  // bytes of allocation overhead
  static constexpr float kGreatestCode = 65535;

  // Writes the codes of one row and returns their unit: `exact`, or a larger one if the largest value does not fit. A
  // value above zero never gets the code 0.
  template <class Number>
  static float encode(std::span<const Number> values, float exact, std::uint16_t* codes) {
    const auto largest = static_cast<float>(std::ranges::max(values));
    const float unit = std::max({exact, largest / kGreatestCode, std::numeric_limits<float>::min()}),
                per_unit = 1 / unit;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const float code = std::min(static_cast<float>(values[e]) * per_unit + 0.5f, kGreatestCode);
      codes[e] = std::max<std::uint16_t>(static_cast<std::uint16_t>(static_cast<int>(code)), values[e] > 0);
    }
    return unit;
  }

  static float encode_counts(std::span<const std::uint32_t> counts, std::uint32_t bits, std::uint16_t* codes) {
    if (bits > std::numeric_limits<std::uint16_t>::max()) return encode(counts, 1.0f, codes);
    std::ranges::copy(counts, codes);  // copied unchanged, which is several times faster
    return 1;
  }

  static float farther_from_one(float lower, float higher) { return lower * higher >= 1 ? higher : lower; }

  // A row of a chunk.
  struct LoadPlace {
    const Row& row;
    const std::uint16_t *codes, *means;
  };

  static void merge_rows(const LoadPlace& a, const LoadPlace& b, Chunk& to, std::size_t n_experts) {
    std::vector<float> farthest(n_experts), means(n_experts);
    const auto steps_a = static_cast<float>(a.row.steps), steps_b = static_cast<float>(b.row.steps);
    const float mean_a = a.row.mean_unit * steps_a / (steps_a + steps_b);
    const float mean_b = b.row.mean_unit * steps_b / (steps_a + steps_b);
    for (std::size_t e = 0; e < n_experts; ++e) {
      const float load_a = a.codes[e] * a.row.unit, load_b = b.codes[e] * b.row.unit;
      farthest[e] = farther_from_one(std::min(load_a, load_b), std::max(load_a, load_b));
      means[e] = mean_a * a.means[e] + mean_b * b.means[e];
    }
    const std::size_t at = to.rows.size() * n_experts;
    Row& row = to.rows.emplace_back(a.row);
    if (&a.row != &b.row) row.steps += b.row.steps;
    // If both rows have the same unit, farthest values keep their codes, and the mean of two is a multiple of half a
    // unit.
    const float exact = a.row.unit == b.row.unit ? a.row.unit : 0;
    const bool halves = a.row.mean_unit == b.row.mean_unit && a.row.steps == b.row.steps;
    row.unit = encode(std::span<const float>(farthest), exact, to.codes.data() + at);
    row.mean_unit = encode(std::span<const float>(means), halves ? a.row.mean_unit / 2 : 0, to.means.data() + at);
  }

  // Merges the rows of neighbouring chunks in pairs; an odd last row is unchanged.
  static Chunk merged(std::span<const Chunk> chunks, std::size_t n_experts) {
    std::vector<LoadPlace> places;
    for (const Chunk& chunk : chunks)
      for (std::size_t r = 0; r < chunk.rows.size(); ++r)
        places.push_back({chunk.rows[r], chunk.codes.data() + r * n_experts, chunk.mean_codes() + r * n_experts});
    const std::size_t rows = (places.size() + 1) / 2;
    Chunk to;
    to.merges = chunks.front().merges + 1;
    to.rows.reserve(rows);
    to.codes.resize(rows * n_experts);
    to.means.resize(rows * n_experts);
    for (std::size_t i = 0; i < places.size(); i += 2)
      merge_rows(places[i], places[std::min(i + 1, places.size() - 1)], to, n_experts);
    return to;
  }

  // Calls visit(bin, chunk, index of the row in the chunk) for every row between the edges, in order.
  template <class Visit>
  static void visit_rows(std::span<const Chunk> chunks, std::span<const std::int64_t> edges, Visit visit) {
    std::size_t bin = 0;
    for (const Chunk& chunk : chunks) {
      if (chunk.rows.back().step < edges.front()) continue;
      for (std::size_t r = 0; r < chunk.rows.size(); ++r) {
        const std::int64_t step = chunk.rows[r].step;
        if (step < edges.front()) continue;
        if (step >= edges.back()) return;
        while (step >= edges[bin + 1]) ++bin;
        visit(bin, chunk, r);
      }
    }
  }

  struct Layer {
    std::vector<Chunk> chunks;
    std::size_t bytes = 0;
  };

  // The first chunk of a layer starts small and grows, because a log may have many layers with few rows each.
  Chunk& chunk_for_next_row(Layer& layer) {
    std::vector<Chunk>& chunks = layer.chunks;
    if (!chunks.empty() && chunks.back().rows.size() < kChunkRows && chunks.back().merges == 0) return chunks.back();
    Chunk& fresh = chunks.emplace_back();
    if (chunks.size() > 1) {
      fresh.rows.reserve(kChunkRows);
      fresh.codes.reserve(kChunkRows * n_experts_);
    }
    return fresh;
  }

  void count_bytes(Layer& layer) {
    bytes_ -= layer.bytes;
    layer.bytes = 0;
    for (const Chunk& chunk : layer.chunks) layer.bytes += chunk.bytes();
    bytes_ += layer.bytes;
  }
  std::span<const Chunk> chunks_of(int layer) const {
    const auto found = layers_.find(layer);
    return found == layers_.end() ? std::span<const Chunk>() : found->second.chunks;
  }

  std::map<int, Layer> layers_;
  int n_experts_;
  std::size_t bytes_ = 0;
};

}  // namespace moescope
