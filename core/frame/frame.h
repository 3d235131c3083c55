// The telemetry of one training step: plain values, immutable once published.
//
// Legend of shapes: T tokens of the batch, E routed experts, K top_k, R virtual ranks, N nodes of ranks. Empty vectors
// and NaN mean that the source does not have a value (another cadence, an imported log); panels say so.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/no_value.h"
#include "core/numerics/gemm_operand.h"
#include "core/numerics/names.h"
#include "core/numerics/number_format.h"

namespace moescope {

// Parts of the time of a step. `experts` holds the grouped GEMMs with their quantization. On one process it also holds
// the copying of tokens and of gradients to the rows of their experts, because the experts begin with it; between ranks
// this copying is in `dispatch` and `combine`. `combine` always holds the sums of the experts' outputs.
enum class Phase { data, attention, router, dispatch, experts, combine, dense_ffn, head, optimizer, telemetry, other };
inline constexpr int kNumPhases = 11;
inline constexpr auto phase_name = names_of<Phase>("data", "attention", "router", "dispatch", "experts", "combine",
                                                   "dense FFN", "head", "optimizer", "telemetry", "other");
std::string phase_key(Phase phase);  // "dense_ffn", as in files

// Counts by magnitude, two bins per factor of two: bin b holds values in [edge(b), edge(b + 1)), edge(40) = 1. The
// first bin also holds all smaller values, the last all larger ones. Values without an upper limit use kWideHalfOctaves
// bins, the last of which ends at 16.
inline constexpr int kHalfOctaves = 40, kWideHalfOctaves = 48;
using HalfOctaves = std::array<std::uint32_t, kHalfOctaves>;
inline float half_octave_edge(int bin) {
  return std::exp2(0.5f * (bin - kHalfOctaves));
}
inline int half_octave_bin(float value, int bins = kHalfOctaves) {
  if (!(value > 0)) return 0;
  constexpr std::uint32_t kMantissaOfSqrt2 = 0x3504f3;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int octave = static_cast<int>(bits >> 23) - 127;
  const int bin = kHalfOctaves + 2 * octave + ((bits & 0x7fffff) >= kMantissaOfSqrt2 ? 1 : 0);
  return std::clamp(bin, 0, bins - 1);
}

// Token copies between R virtual ranks for one MoE layer's dispatch; combine is its transpose. Row-major, [source
// rank][destination]. Multiplied by bytes per token they are the all-to-all volumes.
struct VolumeFrame {
  int ranks = 0;
  int ranks_per_node = 0;
  std::vector<std::uint32_t> copies_RR;    // standard all-to-all: one copy per chosen expert
  std::vector<std::uint32_t> distinct_RR;  // DeepEP: one copy per destination rank
  std::vector<std::uint32_t> nodes_RN;     // DeepEP: one copy per destination node, own node counted
};

// The bytes that the all-to-alls of a step sent between processes over which the experts are spread: all layers,
// forward and backward.
struct WireFrame {
  int ranks = 0;                       // 0 on one process
  bool over_nodes = false;             // through a rank of the destination's node (two_hop.h), not straight to the rank
  std::vector<std::uint64_t> sent_RR;  // bytes given to the transport, [source][destination]; the diagonal is not sent
  std::vector<float> all_to_all_ms_R;  // time in all-to-alls, including waiting for other ranks
};

// Router of one MoE layer. Formulas: core/frame/router_stats.h.
struct RouterFrame {
  int layer = 0;                                 // index among all layers
  std::vector<std::uint32_t> tokens_per_expert;  // [E]
  std::vector<float> expert_bias;                // [E] after the update of the step
  std::vector<float> score_mass;                 // [E] mean over tokens of the score's share; sums to 1
  std::vector<float> gate_mass;                  // [E] share of the mixing weights that each expert received; sums to 1
  float max_vio = kNoValue;                      // max_e u_e - 1 over this batch
  float max_vio_window = kNoValue;               // max_e u_e - 1 over the last `window` steps
  float cv = kNoValue;
  float entropy_norm = kNoValue;            // H / ln E of tokens_per_expert
  float dead_fraction = kNoValue;           // share of experts without a token in the last `window` steps
  float score_entropy = kNoValue;           // mean over tokens, nats
  float mutual_information = kNoValue;      // entropy of the mean score distribution minus score_entropy, nats
  float margin = kNoValue;                  // mean over tokens of K-th minus (K+1)-th biased score
  float aux_loss = kNoValue;                // times its coefficient
  float z_loss = kNoValue;                  // times its coefficient
  float padding_fraction = kNoValue;        // rows added to reach multiples of 32, over T*K
  float dropped_fraction = kNoValue;        // share of the copies beyond router.capacity_factor
  float max_vio_microbatch = kNoValue;      // mean over the microbatches of their max_vio
  float max_vio_sequence = kNoValue;        // mean over the sequences of their max_vio
  float predicted_share = kNoValue;         // share of choices that the layer before predicts (specialisation.h)
  std::vector<std::uint32_t> score_chosen;  // [kHalfOctaves or kWideHalfOctaves] scores of chosen experts, before bias
  std::vector<std::uint32_t> score_rejected;  // [kHalfOctaves or kWideHalfOctaves] scores of all other experts
  std::vector<std::uint32_t> margin_tokens;   // [kHalfOctaves or kWideHalfOctaves] tokens by margin
  VolumeFrame volume;
};

// Which tokens choose which expert in one MoE layer, summed over all batches since the previous frame with these
// tables, and figures of the experts' weights after the step. core/frame/specialisation.h has the formulas of the
// figures on the screen.
struct SpecialisationFrame {
  int layer = 0;
  std::vector<std::uint32_t> domain_DE;    // slots of expert e from domain d (RunInfo::domains)
  std::vector<std::uint32_t> together_EE;  // tokens that chose both i and j; [i][i]: tokens of i
  std::vector<std::uint32_t> byte_256E;    // slots of expert e from tokens that are byte b
  std::vector<float> weight_norm_E;        // norm of an expert's w1, w2 and w3 together
  // Norms of the gradient of these weights, before clipping, and of their change, in the last step alone.
  std::vector<float> gradient_norm_E, update_norm_E;
  std::vector<float> weight_sqnr_E;  // SQNR of these weights in the run's format, dB; kNoValue: not quantized
  // [E, kBiasShares] quantiles, over the tokens of the last step, of r = cutoff - score: the bias with which expert e
  // would have the (K+1)-th best biased score of a token. bias_shares() in specialisation.h has the shares of the
  // quantiles. Empty if experts are not chosen by scores, or all are chosen.
  std::vector<float> bias_for_share_EQ;
  int experts = 0;  // E if byte_256E is empty, as in an imported log
  std::size_t n_experts() const {
    return byte_256E.empty() ? static_cast<std::size_t>(experts) : byte_256E.size() / 256;
  }
};

// How a text was routed, [T] by its bytes: every byte of a token has the routing of the token, its first byte the loss.
// Probe and sample are routed with the weights and expert_bias after the step, a passage of the batch in the step.
struct TokenLayer {
  int layer = 0;
  int top_k = 0;
  std::vector<std::uint16_t> experts_TK;  // by biased score, best first
  std::vector<float> scores_TK;           // scores of these experts, before bias, normalisation and route_scale
  std::vector<float> margin_T;            // K-th minus (K+1)-th biased score
};
enum class TextKind : std::uint8_t {
  probe,   // one fixed text, so that steps and runs can be compared
  sample,  // written by the model
  batch    // a passage that the model was just trained on
};
inline constexpr int kNumTextKinds = 3;
inline constexpr auto text_kind_name = names_of<TextKind>("probe", "sample", "batch");
struct TokenFrame {
  TextKind kind = TextKind::probe;
  std::string text;           // [T]
  int prompt = 0;             // length of a sample's prompt, bytes
  std::string domain;         // domain of a passage of the data; empty if unknown
  std::vector<float> loss_T;  // nats, for predicting this token from those before it; NaN if it has no prediction
  std::vector<TokenLayer> layers;
};

// Statistics of the quantization of one operand of one GEMM. Routed experts of a layer are counted together.
struct QuantFrame : OperandPlace {
  QuantFormat format;
  std::array<std::uint32_t, 256> e8m0_blocks{};  // blocks by floor(log2 scale) + 127; 255: NaN or infinity
  float amax = kNoValue;
  float sqnr_db = kNoValue;  // +inf if exact
  float relative_l2 = kNoValue;
  float cosine = kNoValue;
  float underflow = kNoValue;  // share of non-zero values that became zero
  float clipped = kNoValue;    // share of values above the format's maximum after scaling
  float clipped_blocks = kNoValue;
  float crest = kNoValue;  // mean over blocks of amax / rms
};

// Tokens of one MoE layer whose set of chosen experts differs from the set of a reference at this step for the same
// tokens. The reference is
// - run A for the rows of TelemetryFrame::flips, which show how far the weights of the runs have drifted apart. A layer
//   has no row if its routers cannot be compared: another number of experts or top_k, or the layer is dense in run A;
// - an FP32 pass with this run's own weights for the rows of TelemetryFrame::rounding_flips, which show the effect of
//   the run's number formats at this step.
struct FlipFrame {
  int layer = 0;
  float flip_rate = kNoValue;  // share of the batch's tokens whose sets of experts differ
  float overlap = kNoValue;    // mean over tokens of the number of experts in common, divided by K
  // Tokens by margin, which is the reference's K-th minus (K+1)-th biased score.
  HalfOctaves margin_tokens{};   // all tokens; tokens without a margin (forced balance) are in no bin
  HalfOctaves margin_flipped{};  // tokens that flipped
};

// Tensors whose gradients are compared together. Gains of norms belong to the layer that they feed: attention_norm,
// q_norm and kv_norm to attention, the last norm to the head. ffn_norm, which gate, experts and FFN share, belongs only
// to `all`.
enum class GradientGroup : std::uint8_t { attention, gate, experts, ffn, embedding, head, all };
inline constexpr int kNumGradientGroups = 7;
inline constexpr auto gradient_group_name =
    names_of<GradientGroup>("attention", "router gate", "routed experts", "FFN", "embedding", "head", "all");

// The run's gradient g compared with the gradient r of a forward and backward pass in FP32 with the same weights,
// expert_bias and batch. That pass routes by its own scores, so that flips count as errors. A second FP32 pass uses the
// run's experts (pinned), so that flips do not count.
struct GradientFrame {
  int layer = -1;  // -1 if not of a layer (embedding, head, and `all` over the whole model)
  GradientGroup group = GradientGroup::all;
  float snr_db = kNoValue;  // 20 log10(|r| / |g - r|), +inf if equal
  float cosine = kNoValue;  // g.r / (|g| |r|)
  float pinned_snr_db = kNoValue, pinned_cosine = kNoValue;
};

// The only values of a router that are rounded to BF16; all others are in FP32. none: no values, for comparison.
enum class RouterRounding : std::uint8_t {
  none,
  operands,     // inputs and weights of the gate, whose products are added up in FP32
  gate_output,  // the logits as they are stored
  bias,         // expert_bias as it is stored
  counts        // the counts by which expert_bias moves; the choice of this step does not change
};
inline constexpr int kNumRouterRoundings = 5;
inline constexpr auto router_rounding_name =
    names_of<RouterRounding>("none", "operands", "gate output", "bias", "counts");

// Effect of one rounding alone in the router of one MoE layer, with the inputs of the FP32 pass that computes the
// reference gradients.
struct RouterRoundingFrame {
  int layer = 0;
  RouterRounding rounding = RouterRounding::none;
  float changed = kNoValue;      // share of the tokens with another set of experts; of counts: share of the experts
                                 // whose bias moves in another direction
  float max_vio = kNoValue;      // max_vio of the choice with this rounding
  float bias_values = kNoValue;  // number of different values of expert_bias
  HalfOctaves margin_tokens{};   // tokens by margin without rounding; all 0 for counts
  HalfOctaves margin_flipped{};  // tokens with another set of experts
};

struct TelemetryFrame {
  int run = 0;
  std::int64_t step = 0;     // number of this step, from 0
  double wall_s = 0;         // since the first step of the run
  std::int64_t tokens = 0;   // since the first step, including this step
  float ce_loss = kNoValue;  // mean cross-entropy, nats/token
  float aux_loss = 0, z_loss = 0;
  float val_loss = kNoValue;   // mean cross-entropy of the held-out batches after the step, nats/token
  float max_logit = kNoValue;  // largest attention score before the softmax, over all layers, heads and tokens
  // The run's probabilities p of the next tokens, compared with the probabilities q of an FP32 pass with the same
  // weights and batch (core/numerics/statistics.h), at the steps at which gradients are compared. If
  // checkpoint B is compared with checkpoint A, q are the probabilities of A.
  float fp32_kl = kNoValue;                 // sum over the vocabulary of q ln(q / p), mean over tokens
  float fp32_k1 = kNoValue;                 // mean of -d, d = ln p - ln q of the next token
  float fp32_k3 = kNoValue;                 // mean of exp(d) - 1 - d
  float fp32_ratio_beyond_2 = kNoValue;     // share of the tokens with |d| > ln 2
  float fp32_any_layer_flipped = kNoValue;  // share of the tokens with other experts in at least one layer
  float grad_norm = kNoValue;               // before clipping
  float lr = kNoValue;
  float tokens_per_s = kNoValue;
  std::array<float, kNumPhases> phase_ms{};
  std::vector<RouterFrame> routers;  // one per MoE layer, in order
  std::vector<QuantFrame> quants;
  std::vector<FlipFrame> flips;                       // per MoE layer, against run A; empty in run A
  std::vector<GradientFrame> gradients;               // per layer and group, then those without a layer
  std::vector<FlipFrame> rounding_flips;              // per MoE layer, against the FP32 pass of the gradients
  std::vector<RouterRoundingFrame> router_roundings;  // per MoE layer and rounding, at the steps of `gradients`
  std::vector<SpecialisationFrame> specialisation;    // per MoE layer
  std::vector<TokenFrame> texts;
  WireFrame wire;
};

// Returns the router of an MoE layer; nullptr if there is no frame or it lacks this layer.
const RouterFrame* find_router(const TelemetryFrame* frame, int layer);

// Kinds of markers besides "change" (change_marker()) and "event". kSettingsMarker: the settings in the log of an
// imported run, as a JSON object, at its first step. kProgramMarker: the name of the program that wrote the log.
inline constexpr const char* kNoteKind = "note";
inline constexpr const char *kSettingsMarker = "settings", *kProgramMarker = "program";
// Kinds of markers that hold measurements of a model, as JSON (model_scans.h).
inline constexpr const char *kOperandsMarker = "operands", *kExpertsMarker = "experts",
                            *kSimilarityMarker = "similarity";
// True if markers of this kind hold data of the run instead of marking a step on the timeline.
inline bool is_data_marker(std::string_view kind) {
  return kind == kSettingsMarker || kind == kProgramMarker || kind == kOperandsMarker || kind == kExpertsMarker ||
         kind == kSimilarityMarker;
}

// A live change, a note or an event, attached to the step before which it happened.
struct Marker {
  int run = 0;
  std::int64_t step = 0;
  std::string kind;  // "change", "note", "event"
  std::string text;  // "router.bias_update_rate 0.001 -> 0.01"
  // Setting and new value of a change, as TOML writes them, texts without quotes; otherwise empty.
  std::string key = {}, value = {};
};

// Facts about a run that panels need besides its frames.
struct RunInfo {
  int run = 0;
  std::string name;
  std::string source;       // "trained here", or the imported file
  std::string config_toml;  // empty for imports
  int n_layers = 0;
  std::vector<int> moe_layers;  // their indices among all layers, rising
  int n_experts = 0;
  int top_k = 0;
  std::int64_t tokens_per_step = 0;
  int ranks = 0, ranks_per_node = 0;
  int dim = 0;                       // bytes per token copy = 2 * dim in BF16
  int window = 0;                    // steps whose loads max_vio_window and dead_fraction add up
  std::vector<std::string> domains;  // domains of the data, in the order of SpecialisationFrame
  std::string kernels;               // kernels that computed the run (processor.h); empty if not recorded

