// Times measured on a GPU cluster, as a TOML file: all-to-all, DeepEP, grouped GEMMs and whole expert-parallel layers.
//
// The files are assets/calibration/*.toml (the README there explains each figure).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

// NCCL all-to-all in which every rank sends the same number of bytes to each rank.
struct AllToAllPoint {
  double bytes_per_rank, ms;
};

// NCCL all-to-all in which one rank receives `load_over_mean` times the mean.
struct HotRankPoint {
  double load_over_mean, bytes_per_rank, ms;
};

// DeepEP inside one node. The measured rank receives `received` tokens of `dim` BF16 values.
struct DeepEpPoint {
  double dim, tokens, received;
  double layout_ms, dispatch_ms, dispatch_cached_ms, combine_ms;
};

// One grouped GEMM over `tokens` rows in `groups` experts. The rows per expert follow Zipf(skew).
struct GroupedGemmPoint {
  std::string shape;  // "671B_w1": model and weight
  int groups;
  double tokens, skew, max_over_mean;
  double forward_ms, dgrad_ms, wgrad_ms;
};

// Legend: D dim, H expert hidden dim, E experts of all ranks, K top_k.
struct LayerShape {
  std::string model;
  int dim = 0, hidden = 0, n_experts = 0, top_k = 0;
};

struct ClusterRouting {
  double tokens_per_rank = 0;
  std::string label;                            // "round_robin", "skewed:0.6", ""
  std::vector<std::int64_t> tokens_per_expert;  // [E] over all ranks, expert e on rank e / (E / R); empty if not given
  double rank_max_over_mean, expert_max_over_mean;
  double copies_per_token_deep_ep;  // mean number of distinct ranks of a token; NaN if not given
};

struct LayerTimes {
  double standard_comm_ms, standard_layer_ms, deep_ep_comm_ms, deep_ep_layer_ms, experts_ms;  // NaN if not measured
};

struct MeasuredLayer {
  LayerShape shape;
  ClusterRouting routing;
  LayerTimes times;
};

struct Calibration {
  int world = 0;  // ranks R
  std::vector<AllToAllPoint> all_to_all;
  std::vector<HotRankPoint> hot_rank;
  std::vector<DeepEpPoint> deep_ep;
  std::vector<GroupedGemmPoint> grouped_gemm;
  std::vector<MeasuredLayer> layers;
};

// Throws std::runtime_error with file, line and key if a figure is absent or no number.
Calibration parse_calibration(std::string_view text, const std::string& file);
const Calibration& h200_calibration();  // of 8 H200s, the only file with both kinds of all-to-all

}  // namespace moescope
