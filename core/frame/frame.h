// The telemetry of one training step: plain values, immutable once published.
//
// Legend of shapes: T tokens of the batch, E routed experts, K top_k, R virtual ranks, N nodes of ranks.
// Empty vectors and NaN mean "this source does not have it" (another cadence, an imported log); panels say so.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/frame/operand_place.h"
#include "core/io/no_value.h"

namespace moescope {

// Where the time of a step goes. `experts` holds the grouped GEMMs with their quantization. On one process it also
// holds the copying of tokens to their rows and of gradients to theirs, which experts do as they begin; between ranks
// those are `dispatch` and `combine`, as the sums of what comes back always are.
enum class Phase { data, attention, router, dispatch, experts, combine, dense_ffn, head, optimizer, telemetry, other };
inline constexpr int kNumPhases = 11;
const char* phase_name(Phase phase);  // "dense FFN"
std::string phase_key(Phase phase);   // in files: "dense_ffn"

// Counts by magnitude, two bins to a factor of two: bin b holds values in [edge(b), edge(b + 1)), edge(40) = 1; the
// first also takes all that is smaller, the last all that is larger. What has no upper end is counted in
// kWideHalfOctaves bins, the last of which ends at 16.
inline constexpr int kHalfOctaves = 40, kWideHalfOctaves = 48;
using HalfOctaves = std::array<std::uint32_t, kHalfOctaves>;
inline float half_octave_edge(int bin) {
  return std::exp2(0.5f * static_cast<float>(bin - kHalfOctaves));
}
inline int half_octave_bin(float value, int bins = kHalfOctaves) {
  if (!(value > 0)) return 0;
  constexpr std::uint32_t kMantissaOfSqrt2 = 0x3504f3;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int octave = static_cast<int>(bits >> 23) - 127;
  const int bin = kHalfOctaves + 2 * octave + ((bits & 0x7fffff) >= kMantissaOfSqrt2 ? 1 : 0);
  return std::clamp(bin, 0, bins - 1);
}

// Token copies between R virtual ranks for one MoE layer's dispatch; combine is its transpose.
// Row-major, [source rank][destination]. Times bytes per token these are the all-to-all volumes.
struct VolumeFrame {
  int ranks = 0;
  int ranks_per_node = 0;
  std::vector<std::uint32_t> copies_RR;    // standard all-to-all: one copy per chosen expert
  std::vector<std::uint32_t> distinct_RR;  // DeepEP: one copy per destination rank
  std::vector<std::uint32_t> nodes_RN;     // DeepEP: one copy per destination node, own node counted
};

// What a step's all-to-alls really moved, where experts are spread over processes: all layers, forward and backward.
struct WireFrame {
  int ranks = 0;                       // 0: one process
  bool over_nodes = false;             // by way of nodes (two_hop.h), or straight to the rank
  std::vector<std::uint64_t> sent_RR;  // bytes given to the transport, [source][destination]; the diagonal stays
  std::vector<float> all_to_all_ms_R;  // time in all-to-alls, waiting for other ranks included
};

// Router of one MoE layer. Formulas: core/frame/router_stats.h.
struct RouterFrame {
  int layer = 0;                                 // index among all layers
  std::vector<std::uint32_t> tokens_per_expert;  // [E]
  std::vector<float> expert_bias;                // [E] after the step's update
  std::vector<float> score_mass;                 // [E] mean over tokens of the score's share, sums to 1
  std::vector<float> gate_mass;                  // [E] share of the mixing weights that each expert received, sums to 1
  float max_vio = kNoValue;                      // max_e u_e - 1, this batch
  float max_vio_window = kNoValue;               // the same over the last `window` steps
  float cv = kNoValue;
  float entropy_norm = kNoValue;              // of tokens_per_expert, H / ln E
  float dead_fraction = kNoValue;             // no token in the last `window` steps
  float score_entropy = kNoValue;             // mean over tokens, nats
  float mutual_information = kNoValue;        // entropy of the mean score distribution minus score_entropy, nats
  float margin = kNoValue;                    // mean over tokens of K-th minus (K+1)-th biased score
  float aux_loss = kNoValue;                  // with its coefficient
  float z_loss = kNoValue;                    // with its coefficient
  float padding_fraction = kNoValue;          // rows added to reach multiples of 32, over T*K
  float dropped_fraction = kNoValue;          // beyond router.capacity_factor
  float predicted_share = kNoValue;           // of the choices, from those of the MoE layer before (layer_prediction.h)
  std::vector<std::uint32_t> score_chosen;    // [kHalfOctaves or kWideHalfOctaves] scores before the bias of the T K
  std::vector<std::uint32_t> score_rejected;  // chosen experts, and of all others
  std::vector<std::uint32_t> margin_tokens;   // [kHalfOctaves or kWideHalfOctaves] tokens by margin
  VolumeFrame volume;
};

// Who chooses which expert in one MoE layer, over all batches since the frame before that had it, and what the experts'
// weights are like after the step. Formulas of what the screen shows of it: core/frame/specialisation.h.
struct SpecialisationFrame {
  int layer = 0;
  std::vector<std::uint32_t> domain_DE;    // slots of expert e from domain d (RunInfo::domains)
  std::vector<std::uint32_t> together_EE;  // tokens that chose both i and j; [i][i]: tokens of i
  std::vector<std::uint32_t> byte_256E;    // slots of expert e from tokens that are byte b
  std::vector<float> weight_norm_E;        // length of an expert's w1, w2 and w3 together
  std::vector<float> weight_sqnr_E;        // dB, of the same in the run's format; kNoValue: not quantized
  // [E, kBiasShares] of the step alone: quantiles over the tokens of r = cutoff - score, the bias at which expert e
  // would stand at a token's (K+1)-th best choice; at which shares: bias_shares() in specialisation.h. Empty: no score
  // chose, or all were chosen.
  std::vector<float> bias_for_share_EQ;
  int experts = 0;  // E where byte_256E is not there: an imported log
  std::size_t n_experts() const {
    return byte_256E.empty() ? static_cast<std::size_t>(experts) : byte_256E.size() / 256;
  }
};

// How a text was routed, token by token (a token is a byte). Probe and sample: by the weights and expert_bias after the
// step; a passage of the batch: in the step itself.
struct TokenLayer {
  int layer = 0;
  int top_k = 0;
  std::vector<std::uint16_t> experts_TK;  // best biased score first
  std::vector<float> scores_TK;           // theirs, before bias, normalisation and route_scale
  std::vector<float> margin_T;            // K-th minus (K+1)-th biased score
};
enum class TextKind : std::uint8_t {
  probe,   // the same text every time, so that steps and runs can be compared
  sample,  // written by the model itself
  batch    // a passage that it was just trained on
};
inline constexpr int kNumTextKinds = 3;
const char* text_kind_name(TextKind kind);
struct TokenFrame {
  TextKind kind = TextKind::probe;
  std::string text;           // [T]
  int prompt = 0;             // of a sample: its first bytes, which were given
  std::string domain;         // of a passage of the data; empty: unknown
  std::vector<float> loss_T;  // nats, of predicting this byte from those before it; the first of a sequence has none
  std::vector<TokenLayer> layers;
};

// What the quantizer did to one operand of one GEMM, of the routed experts to all of the layer together.
struct QuantFrame : OperandPlace {
  std::string format;                            // "mxfp8_e4m3_rceil", "nvfp4": quant_format.h
  std::array<std::uint32_t, 256> e8m0_blocks{};  // blocks by floor(log2 scale) + 127; 255: NaN or Inf
  float amax = kNoValue;
  float sqnr_db = kNoValue;  // +inf when exact
  float relative_l2 = kNoValue;
  float cosine = kNoValue;
  float underflow = kNoValue;  // share of non-zero values that became zero
  float clipped = kNoValue;    // share of values beyond the format's maximum after scaling
  float clipped_blocks = kNoValue;
  float crest = kNoValue;  // mean over blocks of amax / rms
};

// Tokens of one MoE layer whose set of chosen experts differs from a reference's at the same step and on the same
// tokens. The reference is
// - run 0: how far the runs have drifted apart, whose weights differ by then (TelemetryFrame::flips). Empty where the
//   runs' routers cannot be compared: another number of experts or top_k, or the layer is dense there;
// - an FP32 pass with this run's own weights: what its number formats do at this step (rounding_flips).
struct FlipFrame {
  // Margins are the reference's K-th minus (K+1)-th biased score.
  static constexpr int kMarginBins = kHalfOctaves;
  static float edge(int bin) { return half_octave_edge(bin); }
  using MarginHistogram = HalfOctaves;

