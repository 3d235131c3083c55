#include "core/recording/history/history.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "core/frame/thinning.h"
#include "core/recording/history/load_rows.h"
#include "core/recording/history/scalar_columns.h"

namespace moescope {
namespace {

// Packed frames in the order of their steps, which are thinned if they take too much memory.
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
    const std::size_t half_count = entries_.size() / 2;
    const int level = finest_level(std::span<const Entry>(entries_).first(half_count));
    if (level < 0) return false;
    const auto end = entries_.begin() + half_count;
    const auto kept_end = std::stable_partition(
        entries_.begin(), end, [level](const Entry& entry) { return !is_dropped(entry.ordinal, level); });
    for (auto dropped = kept_end; dropped != end; ++dropped) bytes_ -= bytes_of(*dropped);
    entries_.erase(kept_end, end);
    entries_.shrink_to_fit();
    interval_ = std::max(interval_, 2 << level);
    return true;
  }

  // Returns the newest entry at or before `step`; nullptr if there is no such entry.
  const Entry* find(std::int64_t step) const {
    const auto after = std::upper_bound(entries_.begin(), entries_.end(), step,
                                        [](std::int64_t s, const Entry& entry) { return s < entry.step; });
    return after == entries_.begin() ? nullptr : &*std::prev(after);
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const Entry& entry : entries_) steps.push_back(entry.step);
    return steps;
  }
  std::size_t bytes() const { return bytes_ + entries_.capacity() * sizeof(Entry); }
  int interval() const { return interval_; }

 private:
  static std::size_t bytes_of(const Entry& entry) {
    return sizeof(PackedFrame) + 2 * sizeof(void*) + entry.packed->capacity();
  }
  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
  int interval_ = 1;
};

// Indexed by part; nullopt if the frame has no arrays of that part.
using PackedParts = std::array<std::optional<PackedFrame>, kNumFrameParts>;
PackedParts pack_parts(const TelemetryFrame& frame) {
  PackedParts parts;
  for (std::size_t i = 0; i < kNumFrameParts; ++i) parts[i] = pack(frame, static_cast<FramePart>(i));
  return parts;
}

// The frames of a run with their arrays, in memory. Each part of a frame (frame_pack.h) is packed on its own and has
// its own cadence; each part is thinned separately.
//
// Not thread-safe: History locks it. find() returns packed parts, so that the caller can unpack them without the lock.
class FrameArchive {
 public:
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  using PackedPart = std::pair<FramePart, std::shared_ptr<const PackedFrame>>;
  struct Found {
    FramePtr frame;                  // already unpacked; nullptr if `packed` must be unpacked
    std::vector<PackedPart> packed;  // parts to unpack; empty, with frame == nullptr: no frame found
  };

  // Steps must rise; `parts` belong to `frame`.
  void append(const FramePtr& frame, PackedParts parts) {
    for (std::size_t i = 0; i < kNumFrameParts; ++i) {
      if (!parts[i]) continue;
      frames_[i].append(frame->step, std::move(*parts[i]));
      newest_[i] = frame;
    }
  }
  // Forgets `step` and later steps.
  void truncate(std::int64_t step) {
    for (KeptFrames& part : frames_) part.truncate(step);
    newest_ = {};
    remembered_ = {};
  }
  // Returns the newest frame at or before `step` that has `part`. A large part (specialisation or a text) is returned
  // alone, any other part together with all small parts of that frame.
  Found find(FramePart part, std::int64_t step) const {
    const KeptFrames::Entry* entry = frames_of(part).find(step);
    if (!entry) return {};
    for (const FramePtr& frame : newest_) {
      if (frame && frame->step == entry->step) return {frame, {}};
    }
    const FramePtr& remembered = remembered_[place_of(part)];
    if (remembered && remembered->step == entry->step) return {remembered, {}};
    if (!is_light(part)) return {nullptr, {{part, entry->packed}}};
    Found found;
    for (std::size_t i = 0; is_light(static_cast<FramePart>(i)); ++i) {
      const KeptFrames::Entry* other_part = frames_[i].find(entry->step);
      if (other_part && other_part->step == entry->step)
        found.packed.emplace_back(static_cast<FramePart>(i), other_part->packed);
    }
    return found;
  }

  static FramePtr unpack(const std::vector<PackedPart>& packed) {
    auto frame = std::make_shared<TelemetryFrame>();
    for (const auto& [part, bytes] : packed) moescope::unpack(*bytes, part, *frame);
    return frame;
  }
  // Keeps `frame` as the one unpacked last for `part`.
  void remember(FramePart part, FramePtr frame) { remembered_[place_of(part)] = std::move(frame); }

