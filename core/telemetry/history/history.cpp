#include "core/telemetry/history/history.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/telemetry/frame/figures.h"
#include "core/telemetry/frame/router_stats.h"
#include "core/telemetry/history/frame_pack.h"
#include "core/telemetry/history/kept_frames.h"
#include "core/telemetry/history/layer_values.h"
#include "core/telemetry/history/load_rows.h"
#include "core/telemetry/history/smoothed_column.h"
#include "core/telemetry/history/step_rows.h"

namespace moescope {

namespace {

constexpr std::size_t kScalarCheckRows = 256;  // rows between checks of the memory that scalars take
static_assert(static_cast<int>(Metric::step_ms) == static_cast<int>(kFrameFigures.size()));

using FramePtr = std::shared_ptr<const TelemetryFrame>;

bool has_arrays(const TelemetryFrame& frame) {
  return std::any_of(frame.routers.begin(), frame.routers.end(),
                     [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); });
}

// Arrays of a frame that come at a cadence of their own and are kept apart.
struct Part {
  bool (*present)(const TelemetryFrame&);
  PackedFrame (*pack)(const TelemetryFrame&);
  void (*unpack)(const PackedFrame&, TelemetryFrame&);
};
enum PartIndex { kRouters, kQuants, kFlips, kGradients, kSpecialisation, kProbe, kSample, kBatch, kNumParts };
constexpr int kNumLightParts = kSpecialisation;  // unpacked together; the others are large and come alone
constexpr PartIndex part_of(TextKind kind) {
  return static_cast<PartIndex>(kProbe + static_cast<int>(kind));
}

const TokenFrame* find_text(const TelemetryFrame& frame, TextKind kind) {
  for (const TokenFrame& text : frame.texts) {
    if (text.kind == kind) return &text;
  }
  return nullptr;
}

// A frame has at most one text of a kind.
template <TextKind kind>
constexpr Part text_part() {
  return {[](const TelemetryFrame& frame) { return find_text(frame, kind) != nullptr; },
          [](const TelemetryFrame& frame) { return pack_text(frame, *find_text(frame, kind)); }, unpack_text};
}

constexpr std::array<Part, kNumParts> kParts = {{
    {has_arrays, pack_routers, unpack_routers},
    {[](const TelemetryFrame& frame) { return !frame.quants.empty(); }, pack_quants, unpack_quants},
    {[](const TelemetryFrame& frame) { return !frame.flips.empty(); }, pack_flips, unpack_flips},
    {[](const TelemetryFrame& frame) { return !frame.gradients.empty(); }, pack_gradients, unpack_gradients},
    {[](const TelemetryFrame& frame) { return !frame.specialisation.empty(); }, pack_specialisation,
     unpack_specialisation},
    text_part<TextKind::probe>(),
    text_part<TextKind::sample>(),
    text_part<TextKind::batch>(),
}};

struct LayerColumns {
  int layer;
  std::array<Pyramid, kNumLayerMetrics> scalars;
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

}  // namespace

constexpr std::size_t kSmoothedColumns = 24;  // kept; a window shows some ten

struct History::State {
  mutable std::mutex mutex;
  std::atomic<std::uint64_t> sequence{0}, truncations{0};
  // Of the readers; taken before `mutex`, so that the writer never waits while an average is computed.
  mutable std::mutex smoothed_mutex;
  mutable std::vector<SmoothedColumn> smoothed;
  mutable std::uint64_t smoothed_uses = 0;
  std::size_t budget = 0;
  std::size_t scalar_budget = 0;
  std::int64_t tokens_per_step = 0;

  // All below under the mutex; the one writer may read its own writes without.
  StepRows steps;
  std::array<Pyramid, kNumMetrics> whole;
  std::vector<LayerColumns> layers;
  std::vector<Marker> markers;
  std::unique_ptr<LoadRows> load;
  std::array<KeptFrames, kNumParts> kept;
  // Unpacked frames, for the cursor: the newest of each part, and the last one read.
  std::array<FramePtr, kNumParts> newest;
  mutable FramePtr looked_at;
  mutable std::array<FramePtr, kNumParts> looked_at_alone;  // of the large parts

  std::size_t row_of(std::int64_t step) const { return steps.row_of(step); }

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
    ++truncations;
    const std::size_t rows = row_of(step);
    steps.truncate(rows);
    for (Pyramid& column : whole) column.truncate(rows);
    for (LayerColumns& columns : layers) {
      for (Pyramid& column : columns.scalars) column.truncate(rows);
    }
    load->truncate(step);
    for (KeptFrames& part : kept) part.truncate(step);
    newest = {};
    looked_at = nullptr;
    looked_at_alone = {};
    std::erase_if(markers, [step](const Marker& marker) { return marker.step > step; });
  }

