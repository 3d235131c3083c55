// Utilisation u = n_e E / sum n of every expert over time, for plots: 16-bit codes with one unit for each row. A row of
// one step holds the counts themselves if they fit, so that nothing is rounded.
//
// Each layer has its own rows, one for each step whose frame has the layer. A row that thinning merged from several
// steps holds two values for each expert: the value farthest from 1 (in log2), and the mean.
//
// Not thread-safe: History locks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/recording/history/pyramid.h"

namespace moescope {

class LoadRows {
 public:
  explicit LoadRows(int n_experts) : n_experts_(n_experts) {}            // 0: taken from the first row
  void append(std::int64_t step, std::span<const RouterFrame> routers);  // steps must rise
  void truncate(std::int64_t step);                                      // forgets rows at and after `step`
  // Halves the number of rows in the least thinned part of the older half of the layer that takes the most memory;
  // false if no rows are left to merge.
  bool thin();
  std::size_t bytes() const { return bytes_; }
  int n_experts() const { return n_experts_; }

  // Implement History::utilisation, History::expert_utilisation and History::assignments. Bin b holds the steps
  // [edges[b], edges[b + 1]).
  std::vector<float> farthest(int layer, std::span<const std::int64_t> edges) const;
  std::vector<float> means(int layer, std::span<const std::int64_t> edges) const;
  std::vector<PyramidBin> of_expert(int layer, std::size_t expert, std::span<const std::int64_t> edges) const;
  std::vector<float> assignments(std::span<const std::int64_t> edges) const;

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
    std::size_t bytes() const;
  };

 private:
  struct Layer {
    std::vector<Chunk> chunks;
    std::size_t bytes = 0;
  };
  Chunk& chunk_for_next_row(Layer& layer);
  void count_bytes(Layer& layer);
  std::span<const Chunk> chunks_of(int layer) const;

  std::map<int, Layer> layers_;
  int n_experts_;
  std::size_t bytes_ = 0;
};

}  // namespace moescope