  int layer = 0;
  float flip_rate = kNoValue;        // share of the batch's tokens, compared as sets: the order does not matter
  float overlap = kNoValue;          // mean over tokens of the experts in common, over K
  MarginHistogram margin_tokens{};   // all tokens; those without a margin (balance forced) are in no bin
  MarginHistogram margin_flipped{};  // those of them that flipped
};

// Tensors whose gradients are judged together. Norm gains count with what they feed: attention_norm, q_norm and kv_norm
// with attention, the last norm with the head; ffn_norm, which gate, experts and FFN share, only with `all`.
enum class GradientGroup : std::uint8_t { attention, gate, experts, ffn, embedding, head, all };
inline constexpr int kNumGradientGroups = 7;
const char* gradient_group_name(GradientGroup group);

// The run's gradient g against the gradient r of a forward and backward pass in FP32 with the same weights, expert_bias
// and batch (routed by its own scores, so that flips count).
struct GradientFrame {
  int layer = -1;  // -1: not of a layer (embedding, head, and `all` over the whole model)
  GradientGroup group = GradientGroup::all;
  float snr_db = kNoValue;  // 20 log10(|r| / |g - r|), +inf when equal
  float cosine = kNoValue;  // g.r / (|g| |r|)
};

struct TelemetryFrame {
  int run = 0;
  std::int64_t step = 0;     // from 0: the step that was just taken
  double wall_s = 0;         // since the run's first step
  std::int64_t tokens = 0;   // seen so far, this step included
  float ce_loss = kNoValue;  // mean cross-entropy, nats per byte
  float aux_loss = 0, z_loss = 0;
  float val_loss = kNoValue;   // the same of the held-out batches, after the step
  float max_logit = kNoValue;  // largest score of attention before its softmax, of all layers, heads and tokens
  float grad_norm = kNoValue;  // before clipping
  float lr = kNoValue;
  float tokens_per_s = kNoValue;
  std::array<float, kNumPhases> phase_ms{};
  std::vector<RouterFrame> routers;  // MoE layers in order
  std::vector<QuantFrame> quants;
  std::vector<FlipFrame> flips;                     // per MoE layer; of runs beside run 0
  std::vector<GradientFrame> gradients;             // per layer and group, then those of no layer
  std::vector<FlipFrame> rounding_flips;            // per MoE layer, of the FP32 pass that gives the gradients
  std::vector<SpecialisationFrame> specialisation;  // per MoE layer
  std::vector<TokenFrame> texts;
  WireFrame wire;
};

// Of the MoE layer; nullptr: no frame, or it has none of this layer.
const RouterFrame* find_router(const TelemetryFrame* frame, int layer);

// Kinds of markers beside "change" (change_marker.h) and "event". Settings: those in the log of an imported run, a JSON
// object, at the run's first step.
inline constexpr const char* kNoteKind = "note";
inline constexpr const char* kSettingsMarker = "settings";

// A live change, a note or an event, pinned to the step before which it happened.
struct Marker {
  int run = 0;
  std::int64_t step = 0;
  std::string kind;  // "change", "note", "event"
  std::string text;  // "router.bias_update_rate 0.001 -> 0.01"
  // Of a change: the setting and its new value as TOML has them, a text without quotes; else empty.
  std::string key = {}, value = {};
};

// What a panel must know of a run besides its frames.
struct RunInfo {
  int run = 0;
  std::string name;
  std::string source;       // "trained here", or the imported file
  std::string config_toml;  // empty for imports
  int n_layers = 0;
  std::vector<int> moe_layers;
  int n_experts = 0;
  int top_k = 0;
  std::int64_t tokens_per_step = 0;
  int ranks = 0, ranks_per_node = 0;
  int dim = 0;  // bytes per token copy = 2 * dim in BF16
  int window = 0;
  std::vector<std::string> domains;  // of the data, as SpecialisationFrame counts them
  std::string kernels;               // that computed it (kernel_names.h); empty: not recorded

  // Without a router to show, and not for want of data as in a log.
  bool all_layers_dense() const { return !config_toml.empty() && moe_layers.empty(); }
};

}  // namespace moescope
