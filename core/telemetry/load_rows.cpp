#include "core/telemetry/load_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/telemetry/thinning.h"

namespace moescope {

namespace {

constexpr double kStepsPerOctave = 2048;

// acc[e] = whichever of acc[e] and row[e] is farther from 0; kAbsent is nearest of all. Plain 16-bit arithmetic, in
// which -kAbsent wraps to itself, so that the loop runs eight experts at a time.
void merge_farthest(std::int16_t* acc, const std::int16_t* row, std::size_t size) {
  for (std::size_t e = 0; e < size; ++e) {
    const std::int16_t a = acc[e];
    const std::int16_t b = row[e];
    const auto minus_a = static_cast<std::int16_t>(-a);
    const auto minus_b = static_cast<std::int16_t>(-b);
    const std::int16_t far_a = a > minus_a ? a : minus_a;
    const std::int16_t far_b = b > minus_b ? b : minus_b;
    acc[e] = far_b > far_a ? b : a;
  }
}

std::vector<float> make_decode_table() {
  std::vector<float> table(65536);
  for (int code = -32768; code < 32768; ++code) {
    table[code + 32768] = static_cast<float>(std::exp2(code / kStepsPerOctave));
  }
  table[LoadRows::kAbsent + 32768] = std::numeric_limits<float>::quiet_NaN();
  table[LoadRows::kDead + 32768] = 0;
  return table;
}

}  // namespace

std::int16_t LoadRows::encode(double utilisation) {
  if (!(utilisation >= 0)) return kAbsent;
  if (utilisation == 0) return kDead;
  return static_cast<std::int16_t>(std::clamp(std::round(kStepsPerOctave * std::log2(utilisation)), -32766.0, 32766.0));
}

float LoadRows::decode(std::int16_t code) {
  static const std::vector<float> kTable = make_decode_table();
  return kTable[code + 32768];
}

LoadRows::LoadRows(std::vector<int> moe_layers, int n_experts)
    : layers_(std::move(moe_layers)), n_experts_(n_experts) {}

std::size_t LoadRows::slot_of(int layer) {
  const auto found = std::find(layers_.begin(), layers_.end(), layer);
  if (found != layers_.end()) return found - layers_.begin();
  layers_.push_back(layer);
  return layers_.size() - 1;
}

LoadRows::Chunk& LoadRows::chunk_for_next_row() {
  const std::size_t row = rows_.size();
  if (chunks_.empty() || row - chunks_.back().first_row == kChunkRows ||
      chunks_.back().chunk->layers < layers_.size()) {
    auto chunk = std::make_shared<Chunk>();
    chunk->layers = layers_.size();
    chunk->n_experts = n_experts_;
    chunk->codes.assign(layers_.size() * kChunkRows * n_experts_, kAbsent);
    chunks_.push_back({row, std::move(chunk)});
  }
  return *chunks_.back().chunk;
}

void LoadRows::append(std::int64_t step, std::span<const RouterFrame> routers) {
  for (const RouterFrame& router : routers) {
    slot_of(router.layer);
    if (n_experts_ == 0) n_experts_ = static_cast<int>(router.tokens_per_expert.size());
  }
  Chunk& chunk = chunk_for_next_row();
  const std::size_t r = rows_.size() - chunks_.back().first_row;
  for (const RouterFrame& router : routers) {
    const auto& counts = router.tokens_per_expert;
    if (counts.size() != chunk.n_experts) continue;
    double sum = 0;
    for (const std::uint32_t n : counts) sum += n;
    if (sum == 0) continue;
    std::int16_t* codes = chunk.row(slot_of(router.layer), r);
    for (std::size_t e = 0; e < counts.size(); ++e) {
      codes[e] = encode(counts[e] * static_cast<double>(counts.size()) / sum);
    }
  }
  rows_.push_back({step, rows_.empty() ? 0 : rows_.back().ordinal + 1});
}

void LoadRows::truncate(std::int64_t step) {
  while (!rows_.empty() && rows_.back().step >= step) rows_.pop_back();
  while (!chunks_.empty() && chunks_.back().first_row >= rows_.size()) chunks_.pop_back();
  if (chunks_.empty()) return;
  // A view may still read the rows that will be written anew.
  auto copy = std::make_shared<Chunk>(*chunks_.back().chunk);
  for (std::size_t slot = 0; slot < copy->layers; ++slot) {
    std::int16_t* begin = copy->row(slot, rows_.size() - chunks_.back().first_row);
    std::fill(begin, copy->row(slot, kChunkRows), kAbsent);
  }
  chunks_.back().chunk = std::move(copy);
}

std::unique_ptr<LoadRows> LoadRows::thinned() const {
  std::size_t old_chunks = 0;
  while (old_chunks + 1 < chunks_.size() && chunks_[old_chunks + 1].first_row <= rows_.size() / 2) ++old_chunks;
  const std::size_t old_rows = old_chunks ? chunks_[old_chunks].first_row : 0;
  const int level = finest_level(std::span<const Row>(rows_).first(old_rows));
  if (level < 0) return nullptr;

  auto thin = std::make_unique<LoadRows>(layers_, n_experts_);
  for (std::size_t c = 0; c < old_chunks; ++c) {
    const ChunkRef& ref = chunks_[c];
    for (std::size_t row = ref.first_row; row < chunks_[c + 1].first_row; ++row) {
      const bool merge = is_dropped(rows_[row].ordinal, level) && !thin->rows_.empty();
      if (!merge) {
        thin->chunk_for_next_row();
        thin->rows_.push_back(rows_[row]);
      }
      ChunkRef& out = thin->chunks_.back();
      for (std::size_t slot = 0; slot < ref.chunk->layers; ++slot) {
        merge_farthest(out.chunk->row(slot, thin->rows_.size() - 1 - out.first_row),
                       ref.chunk->row(slot, row - ref.first_row), ref.chunk->n_experts);
      }
    }
  }
  const std::size_t removed = old_rows - thin->rows_.size();
  for (std::size_t c = old_chunks; c < chunks_.size(); ++c) {
    thin->chunks_.push_back({chunks_[c].first_row - removed, chunks_[c].chunk});
  }
  thin->rows_.insert(thin->rows_.end(), rows_.begin() + static_cast<std::ptrdiff_t>(old_rows), rows_.end());
  return thin;
}

std::size_t LoadRows::bytes() const {
  std::size_t bytes = rows_.capacity() * sizeof(Row);
  for (const ChunkRef& ref : chunks_) bytes += ref.chunk->codes.size() * sizeof(std::int16_t) + sizeof(Chunk);
  return bytes;
}

LoadRows::View LoadRows::view(int layer, std::span<const std::int64_t> edges) const {
  View view;
  view.n_experts = n_experts_;
  view.edges.reserve(edges.size());
  for (const std::int64_t edge : edges) {
    const auto row = std::lower_bound(rows_.begin(), rows_.end(), edge,
                                      [](const Row& r, std::int64_t step) { return r.step < step; });
    view.edges.push_back(row - rows_.begin());
  }
  const auto slot = std::find(layers_.begin(), layers_.end(), layer);
  if (slot == layers_.end()) {
    std::fill(view.edges.begin(), view.edges.end(), 0);
    return view;
  }
  view.slot = slot - layers_.begin();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const std::size_t end = c + 1 < chunks_.size() ? chunks_[c + 1].first_row : rows_.size();
    if (end > view.edges.front() && chunks_[c].first_row < view.edges.back()) view.chunks.push_back(chunks_[c]);
  }
  return view;
}

std::vector<float> LoadRows::View::draw() const {
  const std::size_t bins = edges.size() - 1;
  std::vector<float> image(bins * n_experts);
  std::vector<std::int16_t> farthest(n_experts);
  std::size_t c = 0;
  for (std::size_t b = 0; b < bins; ++b) {
    std::fill(farthest.begin(), farthest.end(), kAbsent);
    for (std::size_t row = edges[b]; row < edges[b + 1]; ++row) {
      while (c + 1 < chunks.size() && chunks[c + 1].first_row <= row) ++c;
      const Chunk& chunk = *chunks[c].chunk;
      if (slot < chunk.layers) {
        merge_farthest(farthest.data(), chunk.row(slot, row - chunks[c].first_row), chunk.n_experts);
      }
    }
    for (std::size_t e = 0; e < n_experts; ++e) image[b * n_experts + e] = decode(farthest[e]);
  }
  return image;
}

}  // namespace moescope