  // Of a figure over the layers: to the columns `first` (p50), p90 and max.
  void append_percentiles(const std::vector<RouterFrame>& routers, Metric first, float RouterFrame::*member) {
    std::vector<float> values;
    for (const RouterFrame& router : routers) values.push_back(router.*member);
    int column = static_cast<int>(first);
    for (const double q : {0.5, 0.9, 1.0}) whole[column++].append(percentile(values, q));
  }

  void append_scalars(const TelemetryFrame& frame) {
    for (const RouterFrame& router : frame.routers) columns_of(router.layer);
    for (const FlipFrame& flip : frame.flips) columns_of(flip.layer);
    for (const QuantFrame& quant : frame.quants) {
      if (quant.layer != kWholeRun) columns_of(quant.layer);
    }
    for (const GradientFrame& gradient : frame.gradients) {
      if (gradient.layer != kWholeRun) columns_of(gradient.layer);
    }
    for (std::size_t i = 0; i < kFrameFigures.size(); ++i) whole[i].append(frame.*kFrameFigures[i].member);
    whole[static_cast<int>(Metric::step_ms)].append(step_ms(frame));
    append_percentiles(frame.routers, Metric::max_vio_p50, &RouterFrame::max_vio);
    append_percentiles(frame.routers, Metric::max_vio_window_p50, &RouterFrame::max_vio_window);
    for (int i = 0; i < kNumRouterMetrics; ++i) {
      whole[kFirstRouterMetric + i].append(mean_over_layers(frame.routers, kRouterFigures[i].member));
    }
    std::vector<int> column_layers;
    for (const LayerColumns& columns : layers) column_layers.push_back(columns.layer);
    const std::vector<DerivedValues> derived = derived_values(frame, column_layers, tokens_per_step);
    int of_run = kFirstRouterMetric + kNumRouterMetrics;
    for (const float value : derived.back()) whole[of_run++].append(value);
    for (std::size_t place = 0; place < layers.size(); ++place) {
      LayerColumns& columns = layers[place];
      const auto router = std::find_if(frame.routers.begin(), frame.routers.end(),
                                       [&](const RouterFrame& r) { return r.layer == columns.layer; });
      for (int i = 0; i < kNumRouterMetrics; ++i) {
        columns.scalars[i].append(router == frame.routers.end() ? kNoValue : (*router).*kRouterFigures[i].member);
      }
      int of_layer = kNumRouterMetrics;
      for (const float value : derived[place]) columns.scalars[of_layer++].append(value);
    }
    steps.push_back(frame.step);
  }

  std::size_t scalar_bytes() const {
    std::size_t bytes = steps.bytes();
    for (const Pyramid& column : whole) bytes += column.bytes();
    for (const LayerColumns& columns : layers) {
      for (const Pyramid& column : columns.scalars) bytes += column.bytes();
    }
    return bytes;
  }

  // False: nothing is long enough.
  bool forget_scalars() {
    bool any = false;
    for (Pyramid& column : whole) any |= column.forget_older_half();
    for (LayerColumns& columns : layers) {
      for (Pyramid& column : columns.scalars) any |= column.forget_older_half();
    }
    return any;
  }

  // The requested column, or a new one in place of the least recently used. Under smoothed_mutex.
  SmoothedColumn& smoothed_column(Metric metric, int layer, double factor) const {
    auto found = std::find_if(smoothed.begin(), smoothed.end(), [&](const SmoothedColumn& column) {
      return column.metric == metric && column.layer == layer && column.factor == factor;
    });
    if (found == smoothed.end()) {
      if (smoothed.size() == kSmoothedColumns)
        smoothed.erase(std::min_element(smoothed.begin(), smoothed.end(),
                                        [](const auto& a, const auto& b) { return a.used < b.used; }));
      smoothed.push_back({metric, layer, factor});
      found = std::prev(smoothed.end());
    }
    found->used = ++smoothed_uses;
    return *found;
  }

  std::size_t array_bytes() const {
    std::size_t bytes = load->bytes();
    for (const KeptFrames& part : kept) bytes += part.bytes();
    return bytes;
  }
  bool thin_largest();
  // What to read from without the lock: of each bin of the range the newest kept frame, nullptr: none.
  std::vector<std::shared_ptr<const PackedFrame>> newest_of(PartIndex part, StepRange range, int bins) const;
  bool newest_bias(int layer, std::int64_t first, std::int64_t last, std::vector<float>& bias) const;
  LoadRows::View load_view(int layer, StepRange range, int bins) const;
  int experts() const;
  FramePtr frame_with(PartIndex part, std::int64_t step) const;
};

