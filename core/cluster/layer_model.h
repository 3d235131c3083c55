// Predicts the times of an expert-parallel MoE layer from the times of its parts in a calibration file, never from the
// file's layer times.
//
// Legend: T tokens per rank, K top_k, R ranks, D dim, H expert hidden dim, n rows on the fullest rank.
//
//   communication: four operations, forward and backward.
//     standard: 4 x all-to-all of T K D BF16 values, times the fullest rank's share over the mean. Time is interpolated
//     between measured sizes as latency + bytes / bandwidth (linearly). If the file has a measured hot rank, the time
//     is multiplied by the ratio of the hot rank's time to that of an all-to-all with as many more bytes for all ranks.
//     DeepEP: dispatch + dispatch with cached handle + 2 x combine, for the token rows that the fullest rank receives.
//     Time is interpolated linearly in rows between measured routings of one T, and log-log between measured T.
//   experts: three grouped GEMMs forward, three dgrad, three wgrad, over the rows of the fullest rank, each group
//   padded to whole tiles of 128 rows. Time is linear in rows, and linear in ln(max/mean) between measured skews. A
//   measurement of G' groups gives the time of G groups with as many rows per group: t(G, n) = t(G', n G'/G) G/G'. The
//   time of the GEMMs is multiplied by the one fitted constant. SwiGLU and the sum of the two input gradients move
//   their bytes at memory bandwidth.
//   rest: permuting and un-permuting move their bytes at memory bandwidth; for DeepEP, plus the layout kernel.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/calibration.h"
#include "core/cluster/ranks/volumes.h"

namespace moescope {

// The nine grouped GEMMs of a layer, back to back, are slower by this factor than GEMMs measured one by one with
// pauses, on both calibrated hosts (clocks fall under sustained load). It is the only fitted number of the layer model,
// chosen once by the errors of experts_ms and of the whole layers of the 4- and the 8-GPU H200 file together. Therefore
// the whole-layer errors on these two files (docs/cluster-model.md) are not errors of a blind prediction.
inline constexpr double kSustainedGemmSlowdown = 1.12;

struct LayerTime {
  double comm_ms, experts_ms, rest_ms;
  double layer_ms() const { return comm_ms + experts_ms + rest_ms; }
};

class LayerModel {
 public:
  // The calibration has GEMMs of every shape to predict, and DeepEP at its dim if it is predicted with DeepEP.
  LayerModel(Calibration calibration, double memory_copy_GBps)
      : calibration_(std::move(calibration)), memory_GBps_(memory_copy_GBps) {}

  const Calibration& calibration() const { return calibration_; }
  LayerTime predict(const LayerShape& shape, const ClusterRouting& routing, AllToAll kind) const;

 private:
  Calibration calibration_;
  double memory_GBps_;
};

struct LayerComparison {
  LayerShape shape;
  ClusterRouting routing;
  AllToAll all_to_all;
  LayerTime predicted;
  double measured_comm_ms, measured_layer_ms;  // NaN if not measured
};

// Returns for each measured layer a row with the standard all-to-all, then a row with DeepEP if it was measured.
std::vector<LayerComparison> compare_with_measured(const LayerModel& model);

// The gain of DeepEP over the standard all-to-all for a whole MoE layer: gains measured on 8 H200s
// (assets/calibration/h200x8.toml), the layer model's curves through these points, and the modelled gain for the router
// on the screen.
struct LayerGain {
  std::string name;  // name of the routing
  double copies, rank_max_over_mean;
  double measured, modelled;        // standard / DeepEP time of the layer; `measured` is NaN if only modelled
  double measured_ms, modelled_ms;  // time of the DeepEP layer
  double comm_ms = NAN, deep_ep_comm_ms = NAN;  // measured communication of the layer
};

struct LayerGains {
  std::vector<LayerGain> measured, by_groups, by_skew;  // by_groups and by_skew are modelled curves
};

// `model` is "671B" or "16B". Both functions are pure and meant for a worker thread: they take 130 ms and 20 ms. They
// throw std::runtime_error if the model was not measured.
LayerGains layer_gains(const std::string& model);
// Returns the modelled gain for the router of a run in this program; `load` is its tokens_per_expert.
LayerGain layer_gain_of_load(const std::string& model, const std::vector<std::uint32_t>& load);

}  // namespace moescope
