#include "core/telemetry/history/load_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/telemetry/history/thinning.h"

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
    if (!chunk.means.empty()) std::copy_n(codes, counts.size(), chunk.means.data() + (codes - chunk.codes.data()));
  }
  rows_.push_back({step, rows_.empty() ? 0 : rows_.back().ordinal + 1, 1});
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
    if (!copy->means.empty()) {
      std::copy(
          begin, copy->row(slot, kChunkRows),
          copy->means.begin() + static_cast<std::ptrdiff_t>(copy->at(slot, rows_.size() - chunks_.back().first_row)));
    }
  }
  chunks_.back().chunk = std::move(copy);
}

// Row r of `from`, itself `weight` steps, into the last row.
void LoadRows::merge_last(std::size_t slot, const Chunk& from, std::size_t r, std::uint32_t weight) {
  ChunkRef& out = chunks_.back();
  const std::size_t last = rows_.size() - 1 - out.first_row;
  merge_farthest(out.chunk->row(slot, last), from.row(slot, r), from.n_experts);
  const double before = rows_.back().merged;
  std::int16_t* mean = out.chunk->means.data() + out.chunk->at(slot, last);
  const std::int16_t* added = from.mean_row(slot, r);
  for (std::size_t e = 0; e < from.n_experts; ++e) {
    if (before == 0 || mean[e] == kAbsent) {
      mean[e] = added[e];
    } else if (added[e] != kAbsent && added[e] != mean[e]) {
      mean[e] = encode((before * decode(mean[e]) + weight * decode(added[e])) / (before + weight));
    }
  }
}

// Thins the older half, in whole chunks. The first thinning makes rows of two values and saves nothing; the next one
// does.
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
        Chunk& chunk = thin->chunk_for_next_row();
        if (chunk.means.empty()) chunk.means.assign(chunk.codes.size(), kAbsent);
        thin->rows_.push_back(rows_[row]);
        thin->rows_.back().merged = 0;
      }
      for (std::size_t slot = 0; slot < ref.chunk->layers; ++slot) {
        thin->merge_last(slot, *ref.chunk, row - ref.first_row, rows_[row].merged);
      }
      thin->rows_.back().merged += rows_[row].merged;
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
  for (const ChunkRef& ref : chunks_) {
    bytes += (ref.chunk->codes.size() + ref.chunk->means.size()) * sizeof(std::int16_t) + sizeof(Chunk);
  }
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
  for (std::size_t row = view.edges.front(); row < view.edges.back(); ++row) {
    view.weights.push_back(static_cast<float>(rows_[row].merged));
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

template <class Visit>
void LoadRows::View::each_row(Visit visit) const {
  std::size_t c = 0;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    for (std::size_t row = edges[b]; row < edges[b + 1]; ++row) {
      while (c + 1 < chunks.size() && chunks[c + 1].first_row <= row) ++c;
      const Chunk& chunk = *chunks[c].chunk;
      if (slot < chunk.layers && chunk.n_experts == n_experts) {
        visit(b, chunk, row - chunks[c].first_row, weights[row - edges.front()]);
      }
    }
  }
}

std::vector<float> LoadRows::View::draw_farthest() const {
  std::vector<std::int16_t> farthest((edges.size() - 1) * n_experts, kAbsent);
  each_row([&](std::size_t bin, const Chunk& chunk, std::size_t r, float) {
    merge_farthest(farthest.data() + bin * n_experts, chunk.row(slot, r), n_experts);
  });
  std::vector<float> image(farthest.size());
  std::ranges::transform(farthest, image.begin(), decode);
  return image;
}

std::vector<float> LoadRows::View::draw_mean() const {
  std::vector<float> image((edges.size() - 1) * n_experts);
  std::vector<float> steps(image.size());
  each_row([&](std::size_t bin, const Chunk& chunk, std::size_t r, float weight) {
    const std::int16_t* codes = chunk.mean_row(slot, r);
    float* sum = image.data() + bin * n_experts;
    float* count = steps.data() + bin * n_experts;
    for (std::size_t e = 0; e < n_experts; ++e) {
      if (codes[e] == kAbsent) continue;
      sum[e] += weight * decode(codes[e]);
      count[e] += weight;
    }
  });
  for (std::size_t i = 0; i < image.size(); ++i) {
    image[i] = steps[i] > 0 ? image[i] / steps[i] : std::numeric_limits<float>::quiet_NaN();
  }
  return image;
}

std::vector<PyramidBin> LoadRows::View::draw_expert(std::size_t expert) const {
  std::vector<PyramidBin> bins(edges.size() - 1);
  if (expert >= n_experts) return bins;
  each_row([&](std::size_t b, const Chunk& chunk, std::size_t r, float weight) {
    const std::int16_t mean = chunk.mean_row(slot, r)[expert];
    if (mean == kAbsent) return;
    const float u = decode(mean);
    const float farthest = decode(chunk.row(slot, r)[expert]);
    if (bins[b].finite == 0) bins[b].min = bins[b].max = u;
    bins[b].sum += static_cast<double>(weight) * u;
    bins[b].finite += static_cast<std::uint32_t>(weight);
    bins[b].min = std::min(bins[b].min, farthest);
    bins[b].max = std::max(bins[b].max, farthest);
  });
  return bins;
}

}  // namespace moescope
