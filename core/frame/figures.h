// The figures of a frame, each declared once: its place in the frame, its column in recordings, its key in JSON lines,
// and the card that explains it on the screen. History, recordings, JSON lines, cards, lessons and imports of logs use
// these tables and name no figure of their own. A new figure must be the last of its table, because nan_mask has one
// bit per figure.
//
// Legend of the formulas: T tokens of the batch, E routed experts, K top_k, n_e slots assigned to expert e, n their
// mean T K / E, u_e = n_e / n; x a value before and q after quantization.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/frame/frame.h"
#include "core/frame/provenance.h"
#include "core/frame/router_stats.h"

namespace moescope {

// Every scalar with a time axis. Figures of a frame are in the order of their table below.
enum class Metric {
  ce_loss,
  aux_loss,
  z_loss,
  grad_norm,
  lr,
  tokens_per_s,
  val_loss,
  max_logit,
  fp32_kl,
  fp32_k1,
  fp32_k3,
  fp32_ratio_beyond_2,
  fp32_any_layer_flipped,
  step_ms,
  max_vio_p50,  // this to max_vio_window_max: percentiles over the MoE layers
  max_vio_p90,
  max_vio_max,
  max_vio_window_p50,
  max_vio_window_p90,
  max_vio_window_max,
  max_vio,
  max_vio_window,
  cv,
  entropy_norm,
  dead_fraction,
  score_entropy,
  margin,
  router_aux_loss,
  router_z_loss,
  padding_fraction,
  dropped_fraction,
  mutual_information,
  predicted_share,
  max_vio_microbatch,
  max_vio_sequence,
  flip_rate,
  quant_sqnr_db,
  gradient_snr_db,
  gradient_cosine,
  ranks_per_token,
  nodes_per_token,
  rank_overload,
  rounding_flip_rate,
  pinned_gradient_snr_db,
  pinned_gradient_cosine,
  changed_by_operands,  // this to changed_by_counts: in the order of RouterRounding
  changed_by_gate_output,
  changed_by_bias,
  changed_by_counts,
};
inline constexpr int kNumMetrics = static_cast<int>(Metric::changed_by_counts) + 1;
inline constexpr int kWholeRun = -1;  // layer of figures of the whole run

// The value of the run (kWholeRun) of a figure.
enum class RunValue : std::uint8_t {
  alone,           // layers have none
  mean_of_layers,  // of the values of the MoE layers
  all_tensors      // of all operands or gradients together, besides the values of those of each layer
};

enum class Worst : std::uint8_t { largest, smallest };

// A value with which a plot compares a figure: "chance 0.17".
struct FigureReference {
  const char* label = nullptr;                // nullptr: none
  double (*value)(const RunInfo&) = nullptr;  // NaN if the run does not tell
};

// How a plot shows a figure.
struct FigurePlot {
  double low = 0, high = 0;      // the value axis contains both
  std::optional<Worst> worst{};  // which layer is the worst; nullopt: none is worse than another
  std::array<FigureReference, 2> references{};
};

// The form in which the card of a figure of `Metric` writes its value.
enum class CardForm : std::uint8_t {
  value,            // the value itself
  own,              // own_parts() of explain_scalars.cpp
  share_of_tokens,  // number of tokens / tokens of the batch
  mean_of_tokens,   // sum over the tokens / tokens of the batch
  sum_of_layers,    // from here to worst_layer: of the values of the layers
  median_layer,
  upper_layers,
  worst_layer,
  mean_of_operands,
  gradient_snr,
  gradient_angle,
};

struct CardParts {
  constexpr CardParts(CardForm form = CardForm::value, const char* text = nullptr, Metric layer_metric = {})
      : form(form), text(text), layer_metric(layer_metric) {}