  const KeptFrames& frames_of(FramePart part) const { return frames_[static_cast<std::size_t>(part)]; }
  // The part that takes the most memory.
  KeptFrames& largest() { return *std::ranges::max_element(frames_, {}, &KeptFrames::bytes); }
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const KeptFrames& part : frames_) bytes += part.bytes();
    return bytes;
  }

 private:
  // True for parts that are unpacked together; the other parts are large and are unpacked alone.
  static constexpr bool is_light(FramePart part) { return part < FramePart::specialisation; }
  // Returns the index in remembered_ of the frame that was last unpacked for `part`.
  static constexpr std::size_t place_of(FramePart part) { return is_light(part) ? 0 : static_cast<std::size_t>(part); }

  std::array<KeptFrames, kNumFrameParts> frames_;
  // Unpacked frames for the cursor: the newest frame of each part, and the frame that was read last.
  std::array<FramePtr, kNumFrameParts> newest_;
  std::array<FramePtr, kNumFrameParts> remembered_;  // parts that are unpacked together use the first entry
};

std::size_t bins_of(std::span<const std::int64_t> edges) {
  return edges.empty() ? 0 : edges.size() - 1;
}

}  // namespace

struct History::State {
  State(const RunInfo& info, std::size_t array_budget_bytes, std::size_t scalar_budget_bytes)
      : array_budget(array_budget_bytes), scalars(info, scalar_budget_bytes), load(info.n_experts), settings(info) {}

  const std::size_t array_budget;  // for `load` and `frames` together
  mutable std::mutex mutex;
  std::atomic<std::uint64_t> sequence{0}, truncations{0};

  // `mutex` protects the members below.
  ScalarColumns scalars;
  LoadRows load;
  FrameArchive frames;
  std::vector<Marker> markers;                   // a removed note has an empty text
  std::map<std::int64_t, std::size_t> notes_at;  // step -> index of its note in markers
  std::int64_t last_marker = INT64_MIN;          // largest step of a marker so far
  SettingsTrack settings;
  std::pair<std::int64_t, std::shared_ptr<const TokenFrame>> edited_probe;  // with the step after which it was routed

  // A step has at most one note, so a later note replaces it.
  void append(Marker marker) {
    last_marker = std::max(last_marker, marker.step);
    settings.add(marker);
    if (marker.kind == kNoteKind) {
      const auto [note, is_new] = notes_at.try_emplace(marker.step, markers.size());
      if (!is_new) {
        markers[note->second] = std::move(marker);
        return;
      }
    }
    markers.push_back(std::move(marker));
  }

  void truncate(std::int64_t step) {
    ++truncations;
    scalars.truncate(step);
    load.truncate(step);
    frames.truncate(step);
    if (edited_probe.first >= step) edited_probe = {};
    if (last_marker <= step) return;
    std::erase_if(markers, [step](const Marker& marker) { return marker.step > step; });
    settings.keep_until(step);
    last_marker = step;
    notes_at.clear();
    for (std::size_t i = 0; i < markers.size(); ++i)
      if (markers[i].kind == kNoteKind) notes_at[markers[i].step] = i;
  }

  std::size_t array_bytes() const { return load.bytes() + frames.bytes(); }
  bool thin_largest() {
    KeptFrames& largest = frames.largest();
    return (load.bytes() >= largest.bytes() && load.thin()) || largest.thin() || load.thin();
  }
  // Return packed frames, which are unpacked without the lock: the newest kept one at or before `step`, or the newest
  // one of each bin; nullptr if there is none.
  KeptFrames::Entry kept_at(FramePart part, std::int64_t step) const {
    const std::lock_guard lock(mutex);
    const KeptFrames::Entry* entry = frames.frames_of(part).find(step);
    return entry ? *entry : KeptFrames::Entry{};
  }

  std::vector<std::shared_ptr<const PackedFrame>> newest_of(FramePart part, std::span<const std::int64_t> edges) const {
    std::vector<std::shared_ptr<const PackedFrame>> newest(bins_of(edges));
    for (std::size_t b = 0; b < newest.size(); ++b)
      if (const auto entry = kept_at(part, edges[b + 1] - 1); entry.packed && entry.step >= edges[b])
        newest[b] = entry.packed;
    return newest;
  }

  // Searches the frames of the steps `first` to `last`, the newest first. Returns false if none has a bias of the
  // layer.
  bool newest_bias(int layer, std::int64_t first, std::int64_t last, std::vector<float>& bias) const {
    for (;;) {
      const KeptFrames::Entry entry = kept_at(FramePart::routers, last);
      if (!entry.packed || entry.step < first) return false;
      last = entry.step - 1;
      auto router = unpack_router(*entry.packed, layer);
      if (!router || router->expert_bias.empty()) continue;
      bias = std::move(router->expert_bias);
      return true;
    }
  }
};

