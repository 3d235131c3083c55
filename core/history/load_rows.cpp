#include "core/history/load_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "core/history/thinning.h"

namespace moescope {

namespace {

constexpr int kStepsPerOctave = 2048;
constexpr int kLeastCode = -32766, kGreatestCode = 32766;  // of loads that are not 0
constexpr std::size_t kAroundChunk = 96;                   // bytes, with what std::shared_ptr and the system need
constexpr std::size_t kAroundBlock = 64;                   // the same
// Bytes: memory that was just freed is handed out again in a fraction of the time that other memory takes.
constexpr std::size_t kThinnedAtOnce = std::size_t{16} << 20;
constexpr std::size_t kWorthAThread = std::size_t{1} << 20;  // loads to merge: takes milliseconds

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

// Of each 4096th of [1, 2), too short for more than one step between two codes: the code of its beginning, and the
// mantissa from which on it is the next one.
constexpr int kMantissaBits = 52, kSliceBits = 12;
constexpr std::uint64_t kMantissa = (std::uint64_t{1} << kMantissaBits) - 1;

std::vector<std::uint64_t> make_code_table() {
  std::vector<std::uint64_t> table(std::size_t{1} << kSliceBits);
  const auto slices = static_cast<double>(table.size());
  for (std::size_t k = 0; k < table.size(); ++k) {
    const double code = std::round(kStepsPerOctave * std::log2(1 + static_cast<double>(k) / slices));
    const double next = std::exp2((code + 0.5) / kStepsPerOctave);
    const bool reached = next < 1 + static_cast<double>(k + 1) / slices;
    table[k] = static_cast<std::uint64_t>(code) << kMantissaBits |
               (reached ? std::bit_cast<std::uint64_t>(next) & kMantissa : kMantissa);
  }
  return table;
}

std::vector<float> make_decode_table() {
  std::vector<float> table(65536);
  for (int code = -32768; code < 32768; ++code) {
    table[code + 32768] = static_cast<float>(std::exp2(static_cast<double>(code) / kStepsPerOctave));
  }
  table[LoadRows::kAbsent + 32768] = std::numeric_limits<float>::quiet_NaN();
  table[LoadRows::kDead + 32768] = 0;
  return table;
}

// How far the code of the mean of two utilisations lies below the higher one's code, by how far the codes are apart;
// kUnsure where the rounding of decode() decides between two codes.
constexpr std::int16_t kUnsure = -1;
constexpr std::uint16_t kFromDead = 65535;  // farther than any two codes are

std::vector<std::int16_t> make_mean_table() {
  std::vector<std::int16_t> table(std::size_t{1} << 16);
  for (std::size_t apart = 0; apart < table.size(); ++apart) {
    const double ratio = apart == kFromDead ? 0 : std::exp2(-static_cast<double>(apart) / kStepsPerOctave);
    const double below = kStepsPerOctave * (1 - std::log2(1 + ratio));
    const double rounded = std::round(below);
    const bool sure = std::abs(below - rounded) < 0.4995;  // decode() is off by less than 0.0002 of a code
    table[apart] = sure ? static_cast<std::int16_t>(rounded) : kUnsure;
  }
  return table;
}

// LoadRows::encode and decode, for loops: one object finds the tables once.
class Coder {
 public:
  std::int16_t encode(double u) const {
    const auto bits = std::bit_cast<std::uint64_t>(u);
    const std::uint64_t slice = codes_[bits >> (kMantissaBits - kSliceBits) & ((1 << kSliceBits) - 1)];
    const std::uint64_t mantissa = bits & kMantissa, next = slice & kMantissa;
    const int octave = static_cast<int>(bits >> kMantissaBits) - 1023;
    const int code = static_cast<int>(slice >> kMantissaBits) + octave * kStepsPerOctave + (mantissa >= next);
    const bool sure = mantissa - next + kDoubt > 2 * kDoubt;
    return sure && code > kLeastCode && code < kGreatestCode ? static_cast<std::int16_t>(code) : encode_slowly(u);
  }
  float decode(std::int16_t code) const { return decoded_[code + 32768]; }