  CardForm form;
  const char* text;     // what is counted or added up; {} stands for the reference; nullptr: nothing to say
  Metric layer_metric;  // whose values of the layers are meant
};
inline constexpr CardParts kPlainParts{}, kOwnParts(CardForm::own);
inline constexpr CardParts kNextTokenParts(
    CardForm::value, "mean over the tokens, of the probability of the token that follows; the reference is {}");
inline constexpr CardParts kMaxVioOfParts(
    CardForm::value, "mean of max_e n_e / n - 1 over the microbatches or sequences; only the mean is recorded");
inline constexpr CardParts kChangedByRounding(
    CardForm::share_of_tokens, "tokens whose set of experts changes with this rounding alone, of the batch");

// Texts about a figure for the screen.
struct MetricInfo {
  const char* key;      // key in lessons, findings and cards; mostly the name of its column
  const char* name;     // on screen
  const char* unit;     // "" for a plain number
  const char* formula;  // plain text
  const char* good;     // good values
  const char* bad;      // bad values and their meaning
  const char* source;   // paper or repository of the definition
  const char* knobs;    // what affects the figure, strongest effect first: "model sizes", keys of the config
  CardParts parts{};
  Provenance provenance = Provenance::measured_here;
  const char* short_name = name;  // on tiles
  FigurePlot plot{};
  RunValue run_value = RunValue::alone;  // set by the tables of metrics.h
};

template <class Frame>
struct FigureField {
  std::optional<Metric> metric;  // nullopt if the figure has no time axis
  float Frame::*member;
  const char* column;  // column in recordings, key in JSON lines
  const char* note;    // beside the column in the schema
};
template <class Frame>
struct FrameFigure : FigureField<Frame> {
  MetricInfo card;
};

inline double log_of(int count) {
  return count > 0 ? std::log(count) : NAN;
}
inline constexpr FigurePlot kLargestIsWorst = {.worst = Worst::largest};
inline constexpr FigurePlot kMaxVioPlot = {
    .worst = Worst::largest,
    .references = {{{"chance of a batch", [](const RunInfo& info) { return chance_max_vio(info); }}}}};
inline constexpr FigurePlot kCvPlot = {.high = 0.1, .worst = Worst::largest};
inline constexpr FigurePlot kLoadEntropyPlot = {.low = 1, .high = 1, .worst = Worst::smallest};
inline constexpr FigurePlot kUnusedPlot = {.high = 0.01, .worst = Worst::largest};
inline constexpr FigurePlot kScoreEntropyPlot = {
    .references = {{{"ln E", [](const RunInfo& info) { return log_of(info.n_experts); }},
                    {"ln K", [](const RunInfo& info) { return log_of(info.top_k); }}}}};
inline constexpr FigurePlot kPredictedPlot = {
    .high = 1, .references = {{{"K / E", [](const RunInfo& info) {
                                  return info.n_experts > 0 ? 1.0 * info.top_k / info.n_experts : NAN;
                                }}}}};
inline constexpr FigurePlot kRanksPlot = {
    .low = 1,
    .high = 1,
    .references = {{{"standard: K", [](const RunInfo& info) { return info.top_k > 0 ? double(info.top_k) : NAN; }}}}};
inline constexpr FigurePlot kFullestRankPlot = {.low = 1, .high = 1, .worst = Worst::largest};

inline constexpr auto kFrameFigures = std::to_array<FrameFigure<TelemetryFrame>>({
    {{Metric::ce_loss, &TelemetryFrame::ce_loss, "ce_loss", "mean cross-entropy, nats/token"},
     {"ce_loss", "Cross-entropy loss", "nats/token", "mean over tokens of -ln p(next token)",
      "Falls steadily; below the text's unigram entropy once context is used. A uniform guess has ln(vocabulary): ln "
      "256 = 5.55 if a token is a byte, as in a run without a tokenizer.",
      "Rises or jumps: the learning rate is too high, or the number format loses the gradient. NaN: the run has "
      "diverged.",
      "cross-entropy in nats; divide by ln 2 for bits per token", "optimizer.lr, precision.experts", kOwnParts}},
    {{Metric::aux_loss, &TelemetryFrame::aux_loss, "aux_loss", "auxiliary loss, with its coefficient"},
     {"aux_loss", "Auxiliary loss", "",
      "sum over MoE layers of the layer's auxiliary loss, coefficient included; in the log of another program as that "
      "program counts it (Megatron-LM: mean of the layers, without the coefficient)",
      "Small beside the cross-entropy. Mode batch: an even load gives the coefficient times the number of MoE layers. "
      "Mode sequence: the same only if every sequence is even, usually more.",
      "As large as the cross-entropy: the router learns balance before anything else.",
      "Switch Transformer arXiv:2101.03961; sequence-wise: DeepSeek-V3 arXiv:2412.19437, whose f_e counts the top K "
      "without the bias; here it counts the experts that were chosen, as TorchTitan does",
      "router.aux_mode, router.aux_coeff",
      CardParts(CardForm::sum_of_layers, "the auxiliary losses", Metric::router_aux_loss)}},
    {{Metric::z_loss, &TelemetryFrame::z_loss, "z_loss", "router z-loss, with its coefficient"},
     {"z_loss", "Router z-loss", "",
      "sum over MoE layers of coefficient * mean_t (ln sum_e exp logit_te)^2; in the log of another program as that "
      "program counts it",
      "Small and flat: router logits stay small.",
      "Grows: the logits become so large that low precision rounds them visibly.", "ST-MoE arXiv:2202.08906",
      "router.z_coeff", CardParts(CardForm::sum_of_layers, "the z-losses", Metric::router_z_loss)}},
    {{Metric::grad_norm, &TelemetryFrame::grad_norm, "grad_norm", "before clipping"},
     {"grad_norm", "Gradient norm", "", "sqrt(sum of squares of all gradients), before clipping",
      "Falls early, then varies slowly, below a few times its median.",
      "Spikes: a bad batch or instability. Always above the clipping limit: every step is scaled down.",
      "global L2 norm, as in torch.nn.utils.clip_grad_norm_", "optimizer.clip, optimizer.lr", kOwnParts}},
    {{Metric::lr, &TelemetryFrame::lr, "lr", ""},
     {"lr", "Learning rate", "", "warm-up, then constant or cosine from lr to lr_min", "Follows the schedule.",
      "Too high: the loss spikes. Too low: it falls very slowly.", "the run's schedule",
      "optimizer.lr, optimizer.schedule, optimizer.warmup_steps", kOwnParts}},
    {{Metric::tokens_per_s, &TelemetryFrame::tokens_per_s, "tokens_per_s", ""},
     {"tokens_per_s", "Throughput", "tokens/s", "tokens of the step / wall time of the step", "Flat over the run.",
      "Falls: the machine is shared or hot, the load of the experts has become uneven, or twins train beside the run "
      "and share its threads.",
      "wall clock", "model sizes, data.batch", kOwnParts}},
    {{Metric::val_loss, &TelemetryFrame::val_loss, "val_loss", "cross-entropy of the held-out batches, nats/token"},
     {"val_loss", "Validation loss", "nats/token",
      "mean of -ln p(next token) over the tokens of four fixed batches that are never trained on, with the weights "
      "after the step",
      "Falls with the training loss. It varies less, because the text is the same each time.",
      "Stays above a falling training loss: the model memorizes the training text. Rises: stop the training.",
      "cross-entropy of a held-out set", "telemetry.validation_every, data.held_out"}},
    {{Metric::max_logit, &TelemetryFrame::max_logit, "max_logit", "largest attention score before the softmax"},
     {"max_logit", "Max QK logit", "", "max over layers, heads and pairs of tokens of q.k / sqrt(d_head)",
      "Grows slowly and stays in the tens: attention still mixes tokens.",
      "Hundreds and rising: attention reads a single token, and with low precision a NaN follows. QK-clip scales down "
      "the heads above its limit after each step.",
      "max attention logit of MuonClip, Kimi K2, arXiv:2507.20534", "optimizer.qk_clip, optimizer.lr"}},
    {{Metric::fp32_kl, &TelemetryFrame::fp32_kl, "fp32_kl",
      "divergence of the reference's predictions from the run's, nats"},
     {"fp32_kl", "KL from the reference", "nats",
      "mean over tokens of sum_v q_v ln(q_v / p_v), p the run's probabilities of the next token and q those of the "
      "reference on the same batch: an FP32 pass with the same weights, or checkpoint A beside checkpoint B",
      "Far below 0.001: the formats, or the changes of B, hardly change the predictions.",
      "Grows during training: the same weights give other predictions in the other format. Between a trainer and an "
      "inference engine this mismatch makes reinforcement learning of MoE models unstable.",
      "KL(q || p); the mismatch of trainer and engine in arXiv:2510.11370",
      "precision.experts, telemetry.gradient_every",
      CardParts(CardForm::value, "mean over the tokens, of all probabilities of the next token; the reference is {}")}},
    {{Metric::fp32_k1, &TelemetryFrame::fp32_k1, "fp32_k1", "mean of -d, d = ln p - ln q of the next token"},
     {"fp32_k1", "KL estimate k1", "nats",
      "mean over tokens of -d, d = ln p - ln q of the token that follows in the text; p: the run, q: the reference "
      "(FP32 pass or checkpoint A)",
      "Near 0: it is the difference of the two losses.",
      "Its sign may change from step to step. The next tokens come from the text and not from the model, so that k1 "
      "and k3 are no estimates of the KL divergence here; they are the numbers that trainers log.",
      "k1 of Schulman's estimators; d as in AReaL, pull request 1207", "precision.experts, telemetry.gradient_every",
      kNextTokenParts}},
    {{Metric::fp32_k3, &TelemetryFrame::fp32_k3, "fp32_k3", "mean of exp(d) - 1 - d"},
     {"fp32_k3", "KL estimate k3", "nats",
      "mean over tokens of exp(d) - 1 - d, d = ln p - ln q of the token that follows in the text; p: the run, q: the "
      "reference (FP32 pass or checkpoint A)",
      "Near 0; never negative.",
      "Far above the KL divergence: a few tokens have a much larger probability in the run than in the reference.",
      "rollout_train_k3_kl of AReaL, pull request 1207", "precision.experts, telemetry.gradient_every",
      kNextTokenParts}},
    {{Metric::fp32_ratio_beyond_2, &TelemetryFrame::fp32_ratio_beyond_2, "fp32_ratio_beyond_2",
      "share of the tokens with |d| > ln 2"},
     {"fp32_ratio_beyond_2", "Probability ratio beyond 2", "share",
      "#{tokens with |ln p - ln q| > ln 2} / T, of the token that follows in the text; p: the run, q: the reference "
      "(FP32 pass or checkpoint A)",
      "0: no token's probability changes by more than a factor of 2.",
      "Above 0: these tokens dominate weights by importance sampling. In MoE models most of them have other experts in "
      "at least one layer.",
      "extreme_frac_tau2 of AReaL, pull request 1207; arXiv:2510.11370", "precision.experts, telemetry.gradient_every",
      CardParts(CardForm::share_of_tokens,
                "tokens whose probability differs by more than a factor of 2, of the batch; the reference is {}")}},
    {{Metric::fp32_any_layer_flipped, &TelemetryFrame::fp32_any_layer_flipped, "fp32_any_layer_flipped",
      "share of the tokens with other experts than in the reference in at least one layer"},
     {"fp32_any_layer_flipped", "Flipped in any layer", "share",
      "#{tokens whose set of K experts differs from the reference's (FP32 pass or checkpoint A) in at least one MoE "
      "layer} / T",
      "Near the share of a single layer: the layers change the same tokens.",
      "Near 1 in deep models although each layer flips few tokens: of Qwen3-30B-A3B 94 % of the tokens differed in at "
      "least one layer between trainer and engine, about 10 % in each (arXiv:2510.11370).",
      "as in arXiv:2510.11370", "precision.experts, telemetry.gradient_every",
      CardParts(
          CardForm::share_of_tokens,
          "tokens with other experts than in the reference in at least one layer, of the batch; the reference is {}")}},
});

inline constexpr auto kRouterFigures = std::to_array<FrameFigure<RouterFrame>>({
    {{Metric::max_vio, &RouterFrame::max_vio, "max_vio", "max_e u_e - 1"},
     {"max_vio", "MaxVio (batch)", "", "max_e u_e - 1 = (max_e n_e - n) / n, this batch",
      "Near the value that a perfectly balanced router has by chance.",
      "1: the fullest expert has twice its fair share. With expert parallelism all other ranks wait for its rank.",
      "arXiv:2408.15664", "router.bias_update_rate, router.aux_coeff", kOwnParts, Provenance::measured_here, "MaxVio",
      kMaxVioPlot}},
    {{Metric::max_vio_window, &RouterFrame::max_vio_window, "max_vio_window", "over the last `window` steps"},
     {"max_vio_window", "MaxVio (window)", "", "max_e u_e - 1 with n_e summed over the last W steps",
      "Near 0: the differences between batches average out over the window.",
      "As high as MaxVio of the batch: the same experts are hot all the time. Much lower than a high MaxVio of the "
      "batch: the load oscillates, and the bias update rate may be too high.",
      "arXiv:2408.15664 (MaxVio global)", "router.bias_update_rate, router.aux_coeff, telemetry.window", kOwnParts,
      Provenance::measured_here, "MaxVio", kLargestIsWorst}},
    {{Metric::cv, &RouterFrame::cv, "cv", "standard deviation over mean"},
     {"cv", "Spread of load (CV)", "", "std_e(n_e) / n, population standard deviation",
      "Near sqrt((1 - K/E) / n), the value of chance alone.",
      "1 and more: the load is as uneven as if E / (1 + CV^2) experts shared it equally: half of the experts at 1, a "
      "fifth at 2, a tenth at 3.",
      "arXiv:1701.06538 (its square is the load loss)", "router.bias_update_rate, router.aux_coeff", kOwnParts,
      Provenance::measured_here, "CV", kCvPlot}},
    {{Metric::entropy_norm, &RouterFrame::entropy_norm, "entropy_norm", "of the load, over ln E"},
     {"entropy_norm", "Entropy of load", "", "H / ln E, H = -sum_e p_e ln p_e, p_e = n_e / sum n_e",
      "Near 1: the load is even.", "Falls: about E^value experts are in use.",
      "Shannon entropy of the load; exp(H) / E is NeMo Automodel's diversity",
      "router.bias_update_rate, router.aux_coeff", kOwnParts, Provenance::measured_here, "Entropy", kLoadEntropyPlot}},
    {{Metric::dead_fraction, &RouterFrame::dead_fraction, "dead_fraction",
      "experts without a token in the last `window` steps"},
     {"dead_fraction", "Unused experts", "share", "#{e: no token in the last W steps} / E", "0.",
      "Above 0 for long: these experts get no token and no gradient. In the first W steps the window is not full, and "
      "the share has no meaning yet.",
      "counted over the window W", "router.bias_update_rate, router.aux_coeff, telemetry.window", kOwnParts,
      Provenance::measured_here, "Unused", kUnusedPlot}},
    {{Metric::score_entropy, &RouterFrame::score_entropy, "score_entropy", "mean over tokens, nats"},
     {"score_entropy", "Score entropy", "nats", "mean over tokens of -sum_e p_e ln p_e, p_e = s_e / sum s_e",
      "Between ln K and ln E and falling: the router becomes more confident.",
      "Stays at ln E: the router does not distinguish experts. Below ln K: fewer than K experts matter to a token.",
      "Shannon entropy of one token's scores; not that of the load", "router.z_coeff, router.score_func", kOwnParts,
      Provenance::measured_here, "Entropy", kScoreEntropyPlot}},
    {{Metric::margin, &RouterFrame::margin, "margin", "mean over tokens of K-th minus (K+1)-th biased score"},
     {"margin", "Score margin", "", "mean over tokens of s_(K) - s_(K+1), bias included",
      "Well above the rounding error of the router's precision.",
      "Near 0: choices are nearly ties, which rounding or one bias update changes.", "K-th minus (K+1)-th biased score",
      "router.bias_update_rate, precision.experts", CardParts(CardForm::mean_of_tokens, "s_(K) - s_(K+1)"),
      Provenance::measured_here, "Margin"}},
    {{Metric::router_aux_loss, &RouterFrame::aux_loss, "aux_loss", ""},
     {"router_aux_loss", "Auxiliary loss of the layer", "",
      "a E sum_e f_e P_e, f_e = n_e / (T K), P_e mean normalised score, a the coefficient; in mode sequence the mean "
      "of this value over the sequences",
      "Near the coefficient. Mode batch: an even load gives exactly the coefficient. Mode sequence: only if every "
      "sequence is even; an even batch usually gives more.",
      "Well above the coefficient: experts with more tokens also have higher scores. It does not measure the load: "
      "equal scores give the coefficient at any load.",
      "arXiv:2101.03961; arXiv:2412.19437, whose f_e counts the top K without the bias; here, as in TorchTitan, the "
      "experts that were chosen",
      "router.aux_mode, router.aux_coeff", kOwnParts, Provenance::measured_here, "Aux loss"}},
    {{Metric::router_z_loss, &RouterFrame::z_loss, "z_loss", ""},
     {"router_z_loss", "Router z-loss of the layer", "", "coefficient * mean_t (ln sum_e exp logit_te)^2",
      "Small and flat.", "Grows: the logits of this layer become large.", "arXiv:2202.08906", "router.z_coeff",
      kOwnParts, Provenance::measured_here, "z loss"}},
    {{Metric::padding_fraction, &RouterFrame::padding_fraction, "padding_fraction",
      "rows added to multiples of 32, over T K"},
     {"padding_fraction", "Padding waste", "share", "sum_e (ceil(n_e / 32) 32 - n_e) / sum_e n_e",
      "Near 0: the groups are long compared with 32 rows.",
      "High: with few tokens per expert a grouped GEMM mostly multiplies rows of zeros.",
      "torchao MXFP8 grouped GEMM, which pads groups to 32 rows; computed for every format",
      "data.batch, model.n_experts", kOwnParts}},
    {{Metric::dropped_fraction, &RouterFrame::dropped_fraction, "dropped_fraction",
      "copies beyond router.capacity_factor, dropped only if router.token_drop is not none"},
     {"dropped_fraction", "Beyond capacity", "share",
      "sum_e max(0, n_e - ceil(c T K / E)) / (T K), c the capacity factor", "0.",
      "Above 0: token copies were dropped, in each microbatch those beyond its own capacity. With token_drop = none "
      "nothing is dropped, and the share shows what the capacity of the whole batch would drop.",
      "arXiv:2101.03961", "router.capacity_factor, router.token_drop", kOwnParts}},
    {{Metric::mutual_information, &RouterFrame::mutual_information, "mutual_information",
      "entropy of the mean scores minus score_entropy, nats"},
     {"mutual_information", "Mutual information", "nats",
      "H(mean over tokens of p_te) - mean over tokens of H(p_te), p_te = s_te / sum_e s_te, H(p) = -sum p ln p",
      "Rises from 0: the scores depend on the token; at most ln E.",
      "Stays at 0: the router gives every token the same scores, however even the load is.",
      "between token and expert of the score distribution; as in Fast-LLM's routing metrics",
      "router.score_func, router.aux_coeff, router.z_coeff"}},
    {{Metric::predicted_share, &RouterFrame::predicted_share, "predicted_share",
      "share of the chosen experts that the choices in the previous MoE layer predict"},
     {"predicted_share", "Predicted by the previous layer", "share",
      "mean over tokens of |guessed and chosen experts| / K; guessed: the K experts j with the largest sum of N_ij / "
      "N_i over the token's experts i in the previous MoE layer, N_ij the number of tokens with both. Every second "
      "token is counted, the others are guessed",
      "High: an inference engine can fetch the experts of a layer before its router has chosen. A random guess is "
      "right in K / E of cases at any load; the K fullest experts are right more often where the load is uneven.",
      "Near K / E: the layers choose independently of each other.",
      "only for logs with the experts of every token; the basis of prefetching experts, arXiv:2312.17238",
      "router.top_k, model.n_experts", kPlainParts, Provenance::measured_here, "Predicted", kPredictedPlot}},
    {{Metric::max_vio_microbatch, &RouterFrame::max_vio_microbatch, "max_vio_microbatch",
      "mean of the microbatches' max_e u_e - 1"},
     {"max_vio_microbatch", "MaxVio (microbatch)", "",
      "mean over the microbatches of max_e n_e / n - 1, both of the microbatch alone",
      "Above MaxVio of the batch, by chance alone: fewer tokens are less even. With expert parallelism this is the one "
      "that costs time, because each microbatch is computed by itself.",
      "Far above MaxVio of an even batch: the microbatches use different experts, and each waits for its fullest "
      "expert.",
      "the microbatch value of swiss-ai/Megatron-LM's load violations, beside that of the global batch",
      "data.microbatches, router.bias_update_rate, router.aux_coeff", kMaxVioOfParts}},
    {{Metric::max_vio_sequence, &RouterFrame::max_vio_sequence, "max_vio_sequence",
      "mean of the sequences' max_e u_e - 1"},
     {"max_vio_sequence", "MaxVio (sequence)", "",
      "mean over the sequences of max_e n_e / n - 1, both of the sequence alone",
      "Well above MaxVio of the batch: sequences of different text use different experts, and the batch is even "
      "nevertheless.",
      "Near MaxVio of the batch although that is high: all texts use the same experts. Near what chance gives for so "
      "few tokens: experts do not depend on the text, as with a strong auxiliary loss by sequence.",
      "the sequence-wise load of DeepSeek-V3's complementary loss, arXiv:2412.19437",
      "router.aux_mode, router.aux_coeff, router.bias_update_rate", kMaxVioOfParts}},
});

inline constexpr auto kQuantFigures = std::to_array<FrameFigure<QuantFrame>>({
    {{std::nullopt, &QuantFrame::amax, "amax", "largest absolute value"},
     {"amax", "Largest value (amax)", "", "max |x| of the tensor", "Changes slowly.",
      "Grows without limit or is not finite: the layer is diverging.", "largest absolute value", "optimizer.lr"}},
    {{std::nullopt, &QuantFrame::sqnr_db, "sqnr_db", "9e999 when exact"},
     {"sqnr_db", "SQNR", "dB", "10 log10(sum x^2 / sum (x - q)^2)",
      "On bell-shaped data, rounded to nearest: E4M3 about 31.5 dB and E5M2 25.6 dB, in MX and in FP8 (31.8 and 25.8 "
      "dB with an FP32 scale for each 1 x 128); NVFP4 20.4 dB; MXFP4 18.8 dB. Stochastic rounding costs 3 dB, in NVFP4 "
      "3.2 dB.",
      "Several dB below: block maxima are clipped, or a few values dominate their block. Read it together with "
      "the share flushed to zero: SQNR hides small values that become 0.",
      "as torchao's compute_error", "precision.experts"}},
    {{std::nullopt, &QuantFrame::relative_l2, "relative_l2", ""},
     {"relative_l2", "Relative error", "", "||x - q|| / ||x|| = 10^(-SQNR / 20)",
      "On bell-shaped data E4M3 about 0.027, E5M2 0.053, NVFP4 0.095, MXFP4 0.115.",
      "Several times that: the values of a block differ by more than its scale covers.",
      "relative L2 norm of the error", "precision.experts"}},
    {{std::nullopt, &QuantFrame::cosine, "cosine", ""},
     {"cosine", "Cosine similarity", "", "x.q / (||x|| ||q||)",
      "On bell-shaped data E4M3 0.9996, E5M2 0.9986, NVFP4 0.9955, MXFP4 0.993.",
      "Falls: the direction of the tensor changes. The cosine does not show a wrong overall scale.",
      "cosine of the angle between before and after", "precision.experts"}},
    {{std::nullopt, &QuantFrame::underflow, "underflow", "share of non-zero values that became zero"},
     {"underflow", "Flushed to zero", "share", "#{x != 0 and q = 0} / #{x != 0}",
      "On bell-shaped data almost none in E4M3 and E5M2, 7 % in NVFP4, 11 % in MXFP4. Values that were 0 before do not "
      "count.",
      "High: small values are lost even where SQNR is good; typical of gradients.",
      "TransformerEngine's underflows % has the same numerator, divided by the number of all values",
      "precision.experts"}},
    {{std::nullopt, &QuantFrame::clipped, "clipped", "share of values beyond the format's maximum"},
     {"clipped", "Clipped values", "share", "#{|x| / scale > largest number of the format} / #x",
      "0 in MX with RCEIL or CEIL and in FP8, which never clip.",
      "FLOOR clips block maxima whose significand exceeds that of the largest number (1.75 in E4M3, 1.5 in E2M1), EVEN "
      "some of them. NVFP4 rounds its block scales to nearest, so that half of its block maxima clip, by a seventeenth "
      "at most.",
      "includes values that round down to the largest number", "precision.experts"}},
    {{std::nullopt, &QuantFrame::clipped_blocks, "clipped_blocks", "share of blocks with such a value"},
     {"clipped_blocks", "Clipped blocks", "share", "#{blocks with a clipped value} / #blocks",
      "0 in MX with RCEIL or CEIL and in FP8. Half of them in NVFP4, by design.",
      "FLOOR on bell-shaped data clips 17 % of the blocks of 32 in E4M3, E5M2 and E3M2, 10 % in E2M3, 30 % in E2M1; on "
      "values of one size, all or none.",
      "a block: the values with one scale, along the contracted dimension", "precision.experts"}},
    {{std::nullopt, &QuantFrame::crest, "crest", "mean over blocks of amax / rms"},
     {"crest", "Crest factor", "", "mean over blocks of max |x| / rms; a block: the values with one scale",
      "On bell-shaped data 2.1 in blocks of 16 (NVFP4), 2.4 of 32 (MX), 2.8 of 128; more in whole rows and tensors.",
      "Near sqrt(n) in blocks of n values (4 for 16, 5.7 for 32): one value dominates its block and costs the other "
      "values their precision.",
      "peak over root mean square", "precision.hadamard"}},
});

inline constexpr auto kFlipFigures = std::to_array<FrameFigure<FlipFrame>>({
    {{Metric::flip_rate, &FlipFrame::flip_rate, "flip_rate", "share of the batch's tokens"},
     {"flip_rate", "Routing flips", "share",
      "#{tokens whose set of K experts differs from run A's at the same step} / T, mean over layers",
      "Small and flat. 0 while weights and formats of the two runs agree.",
      "Grows from layer to layer and with the steps: a flipped token changes everything after it, so that the routing "
      "of two runs drifts apart long before the loss does. Compare it with the noise twin: two seeds agree only by "
      "chance.",
      "set of chosen experts compared token by token with run A", "precision.experts, router.bias_update_rate",
      CardParts(CardForm::share_of_tokens, "tokens whose set of experts differs from run A's, of the batch")}},
    {{std::nullopt, &FlipFrame::overlap, "overlap", "mean over tokens of |A and B| / K"},
     {"overlap", "Overlap of expert sets", "share",
      "mean over tokens of |S_A and S_B| / K, S the K experts that the token's copies go to in run A and in the twin",
      "1: every token has the same experts as in run A, as with router.replay.",
      "Falls layer by layer: two unrelated routers with even loads share K/E by chance. The first layer below 1 is "
      "where the routing of the runs begins to differ; the layers after it read other inputs.",
      "sets of chosen experts compared token by token with run A", "router.replay, precision.experts"}},
});

inline constexpr auto kGradientFigures = std::to_array<FrameFigure<GradientFrame>>({
    {{Metric::gradient_snr_db, &GradientFrame::snr_db, "snr_db", "9e999 when equal"},
     {"gradient_snr_db", "Gradient SNR", "dB", "20 log10(||r|| / ||g - r||), r the gradient of an FP32 pass",
      "Tens of dB: the noise of the format is small beside the gradient.",
      "Near 0 dB: the error is as large as the gradient. Flipped tokens count as errors, because another expert gets "
      "their gradient. The figure ranks formats by the noise of one step, not by their cost in loss (lesson 12).",
      "against an FP32 forward and backward of the same weights and batch; arXiv:2506.20752",
      "precision.experts, telemetry.gradient_every", CardParts(CardForm::gradient_snr)}},
    {{Metric::gradient_cosine, &GradientFrame::cosine, "cosine", ""},
     {"gradient_cosine", "Gradient cosine", "", "g.r / (||g|| ||r||), r the gradient of an FP32 pass",
      "Above 0.99: the step has the direction of an FP32 step.",
      "Falls: the direction is lost, which no learning rate repairs. The cosine does not show a wrong norm, and it "
      "shows the noise of one step only: stochastic rounding has a lower cosine than rounding to nearest and can still "
      "cost less loss, because its errors cancel over the steps (lesson 12).",
      "against an FP32 forward and backward of the same weights and batch; arXiv:2506.20752",
      "precision.experts, telemetry.gradient_every", CardParts(CardForm::gradient_angle)}},
    {{Metric::pinned_gradient_snr_db, &GradientFrame::pinned_snr_db, "pinned_snr_db", "FP32 with the run's experts"},
     {"pinned_gradient_snr_db", "Gradient SNR, experts pinned", "dB",
      "20 log10(||r|| / ||g - r||), r the gradient of an FP32 pass in which every token has the run's experts",
      "Above the SNR without pinning: what is left is the error of the arithmetic alone.",
      "As low as the SNR without pinning: the arithmetic itself is coarse, and no replay of the routing will help.",
      "NeMo Automodel, pull request 3243: gradients with and without context parallelism differed by 0.071 in the "
      "worst parameter, where 12.6 % of the tokens had other experts; with forced balance by 0.00099",
      "precision.experts, telemetry.gradient_every", CardParts(CardForm::gradient_snr)}},
    {{Metric::pinned_gradient_cosine, &GradientFrame::pinned_cosine, "pinned_cosine", "FP32 with the run's experts"},
     {"pinned_gradient_cosine", "Gradient cosine, experts pinned", "",
      "g.r / (||g|| ||r||), r the gradient of an FP32 pass in which every token has the run's experts",
      "Nearer to 1 than the cosine without pinning: the rest is due to tokens with other experts.",
      "As low as the cosine without pinning: the arithmetic itself is coarse.", "NeMo Automodel, pull request 3243",
      "precision.experts, telemetry.gradient_every", CardParts(CardForm::gradient_angle)}},
});

inline constexpr auto kRouterRoundingFigures = std::to_array<FrameFigure<RouterRoundingFrame>>({
    {{std::nullopt, &RouterRoundingFrame::changed, "changed",
      "share of the tokens with other experts; for counts: share of the experts"},
     {"changed_by_rounding", "Changed by one rounding", "share",
      "#{tokens with another set of K experts if only this is in BF16} / T; for counts: #{experts whose bias moves in "
      "another direction} / E",
      "0 or small: only tokens at narrow margins change.",
      "Large for the stored bias while it is small for the others: the biases have moved far from 0, where BF16 has "
      "few numbers. Centring the bias updates (router.bias_centring) prevents this.",
      "each rounding alone on the same inputs and weights: SGLang pull request 37133 (bias), TorchTitan issue "
      "4273 (operands, outputs), Megatron-LM pull request 7081 (counts)",
      "router.bias_centring, telemetry.gradient_every"}},
    {{std::nullopt, &RouterRoundingFrame::max_vio, "max_vio", "of the choice with this rounding"},
     {"max_vio_with_rounding", "MaxVio with one rounding", "", "max_e u_e - 1 of the choice if only this is in BF16",
      "As without the rounding: the tokens that change are spread over the experts.",
      "Above the value without it: the rounding sends tokens to the same few experts.", "MaxVio: arXiv:2408.15664",
      "router.bias_centring, telemetry.gradient_every"}},
    {{std::nullopt, &RouterRoundingFrame::bias_values, "bias_values", "different values of expert_bias"},
     {"bias_values", "Different biases", "values", "number of different values of expert_bias, as stored",
      "As many as there are experts, or few by themselves: the sign rule moves all biases by the same step.",
      "Far fewer in BF16 than in FP32: experts with equal biases cannot be balanced against each other. GLM-5.2: 238 "
      "values became 8.",
      "SGLang, pull request 37133", "router.bias_format, router.bias_centring, router.bias_update_rate"}},
});

// True if the metrics of a table follow each other from `first` on. The history finds the columns of figures by this
// order.
template <std::size_t N, class Frame>
constexpr bool in_order_of_metric(const std::array<FrameFigure<Frame>, N>& figures, Metric first) {
  for (std::size_t i = 0; i < N; ++i)
    if (figures[i].metric != static_cast<Metric>(static_cast<std::size_t>(first) + i)) return false;
  return true;
}
static_assert(in_order_of_metric(kFrameFigures, Metric::ce_loss));
static_assert(in_order_of_metric(kRouterFigures, Metric::max_vio));

}  // namespace moescope
