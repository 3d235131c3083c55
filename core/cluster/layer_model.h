// Predicts the times of an expert-parallel MoE layer from a calibration file's parts, never from its layer times.
//
// Legend: T tokens a rank, K top_k, R ranks, D dim, H expert hidden dim, n rows on the fullest rank.
//
//   communication  four operations, forward and backward.
//     standard: 4 x all-to-all of T K D BF16 values, times the fullest rank's share over the mean. Between measured
//     sizes
//       latency + bytes / bandwidth (linear). Where the file measured a hot rank, its gain or loss against an
//       all-to-all of as many more bytes is applied.
//     DeepEP: dispatch + dispatch with cached handle + 2 x combine, at the token rows that the fullest rank receives:
//       linear in rows between measured routings of one T, log-log between measured T and between measured D; where
//       only one routing or one D was measured, with the square root, halfway between latency and bandwidth.
//   experts  three grouped GEMMs forward, three dgrad, three wgrad, over the rows of the fullest rank, each group
//   padded
//     to the 128 rows of a GEMM tile; linear in rows, and linear in ln(max/mean) between measured skews. For another
//     number of groups the same rows a group: t(G, n) = t(G', n G'/G) G/G'. Times the one fitted constant. SwiGLU and
//     the sum of the two input gradients move their bytes at memory bandwidth.
//   rest  permuting and un-permuting move their bytes at memory bandwidth; for DeepEP the layout kernel.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/calibration.h"
#include "core/parallel/volumes.h"

namespace moescope {

// Grouped GEMMs measured one by one, with pauses, against the nine of a layer back to back: the layer's are slower by
// this factor, on both calibrated hosts (clocks fall under sustained load). The only fitted number of the layer model:
// chosen once, by looking at the errors of experts_ms and of the whole layers of the 4- and the 8-GPU H200 file
// together. The whole-layer errors on these two files are therefore not those of a prediction made blind; on another
// file they are.
inline constexpr double kSustainedGemmSlowdown = 1.12;

struct LayerTime {
  double comm_ms, experts_ms, rest_ms;  // NaN: the calibration lacks what it takes
  double layer_ms() const { return comm_ms + experts_ms + rest_ms; }
};

class LayerModel {
 public:
  // `memory_copy_GBps` is used where the file does not say.
  LayerModel(Calibration calibration, double memory_copy_GBps, double sustained_slowdown = kSustainedGemmSlowdown);

  const Calibration& calibration() const { return calibration_; }
  double memory_copy_GBps() const { return memory_GBps_; }
  double sustained_slowdown() const { return slowdown_; }

  // Fills in what the shape and the routing lack, from the calibration's world size and the published shape of that
  // name. Assumptions are added to `notes`, each once. Throws std::runtime_error when a shape cannot be known.
  LayerShape complete(const LayerShape& shape, const ClusterRouting& routing, std::vector<std::string>& notes) const;
  LayerTime predict(const LayerShape& shape, const ClusterRouting& routing, AllToAll way,
                    std::vector<std::string>& notes) const;

 private:
  Calibration calibration_;
  double memory_GBps_, slowdown_;
};

struct LayerComparison {
  LayerShape shape;
  ClusterRouting routing;
  AllToAll way;
  LayerTime predicted;
  double measured_comm_ms, measured_layer_ms, measured_experts_ms;  // NaN: not measured
};

// Absolute relative errors over the rows that have both; NaN where there is none.
struct ErrorSummary {
  int count = 0;
  double median, worst;
};

struct CalibrationReport {
  std::vector<LayerComparison> rows;  // per measured layer the standard one, then DeepEP where measured
  ErrorSummary layer, comm, experts;
  std::vector<std::string> notes;  // missing in the file, or assumed
};
CalibrationReport compare_with_measured(const LayerModel& model);

}  // namespace moescope