  // True if the run has no router. False if this is not known, as for a log.
  bool all_layers_dense() const { return !config_toml.empty() && moe_layers.empty(); }
};

// Where the figures of a run come from.
enum class RunOrigin : std::uint8_t {
  training,    // of this program
  checkpoint,  // texts run through another program's model, whose weights do not change from step to step
  log          // of another program
};

// The log of another program has no kernels of this program.
inline RunOrigin run_origin(const RunInfo& info) {
  if (!info.config_toml.empty()) return RunOrigin::training;
  return info.kernels.empty() ? RunOrigin::log : RunOrigin::checkpoint;
}

// The marker of a live change: the setting, its new value, and the sentence that the timeline shows.
inline constexpr const char* kChangeKind = "change";
// A run whose loads were found by the shape of their values alone: "loads assumed from `NAME`: confirm".
inline constexpr const char* kAssumptionMarker = "assumption";

// Returns "router.bias_update_rate 0.001 -> 0.01". An empty value becomes "none", and a long old value is shortened.
// `for_all_runs` appends that the change applies to all runs, as a change of the mixture does.
std::string change_text(std::string_view key, const std::string& before, const std::string& value,
                        bool for_all_runs = false);
Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs = false);

// Tokens of several bytes in a routed text.
//
// A TokenFrame has a row for each byte. If a checkpoint's tokenizer has split the text, every byte of a token has the
// token's routing, and only its first byte has a loss.
struct TokenSpan {
  std::size_t begin = 0, end = 0;  // bytes
  std::size_t size() const { return end - begin; }
};

// Returns the tokens of the text in order, without gaps. A byte continues the token before it if it has no loss
// although other bytes of the text have one, and its experts and scores in every layer are those of the byte before it.
std::vector<TokenSpan> token_spans(const TokenFrame& text);
bool has_long_tokens(const std::vector<TokenSpan>& spans);  // true if a token has several bytes
// Returns the span that contains `position`, a byte of the text.
TokenSpan span_at(const std::vector<TokenSpan>& spans, std::size_t position);

}  // namespace moescope
