#include "core/telemetry/history.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <mutex>

#include "core/telemetry/frame_fields.h"
#include "core/telemetry/frame_pack.h"
#include "core/telemetry/load_rows.h"
#include "core/telemetry/thinning.h"

namespace moescope {

namespace {

constexpr int kFirstRouterMetric = static_cast<int>(Metric::max_vio);
constexpr int kNumRouterMetrics = kNumMetrics - kFirstRouterMetric;
static_assert(kNumRouterMetrics == static_cast<int>(kRouterFields.size()));
static_assert(static_cast<int>(Metric::step_ms) == static_cast<int>(kFrameFields.size()));

using FramePtr = std::shared_ptr<const TelemetryFrame>;

bool has_arrays(const TelemetryFrame& frame) {
  return std::any_of(frame.routers.begin(), frame.routers.end(),
                     [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); });
}

// Whole frames, packed, by step.
class KeptFrames {
 public:
  struct Entry {
    std::int64_t step;
    std::uint64_t ordinal;
    std::shared_ptr<const PackedFrame> packed;
  };

  void append(std::int64_t step, PackedFrame packed) {
    const std::uint64_t ordinal = entries_.empty() ? 0 : entries_.back().ordinal + 1;
    entries_.push_back({step, ordinal, std::make_shared<const PackedFrame>(std::move(packed))});
    bytes_ += bytes_of(entries_.back());
  }

  void truncate(std::int64_t step) {
    while (!entries_.empty() && entries_.back().step >= step) {
      bytes_ -= bytes_of(entries_.back());
      entries_.pop_back();
    }
  }

  bool thin() {
    const std::size_t half = entries_.size() / 2;
    const int level = finest_level(std::span<const Entry>(entries_).first(half));
    if (level < 0) return false;
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(half);
    const auto kept = std::stable_partition(entries_.begin(), end,
                                            [level](const Entry& entry) { return !is_dropped(entry.ordinal, level); });
    for (auto dropped = kept; dropped != end; ++dropped) bytes_ -= bytes_of(*dropped);
    entries_.erase(kept, end);
    every_ = std::max(every_, 2 << level);
    return true;
  }

  // The newest entry at or before `step`, nullptr: none.
  const Entry* find(std::int64_t step) const {
    const auto after = std::upper_bound(entries_.begin(), entries_.end(), step,
                                        [](std::int64_t s, const Entry& entry) { return s < entry.step; });
    return after == entries_.begin() ? nullptr : &*std::prev(after);
  }

  std::size_t bytes() const { return bytes_; }
  int every() const { return every_; }

 private:
  static std::size_t bytes_of(const Entry& entry) {
    return sizeof(Entry) + sizeof(PackedFrame) + 2 * sizeof(void*) + entry.packed->capacity();
  }
  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
  int every_ = 1;
};

struct LayerColumns {
  int layer;
  std::array<Pyramid, kNumRouterMetrics> scalars;
};

std::int64_t slice_begin(StepRange range, int bins, int bin) {
  const std::int64_t size = range.size();  // in two parts, so that huge ranges do not overflow
  return range.first + size / bins * bin + size % bins * bin / bins;
}

std::vector<std::int64_t> slice_edges(StepRange range, int bins) {
  std::vector<std::int64_t> edges(static_cast<std::size_t>(bins) + 1);
  for (int b = 0; b <= bins; ++b) edges[b] = slice_begin(range, bins, b);
  return edges;
}

// Mean over the layers that have a value; NaN when one of them is not finite.
float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member) {
  double sum = 0;
  int present = 0;
  for (const RouterFrame& router : routers) {
    if (is_missing(router.*member)) continue;
    sum += router.*member;
    ++present;
  }
  return present ? static_cast<float>(sum / present) : kNoValue;
}

float step_ms(const TelemetryFrame& frame) {
  float sum = 0;
  for (const float ms : frame.phase_ms) sum += ms;
  return sum > 0 ? sum : kNoValue;
}

}  // namespace

struct History::State {
  mutable std::mutex mutex;
  std::atomic<std::uint64_t> sequence{0};
  std::size_t budget = 0;

  // All below under the mutex; the one writer may read its own writes without.
  std::vector<std::int64_t> steps;
  std::array<Pyramid, kNumMetrics> whole;
  std::vector<LayerColumns> layers;
  std::vector<Marker> markers;
  std::unique_ptr<LoadRows> load;
  KeptFrames routers, quants;
  // Frames as they are, for the cursor: the newest, and the one looked at last.
  FramePtr newest_arrays, newest_quants;
  mutable FramePtr looked_at;

  // First row whose step is at or after `step`.
  std::size_t row_of(std::int64_t step) const {
    if (steps.empty() || step <= steps.front()) return 0;
    if (step > steps.back()) return steps.size();
    if (steps.back() - steps.front() + 1 == static_cast<std::int64_t>(steps.size())) return step - steps.front();
    return std::lower_bound(steps.begin(), steps.end(), step) - steps.begin();
  }

