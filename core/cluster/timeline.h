// One MoE layer on every rank, operation by operation: who sends, who computes, who waits. Modelled.
//
// Legend: R = EP ranks. Rates, bytes and FLOPs are those of the step model (step_model.h), but per rank instead of the
// fullest one: a rank's dispatch takes its own bytes over the slower of its two links and the latency, its experts its
// own rows. All-to-alls end at the same time on all ranks, because each waits for data from the slowest. Two passes are
// shown, forward and backward; what else a layer does (attention, shared experts) is left out.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/step_model.h"
#include "core/frame/frame.h"

namespace moescope {

enum class RankActivity { dispatch, experts, combine, waiting };
const char* rank_activity_name(RankActivity activity);

struct RankInterval {
  int rank;
  RankActivity activity;
  bool backward;
  double from_us, to_us;
};

struct LayerTimeline {
  int ranks = 0;
  std::vector<RankInterval> intervals;  // by time within a rank, ranks in order
  double total_us = 0;
  double waiting_share = 0;  // of all ranks' time
};

// `volume` counts the copies of `tokens` tokens (of all ranks); they are scaled to the tokens of a microbatch. All else
// is from `config`; its traffic is not used, its recompute is left out. Throws std::runtime_error as step_time does.
LayerTimeline layer_timeline(const StepConfig& config, const StepParameters& parameters, const VolumeFrame& volume,
                             std::int64_t tokens);

// Chrome's trace event format, as Perfetto and chrome://tracing open it: a thread a rank, times in us.
std::string to_chrome_trace(const LayerTimeline& timeline, const std::string& title);

}  // namespace moescope