// For the writer only: it rebuilds outside of the lock.
bool History::State::thin_largest() {
  KeptFrames& larger = *std::max_element(
      kept.begin(), kept.end(), [](const KeptFrames& a, const KeptFrames& b) { return a.bytes() < b.bytes(); });
  if (load->bytes() >= larger.bytes()) {
    if (auto rest = load->thinning()) {
      while (rest->next < rest->end) {
        auto thin = load->thinned(*rest);
        const std::lock_guard lock(mutex);
        load.swap(thin);
      }
      return true;
    }
  }
  const std::lock_guard lock(mutex);
  return larger.thin();
}

std::vector<std::shared_ptr<const PackedFrame>> History::State::newest_of(PartIndex part, StepRange range,
                                                                          int bins) const {
  assert(bins > 0);
  std::vector<std::shared_ptr<const PackedFrame>> newest(static_cast<std::size_t>(bins));
  if (range.empty()) return newest;
  const std::lock_guard lock(mutex);
  for (int b = 0; b < bins; ++b) {
    const auto* entry = kept[part].find(slice_begin(range, bins, b + 1) - 1);
    if (entry && entry->step >= slice_begin(range, bins, b)) newest[b] = entry->packed;
  }
  return newest;
}

// Of the frames of `first` to `last`; false: none has one.
bool History::State::newest_bias(int layer, std::int64_t first, std::int64_t last, std::vector<float>& bias) const {
  for (std::int64_t step = last;;) {
    std::shared_ptr<const PackedFrame> packed;
    {
      const std::lock_guard lock(mutex);
      const KeptFrames::Entry* entry = kept[kRouters].find(step);
      if (!entry || entry->step < first) return false;
      step = entry->step - 1;
      packed = entry->packed;
    }
    std::vector<float> found;
    if (!unpack_bias(*packed, layer, found)) continue;
    bias = std::move(found);
    return true;
  }
}

LoadRows::View History::State::load_view(int layer, StepRange range, int bins) const {
  assert(bins > 0);
  const std::vector<std::int64_t> edges = slice_edges(range, bins);
  const std::lock_guard lock(mutex);
  return load->view(layer, edges);
}

int History::State::experts() const {
  const std::lock_guard lock(mutex);
  return load->n_experts();
}

// The newest at or before `step` that has `part`; a light part comes with all light ones of its step. Unpacks without
// the lock.
FramePtr History::State::frame_with(PartIndex part, std::int64_t step) const {
  std::unique_lock lock(mutex);
  const KeptFrames::Entry* entry = kept[part].find(step);
  if (!entry) return nullptr;
  step = entry->step;
  for (const FramePtr& frame : newest) {
    if (frame && frame->step == step) return frame;
  }
  const bool light = part < kNumLightParts;
  FramePtr& remembered = light ? looked_at : looked_at_alone[part];
  if (remembered && remembered->step == step) return remembered;
  const std::uint64_t seen = sequence;
  std::array<std::shared_ptr<const PackedFrame>, kNumParts> packed;
  for (int i = light ? 0 : part; i < (light ? kNumLightParts : part + 1); ++i) {
    const KeptFrames::Entry* found = kept[i].find(step);
    if (found && found->step == step) packed[i] = found->packed;
  }
  lock.unlock();
  auto frame = std::make_shared<TelemetryFrame>();
  for (int i = 0; i < kNumParts; ++i) {
    if (packed[i]) kParts[i].unpack(*packed[i], *frame);
  }
  lock.lock();
  if (sequence == seen) remembered = frame;
  return frame;
}

History::History(RunInfo info, std::size_t array_budget_bytes, std::size_t scalar_budget_bytes)
    : info_(std::move(info)), state_(std::make_unique<State>()) {
  state_->budget = array_budget_bytes;
  state_->scalar_budget = scalar_budget_bytes;
  state_->tokens_per_step = info_.tokens_per_step;
  state_->load = std::make_unique<LoadRows>(info_.moe_layers, info_.n_experts);
  for (const int layer : info_.moe_layers) state_->columns_of(layer);
}

History::~History() = default;

struct History::Packed {
  FramePtr frame;
  std::array<PackedFrame, kNumParts> parts;
  std::array<bool, kNumParts> present{};
  std::vector<std::int16_t> load;
};