  const Pyramid* column(Metric metric, int layer) const {
    const int index = static_cast<int>(metric);
    if (layer == kWholeRun) return &whole[index];
    if (index < kFirstRouterMetric) return nullptr;
    for (const LayerColumns& columns : layers) {
      if (columns.layer == layer) return &columns.scalars[index - kFirstRouterMetric];
    }
    return nullptr;
  }

  LayerColumns& columns_of(int layer) {
    for (LayerColumns& columns : layers) {
      if (columns.layer == layer) return columns;
    }
    layers.push_back({layer, {}});
    for (Pyramid& scalar : layers.back().scalars) {
      for (std::size_t i = 0; i < steps.size(); ++i) scalar.append(kNoValue);
    }
    return layers.back();
  }

  void truncate(std::int64_t step) {
    const std::size_t rows = row_of(step);
    steps.resize(rows);
    for (Pyramid& column : whole) column.truncate(rows);
    for (LayerColumns& columns : layers) {
      for (Pyramid& column : columns.scalars) column.truncate(rows);
    }
    load->truncate(step);
    routers.truncate(step);
    quants.truncate(step);
    newest_arrays = newest_quants = looked_at = nullptr;
    std::erase_if(markers, [step](const Marker& marker) { return marker.step > step; });
  }

  void append_scalars(const TelemetryFrame& frame) {
    for (const RouterFrame& router : frame.routers) columns_of(router.layer);
    for (std::size_t i = 0; i < kFrameFields.size(); ++i) whole[i].append(frame.*kFrameFields[i].member);
    whole[static_cast<int>(Metric::step_ms)].append(step_ms(frame));
    for (int i = 0; i < kNumRouterMetrics; ++i) {
      whole[kFirstRouterMetric + i].append(mean_over_layers(frame.routers, kRouterFields[i].member));
    }
    for (LayerColumns& columns : layers) {
      const auto router = std::find_if(frame.routers.begin(), frame.routers.end(),
                                       [&](const RouterFrame& r) { return r.layer == columns.layer; });
      for (int i = 0; i < kNumRouterMetrics; ++i) {
        columns.scalars[i].append(router == frame.routers.end() ? kNoValue : (*router).*kRouterFields[i].member);
      }
    }
    steps.push_back(frame.step);
  }

  std::size_t array_bytes() const { return load->bytes() + routers.bytes() + quants.bytes(); }
  bool thin_largest();
  FramePtr assemble(const KeptFrames::Entry* entry, std::unique_lock<std::mutex>& lock) const;
};

// The writer's: what it builds anew is built outside of the lock.
bool History::State::thin_largest() {
  const std::size_t load_bytes = load->bytes();
  if (load_bytes >= routers.bytes() && load_bytes >= quants.bytes()) {
    if (auto thin = load->thinned()) {
      const std::lock_guard lock(mutex);
      load.swap(thin);
      return true;
    }
  }
  const std::lock_guard lock(mutex);
  KeptFrames& larger = routers.bytes() >= quants.bytes() ? routers : quants;
  return larger.thin();
}

// Gives up the lock while it unpacks.
FramePtr History::State::assemble(const KeptFrames::Entry* entry, std::unique_lock<std::mutex>& lock) const {
  if (!entry) return nullptr;
  for (const FramePtr& frame : {newest_arrays, newest_quants, looked_at}) {
    if (frame && frame->step == entry->step) return frame;
  }
  const std::int64_t step = entry->step;
  const std::uint64_t seen = sequence;
  const KeptFrames::Entry* router_entry = routers.find(step);
  const KeptFrames::Entry* quant_entry = quants.find(step);
  const auto packed_routers = router_entry && router_entry->step == step ? router_entry->packed : nullptr;
  const auto packed_quants = quant_entry && quant_entry->step == step ? quant_entry->packed : nullptr;
  lock.unlock();
  auto frame = std::make_shared<TelemetryFrame>();
  if (packed_routers) unpack_routers(*packed_routers, *frame);
  if (packed_quants) unpack_quants(*packed_quants, *frame);
  lock.lock();
  if (sequence == seen) looked_at = frame;
  return frame;
}

History::History(RunInfo info, std::size_t array_budget_bytes)
    : info_(std::move(info)), state_(std::make_unique<State>()) {
  state_->budget = array_budget_bytes;
  state_->load = std::make_unique<LoadRows>(info_.moe_layers, info_.n_experts);
  for (const int layer : info_.moe_layers) state_->columns_of(layer);
}

History::~History() = default;

void History::append(std::shared_ptr<const TelemetryFrame> frame) {
  const bool arrays = has_arrays(*frame);
  PackedFrame packed_routers, packed_quants;
  if (arrays) packed_routers = pack_routers(*frame);
  if (!frame->quants.empty()) packed_quants = pack_quants(*frame);
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->steps.empty() && frame->step <= state_->steps.back()) state_->truncate(frame->step);
    state_->append_scalars(*frame);
    if (arrays) {
      state_->load->append(frame->step, frame->routers);
      state_->routers.append(frame->step, std::move(packed_routers));
      state_->newest_arrays = frame;
    }
    if (!frame->quants.empty()) {
      state_->quants.append(frame->step, std::move(packed_quants));
      state_->newest_quants = frame;
    }
    ++state_->sequence;
  }
  while (state_->array_bytes() > state_->budget && state_->thin_largest()) {
  }
}