 private:
  static constexpr std::uint64_t kDoubt = 1 << 20;  // so close to the middle between two codes std::log2 decides

  static std::int16_t encode_slowly(double u) {
    if (!(u >= 0)) return LoadRows::kAbsent;
    if (u == 0) return LoadRows::kDead;
    return static_cast<std::int16_t>(
        std::clamp<double>(std::round(kStepsPerOctave * std::log2(u)), kLeastCode, kGreatestCode));
  }
  static const std::uint64_t* codes() {
    static const std::vector<std::uint64_t> kTable = make_code_table();
    return kTable.data();
  }
  static const float* decoded() {
    static const std::vector<float> kTable = make_decode_table();
    return kTable.data();
  }
  const std::uint64_t* codes_ = codes();
  const float* decoded_ = decoded();
};

// The code of the mean of what stands for `before` steps and for `weight` more.
std::int16_t mean_of(const Coder& coder, std::int16_t mean, double before, std::int16_t added, double weight) {
  if (mean == LoadRows::kAbsent) return added;
  if (added == LoadRows::kAbsent || added == mean) return mean;
  return coder.encode((before * coder.decode(mean) + weight * coder.decode(added)) / (before + weight));
}

// The same for `size` experts, where both weights are equal.
void merge_equal_means(std::int16_t* mean, const std::int16_t* added, std::size_t size) {
  static const std::vector<std::int16_t> kBelow = make_mean_table();
  const std::int16_t* const below_at = kBelow.data();
  const Coder coder;
  constexpr std::size_t kBlock = 64;
  std::int16_t higher[kBlock];
  std::uint16_t apart[kBlock];
  for (std::size_t begin = 0; begin < size; begin += kBlock, mean += kBlock, added += kBlock) {
    const std::size_t experts = std::min(kBlock, size - begin);
    for (std::size_t e = 0; e < experts; ++e) {  // plain 16-bit arithmetic again: eight experts at a time
      const std::int16_t a = mean[e];
      const std::int16_t b = added[e];
      const std::int16_t lower = a < b ? a : b;
      higher[e] = a < b ? b : a;
      const auto between = static_cast<std::int16_t>(higher[e] - lower);
      const std::int16_t of_dead = higher[e] == LoadRows::kDead ? 0 : static_cast<std::int16_t>(kFromDead);
      const std::int16_t of_present = lower == LoadRows::kDead ? of_dead : between;
      apart[e] = static_cast<std::uint16_t>(lower == LoadRows::kAbsent ? std::int16_t{0} : of_present);
    }
    for (std::size_t e = 0; e < experts; ++e) {
      const int below = below_at[apart[e]], high = higher[e];
      mean[e] = below == kUnsure ? mean_of(coder, mean[e], 1, added[e], 1)
                                 : static_cast<std::int16_t>(std::max(high - below, std::min(high, kLeastCode)));
    }
  }
}

void merge_means(std::int16_t* mean, double before, const std::int16_t* added, double weight, std::size_t size) {
  if (before == weight) return merge_equal_means(mean, added, size);
  const Coder coder;
  for (std::size_t e = 0; e < size; ++e) mean[e] = mean_of(coder, mean[e], before, added[e], weight);
}

// By count, of rows with one sum and number of experts: they mostly are those of all rows.
class CountCodes {
 public:
  void encode_row(std::span<const std::uint32_t> counts, std::int16_t* codes) {
    const auto [sum, most] = sum_of(counts);
    if (sum == 0) return;
    const Rows rows{sum, counts.size()};
    const bool again = std::exchange(last_, rows) == rows;
    if (again && known_of_ != rows) {
      known_.assign(kKnown, LoadRows::kAbsent);
      known_of_ = rows;
    }
    const auto experts = static_cast<double>(counts.size()), all = static_cast<double>(sum);
    const auto encode = [&](std::uint32_t n) { return coder_.encode(n * experts / all); };
    if (known_of_ != rows || most >= kKnown) {
      std::ranges::transform(counts, codes, encode);
    } else if (!look_up(counts, codes)) {
      for (const std::uint32_t n : counts) known_[n] = encode(n);
      look_up(counts, codes);
    }
  }

