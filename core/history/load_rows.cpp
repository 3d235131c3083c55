#include "core/history/load_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace moescope {

namespace {

constexpr std::size_t kChunkRows = 64;
constexpr std::size_t kAroundChunk = 96;  // bytes of its reference and of allocation overhead
constexpr float kGreatestCode = 65535;

// Writes the codes of one row and returns their unit: `exact`, or a larger one if the largest value does not fit. A
// value above zero never gets the code 0.
template <class Number>
float encode(std::span<const Number> values, float exact, std::uint16_t* codes) {
  const auto largest = static_cast<float>(std::ranges::max(values));
  const float unit = std::max({exact, largest / kGreatestCode, std::numeric_limits<float>::min()}), per_unit = 1 / unit;
  for (std::size_t e = 0; e < values.size(); ++e) {
    const float code = std::min(static_cast<float>(values[e]) * per_unit + 0.5f, kGreatestCode);
    codes[e] = std::max<std::uint16_t>(static_cast<std::uint16_t>(static_cast<int>(code)), values[e] > 0);
  }
  return unit;
}

float encode_counts(std::span<const std::uint32_t> counts, std::uint32_t bits, std::uint16_t* codes) {
  if (bits > std::numeric_limits<std::uint16_t>::max()) return encode(counts, 1.0f, codes);
  std::ranges::copy(counts, codes);  // copied unchanged, which is several times faster
  return 1;
}

float farther_from_one(float lower, float higher) {
  return lower * higher >= 1 ? higher : lower;
}

// Merges the rows of one or two neighbouring chunks in pairs; an odd last row is unchanged.
class MergeRows {
 public:
  MergeRows(const LoadRows::ChunkRef& first, const LoadRows::ChunkRef* second) : first_(first), second_(second) {}

  LoadRows::ChunkRef run() {
    const LoadRows::Chunk& like = *first_.chunk;
    const std::size_t rows = first_.rows + (second_ ? second_->rows : 0), merged = (rows + 1) / 2;
    auto chunk = std::make_shared<LoadRows::Chunk>(merged, like.n_experts, like.merges + 1);
    farthest_.resize(like.n_experts), means_.resize(like.n_experts);
    for (std::size_t r = 0; r < merged; ++r) merge(place(2 * r), place(std::min(2 * r + 1, rows - 1)), *chunk, r);
    return {std::move(chunk), merged};
  }

 private:
  struct Place {
    const LoadRows::Chunk& chunk;
    const LoadRows::Row& row;
    const std::uint16_t *codes, *means;
  };
  Place place(std::size_t r) const {
    const bool in_second = r >= first_.rows;
    const LoadRows::Chunk& chunk = in_second ? *second_->chunk : *first_.chunk;
    if (in_second) r -= first_.rows;
    return {chunk, chunk.rows[r], chunk.codes.get() + r * chunk.n_experts, chunk.mean_codes() + r * chunk.n_experts};
  }
  void merge(const Place& a, const Place& b, LoadRows::Chunk& to, std::size_t r) {
    const auto steps_a = static_cast<float>(a.row.steps), steps_b = static_cast<float>(b.row.steps);
    const float mean_a = a.row.mean_unit * steps_a / (steps_a + steps_b);
    const float mean_b = b.row.mean_unit * steps_b / (steps_a + steps_b);
    for (std::size_t e = 0; e < farthest_.size(); ++e) {
      const float of_a = static_cast<float>(a.codes[e]) * a.row.unit,
                  of_b = static_cast<float>(b.codes[e]) * b.row.unit;
      farthest_[e] = farther_from_one(std::min(of_a, of_b), std::max(of_a, of_b));
      means_[e] = mean_a * static_cast<float>(a.means[e]) + mean_b * static_cast<float>(b.means[e]);
    }
    const std::size_t at = r * to.n_experts;
    to.rows[r] = a.row;
    if (&a.row != &b.row) to.rows[r].steps += b.row.steps;
    // If both rows have the same unit, farthest values keep their codes, and the mean of two is a multiple of half a
    // unit.
    const float exact = a.row.unit == b.row.unit ? a.row.unit : 0;
    const bool halves = a.row.mean_unit == b.row.mean_unit && a.row.steps == b.row.steps;
    to.rows[r].unit = encode(std::span<const float>(farthest_), exact, to.codes.get() + at);
    to.rows[r].mean_unit =
        encode(std::span<const float>(means_), halves ? a.row.mean_unit / 2 : 0, to.means.get() + at);
  }