History::History(RunInfo info, std::size_t array_budget_bytes, std::size_t scalar_budget_bytes)
    : info_(std::move(info)), state_(std::make_unique<State>(info_, array_budget_bytes, scalar_budget_bytes)) {}

History::~History() = default;

struct History::Packed {
  FramePtr frame;
  PackedParts parts;
  bool has_load() const { return parts[static_cast<std::size_t>(FramePart::routers)].has_value(); }
};

std::shared_ptr<History::Packed> History::pack(FramePtr frame) {
  PackedParts parts = pack_parts(*frame);
  return std::make_shared<Packed>(Packed{std::move(frame), std::move(parts)});
}

void History::append(FramePtr frame) {
  append(state_->array_budget > 0 ? pack(std::move(frame)) : std::make_shared<Packed>(Packed{std::move(frame), {}}));
}

void History::append(std::shared_ptr<Packed> packed) {
  if (state_->array_budget == 0) packed->parts = {};
  const FramePtr& frame = packed->frame;
  const std::lock_guard lock(state_->mutex);
  const StepRange steps = state_->scalars.steps();
  if (!steps.empty() && frame->step <= steps.last) state_->truncate(frame->step);
  state_->scalars.append(*frame);
  if (packed->has_load()) state_->load.append(frame->step, frame->routers);
  state_->frames.append(frame, std::move(packed->parts));
  ++state_->sequence;
  while (state_->array_bytes() > state_->array_budget && state_->thin_largest()) {
  }
}

void History::append(Marker marker) {
  const std::lock_guard lock(state_->mutex);
  state_->append(std::move(marker));
  ++state_->sequence;
}

void History::set_edited_probe(std::shared_ptr<const TokenFrame> probe) {
  const std::lock_guard lock(state_->mutex);
  state_->edited_probe = {state_->scalars.steps().last, std::move(probe)};
  ++state_->sequence;
}

std::shared_ptr<const TokenFrame> History::edited_probe_at(std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  return state_->edited_probe.first == step ? state_->edited_probe.second : nullptr;
}

void History::forget_from(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->truncate(step);
  ++state_->sequence;
}

SettingsTrack History::settings() const {
  const std::lock_guard lock(state_->mutex);
  return state_->settings;
}

std::shared_ptr<const RunSettings> History::settings_at(std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  return state_->settings.at(step);
}

std::shared_ptr<const RunSettings> History::settings_at_start() const {
  const std::lock_guard lock(state_->mutex);
  return state_->settings.at_start();
}

std::uint64_t History::sequence() const {
  return state_->sequence;
}

std::uint64_t History::truncations() const {
  return state_->truncations;
}

StepRange History::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalars.steps();
}

std::int64_t History::count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalars.size();
}

std::vector<std::int64_t> History::steps_in(StepRange range) const {
  std::vector<std::int64_t> steps;
  if (range.empty()) return steps;
  const std::lock_guard lock(state_->mutex);
  const ScalarColumns& scalars = state_->scalars;
  for (std::size_t row = scalars.row_of(range.first); row < scalars.size() && scalars.step_of(row) <= range.last; ++row)
    steps.push_back(scalars.step_of(row));
  return steps;
}

StepRange History::last_steps(std::int64_t n, std::int64_t last_step) const {
  const std::lock_guard lock(state_->mutex);
  const ScalarColumns& scalars = state_->scalars;
  const std::size_t end = last_step == INT64_MAX ? scalars.size() : scalars.row_of(last_step + 1);
  if (end == 0 || n <= 0) return {};
  return {scalars.step_of(end - std::min(end, static_cast<std::size_t>(n))), scalars.step_of(end - 1)};
}

std::vector<Marker> History::markers() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Marker> markers;
  markers.reserve(state_->markers.size());
  for (const Marker& marker : state_->markers)
    if (marker.kind != kNoteKind || !marker.text.empty()) markers.push_back(marker);
  return markers;
}

// Unpacks without holding the lock.
History::FramePtr History::frame_with(FramePart part, std::int64_t step) const {
  std::unique_lock lock(state_->mutex);
  const FrameArchive::Found found = state_->frames.find(part, step);
  if (found.frame || found.packed.empty()) return found.frame;
  const std::uint64_t sequence_before = state_->sequence;
  lock.unlock();
  FramePtr frame = FrameArchive::unpack(found.packed);
  lock.lock();
  if (state_->sequence == sequence_before) state_->frames.remember(part, frame);
  return frame;
}

std::optional<SpecialisationFrame> History::specialisation_of(int layer, std::int64_t step) const {
  const auto entry = state_->kept_at(FramePart::specialisation, step);
  return entry.packed ? unpack_specialisation(*entry.packed, layer) : std::nullopt;
}