 private:
  static constexpr std::uint32_t kKnown = 1 << 16;
  struct Rows {
    std::uint64_t sum = 0;
    std::size_t experts = 0;
    bool operator==(const Rows&) const = default;
  };
  struct Sum {
    std::uint64_t sum;
    std::uint32_t most;  // no count has a higher bit
  };
  static Sum sum_of(std::span<const std::uint32_t> counts) {
    std::uint32_t sum = 0, bits = 0;
    for (const std::uint32_t n : counts) sum += n, bits |= n;  // vectors of 32-bit numbers, where they are enough
    if (std::uint64_t{bits} * counts.size() <= std::numeric_limits<std::uint32_t>::max()) return {sum, bits};
    return {std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), bits};
  }

  // False: not all are known yet.
  bool look_up(std::span<const std::uint32_t> counts, std::int16_t* codes) const {
    const std::int16_t* const table = known_.data();
    int absent = 0;
    for (const std::uint32_t n : counts) {
      const std::int16_t code = table[n];
      absent |= code == LoadRows::kAbsent;
      *codes++ = code;
    }
    return absent == 0;
  }

  Coder coder_;
  Rows last_, known_of_;
  std::vector<std::int16_t> known_;  // [kKnown]; kAbsent: not yet
};

// Of the first layer that has some: all layers have as many, but for copies that were dropped.
float assignments_of(std::span<const RouterFrame> routers) {
  for (const RouterFrame& router : routers) {
    const auto& counts = router.tokens_per_expert;
    const auto sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (sum > 0) return static_cast<float>(sum);
  }
  return 0;
}

}  // namespace

std::int16_t LoadRows::encode(double utilisation) {
  return Coder().encode(utilisation);
}

float LoadRows::decode(std::int16_t code) {
  return Coder().decode(code);
}

std::vector<std::int16_t> LoadRows::encode(std::span<const RouterFrame> routers) {
  static thread_local CountCodes count_codes;
  std::size_t size = 0;
  for (const RouterFrame& router : routers) size += router.tokens_per_expert.size();
  std::vector<std::int16_t> codes(size, kAbsent);
  std::int16_t* row = codes.data();
  for (const RouterFrame& router : routers) {
    count_codes.encode_row(router.tokens_per_expert, row);
    row += router.tokens_per_expert.size();
  }
  return codes;
}

LoadRows::LoadRows(std::vector<int> moe_layers, int n_experts)
    : layers_(std::move(moe_layers)), n_experts_(n_experts) {}

std::size_t LoadRows::slot_of(int layer) {
  const auto found = std::find(layers_.begin(), layers_.end(), layer);
  if (found != layers_.end()) return found - layers_.begin();
  layers_.push_back(layer);
  return layers_.size() - 1;
}

LoadRows::Block::Block(std::size_t n_experts, std::size_t capacity, bool merged)
    : n_experts(n_experts),
      capacity(capacity),
      codes(std::make_unique_for_overwrite<std::int16_t[]>(capacity * n_experts)),
      means(merged ? std::make_unique_for_overwrite<std::int16_t[]>(capacity * n_experts) : nullptr) {
  places.fill(kNone);
}

std::size_t LoadRows::Block::bytes() const {
  return sizeof(Block) + kAroundBlock + capacity * n_experts * (means ? 2 : 1) * sizeof(std::int16_t);
}

std::shared_ptr<LoadRows::Block> LoadRows::Block::copy(std::size_t new_capacity, std::size_t rows) const {
  auto made = std::make_shared<Block>(n_experts, new_capacity, means != nullptr);
  for (std::size_t r = 0; r < rows; ++r) {
    if (!has(r)) continue;
    made->places[r] = static_cast<std::uint8_t>(made->kept++);
    std::copy_n(row(r), n_experts, made->row(r));
    if (means) std::copy_n(mean_row(r), n_experts, made->means.get() + made->places[r] * n_experts);
  }
  return made;
}

