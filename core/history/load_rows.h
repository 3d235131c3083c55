// Utilisation u = n_e E / sum n of every expert over time, for plots: 16-bit codes with one unit for each row. A row of
// one step holds the counts themselves if they fit, so that nothing is rounded.
//
// Each layer has its own rows, one for each step whose frame has the layer. A row that thinning merged from several
// steps holds two values for each expert: the value farthest from 1 (in log2), and the mean.
//
// Not thread-safe: History locks it. A View is taken under the lock and drawn without it; rows of a View never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/pyramid.h"

namespace moescope {

class LoadRows {
 public:
  explicit LoadRows(int n_experts) : n_experts_(n_experts) {}            // 0: taken from the first row
  void append(std::int64_t step, std::span<const RouterFrame> routers);  // steps must rise
  void truncate(std::int64_t step);                                      // forgets rows at and after `step`
  std::size_t bytes() const { return bytes_; }
  int n_experts() const { return n_experts_; }

  struct Row {
    std::int64_t step;
    std::uint32_t steps;    // number of steps that were merged into this row
    float unit, mean_unit;  // u = code * unit
    float assignments;      // T K of the first of these steps
  };
  struct Chunk {
    Chunk(std::size_t capacity, std::size_t n_experts, int merges);
    std::shared_ptr<Chunk> copy(std::size_t new_capacity, std::size_t n) const;  // copies the first n rows
    std::size_t bytes() const;
    const std::uint16_t* mean_codes() const { return means ? means.get() : codes.get(); }
    std::size_t capacity, n_experts;
    int merges;  // how often its rows were merged with their neighbours
    std::unique_ptr<Row[]> rows;
    std::unique_ptr<std::uint16_t[]> codes;  // [capacity, n_experts], farthest from 1
    std::unique_ptr<std::uint16_t[]> means;  // [capacity, n_experts]; nullptr: each mean equals its code
  };
  struct ChunkRef {
    std::shared_ptr<Chunk> chunk;
    std::size_t rows;  // number of rows that are filled
    std::int64_t first_step() const { return chunk->rows[0].step; }
    std::int64_t last_step() const { return chunk->rows[rows - 1].step; }
  };

  // Halves the number of rows in the least thinned part of the older half of the layer that takes the most memory;
  // nullopt if no rows are left to merge.
  struct Thinned {
    int layer;
    std::size_t first, count;  // chunks that `chunk` replaces
    ChunkRef chunk;
  };
  std::optional<Thinned> thinned() const;
  void replace(Thinned thinned);

  struct View {
    std::size_t n_experts;
    std::span<const std::int64_t> edges;  // bin b holds the steps [edges[b], edges[b + 1])
    std::vector<ChunkRef> chunks;         // chunks that overlap with the edges
    // Implement History::utilisation and History::expert_utilisation.
    std::vector<float> draw_farthest() const;
    std::vector<float> draw_mean() const;
    std::vector<PyramidBin> draw_expert(std::size_t expert) const;
  };
  View view(int layer, std::span<const std::int64_t> edges) const;  // `edges` must outlive the View
  // Implements History::assignments.
  std::vector<float> assignments(std::span<const std::int64_t> edges) const;

 private:
  struct Layer {
    std::vector<ChunkRef> chunks;
    std::size_t bytes = 0;
  };
  ChunkRef& chunk_for_next_row(Layer& layer);
  void count_bytes(Layer& layer);

  std::map<int, Layer> layers_;
  int n_experts_;
  std::size_t bytes_ = 0;
};

}  // namespace moescope