  const LoadRows::ChunkRef& first_;
  const LoadRows::ChunkRef* second_;
  std::vector<float> farthest_, means_;
};

bool reach(std::span<const std::int64_t> edges, const LoadRows::ChunkRef& ref) {
  return ref.last_step() >= edges.front() && ref.first_step() < edges.back();
}

// Calls visit(bin, chunk, index of the row in the chunk) for every row between the edges, in order.
template <class Visit>
void each_row(std::span<const LoadRows::ChunkRef> chunks, std::span<const std::int64_t> edges, Visit visit) {
  std::size_t bin = 0;
  for (const LoadRows::ChunkRef& ref : chunks) {
    if (!reach(edges, ref)) continue;
    for (std::size_t r = 0; r < ref.rows; ++r) {
      const std::int64_t step = ref.chunk->rows[r].step;
      if (step < edges.front()) continue;
      if (step >= edges.back()) return;
      while (step >= edges[bin + 1]) ++bin;
      visit(bin, *ref.chunk, r);
    }
  }
}

}  // namespace

LoadRows::Chunk::Chunk(std::size_t capacity, std::size_t n_experts, int merges)
    : capacity(capacity),
      n_experts(n_experts),
      merges(merges),
      rows(std::make_unique_for_overwrite<Row[]>(capacity)),
      codes(std::make_unique_for_overwrite<std::uint16_t[]>(capacity * n_experts)),
      means(merges > 0 ? std::make_unique_for_overwrite<std::uint16_t[]>(capacity * n_experts) : nullptr) {}

std::shared_ptr<LoadRows::Chunk> LoadRows::Chunk::copy(std::size_t new_capacity, std::size_t n) const {
  auto made = std::make_shared<Chunk>(new_capacity, n_experts, merges);
  std::copy_n(rows.get(), n, made->rows.get());
  std::copy_n(codes.get(), n * n_experts, made->codes.get());
  if (means) std::copy_n(means.get(), n * n_experts, made->means.get());
  return made;
}

std::size_t LoadRows::Chunk::bytes() const {
  return sizeof(Chunk) + kAroundChunk + capacity * (sizeof(Row) + n_experts * (means ? 2 : 1) * sizeof(std::uint16_t));
}

void LoadRows::count_bytes(Layer& layer) {
  bytes_ -= layer.bytes;
  layer.bytes = 0;
  for (const ChunkRef& ref : layer.chunks) layer.bytes += ref.chunk->bytes();
  bytes_ += layer.bytes;
}

// The first chunk of a layer starts small and grows, because a log may have many layers with few rows each.
LoadRows::ChunkRef& LoadRows::chunk_for_next_row(Layer& layer) {
  const std::size_t before = layer.chunks.empty() ? 0 : layer.chunks.back().chunk->bytes();
  const bool fresh = layer.chunks.empty() || layer.chunks.back().rows == kChunkRows || layer.chunks.back().chunk->means;
  if (fresh) {
    const std::size_t capacity = layer.chunks.empty() ? 1 : kChunkRows;
    layer.chunks.push_back({std::make_shared<Chunk>(capacity, static_cast<std::size_t>(n_experts_), 0), 0});
  }
  ChunkRef& last = layer.chunks.back();
  if (last.rows == last.chunk->capacity) last.chunk = last.chunk->copy(std::min(2 * last.rows, kChunkRows), last.rows);
  const std::size_t more = last.chunk->bytes() - (fresh ? 0 : before);
  layer.bytes += more, bytes_ += more;
  return last;
}

void LoadRows::append(std::int64_t step, std::span<const RouterFrame> routers) {
  for (const RouterFrame& router : routers) {
    const std::span<const std::uint32_t> counts = router.tokens_per_expert;
    if (n_experts_ == 0) n_experts_ = static_cast<int>(counts.size());
    std::uint32_t bits = 0;
    for (const std::uint32_t n : counts) bits |= n;
    if (bits == 0 || counts.size() != static_cast<std::size_t>(n_experts_)) continue;
    const auto sum = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
    ChunkRef& ref = chunk_for_next_row(layers_[router.layer]);
    const float per_count = encode_counts(counts, bits, ref.chunk->codes.get() + ref.rows * counts.size());
    const float unit = per_count * static_cast<float>(static_cast<double>(counts.size()) / sum);
    ref.chunk->rows[ref.rows++] = {step, 1, unit, unit, static_cast<float>(sum)};
  }
}

// Copies the chunk, because a View may still read the rows that are removed.
void LoadRows::truncate(std::int64_t step) {
  for (auto& [number, layer] : layers_) {
    std::vector<ChunkRef>& chunks = layer.chunks;
    while (!chunks.empty() && chunks.back().first_step() >= step) chunks.pop_back();
    if (!chunks.empty() && chunks.back().last_step() >= step) {
      ChunkRef& last = chunks.back();
      while (last.last_step() >= step) --last.rows;
      last.chunk = last.chunk->copy(last.chunk->capacity, last.rows);
    }
    count_bytes(layer);
  }
}

