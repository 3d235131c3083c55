// A modelled timeline of one MoE layer: every operation of every rank (sending, computing, waiting).
//
// Legend: R = EP ranks. Rates, bytes and FLOPs are those of the step model (step_model.h), but for each rank instead of
// the fullest one: the dispatch of a rank takes the time of the rank's own bytes over the slower of its two links, plus
// the latency, and its experts take the time of the rank's own rows. An all-to-all ends at the same time on all ranks,
// because each rank waits for data from the slowest one. Two passes are shown, forward and backward; other work of a
// layer (attention, shared experts) is left out.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/step_model.h"
#include "core/frame/frame.h"
#include "core/numerics/names.h"

namespace moescope {

enum class RankActivity { dispatch, experts, combine, waiting };
inline constexpr auto rank_activity_name = names_of<RankActivity>("dispatch", "experts", "combine", "waiting");

struct RankInterval {
  int rank;
  RankActivity activity;
  bool backward;
  double from_us, to_us;
};

struct LayerTimeline {
  int ranks = 0;
  std::vector<RankInterval> intervals;  // ordered by rank, then by time
  double total_us = 0;
  double waiting_share = 0;  // share of all ranks' time
  int slowest = 0;           // rank for which the others wait longest, all waits added up
};

// `volume` counts the copies of `tokens` tokens (of all ranks); they are scaled to the tokens of a microbatch.
// Everything else comes from `config`, except its traffic, which is not used, and its recompute, which is left out.
// Throws std::runtime_error as step_time does.
LayerTimeline layer_timeline(const StepConfig& config, const StepParameters& parameters, const VolumeFrame& volume,
                             std::int64_t tokens);

// Returns Chrome's trace event format, which Perfetto and chrome://tracing open: one thread per rank, times in us.
std::string to_chrome_trace(const LayerTimeline& timeline, const std::string& title);

}  // namespace moescope
