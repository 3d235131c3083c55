// Utilisation of every expert over time, kept for drawing: 16-bit log2 u, one row per kept step.
//
// A row that thinning merged from several steps holds two values for each expert: the one farthest from 1, and the
// mean.
//
// Not locked: History does that. A View is taken under the lock and drawn without it; its blocks are never written to
// below the row count that the view saw.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/pyramid.h"

namespace moescope {

class LoadRows {
 public:
  // Codes of u = n_e E / sum n: 2048 log2 u rounded, kDead for u = 0, kAbsent where there is nothing.
  static constexpr std::int16_t kAbsent = -32768, kDead = -32767;
  static std::int16_t encode(double utilisation);
  static float decode(std::int16_t code);

  LoadRows(std::vector<int> moe_layers, int n_experts);  // both may be empty or 0: taken from the first row
  // What append() keeps of the routers' counts, one after the other; any thread may compute it.
  static std::vector<std::int16_t> encode(std::span<const RouterFrame> routers);
  void append(std::int64_t step, std::span<const RouterFrame> routers, std::span<const std::int16_t> codes);
  void truncate(std::int64_t step);  // forgets rows at and after `step`
  // What to thin next: in the densest part of the older half pairs of rows are to be merged; nothing is left to merge.
  struct Thinning {
    int level;
    std::uint64_t next, end;  // ordinals of rows
  };
  std::optional<Thinning> thinning() const;
  // A copy in which that is done, or some megabytes of it, and `rest` is what is left, until next == end.
  std::unique_ptr<LoadRows> thinned(Thinning& rest) const;
  std::size_t bytes() const;
  std::size_t size() const { return rows_.size(); }
  int n_experts() const { return n_experts_; }

  static constexpr std::size_t kChunkRows = 64;
  // The rows of one layer in a chunk; those without the layer take no memory.
  struct Block {
    static constexpr std::uint8_t kNone = 255;
    Block(std::size_t n_experts, std::size_t capacity, bool merged);
    std::size_t n_experts, capacity, kept = 0;    // rows
    std::array<std::uint8_t, kChunkRows> places;  // of a row of the chunk among those kept; kNone: it lacks the layer
    std::unique_ptr<std::int16_t[]> codes;        // [capacity, n_experts]
    std::unique_ptr<std::int16_t[]> means;  // the same; nullptr where no row was merged: `codes` are the means, too
    bool has(std::size_t r) const { return places[r] != kNone; }
    std::int16_t* row(std::size_t r) { return codes.get() + places[r] * n_experts; }
    const std::int16_t* row(std::size_t r) const { return codes.get() + places[r] * n_experts; }
    const std::int16_t* mean_row(std::size_t r) const { return (means ? means : codes).get() + places[r] * n_experts; }
    std::size_t bytes() const;
    std::shared_ptr<Block> copy(std::size_t capacity, std::size_t rows) const;  // of the rows below `rows`
  };
  struct Chunk {
    explicit Chunk(bool merged) : merged(merged) {}
    bool merged;                                 // rows hold two values
    std::vector<std::shared_ptr<Block>> blocks;  // by slot; nullptr, or beyond the end: no row has the layer
    std::size_t bytes = 0;                       // as counted last
    const Block* block(std::size_t slot) const { return slot < blocks.size() ? blocks[slot].get() : nullptr; }
    // The block of a slot below blocks.size(), in which there is a row `r`; `likely_rows`: how many it may get.
    Block& with_row(std::size_t slot, std::size_t r, std::size_t n_experts, std::size_t likely_rows);
    void count_bytes();
  };
  struct ChunkRef {
    std::size_t first_row;
    std::shared_ptr<Chunk> chunk;
  };
  struct View {
    std::size_t n_experts = 0;
    struct BlockRef {
      std::size_t first_row;
      std::shared_ptr<const Block> block;  // nullptr: the layer is not in it
    };
    std::vector<BlockRef> chunks;    // those that the edges reach
    std::vector<std::size_t> edges;  // rows of bin b: [edges[b], edges[b + 1])
    std::vector<float> weights;      // steps that each row from edges.front() on was made of
    // History::utilisation and History::expert_utilisation.
    std::vector<float> draw_farthest() const;
    std::vector<float> draw_mean() const;
    std::vector<PyramidBin> draw_expert(std::size_t expert) const;

   private:
    // Calls visit(bin, block, row in it, weight) for every row that has the layer, in order.
    template <class Visit>
    void each_row(Visit visit) const;
  };
  // `edges`: bins + 1 rising steps; bin b holds the steps [edges[b], edges[b + 1]).
  View view(int layer, std::span<const std::int64_t> edges) const;
  // History::assignments.
  std::vector<float> assignments(std::span<const std::int64_t> edges) const;

 private:
  struct Row {
    std::int64_t step;
    std::uint64_t ordinal;  // its place among all rows ever appended
    std::uint32_t merged;   // rows that it was made of
    float assignments;      // of the first of these rows, in one layer
  };
  // Row `from_row` into row `to_row`: the first of `weight` steps, or one more beside those `before`.
  struct Merge {
    Chunk* to;
    std::size_t to_row;
    const Chunk* from;
    std::size_t from_row;
    std::uint32_t before, weight;
    void run(std::size_t slot) const;
  };
  // Into chunks of so many layers; `loads`: how many there are, about.
  static void merge(std::span<const Merge> merges, std::size_t layers, std::size_t loads);
  std::size_t slot_of(int layer);          // adds the layer if it is new
  Chunk& chunk_for_next_row(bool merged);  // with a place for each layer
  bool is_full() const;                    // the next row needs a new chunk
  bool stays(std::size_t c, int level) const;
  // Rows of another one, behind those that are there.
  void share(const LoadRows& from, std::size_t c);
  Merge take(const LoadRows& from, std::size_t c, std::size_t row, bool merge);

  std::vector<int> layers_;
  int n_experts_;
  std::vector<Row> rows_;
  std::vector<ChunkRef> chunks_;
};

}  // namespace moescope