std::shared_ptr<History::Packed> History::pack(FramePtr frame) {
  auto packed = std::make_shared<Packed>();
  packed->frame = std::move(frame);
  for (int i = 0; i < kNumParts; ++i) {
    packed->present[i] = kParts[i].present(*packed->frame);
    if (packed->present[i]) packed->parts[i] = kParts[i].pack(*packed->frame);
  }
  if (packed->present[kRouters]) packed->load = LoadRows::encode(packed->frame->routers);
  return packed;
}

void History::append(FramePtr frame) {
  append(state_->budget > 0 ? pack(std::move(frame)) : std::make_shared<Packed>(Packed{std::move(frame), {}, {}, {}}));
}

void History::append(std::shared_ptr<Packed> packed) {
  if (state_->budget == 0) packed->present.fill(false);
  const FramePtr& frame = packed->frame;
  const auto& present = packed->present;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->steps.empty() && frame->step <= state_->steps.back()) state_->truncate(frame->step);
    state_->append_scalars(*frame);
    if (state_->steps.size() % kScalarCheckRows == 0) {
      while (state_->scalar_bytes() > state_->scalar_budget && state_->forget_scalars()) {
      }
    }
    if (present[kRouters]) state_->load->append(frame->step, frame->routers, packed->load);
    for (int i = 0; i < kNumParts; ++i) {
      if (!present[i]) continue;
      state_->kept[i].append(frame->step, std::move(packed->parts[i]));
      state_->newest[i] = frame;
    }
    ++state_->sequence;
  }
  while (state_->array_bytes() > state_->budget && state_->thin_largest()) {
  }
}

void History::append(Marker marker) {
  const std::lock_guard lock(state_->mutex);
  const bool note = marker.kind == kNoteKind;
  if (note)
    std::erase_if(state_->markers, [&](const Marker& m) { return m.kind == kNoteKind && m.step == marker.step; });
  if (!note || !marker.text.empty()) state_->markers.push_back(std::move(marker));
  ++state_->sequence;
}

void History::forget_from(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->truncate(step);
  ++state_->sequence;
}

std::uint64_t History::sequence() const {
  return state_->sequence;
}

std::uint64_t History::truncations() const {
  return state_->truncations;
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
  return state_->frame_with(kRouters, step);
}

std::shared_ptr<const TelemetryFrame> History::quant_frame_at(std::int64_t step) const {
  return state_->frame_with(kQuants, step);
}

std::shared_ptr<const TelemetryFrame> History::flip_frame_at(std::int64_t step) const {
  return state_->frame_with(kFlips, step);
}

std::shared_ptr<const TelemetryFrame> History::gradient_frame_at(std::int64_t step) const {
  return state_->frame_with(kGradients, step);
}

std::shared_ptr<const TelemetryFrame> History::specialisation_frame_at(std::int64_t step) const {
  return state_->frame_with(kSpecialisation, step);
}

std::optional<SpecialisationFrame> History::specialisation_of(int layer, std::int64_t step) const {
  std::shared_ptr<const PackedFrame> packed;
  {
    const std::lock_guard lock(state_->mutex);
    const KeptFrames::Entry* entry = state_->kept[kSpecialisation].find(step);
    if (!entry) return std::nullopt;
    packed = entry->packed;
  }
  SpecialisationFrame special;
  if (!unpack_specialisation_of(*packed, layer, special)) return std::nullopt;
  return special;
}

std::shared_ptr<const TelemetryFrame> History::specialisation_layer_at(int layer, std::int64_t step) const {
  std::shared_ptr<const PackedFrame> packed;
  auto frame = std::make_shared<TelemetryFrame>();
  {
    const std::lock_guard lock(state_->mutex);
    const KeptFrames::Entry* entry = state_->kept[kSpecialisation].find(step);
    if (!entry) return nullptr;
    packed = entry->packed;
    frame->step = entry->step;
  }
  if (unpack_specialisation_of(*packed, layer, frame->specialisation.emplace_back())) return frame;
  return specialisation_frame_at(step);
}

std::shared_ptr<const TokenFrame> History::text_at(TextKind kind, std::int64_t& step) const {
  const FramePtr frame = state_->frame_with(part_of(kind), step);
  if (!frame) return nullptr;
  step = frame->step;
  return {frame, find_text(*frame, kind)};
}

std::vector<std::int64_t> History::text_steps(TextKind kind) const {
  const std::lock_guard lock(state_->mutex);
  return state_->kept[part_of(kind)].steps();
}

float History::value_at(Metric metric, int layer, std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  const Pyramid* column = state_->column(metric, layer);
  if (!column) return kNoValue;
  const std::size_t end = step == INT64_MAX ? column->size() : state_->row_of(step + 1);
  const std::size_t row = column->last_present(end);
  return row == Pyramid::kNone ? kNoValue : (*column)[row];
}