LoadRows::Block& LoadRows::Chunk::with_row(std::size_t slot, std::size_t r, std::size_t n_experts,
                                           std::size_t likely_rows) {
  std::shared_ptr<Block>& block = blocks[slot];
  if (!block) block = std::make_shared<Block>(n_experts, std::clamp<std::size_t>(likely_rows, 1, kChunkRows), merged);
  if (block->has(r)) return *block;
  // A view may read the rows that there are.
  if (block->kept == block->capacity) block = block->copy(std::min(kChunkRows, 2 * block->capacity), kChunkRows);
  block->places[r] = static_cast<std::uint8_t>(block->kept++);
  return *block;
}

void LoadRows::Chunk::count_bytes() {
  bytes = blocks.capacity() * sizeof(blocks[0]);
  for (const auto& block : blocks)
    if (block) bytes += block->bytes();
}

bool LoadRows::is_full() const {
  return chunks_.empty() || rows_.size() - chunks_.back().first_row == kChunkRows;
}

LoadRows::Chunk& LoadRows::chunk_for_next_row(bool merged) {
  if (is_full()) chunks_.push_back({rows_.size(), std::make_shared<Chunk>(merged)});
  Chunk& chunk = *chunks_.back().chunk;
  if (chunk.blocks.size() < layers_.size()) {
    const std::size_t before = chunk.blocks.capacity();
    chunk.blocks.resize(layers_.size());
    chunk.bytes += (chunk.blocks.capacity() - before) * sizeof(chunk.blocks[0]);
  }
  return chunk;
}

void LoadRows::append(std::int64_t step, std::span<const RouterFrame> routers, std::span<const std::int16_t> codes) {
  for (const RouterFrame& router : routers) {
    slot_of(router.layer);
    if (n_experts_ == 0) n_experts_ = static_cast<int>(router.tokens_per_expert.size());
  }
  Chunk& chunk = chunk_for_next_row(false);
  const Chunk* before = chunks_.size() > 1 ? chunks_[chunks_.size() - 2].chunk.get() : nullptr;
  const std::size_t r = rows_.size() - chunks_.back().first_row;
  for (const RouterFrame& router : routers) {
    const auto of_router = codes.first(router.tokens_per_expert.size());
    codes = codes.subspan(of_router.size());
    if (of_router.empty() || of_router.size() != static_cast<std::size_t>(n_experts_)) continue;
    const std::size_t slot = slot_of(router.layer);
    const Block* earlier = before ? before->block(slot) : nullptr;
    chunk.bytes -= chunk.blocks[slot] ? chunk.blocks[slot]->bytes() : 0;
    Block& block = chunk.with_row(slot, r, of_router.size(), earlier ? earlier->kept : 1);
    chunk.bytes += block.bytes();
    std::ranges::copy(of_router, block.row(r));
    if (block.means) std::ranges::copy(of_router, block.means.get() + block.places[r] * block.n_experts);
  }
  rows_.push_back({step, rows_.empty() ? 0 : rows_.back().ordinal + 1, 1, assignments_of(routers)});
}

void LoadRows::truncate(std::int64_t step) {
  while (!rows_.empty() && rows_.back().step >= step) rows_.pop_back();
  while (!chunks_.empty() && chunks_.back().first_row >= rows_.size()) chunks_.pop_back();
  if (chunks_.empty()) return;
  // A view may still read the rows that will be overwritten.
  const Chunk& seen = *chunks_.back().chunk;
  auto copy = std::make_shared<Chunk>(seen.merged);
  const std::size_t rows = rows_.size() - chunks_.back().first_row;
  for (const auto& block : seen.blocks) copy->blocks.push_back(block ? block->copy(block->capacity, rows) : nullptr);
  copy->count_bytes();
  chunks_.back().chunk = std::move(copy);
}