// Merges the first of the least merged chunks, together with the next one if that has been merged as often. Merging a
// chunk for the first time saves no memory: a merged row has two values for each expert.
std::optional<LoadRows::Thinned> LoadRows::thinned() const {
  const auto largest = std::ranges::max_element(layers_, {}, [](const auto& layer) { return layer.second.bytes; });
  if (largest == layers_.end()) return std::nullopt;
  const std::span older = std::span(largest->second.chunks).first(largest->second.chunks.size() / 2);
  if (older.empty() || (older.size() == 1 && older.front().rows < 2)) return std::nullopt;
  const auto merges = [](const ChunkRef& ref) { return ref.chunk->merges; };
  const auto first = std::ranges::min_element(older, {}, merges);
  const bool two = first + 1 != older.end() && merges(first[0]) == merges(first[1]);
  return Thinned{largest->first, static_cast<std::size_t>(first - older.begin()), two ? std::size_t{2} : std::size_t{1},
                 MergeRows(*first, two ? &first[1] : nullptr).run()};
}

void LoadRows::replace(Thinned thinned) {
  Layer& layer = layers_.at(thinned.layer);
  const auto first = layer.chunks.begin() + static_cast<std::ptrdiff_t>(thinned.first);
  *first = std::move(thinned.chunk);
  layer.chunks.erase(first + 1, first + static_cast<std::ptrdiff_t>(thinned.count));
  count_bytes(layer);
}

LoadRows::View LoadRows::view(int layer, std::span<const std::int64_t> edges) const {
  View view{static_cast<std::size_t>(n_experts_), edges, {}};
  if (const auto found = layers_.find(layer); found != layers_.end())
    std::ranges::copy_if(found->second.chunks, std::back_inserter(view.chunks),
                         [&](const ChunkRef& ref) { return reach(edges, ref); });
  return view;
}

// Uses the first layer that has rows in the bin: all layers have the same assignments, except for dropped copies.
std::vector<float> LoadRows::assignments(std::span<const std::int64_t> edges) const {
  std::vector<float> of_bins(edges.size() - 1, kNoValue);
  std::vector<int> of_layer(of_bins.size(), -1);
  for (const auto& [number, layer] : layers_)
    each_row(layer.chunks, edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
      if (of_layer[bin] < 0) of_layer[bin] = number;
      if (of_layer[bin] == number) of_bins[bin] = chunk.rows[r].assignments;
    });
  return of_bins;
}

std::vector<float> LoadRows::View::draw_farthest() const {
  std::vector<float> lowest((edges.size() - 1) * n_experts, std::numeric_limits<float>::infinity());
  std::vector<float> image(lowest.size(), -1);
  each_row(chunks, edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
    const std::uint16_t* const codes = chunk.codes.get() + r * n_experts;
    const float unit = chunk.rows[r].unit;
    float* const lower = lowest.data() + bin * n_experts;
    float* const higher = image.data() + bin * n_experts;
    for (std::size_t e = 0; e < n_experts; ++e) {
      const float u = static_cast<float>(codes[e]) * unit;
      lower[e] = std::min(lower[e], u);
      higher[e] = std::max(higher[e], u);
    }
  });
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = image[i] < 0 ? std::numeric_limits<float>::quiet_NaN() : farther_from_one(lowest[i], image[i]);
  return image;
}

std::vector<float> LoadRows::View::draw_mean() const {
  std::vector<float> image((edges.size() - 1) * n_experts);
  std::vector<float> steps(edges.size() - 1);
  each_row(chunks, edges, [&](std::size_t bin, const Chunk& chunk, std::size_t r) {
    const std::uint16_t* const codes = chunk.mean_codes() + r * n_experts;
    const auto weight = static_cast<float>(chunk.rows[r].steps);
    const float weighted_unit = weight * chunk.rows[r].mean_unit;
    float* const sum = image.data() + bin * n_experts;
    for (std::size_t e = 0; e < n_experts; ++e) sum[e] += static_cast<float>(codes[e]) * weighted_unit;
    steps[bin] += weight;
  });
  for (std::size_t i = 0; i < image.size(); ++i) {
    const float of_bin = steps[i / n_experts];
    image[i] = of_bin > 0 ? image[i] / of_bin : std::numeric_limits<float>::quiet_NaN();
  }
  return image;
}

std::vector<PyramidBin> LoadRows::View::draw_expert(std::size_t expert) const {
  std::vector<PyramidBin> bins(edges.size() - 1);
  if (expert >= n_experts) return bins;
  each_row(chunks, edges, [&](std::size_t b, const Chunk& chunk, std::size_t r) {
    const Row& row = chunk.rows[r];
    const std::size_t at = r * n_experts + expert;
    const float mean = static_cast<float>(chunk.mean_codes()[at]) * row.mean_unit;
    const float farthest = static_cast<float>(chunk.codes[at]) * row.unit;
    if (bins[b].finite == 0) bins[b].min = bins[b].max = mean;
    bins[b].sum += static_cast<double>(row.steps) * static_cast<double>(mean);
    bins[b].finite += row.steps;
    bins[b].min = std::min(bins[b].min, farthest);
    bins[b].max = std::max(bins[b].max, farthest);
  });
  return bins;
}

}  // namespace moescope
