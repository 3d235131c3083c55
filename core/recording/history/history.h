// The history of one run in memory. Every panel draws from it, whether the run is live, paused, replayed or imported.
//
// It has one writer (the history thread or a file opener) and any number of readers. Readers hold the lock while they
// read figures, for a few milliseconds at most, and unpack frames without it; the trainer never touches this class.
// Scalars keep every step in a min/max/mean pyramid up to a budget (6 bytes a step for a metric of a layer); beyond it
// the oldest single values are reduced to min, max and mean of every 16, then of every 256. Arrays keep whole frames up
// to a byte budget; beyond it every second frame of the older half is dropped, and kept_every() grows. The densest part
// of that half is thinned first, so that a long run stays evenly covered. Utilisation is kept separately as 16-bit
// counts; thinning merges two rows into one that holds the value farthest from 1 and the mean (load_rows.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/numerics/gemm_operand.h"
#include "core/recording/history/frame_pack.h"
#include "core/recording/history/pyramid.h"
#include "core/recording/history/settings_track.h"
#include "core/recording/history/step_rows.h"

namespace moescope {

enum class Summary { farthest, mean };  // how the steps of one pixel are summarised

class History {
 public:
  using FramePtr = std::shared_ptr<const TelemetryFrame>;

  // An array budget of 0 keeps no arrays.
  explicit History(RunInfo info, std::size_t array_budget_bytes = std::size_t{512} << 20,
                   std::size_t scalar_budget_bytes = std::size_t{256} << 20);
  ~History();

  // Steps must rise; appending an earlier step replaces it and later ones.
  void append(FramePtr frame);
  // append() in two calls: pack() may run in any thread.
  struct Packed;
  static std::shared_ptr<Packed> pack(FramePtr frame);
  void append(std::shared_ptr<Packed> packed);
  void append(Marker marker);
  // Sets a probe text that was edited and routed after the newest step, for display beside the text of that step.
  void set_edited_probe(std::shared_ptr<const TokenFrame> probe);
  void forget_from(std::int64_t step);  // rewinds: forgets frames at or after `step` and later markers

  const RunInfo& info() const { return info_; }
  std::uint64_t sequence() const;     // rises with every append, to notice new data
  std::uint64_t truncations() const;  // rises with every rewind
  StepRange steps() const;
  // Step numbers may be far apart: if they count tokens, a thousand steps span a billion numbers. Loops over a run must
  // go over its steps, not over step numbers.
  std::int64_t count() const;                                 // number of steps of the run
  std::vector<std::int64_t> steps_in(StepRange range) const;  // steps of the run in `range`, rising
  StepRange last_steps(std::int64_t n,
                       std::int64_t last_step = INT64_MAX) const;  // range of the newest n up to `last_step`
  std::vector<Marker> markers() const;
  // Return the settings with the live changes up to `step`, or before any change; never nullptr. The config is parsed
  // once; appended markers of live changes update the settings.
  std::shared_ptr<const RunSettings> settings_at(std::int64_t step) const;
  std::shared_ptr<const RunSettings> settings_at_start() const;  // before any change
  SettingsTrack settings() const;

  // Return the newest frame at or before `step` that has arrays (routers), quantization statistics, flips, gradients or
  // specialisation; nullptr if there is no such frame. A frame with specialisation may lack other arrays.
  FramePtr frame_at(std::int64_t step) const { return frame_with(FramePart::routers, step); }
  FramePtr quant_frame_at(std::int64_t step) const { return frame_with(FramePart::quants, step); }
  FramePtr flip_frame_at(std::int64_t step) const { return frame_with(FramePart::flips, step); }
  FramePtr gradient_frame_at(std::int64_t step) const { return frame_with(FramePart::gradients, step); }
  FramePtr specialisation_frame_at(std::int64_t step) const { return frame_with(FramePart::specialisation, step); }
  // Returns one layer of specialisation_frame_at() without unpacking the others; nullopt if the frame does not have it.
  std::optional<SpecialisationFrame> specialisation_of(int layer, std::int64_t step) const;
  // Returns specialisation_frame_at() with only this layer, or with all layers if this one is missing.
  FramePtr specialisation_layer_at(int layer, std::int64_t step) const;
  // Returns the newest text of `kind` at or before `step` and sets `step` to its step; nullptr if there is no such
  // text.
  std::shared_ptr<const TokenFrame> text_at(TextKind kind, std::int64_t& step) const;
  std::shared_ptr<const TokenFrame> edited_probe_at(std::int64_t step) const;  // nullptr: none was routed after `step`
  std::vector<std::int64_t> text_steps(TextKind kind) const;                   // steps of the texts in memory, rising
  // Returns the scalar at `step` or at the nearest earlier step that has one; NaN if no step has one.
  float value_at(Metric metric, int layer, std::int64_t step) const;