// What the layer has in one of the rows alone stays as it is.
void LoadRows::Merge::run(std::size_t slot) const {
  const Block* added = from->block(slot);
  if (!added || !added->has(from_row)) return;
  const Block* there = to->block(slot);
  const bool is_first = !there || !there->has(to_row);
  Block& block = to->with_row(slot, to_row, added->n_experts, added->kept);
  std::int16_t* mean = block.means.get() + block.places[to_row] * block.n_experts;
  if (is_first) {
    std::copy_n(added->row(from_row), block.n_experts, block.row(to_row));
    std::copy_n(added->mean_row(from_row), block.n_experts, mean);
    return;
  }
  merge_farthest(block.row(to_row), added->row(from_row), block.n_experts);
  merge_means(mean, before, added->mean_row(from_row), weight, block.n_experts);
}

// On two processors: who appends to the history waits for it.
void LoadRows::merge(std::span<const Merge> merges, std::size_t layers, std::size_t loads) {
  const auto of_layers = [merges](std::size_t first, std::size_t last) {
    for (std::size_t slot = first; slot < last; ++slot)
      for (const Merge& merge : merges) merge.run(slot);
  };
  if (loads < kWorthAThread) return of_layers(0, layers);
  const std::jthread other([&] { of_layers(0, layers / 2); });
  of_layers(layers / 2, layers);
}

// Whether thinning `level` leaves all rows of a chunk as they are; the row behind it is not merged into its last one.
bool LoadRows::stays(std::size_t c, int level) const {
  const Chunk& chunk = *chunks_[c].chunk;
  const auto row = rows_.begin() + static_cast<std::ptrdiff_t>(chunks_[c].first_row);
  const std::size_t rows = chunks_[c + 1].first_row - chunks_[c].first_row;
  return rows == kChunkRows && chunk.merged &&
         std::none_of(row, row + static_cast<std::ptrdiff_t>(rows + 1),
                      [level](const Row& r) { return is_dropped(r.ordinal, level); });
}

// Chunk c as it is.
void LoadRows::share(const LoadRows& from, std::size_t c) {
  chunks_.push_back({rows_.size(), from.chunks_[c].chunk});
  for (std::size_t row = from.chunks_[c].first_row; row < from.chunks_[c + 1].first_row; ++row)
    rows_.push_back(from.rows_[row]);
}

// Row `row`, of chunk c: as a row of its own, or merged into the last one.
LoadRows::Merge LoadRows::take(const LoadRows& from, std::size_t c, std::size_t row, bool merge) {
  const Row& taken = from.rows_[row];
  if (!merge) {
    chunk_for_next_row(true);
    rows_.push_back(taken);
    rows_.back().merged = 0;
  }
  const std::uint32_t before = std::exchange(rows_.back().merged, rows_.back().merged + taken.merged);
  return {chunks_.back().chunk.get(),
          rows_.size() - 1 - chunks_.back().first_row,
          from.chunks_[c].chunk.get(),
          row - from.chunks_[c].first_row,
          before,
          taken.merged};
}

// The older half, in whole chunks. The first thinning makes rows of two values and saves nothing; the next one does.
std::optional<LoadRows::Thinning> LoadRows::thinning() const {
  std::size_t old_chunks = 0;
  while (old_chunks + 1 < chunks_.size() && chunks_[old_chunks + 1].first_row <= rows_.size() / 2) ++old_chunks;
  const std::size_t old_rows = old_chunks ? chunks_[old_chunks].first_row : 0;
  const int level = finest_level(std::span<const Row>(rows_).first(old_rows));
  if (level < 0) return std::nullopt;
  return Thinning{level, rows_.front().ordinal, rows_[old_rows].ordinal};
}

