// Name, unit, formula, interpretation and source of every figure on the screen. figures.h declares the figures that a
// frame holds; this file declares those that follow from a frame's values and arrays.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/frame/figures.h"

namespace moescope {

struct DerivedMetric {
  Metric metric;
  MetricInfo card;
  RunValue run_value = RunValue::mean_of_layers;
};

// Returns the row of a percentile of `layer_metric` over the MoE layers.
consteval DerivedMetric over_layers(Metric metric, const char* key, const char* name, const char* meaning,
                                    CardForm form, Metric layer_metric) {
  const char* problem = "Far above the other layers: one layer is uneven, often the first MoE layer.";
  if (form == CardForm::median_layer) problem = "High: more than half of the layers are uneven.";
  if (form == CardForm::upper_layers)
    problem = "Far above the median: a few layers are uneven; the view by layer shows which.";
  return {metric,
          {key, name, "", meaning, layer_metric == Metric::max_vio ? "Near the value of chance." : "Near 0.", problem,
           "percentiles over layers: NVIDIA/Megatron-LM#2398", "router.bias_update_rate, router.aux_coeff",
           CardParts(form, nullptr, layer_metric)},
          RunValue::alone};
}

inline constexpr std::array<DerivedMetric, 16> kDerivedMetrics = {{
    {Metric::step_ms,
     {"step_ms", "Step time", "ms", "sum over the phases of the step", "Flat over the run.",
      "Grows: the panel Time of a step shows which phase.", "wall clock", "model sizes, data.batch, precision.experts",
      kOwnParts},
     RunValue::alone},
    over_layers(Metric::max_vio_p50, "max_vio_p50", "MaxVio (batch), median layer",
                "median over the MoE layers of the step's MaxVio (batch)", CardForm::median_layer, Metric::max_vio),
    over_layers(Metric::max_vio_p90, "max_vio_p90", "MaxVio (batch), 90 % of layers",
                "90th percentile, between two layers interpolated, over the MoE layers of the step's MaxVio (batch)",
                CardForm::upper_layers, Metric::max_vio),
    over_layers(Metric::max_vio_max, "max_vio_max", "MaxVio (batch), worst layer",
                "largest over the MoE layers of the step's MaxVio (batch)", CardForm::worst_layer, Metric::max_vio),
    over_layers(Metric::max_vio_window_p50, "max_vio_window_p50", "MaxVio (window), median layer",
                "median over the MoE layers of the step's MaxVio (window)", CardForm::median_layer,
                Metric::max_vio_window),
    over_layers(Metric::max_vio_window_p90, "max_vio_window_p90", "MaxVio (window), 90 % of layers",
                "90th percentile, between two layers interpolated, over the MoE layers of the step's MaxVio (window)",
                CardForm::upper_layers, Metric::max_vio_window),
    over_layers(Metric::max_vio_window_max, "max_vio_window_max", "MaxVio (window), worst layer",
                "largest over the MoE layers of the step's MaxVio (window)", CardForm::worst_layer,
                Metric::max_vio_window),
    {Metric::quant_sqnr_db,
     {"quant_sqnr_db", "SQNR, mean of operands", "dB",
      "mean over the quantized operands of 10 log10(sum x^2 / sum (x - q)^2)",
      "On bell-shaped data, rounded to nearest: E4M3 about 31.5 dB and E5M2 25.6 dB, in MX and in FP8 (31.8 and 25.8 "
      "dB with an FP32 scale for each 1 x 128); NVFP4 20.4 dB; MXFP4 18.8 dB; BF16 55.6 dB. Stochastic rounding costs "
      "3 dB, in NVFP4 3.2 dB. Where only the experts are in a low format and all else is in BF16, the mean lies "
      "between both.",
      "Falls during training: the values of some operand differ by more than a scale covers; the matrix of operands "
      "shows which.",
      "as torchao's compute_error, averaged in dB", "precision.experts", CardParts(CardForm::mean_of_operands)},
     RunValue::all_tensors},
    {Metric::ranks_per_token,
     {"ranks_per_token", "Ranks per token", "",
      "token copies, one per destination rank / T, mean over layers; own rank counted",
      "Well below min(K, R): the experts of a token share ranks, and DeepEP merges their copies.",
      "Near min(K, R): every chosen expert is on another rank, and no copies can be merged.",
      "DeepEP layout (is_token_in_rank)", "parallel.ranks, router.n_limited_groups, router.top_k", kPlainParts,
      Provenance::counted, "Ranks", kRanksPlot}},
    {Metric::nodes_per_token,
     {"nodes_per_token", "Nodes per token", "",
      "token copies, one per destination node / T, mean over layers; own node counted",
      "Near 1, or at the limit of node-limited routing (DeepSeek-V3: 4).",
      "Near min(K, nodes): every token is sent over the slow network to as many nodes as possible.",
      "DeepSeek-V3 arXiv:2412.19437, node-limited routing", "parallel.ranks_per_node, router.n_limited_groups",
      kPlainParts, Provenance::counted}},
    {Metric::rank_overload,
     {"rank_overload", "Fullest rank", "x the mean",
      "max_r n_r / mean_r n_r, n_r the token copies (one per chosen expert) that arrive on rank r, mean over layers",
      "Near 1: all ranks compute the same amount.",
      "1.5: all other ranks wait for a rank that computes 1.5 times the mean. Another placement may help where the "
      "load of the experts is uneven but stable.",
      "overload factor of Megatron-LM, pull request 4110", "parallel.ranks, router.bias_update_rate, router.aux_coeff",
      kPlainParts, Provenance::counted, "Fullest rank", kFullestRankPlot}},
    {Metric::rounding_flip_rate,
     {"rounding_flip_rate", "Routing flips by rounding", "share",
      "#{tokens whose set of K experts differs from an FP32 pass's with the same weights} / T, mean over layers",
      "A few per cent in 8 bits, about ten in 4 bits: the formats decide choices that are nearly ties. The weights are "
      "equal, so that the drift of two runs does not count.",
      "High or growing with the layers: the errors of the formats reach the router. If the gate is quantized, compare "
      "with a gate in fp32.",
      "set of chosen experts compared token by token with the FP32 pass that gives the gradients",
      "precision.router_gate, precision.experts, telemetry.gradient_every"}},
    {Metric::changed_by_operands,
     {"changed_by_operands", "Changed by BF16 operands", "share",
      "#{tokens with another set of K experts if only the inputs and weights of the gate are rounded to BF16} / T, "
      "mean over layers",
      "Small, and only at narrow margins: the products are added up in FP32.",
      "Above the share of the stored outputs: the inputs of the router differ by less than BF16 resolves.",
      "TorchTitan, issue 4273: 0 of 8,192 tokens", "precision.router_gate, telemetry.gradient_every",
      kChangedByRounding}},
    {Metric::changed_by_gate_output,
     {"changed_by_gate_output", "Changed by stored logits", "share",
      "#{tokens with another set of K experts if only the logits are rounded to BF16} / T, mean over layers",
      "A few per cent: logits that are equal in 8 bits are ties, and the lower index wins.",
      "Grows during training: the logits become large, and BF16 resolves less between them.",
      "the gate's output store: SGLang, issue 38695 and pull request 29892",
      "precision.gate_output, telemetry.gradient_every", kChangedByRounding}},
    {Metric::changed_by_bias,
     {"changed_by_bias", "Changed by stored bias", "share",
      "#{tokens with another set of K experts if only expert_bias is rounded to BF16} / T, mean over layers",
      "Small while the biases are near 0, where BF16 has many numbers.",
      "Grows without limit as the biases drift away from 0 together, which updates without centring allow. GLM-5.2: "
      "biases near 7, 98.5 % of the tokens.",
      "SGLang, pull request 37133", "router.bias_format, router.bias_centring, telemetry.gradient_every",
      kChangedByRounding}},
    {Metric::changed_by_counts,
     {"changed_by_counts", "Changed by BF16 counts", "share",
      "#{experts whose bias moves in another direction if the loads are added up in BF16} / E, mean over layers",
      "0: BF16 represents counts up to 256 exactly.",
      "Above 0: at 40,000 tokens an expert BF16 numbers are 256 apart, and the sign of the update is a matter of "
      "rounding for experts near the mean.",
      "Megatron-LM, pull request 7081", "router.count_format, data.batch, telemetry.gradient_every", kOwnParts}},
}};

inline constexpr MetricInfo kScalesCard = {
    "e8m0_blocks",
    "Block scales",
    "blocks",
    "blocks by scale: in MX 2^k, stored as byte k + 127; in NVFP4 and FP8 all scales from 2^k to 2^(k+1) together",
    "A narrow hump that moves slowly.",
    "Two humps: parts of the tensor differ in size. At 2^-127, the lowest scale of MX: blocks of zeros or too small to "
    "scale. Blocks with NaN or Inf are counted separately.",
    "OCP Microscaling Formats v1.0; NVFP4: arXiv:2509.25149; FP8: torchao float8",
    "precision.experts"};

// Figures drawn as arrays.
inline constexpr std::array<MetricInfo, 24> kArrayMetrics = {{
    {"utilisation", "Load of an expert", "x fair share", "u_e = n_e E / (K T)",
     "1 is the fair share. The standard deviation of chance is sqrt((1 - K/E) / n), n = T K / E the fair number of "
     "tokens: up to 0.09 at n = 128, up to 0.35 at n = 8.",
     "2 is twice the fair share, 0 means no token. With expert parallelism all ranks wait for the fullest one.",
     "NeMo Automodel, expert utilization ratio", "router.bias_update_rate, router.aux_coeff"},
    {"expert_bias", "Expert bias", "",
     "b_e += rate * sign(n - n_e), its mean subtracted if centred; by quantiles: b_e = K/E quantile over tokens of the "
     "(K+1)-th best choice score minus s_e, centred; selection only",
     "Settles at values that differ by layer. The quantile rules find them in a few steps and then follow each batch.",
     "Grows without limit: the bias does not change the load any more. Alternates by whole steps: the rate is too "
     "high.",
     "arXiv:2408.15664; TorchTitan; quantiles: TorchTitan QuantileBalancer, Megatron-LM qb_dual_update",
     "router.balance_rule, router.bias_update_rate, router.bias_centring, router.quantile_ema"},
    {"score_mass", "Score mass", "share", "mean over tokens of s_e / sum s_e", "Near 1/E each, or a stable preference.",
     "Grows for a few experts: the gate prefers them more and more. Loads differ more than the mass even without a "
     "bias, because top-k sharpens small differences of the scores; a load far from the mass does not show that the "
     "bias decides.",
     "P_e of the auxiliary loss", "router.aux_coeff"},
    {"gate_mass", "Gate mass", "share", "sum of the mixing weights of expert e / sum of all mixing weights",
     "Follows the load.", "Much less than the load: the expert computes, but its result has almost no weight.",
     "share of the combined output's weights", "router.route_norm, router.bias_update_rate"},
    {"copies", "Standard all-to-all", "token copies", "one copy per chosen expert, source rank to expert's rank",
     "Even columns.", "A dark column: that rank receives most, and all others wait for it.",
     "counted from this step's routing", "parallel.ranks, router.top_k", kPlainParts, Provenance::counted},
    {"distinct", "De-duplicated all-to-all", "token copies", "one copy per token and destination rank",
     "Well below the standard count: tokens choose several experts of one rank.",
     "Equal to the standard count: every copy goes to a different rank.", "DeepEP layout (is_token_in_rank)",
     "parallel.ranks, router.n_limited_groups", kPlainParts, Provenance::counted},
    {"nodes", "Copies between nodes", "token copies", "one copy per token and destination node, own node counted",
     "Near 1 per token.", "Near min(K, nodes) per token: every token is sent to as many nodes as possible.",
     "DeepEP internode dispatch", "parallel.ranks_per_node, router.n_limited_groups", kPlainParts, Provenance::counted},
    {"margin_tokens", "Tokens by margin", "tokens", "tokens by run A's s_(K) - s_(K+1), two bins to a factor of two",
     "Most tokens at much wider margins than the flips.",
     "Many tokens at narrow margins: many choices are nearly ties.", "K-th minus (K+1)-th biased score of run A",
     "router.bias_update_rate"},
    {"margin_flipped", "Flips by margin", "tokens",
     "tokens of that margin whose set of experts differs from that of run A",
     "Only at the narrowest margins: rounding decides near ties.",
     "Also at wide margins: the weights of the runs have drifted apart; rounding alone does not cause such flips.",
     "K-th minus (K+1)-th biased score of run A", "precision.experts"},
    {"score_histogram", "Scores", "scores",
     "T E scores before the bias, two bins to a factor of two: those of the T K chosen experts and all others",
     "Two humps: chosen experts score clearly higher.",
     "One hump: the choice is between nearly equal scores. All in one bin: the scores are saturated.",
     "counted from this step's routing", "router.score_func, router.z_coeff"},
    {"margin_histogram", "Margins", "tokens", "tokens by s_(K) - s_(K+1), bias included, two bins to a factor of two",
     "Most tokens well above the rounding error of the router's precision.",
     "Many tokens at narrow margins: many choices are nearly ties.", "K-th minus (K+1)-th biased score",
     "router.bias_update_rate"},
    {"domain_share", "Domain specialisation", "share", "P(e | d) = copies of expert e from domain d / all copies of d",
     "Rows differ: domains use different experts. 1/E each means no specialisation.",
     "Equal rows: the choice of experts does not depend on the domain of the text.",
     "OLMoE arXiv:2409.02060, section 5", "router.aux_mode, router.aux_coeff, data.path"},
    {"domain_lift", "Lift", "x its share", "P(e | d) / P(e), P(e) = copies of expert e / all copies",
     "Far from 1 for some experts: 4 means that the domain uses the expert four times as often as all text does.",
     "1 everywhere: no specialisation by domain.", "P(expert | domain) over its baseline; OLMoE arXiv:2409.02060",
     "router.aux_mode, router.aux_coeff, data.path"},
    {"coactivation", "Co-activation", "share", "N(i and j) / N(i): tokens of expert i that also chose j",
     "Above chance, (K - 1) / (E - 1), for pairs or groups of experts that are chosen together.",
     "One bright column: an expert that is chosen together with all others and acts as a shared expert.",
     "OLMoE arXiv:2409.02060; directed", "router.top_k, router.n_groups"},
    {"output_similarity", "Similarity of outputs", "",
     "mean over tokens of f_i.f_j / (|f_i| |f_j|), f_i the output of expert i for a token, chosen or not",
     "Near 0: the experts compute different things.",
     "Near 1 for a pair: one of them can be merged into the other or removed at little cost. Most pairs positive: all "
     "experts add a common part, which a shared expert could compute.",
     "per token as in arXiv:2406.18219; merging by outputs: HC-SMoE, arXiv:2410.08589",
     "model.n_experts, model.n_shared"},
    {"byte_affinity", "Byte affinity", "x its share",
     "P(b | e) / P(b), P(b | e) = copies of expert e from tokens that are byte b / all its copies",
     "A few bytes far above 1: the expert specialises in them. Small models specialise in bytes first.",
     "1 everywhere: the expert gets all kinds of bytes.", "vocabulary specialisation, OLMoE arXiv:2409.02060",
     "model.n_experts, router.top_k"},
    {"routing_stability", "Routing stability", "share",
     "mean over the probe's tokens of |top_K now and top_K at the reference step| / K",
     "Rises to 1 as the reference step approaches the end: the routing settles. Chance alone gives K/E.",
     "Falls suddenly: the router was disrupted, by a change of data, bias rate or format.",
     "router saturation, OLMoE arXiv:2409.02060", "router.bias_update_rate, optimizer.lr"},
    {"unchanged_choices", "Unchanged choices", "share",
     "#{tokens of the probe whose set of K experts is the same as at the reference step} / T",
     "Rises as the router settles. Chance alone gives 1 / (E over K), almost 0.",
     "Falls suddenly: the router was disrupted. Stays low while most experts stay the same: in each set one expert "
     "changes, usually the last, which has the narrowest margin.",
     "set of chosen experts compared token by token with the earlier step", "router.bias_update_rate, optimizer.lr"},
    {"filler_fraction", "Filler rows up to capacity", "share",
     "sum_e max(0, ceil(c T K / E) - n_e) / (T K), c the capacity factor",
     "Small compared with the dropped copies, or worth its cost for fixed shapes.",
     "High: most rows that are sent and computed belong to no token that chose the expert.",
     "Megatron-LM --moe-pad-expert-input-to-capacity", "router.capacity_factor", kPlainParts, Provenance::counted},
    {"bias_for_share", "Bias of the fair share", "",
     "the K/E quantile over tokens of r_te = cutoff_t - s_te, cutoff_t the (K+1)-th best biased score",
     "Near the bias of the expert, up to a shift that all experts have in common.",
     "Far from the bias for long: the sign rule has not reached the value yet. Raise the rate, or use a quantile rule.",
     "quantile balancing: TorchTitan QuantileBalancer, Megatron-LM qb_dual_update",
     "router.balance_rule, router.bias_update_rate"},
    {"bytes_moved", "Sent by dispatch", "bytes",
     "copies that leave their rank * bytes of a token's row; one copy per chosen expert, or de-duplicated one per "
     "destination rank",
     "De-duplicated well below the standard volume; both far below T K times the bytes of a row.",
     "Near T K times the bytes of a row: no copy stays on its rank and none is merged. Combine sends the same amount "
     "in reverse.",
     "counted from this step's routing", "parallel.ranks, router.top_k, router.n_limited_groups, parallel.placement",
     kPlainParts, Provenance::counted},
    {"bytes_across_nodes", "Between nodes", "bytes",
     "copies to ranks of another node * bytes of a token's row; de-duplicated: one copy per token and destination node",
     "A small part of the bytes: the fast links inside the node carry the rest.",
     "Nearly all of the bytes: the network between nodes, which is about ten times slower, determines the time.",
     "DeepEP internode dispatch", "parallel.ranks_per_node, router.n_limited_groups, parallel.placement", kPlainParts,
     Provenance::counted},
    {"dispatch_overload", "Fullest rank of the layer", "x the mean",
     "max_r n_r / mean_r n_r, n_r the copies that arrive on rank r, those that stay included",
     "Near 1: all ranks compute the same amount.",
     "1.5: all other ranks wait for a rank that computes 1.5 times the mean.",
     "overload factor of Megatron-LM, pull request 4110",
     "router.bias_update_rate, router.aux_coeff, parallel.placement", kPlainParts, Provenance::counted},
    {"saved_by_deepep", "Saved by DeepEP", "share",
     "1 - network bytes of DeepEP / network bytes of the standard all-to-all, same routing, dispatch only",
     "High: tokens choose several experts of the same node, as with node-limited routing, and DeepEP sends them there "
     "once. It then forwards copies inside the node, so the bytes over NVLink can grow.",
     "0: every copy goes to a different node.", "DeepEP internode dispatch",
     "router.n_limited_groups, router.top_k, parallel.ranks", kPlainParts, Provenance::counted},
}};

constexpr std::array<MetricInfo, kNumMetrics> cards_by_metric() {
  std::array<MetricInfo, kNumMetrics> cards{};
  const auto place = [&cards](std::optional<Metric> metric, MetricInfo card, RunValue run_value) {
    card.run_value = run_value;
    if (metric) cards[static_cast<std::size_t>(*metric)] = card;
  };
  for (const auto& figure : kFrameFigures) place(figure.metric, figure.card, RunValue::alone);
  for (const auto& figure : kRouterFigures) place(figure.metric, figure.card, RunValue::mean_of_layers);
  for (const auto& figure : kFlipFigures) place(figure.metric, figure.card, RunValue::mean_of_layers);
  for (const auto& figure : kGradientFigures) place(figure.metric, figure.card, RunValue::all_tensors);
  for (const DerivedMetric& derived : kDerivedMetrics) place(derived.metric, derived.card, derived.run_value);
  return cards;
}
inline constexpr std::array<MetricInfo, kNumMetrics> kMetricCards = cards_by_metric();
static_assert(std::ranges::find(kMetricCards, nullptr, &MetricInfo::key) == kMetricCards.end());

constexpr std::array<MetricInfo, kQuantFigures.size() + 1> quant_cards() {
  std::array<MetricInfo, kQuantFigures.size() + 1> cards{};
  for (std::size_t i = 0; i < kQuantFigures.size(); ++i) cards[i] = kQuantFigures[i].card;
  cards.back() = kScalesCard;
  return cards;
}
// Figures of QuantFrame, in its order, then e8m0_blocks.
inline constexpr std::array<MetricInfo, kQuantFigures.size() + 1> kQuantMetrics = quant_cards();

constexpr const MetricInfo& metric_info(Metric metric) {
  return kMetricCards[static_cast<std::size_t>(metric)];
}
// Finds any of these figures by key; "router_aux_loss" and "router_z_loss" are the per-layer terms. nullptr if there is
// none.
constexpr const MetricInfo* find_metric(std::string_view key) {
  for (const MetricInfo& info : kMetricCards)
    if (key == info.key) return &info;
  for (const MetricInfo& info : kQuantMetrics)
    if (key == info.key) return &info;
  for (const auto& figure : kFlipFigures)
    if (key == figure.card.key) return &figure.card;
  for (const auto& figure : kRouterRoundingFigures)
    if (key == figure.card.key) return &figure.card;
  for (const MetricInfo& info : kArrayMetrics)
    if (key == info.key) return &info;
  return nullptr;
}

// Finds the figure with that key that has a time axis.
constexpr std::optional<Metric> find_scalar(std::string_view key) {
  for (int m = 0; m < kNumMetrics; ++m)
    if (key == metric_info(static_cast<Metric>(m)).key) return static_cast<Metric>(m);
  return std::nullopt;
}

// Names a figure. Keys in the source are looked up at compile time, so that a wrong key does not compile.
class FigureKey {
 public:
  template <std::size_t N>
  consteval FigureKey(const char (&key)[N]) : info_(find_metric(key)) {
    if (!info_) throw "there is no such figure";
  }
  constexpr FigureKey(Metric metric) : info_(&metric_info(metric)) {}
  constexpr FigureKey(const MetricInfo& info) : info_(&info) {}  // a row of the tables above

  constexpr const MetricInfo& info() const { return *info_; }
  constexpr bool operator==(FigureKey other) const { return std::string_view(info_->key) == other.info_->key; }

 private:
  const MetricInfo* info_;
};

}  // namespace moescope