std::vector<float> History::values(Metric metric, int layer, StepRange range) const {
  std::vector<float> out(static_cast<std::size_t>(range.size()), kNoValue);
  if (range.empty()) return out;
  const std::lock_guard lock(state_->mutex);
  const Pyramid* column = state_->column(metric, layer);
  if (!column) return out;
  const std::size_t end = state_->row_of(range.last + 1);
  for (std::size_t row = state_->row_of(range.first); row < end; ++row) {
    out[static_cast<std::size_t>(state_->steps[row] - range.first)] = (*column)[row];
  }
  return out;
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
  const std::lock_guard smoothed_lock(state_->smoothed_mutex);
  SmoothedColumn& kept = state_->smoothed_column(metric, layer, factor);
  std::vector<std::size_t> edges(static_cast<std::size_t>(bins) + 1);
  // Of values older than this the average keeps less than 1e-12; rows before the kept ones are averaged from there.
  const auto reach = static_cast<std::size_t>(std::ceil(std::log(1e-12) / std::log(factor)));
  std::vector<float> values;
  std::size_t first = 0;
  bool direct = false;
  {
    const std::lock_guard lock(state_->mutex);
    const Pyramid* column = state_->column(metric, layer);
    if (!column) return out;
    if (kept.truncations != state_->truncations) kept = {metric, layer, factor, state_->truncations, kept.used};
    for (int b = 0; b <= bins; ++b) edges[b] = state_->row_of(slice_begin(range, bins, b));
    direct = edges.front() < kept.first_row;
    const std::size_t begin = direct ? (edges.front() > reach ? edges.front() - reach : 0) : kept.end_row();
    first = direct ? begin : kept.first_row;
    if (begin < edges.back()) {
      values.resize(edges.back() - begin);
      column->copy(begin, edges.back(), values.data());
    }
  }
  SmoothedColumn old{metric, layer, factor};
  SmoothedColumn& used = direct ? old : kept;
  for (const float value : values) used.add(value);
  for (int b = 0; b < bins; ++b)
    for (std::size_t row = edges[b + 1]; is_missing(out[b]) && row-- > edges[b];) out[b] = used.averages[row - first];
  kept.forget_old();
  return out;
}

std::vector<float> History::utilisation(int layer, StepRange range, int bins, Summary summary) const {
  const LoadRows::View view = state_->load_view(layer, range, bins);
  return summary == Summary::mean ? view.draw_mean() : view.draw_farthest();
}

std::vector<PyramidBin> History::expert_utilisation(int layer, int expert, StepRange range, int bins) const {
  if (expert < 0) return std::vector<PyramidBin>(static_cast<std::size_t>(bins));
  return state_->load_view(layer, range, bins).draw_expert(static_cast<std::size_t>(expert));
}

std::vector<float> History::expert_bias(int layer, StepRange range, int bins) const {
  const auto newest = state_->newest_of(kRouters, range, bins);
  const auto experts = static_cast<std::size_t>(state_->experts());
  std::vector<float> out(experts * newest.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> bias, known;  // of a log that has it on some steps only, the last known one goes on
  std::int64_t known_at = range.first - 1;
  for (std::size_t b = 0; b < newest.size(); ++b) {
    if (!newest[b]) continue;
    if (!unpack_bias(*newest[b], layer, bias)) {
      const std::int64_t last = slice_begin(range, bins, static_cast<int>(b) + 1) - 1;
      if (state_->newest_bias(layer, known_at + 1, last, known)) known_at = last;
      bias = known;
    }
    std::copy_n(bias.begin(), std::min(experts, bias.size()), out.begin() + static_cast<std::ptrdiff_t>(b * experts));
  }
  return out;
}

std::vector<std::uint32_t> History::scale_waterfall(const OperandPlace& place, StepRange range, int bins) const {
  assert(bins > 0);
  std::vector<std::uint32_t> out(static_cast<std::size_t>(bins) * 256);
  const auto newest = state_->newest_of(kQuants, range, bins);
  for (int b = 0; b < bins; ++b) {
    if (newest[b]) unpack_scales(*newest[b], place, out.data() + std::size_t{256} * b);
  }
  return out;
}

int History::kept_every() const {
  const std::lock_guard lock(state_->mutex);
  return state_->kept[kRouters].every();
}

std::size_t History::scalar_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalar_bytes();
}

std::size_t History::array_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->array_bytes();
}

}  // namespace moescope