History::FramePtr History::specialisation_layer_at(int layer, std::int64_t step) const {
  const auto entry = state_->kept_at(FramePart::specialisation, step);
  if (!entry.packed) return nullptr;
  auto special = unpack_specialisation(*entry.packed, layer);
  if (!special) return specialisation_frame_at(step);
  auto frame = std::make_shared<TelemetryFrame>();
  frame->step = entry.step;
  frame->specialisation.push_back(std::move(*special));
  return frame;
}

std::shared_ptr<const TokenFrame> History::text_at(TextKind kind, std::int64_t& step) const {
  const FramePtr frame = frame_with(text_part(kind), step);
  if (!frame) return nullptr;
  step = frame->step;
  return {frame, find_text(*frame, kind)};
}

std::vector<std::int64_t> History::text_steps(TextKind kind) const {
  const std::lock_guard lock(state_->mutex);
  return state_->frames.frames_of(text_part(kind)).steps();
}

float History::value_at(Metric metric, int layer, std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalars.value_at(metric, layer, step);
}

std::vector<float> History::values(Metric metric, int layer, StepRange range) const {
  std::vector<std::int64_t> steps(range.size());
  std::iota(steps.begin(), steps.end(), range.first);
  return values_at(metric, layer, steps);
}

std::vector<float> History::values_at(Metric metric, int layer, std::span<const std::int64_t> steps) const {
  std::vector<float> out(steps.size(), kNoValue);
  const std::lock_guard lock(state_->mutex);
  state_->scalars.values_at(metric, layer, steps, out);
  return out;
}

bool History::has_values(Metric metric, int layer) const {
  if (steps().empty()) return false;
  const PyramidBin all = series(metric, layer, steps(), 1).front();
  return all.finite > 0 || all.non_finite > 0;
}

bool History::has_layer(int layer, StepRange steps) const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalars.has_rows(layer, steps);
}

std::vector<PyramidBin> History::series(Metric metric, int layer, std::span<const std::int64_t> edges) const {
  std::vector<PyramidBin> out(bins_of(edges));
  if (out.empty()) return out;
  const std::lock_guard lock(state_->mutex);
  state_->scalars.series(metric, layer, edges, out);
  return out;
}

std::vector<float> History::utilisation(int layer, std::span<const std::int64_t> edges, Summary summary) const {
  if (edges.empty()) return {};
  const std::lock_guard lock(state_->mutex);
  return summary == Summary::mean ? state_->load.means(layer, edges) : state_->load.farthest(layer, edges);
}

std::vector<float> History::assignments(std::span<const std::int64_t> edges) const {
  if (edges.empty()) return {};
  const std::lock_guard lock(state_->mutex);
  return state_->load.assignments(edges);
}

std::vector<PyramidBin> History::expert_utilisation(int layer, int expert, std::span<const std::int64_t> edges) const {
  if (expert < 0 || edges.empty()) return std::vector<PyramidBin>(bins_of(edges));
  const std::lock_guard lock(state_->mutex);
  return state_->load.expert_series(layer, expert, edges);
}

std::vector<float> History::expert_bias(int layer, std::span<const std::int64_t> edges) const {
  const auto newest = state_->newest_of(FramePart::routers, edges);
  const auto experts = [&] {
    const std::lock_guard lock(state_->mutex);
    return static_cast<std::size_t>(state_->load.n_experts());
  }();
  std::vector<float> out(experts * newest.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> known;  // last known bias, if a log has it on some steps only
  std::int64_t known_at = edges.empty() ? 0 : edges.front() - 1;
  for (std::size_t b = 0; b < newest.size(); ++b) {
    if (!newest[b]) continue;
    const auto router = unpack_router(*newest[b], layer);
    std::vector<float> bias = router ? router->expert_bias : std::vector<float>();
    if (bias.empty()) {
      const std::int64_t last = edges[b + 1] - 1;
      if (state_->newest_bias(layer, known_at + 1, last, known)) known_at = last;
      bias = known;
    }
    std::copy_n(bias.begin(), std::min(experts, bias.size()), out.begin() + b * experts);
  }
  return out;
}

std::vector<std::uint32_t> History::scale_waterfall(const OperandPlace& place, StepRange range, int bins) const {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(bins) * 256);
  const auto newest = state_->newest_of(FramePart::quants, slice_edges(range, bins));
  for (std::size_t b = 0; b < newest.size(); ++b) {
    const auto quant = newest[b] ? unpack_quant(*newest[b], place) : std::nullopt;
    if (quant) std::ranges::copy(quant->e8m0_blocks, out.begin() + 256 * b);
  }
  return out;
}

int History::kept_every() const {
  const std::lock_guard lock(state_->mutex);
  return state_->frames.frames_of(FramePart::routers).interval();
}

std::size_t History::scalar_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->scalars.bytes();
}

std::size_t History::array_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->array_bytes();
}

}  // namespace moescope