// What is thinned already, what stays as it is and what comes later is shared with this one.
std::unique_ptr<LoadRows> LoadRows::thinned(Thinning& rest) const {
  auto thin = std::make_unique<LoadRows>(layers_, n_experts_);
  std::size_t c = 0, bytes = 0;
  const auto next = [&] { return rows_[chunks_[c].first_row].ordinal; };
  for (; next() < rest.next; ++c) thin->share(*this, c);
  std::vector<Merge> merges;
  for (; next() < rest.end; ++c) {
    if (bytes > kThinnedAtOnce && thin->is_full() && !is_dropped(next(), rest.level)) break;
    if (thin->is_full() && stays(c, rest.level)) {
      thin->share(*this, c);
      continue;
    }
    for (std::size_t row = chunks_[c].first_row; row < chunks_[c + 1].first_row; ++row)
      merges.push_back(thin->take(*this, c, row, is_dropped(rows_[row].ordinal, rest.level) && thin->size() > 0));
    bytes += chunks_[c].chunk->bytes;
  }
  merge(merges, layers_.size(), bytes / sizeof(std::int16_t));
  for (const Merge& each : merges)
    if (each.before == 0 && each.to_row == 0) each.to->count_bytes();
  rest.next = next();
  const std::size_t first_row = chunks_[c].first_row;
  for (; c < chunks_.size(); ++c)
    thin->chunks_.push_back({thin->size() + chunks_[c].first_row - first_row, chunks_[c].chunk});
  thin->rows_.insert(thin->rows_.end(), rows_.begin() + static_cast<std::ptrdiff_t>(first_row), rows_.end());
  return thin;
}

std::size_t LoadRows::bytes() const {
  std::size_t bytes = rows_.capacity() * sizeof(Row);
  for (const ChunkRef& ref : chunks_) bytes += ref.chunk->bytes + kAroundChunk;
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
  const auto at = static_cast<std::size_t>(slot - layers_.begin());
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const std::size_t end = c + 1 < chunks_.size() ? chunks_[c + 1].first_row : rows_.size();
    if (end <= view.edges.front() || chunks_[c].first_row >= view.edges.back()) continue;
    const auto& blocks = chunks_[c].chunk->blocks;
    view.chunks.push_back({chunks_[c].first_row, at < blocks.size() ? blocks[at] : nullptr});
  }
  return view;
}

std::vector<float> LoadRows::assignments(std::span<const std::int64_t> edges) const {
  std::vector<float> of_bins;
  auto row = std::ranges::lower_bound(rows_, edges.front(), {}, &Row::step);
  for (const std::int64_t end : edges.subspan(1)) {
    float newest = kNoValue;
    for (; row != rows_.end() && row->step < end; ++row) newest = row->assignments;
    of_bins.push_back(newest);
  }
  return of_bins;
}

template <class Visit>
void LoadRows::View::each_row(Visit visit) const {
  std::size_t c = 0;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    for (std::size_t row = edges[b]; row < edges[b + 1]; ++row) {
      while (c + 1 < chunks.size() && chunks[c + 1].first_row <= row) ++c;
      const Block* block = chunks[c].block.get();
      const std::size_t r = row - chunks[c].first_row;
      if (block && block->has(r)) visit(b, *block, r, weights[row - edges.front()]);
    }
  }
}

std::vector<float> LoadRows::View::draw_farthest() const {
  std::vector<std::int16_t> farthest((edges.size() - 1) * n_experts, kAbsent);
  each_row([&](std::size_t bin, const Block& block, std::size_t r, float) {
    merge_farthest(farthest.data() + bin * n_experts, block.row(r), n_experts);
  });
  std::vector<float> image(farthest.size());
  std::ranges::transform(farthest, image.begin(), decode);
  return image;
}

std::vector<float> LoadRows::View::draw_mean() const {
  std::vector<float> image((edges.size() - 1) * n_experts);
  std::vector<float> steps(image.size());
  each_row([&](std::size_t bin, const Block& block, std::size_t r, float weight) {
    const std::int16_t* codes = block.mean_row(r);
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
  each_row([&](std::size_t b, const Block& block, std::size_t r, float weight) {
    const std::int16_t mean = block.mean_row(r)[expert];
    if (mean == kAbsent) return;
    const float u = decode(mean);
    const float farthest = decode(block.row(r)[expert]);
    if (bins[b].finite == 0) bins[b].min = bins[b].max = u;
    bins[b].sum += static_cast<double>(weight) * u;
    bins[b].finite += static_cast<std::uint32_t>(weight);
    bins[b].min = std::min(bins[b].min, farthest);
    bins[b].max = std::max(bins[b].max, farthest);
  });
  return bins;
}

}  // namespace moescope