void History::append(Marker marker) {
  const std::lock_guard lock(state_->mutex);
  state_->markers.push_back(std::move(marker));
  ++state_->sequence;
}

std::uint64_t History::sequence() const {
  return state_->sequence;
}

StepRange History::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->steps.empty() ? StepRange{} : StepRange{state_->steps.front(), state_->steps.back()};
}

std::vector<Marker> History::markers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->markers;
}

std::shared_ptr<const TelemetryFrame> History::frame_at(std::int64_t step) const {
  std::unique_lock lock(state_->mutex);
  return state_->assemble(state_->routers.find(step), lock);
}

std::shared_ptr<const TelemetryFrame> History::quant_frame_at(std::int64_t step) const {
  std::unique_lock lock(state_->mutex);
  return state_->assemble(state_->quants.find(step), lock);
}

float History::value_at(Metric metric, int layer, std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  const Pyramid* column = state_->column(metric, layer);
  if (!column) return kNoValue;
  const std::size_t end = step == INT64_MAX ? column->size() : state_->row_of(step + 1);
  const std::size_t row = column->last_present(end);
  return row == Pyramid::kNone ? kNoValue : (*column)[row];
}

std::vector<PyramidBin> History::series(Metric metric, int layer, StepRange range, int bins) const {
  assert(bins > 0);
  std::vector<PyramidBin> out(bins);
  if (range.empty()) return out;
  const std::lock_guard lock(state_->mutex);
  const Pyramid* column = state_->column(metric, layer);
  if (!column) return out;
  std::size_t begin = state_->row_of(range.first);
  for (int b = 0; b < bins; ++b) {
    const std::size_t end = state_->row_of(slice_begin(range, bins, b + 1));
    out[b] = column->slice(begin, end);
    begin = end;
  }
  return out;
}

std::vector<float> History::smoothed(Metric metric, int layer, StepRange range, int bins, double factor) const {
  assert(bins > 0 && factor > 0 && factor < 1);
  std::vector<float> out(bins, kNoValue);
  if (range.empty()) return out;
  // Values older than this weigh less than 1e-12 of the average.
  const auto reach = static_cast<std::size_t>(std::ceil(std::log(1e-12) / std::log(factor)));
  std::vector<std::size_t> edges(static_cast<std::size_t>(bins) + 1);
  std::vector<float> values;
  {
    const std::lock_guard lock(state_->mutex);
    const Pyramid* column = state_->column(metric, layer);
    if (!column) return out;
    for (int b = 0; b <= bins; ++b) edges[b] = state_->row_of(slice_begin(range, bins, b));
    const std::size_t first = edges.front() > reach ? edges.front() - reach : 0;
    values.assign(column->data() + first, column->data() + edges.back());
    for (std::size_t& edge : edges) edge -= first;
  }
  double sum = 0;
  double weight = 0;
  std::size_t row = 0;
  for (int b = 0; b < bins; ++b) {
    bool any = false;
    for (; row < edges[b + 1]; ++row) {
      if (!std::isfinite(values[row])) continue;
      sum = factor * sum + (1 - factor) * values[row];
      weight = factor * weight + (1 - factor);
      any |= row >= edges[b];
    }
    if (any) out[b] = static_cast<float>(sum / weight);
  }
  return out;
}

std::vector<float> History::utilisation(int layer, StepRange range, int bins) const {
  assert(bins > 0);
  const std::vector<std::int64_t> edges = slice_edges(range, bins);
  std::unique_lock lock(state_->mutex);
  const LoadRows::View view = state_->load->view(layer, edges);
  lock.unlock();
  return view.draw();
}

std::vector<std::uint32_t> History::scale_waterfall(int layer, ExpertWeight weight, Operand operand,
                                                    Direction direction, StepRange range, int bins) const {
  assert(bins > 0);
  std::vector<std::uint32_t> out(static_cast<std::size_t>(bins) * 256);
  std::vector<std::shared_ptr<const PackedFrame>> newest(bins);
  if (range.empty()) return out;
  {
    const std::lock_guard lock(state_->mutex);
    for (int b = 0; b < bins; ++b) {
      const auto* entry = state_->quants.find(slice_begin(range, bins, b + 1) - 1);
      if (entry && entry->step >= slice_begin(range, bins, b)) newest[b] = entry->packed;
    }
  }
  for (int b = 0; b < bins; ++b) {
    if (newest[b]) unpack_scales(*newest[b], layer, weight, operand, direction, out.data() + std::size_t{256} * b);
  }
  return out;
}

int History::kept_every() const {
  const std::lock_guard lock(state_->mutex);
  return state_->routers.every();
}

std::size_t History::array_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->array_bytes();
}

}  // namespace moescope
