// The past of one run in memory: what every panel draws from, live, paused, replayed or imported.
//
// One writer (the history thread or a file opener) and any number of readers. Readers hold the lock only while they
// copy out what they draw, so the writer waits microseconds; the trainer never touches this class. Scalars keep every
// step in a min/max/mean pyramid up to a budget (a metric of a layer takes 6 bytes a step): beyond it the oldest single
// values are reduced to min, max and mean of every 16, then those to 256. Arrays keep whole frames up to a byte budget;
// beyond it the older half is thinned by two, and kept_every() grows. Where that half is thinned unevenly its densest
// part is thinned first, so that a long run stays evenly covered. Utilisation is kept apart, as 16-bit counts; thinned,
// two of its rows merge into one that holds the value farther from 1 and the mean (load_rows.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/frame/operand_place.h"
#include "core/history/pyramid.h"
#include "core/history/settings_track.h"
#include "core/history/step_range.h"

namespace moescope {

enum class Summary { farthest, mean };  // of the steps that share a pixel

class History {
 public:
  // Without a budget no arrays are kept.
  explicit History(RunInfo info, std::size_t array_budget_bytes = std::size_t{512} << 20,
                   std::size_t scalar_budget_bytes = std::size_t{256} << 20);
  ~History();

  void append(
      std::shared_ptr<const TelemetryFrame> frame);  // steps must rise; a step seen before replaces what follows
  // The same in two parts, of which any thread may do the first.
  struct Packed;
  static std::shared_ptr<Packed> pack(std::shared_ptr<const TelemetryFrame> frame);
  void append(std::shared_ptr<Packed> packed);
  void append(Marker marker);
  void forget_from(std::int64_t step);  // frames of `step` and later, markers after it: a rewind

  const RunInfo& info() const { return info_; }
  std::uint64_t sequence() const;     // rises with every append, to notice new data
  std::uint64_t truncations() const;  // rises with every append that took steps back
  StepRange steps() const;
  // Steps may be far apart: of tokens seen, a billion numbers for a thousand steps. What walks over a run walks over
  // the steps that it has, not over their numbers.
  std::int64_t count() const;                                                 // of steps that it has
  std::vector<std::int64_t> steps_in(StepRange range) const;                  // those that it has, rising
  StepRange last_steps(std::int64_t n, std::int64_t upto = INT64_MAX) const;  // that the newest n up to `upto` span
  std::vector<Marker> markers() const;
  // Never nullptr. Read from the config once, and changed by markers of live changes as they are appended.
  std::shared_ptr<const RunSettings> settings_at(std::int64_t step) const;
  std::shared_ptr<const RunSettings> settings_at_start() const;  // before any change
  SettingsTrack settings() const;

  // The newest frame at or before `step` that has arrays (routers), nullptr: none.
  std::shared_ptr<const TelemetryFrame> frame_at(std::int64_t step) const;
  // The newest at or before `step` that has quantization statistics, nullptr: none.
  std::shared_ptr<const TelemetryFrame> quant_frame_at(std::int64_t step) const;
  // The newest at or before `step` that has flips (gradients), nullptr: none.
  std::shared_ptr<const TelemetryFrame> flip_frame_at(std::int64_t step) const;
  std::shared_ptr<const TelemetryFrame> gradient_frame_at(std::int64_t step) const;
  // The newest at or before `step` that has specialisation, nullptr: none. Its other arrays may be missing.
  std::shared_ptr<const TelemetryFrame> specialisation_frame_at(std::int64_t step) const;
  // One layer of it, without unpacking the others; nothing: it is not there.
  std::optional<SpecialisationFrame> specialisation_of(int layer, std::int64_t step) const;
  // The same frame with this layer only; with all layers if this one is missing.
  std::shared_ptr<const TelemetryFrame> specialisation_layer_at(int layer, std::int64_t step) const;
  // The newest text of that kind at or before `step`, nullptr: none. `step` becomes that of the text.
  std::shared_ptr<const TokenFrame> text_at(TextKind kind, std::int64_t& step) const;
  std::vector<std::int64_t> text_steps(TextKind kind) const;  // kept ones, rising
  // The scalar at `step` or the nearest earlier one, NaN: none.
  float value_at(Metric metric, int layer, std::int64_t step) const;

  // The values of every step of `range`, [range.size()]; kNoValue where a step has none or was not taken. For a few
  // steps: a range of all may be a billion.
  std::vector<float> values(Metric metric, int layer, StepRange range) const;
  // Of these rising steps, [steps.size()]; kNoValue likewise.
  std::vector<float> values_at(Metric metric, int layer, std::span<const std::int64_t> steps) const;
  // Of the steps that it has in `range`, as steps_in() lists them.
  std::vector<float> values_in(Metric metric, int layer, StepRange range) const;
  bool has_layer(int layer, StepRange steps) const;  // whether a frame of these steps speaks of it
  // `bins` equal slices of `range`, each with min, max, mean and count of the steps in it.
  std::vector<PyramidBin> series(Metric metric, int layer, StepRange range, int bins) const;
  // Bin b holds the steps [edges[b], edges[b + 1]).
  std::vector<PyramidBin> series(Metric metric, int layer, std::span<const std::int64_t> edges) const;
  // Exponential moving average (bias-corrected, factor 0..1 exclusive) computed on every step, then read at the
  // last step of each bin; NaN where the bin has none. Kept for the next call: only new steps cost.
  std::vector<float> smoothed(Metric metric, int layer, StepRange range, int bins, double factor) const;
  std::vector<float> smoothed(Metric metric, int layer, std::span<const std::int64_t> edges, double factor) const;

  // Utilisation u_e = n_e E / (K T) of one MoE layer for plotting: bins x E row-major, of the bin's steps the value
  // farthest from 1 (in log2) or their mean; NaN where the bin has none.
  std::vector<float> utilisation(int layer, StepRange range, int bins, Summary summary = Summary::farthest) const;
  std::vector<float> utilisation(int layer, std::span<const std::int64_t> edges,
                                 Summary summary = Summary::farthest) const;
  // The same of one expert; min and max reach from the mean to the value farthest from 1.
  std::vector<PyramidBin> expert_utilisation(int layer, int expert, StepRange range, int bins) const;
  std::vector<PyramidBin> expert_utilisation(int layer, int expert, std::span<const std::int64_t> edges) const;
  // Assignments to the experts of one layer, T K, of the newest step in the bin [edges[b], edges[b + 1]); kNoValue: no
  // step in it has a load.
  std::vector<float> assignments(std::span<const std::int64_t> edges) const;
  // expert_bias of one MoE layer: bins x E, the bin's newest kept frame; NaN where there is none.
  std::vector<float> expert_bias(int layer, StepRange range, int bins) const;
  std::vector<float> expert_bias(int layer, std::span<const std::int64_t> edges) const;
  // Blocks by E8M0 byte of one operand: bins x 256, the bin's newest kept frame; empty bins are all zero.
  std::vector<std::uint32_t> scale_waterfall(const OperandPlace& place, StepRange range, int bins) const;

  int kept_every() const;  // 1: every frame with arrays is still in memory
  std::size_t array_bytes() const;
  std::size_t scalar_bytes() const;

 private:
  struct State;
  RunInfo info_;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