  // Returns the values of every step number of `range`, [range.size()]; kNoValue if the run does not have the step or
  // the step has no value. For short ranges only: the range of a whole run may hold a billion numbers.
  std::vector<float> values(Metric metric, int layer, StepRange range) const;
  // Returns the values of these rising steps, [steps.size()]; kNoValue if the run does not have the step or no value.
  std::vector<float> values_at(Metric metric, int layer, std::span<const std::int64_t> steps) const;
  // Returns the values of the steps that steps_in(range) lists.
  std::vector<float> values_in(Metric metric, int layer, StepRange range) const {
    return values_at(metric, layer, steps_in(range));
  }
  bool has_layer(int layer, StepRange steps) const;             // true if a frame of `steps` has the layer
  bool has_values(Metric metric, int layer = kWholeRun) const;  // NaN and infinity count as values

  // The functions below return values by bin: bin b holds the steps [edges[b], edges[b + 1]), or is the b-th of `bins`
  // equal slices of `range`.

  // Returns min, max, mean and count of the steps.
  std::vector<PyramidBin> series(Metric metric, int layer, std::span<const std::int64_t> edges) const;
  std::vector<PyramidBin> series(Metric metric, int layer, StepRange range, int bins) const {
    return series(metric, layer, slice_edges(range, bins));
  }

  // Utilisation u_e = n_e E / (K T) of one MoE layer for plotting: bins x E row-major. Each bin shows the value
  // farthest from 1 (in log2) of its steps, or their mean; NaN for an empty bin.
  std::vector<float> utilisation(int layer, std::span<const std::int64_t> edges,
                                 Summary summary = Summary::farthest) const;
  std::vector<float> utilisation(int layer, StepRange range, int bins, Summary summary = Summary::farthest) const {
    return utilisation(layer, slice_edges(range, bins), summary);
  }
  // Utilisation of one expert; min and max reach from the mean to the value farthest from 1.
  std::vector<PyramidBin> expert_utilisation(int layer, int expert, std::span<const std::int64_t> edges) const;
  std::vector<PyramidBin> expert_utilisation(int layer, int expert, StepRange range, int bins) const {
    return expert_utilisation(layer, expert, slice_edges(range, bins));
  }
  // Assignments to the experts of one layer, T K, of the newest step in the bin; kNoValue if no step has a load.
  std::vector<float> assignments(std::span<const std::int64_t> edges) const;
  // expert_bias of one MoE layer in the newest kept frame of each bin, bins x E; NaN for a bin without frames.
  std::vector<float> expert_bias(int layer, std::span<const std::int64_t> edges) const;
  std::vector<float> expert_bias(int layer, StepRange range, int bins) const {
    return expert_bias(layer, slice_edges(range, bins));
  }
  // Number of blocks for each E8M0 byte of one operand in the newest kept frame of each bin, bins x 256; all zero for a
  // bin without frames.
  std::vector<std::uint32_t> scale_waterfall(const OperandPlace& place, StepRange range, int bins) const;

  int kept_every() const;  // 1: every frame with arrays is still in memory
  std::size_t array_bytes() const;
  std::size_t scalar_bytes() const;

 private:
  FramePtr frame_with(FramePart part, std::int64_t step) const;

  struct State;
  RunInfo info_;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
