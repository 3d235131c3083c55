// The table of keys: names, ranges, units and the text that a learner reads about each of them.
#include <array>
#include <cassert>
#include <type_traits>

#include "core/config/published_recipes.h"
#include "core/config/run_config.h"

namespace moescope {
namespace {

template <class E>
constexpr std::array<const char*, 0> kChoices{};
template <>
constexpr std::array<const char*, 3> kChoices<ScoreFunc>{"sigmoid", "softmax", "sqrtsoftplus"};
template <>
constexpr std::array<const char*, 3> kChoices<BalanceRule>{"sign", "quantile_batch", "quantile_microbatch"};
template <>
constexpr std::array<const char*, 3> kChoices<AuxMode>{"none", "sequence", "batch"};
template <>
constexpr std::array<const char*, 3> kChoices<TokenDrop>{"none", "probs", "position"};
template <>
constexpr std::array<const char*, 2> kChoices<Schedule>{"constant", "cosine"};
template <>
constexpr std::array<const char*, 2> kChoices<OptimizerName>{"adamw", "muon"};
template <>
constexpr std::array<const char*, 3> kChoices<MuonScale>{"match_rms_adamw", "original", "spectral"};
template <>
constexpr std::array<const char*, 2> kChoices<Generator>{"passages", "facts"};
template <>
constexpr std::array<const char*, 2> kChoices<Rounding>{"nearest", "stochastic"};
template <>
constexpr std::array<const char*, 2> kChoices<StochasticOperands>{"all", "gradients"};
template <>
constexpr std::array<const char*, 2> kChoices<RotatedGemms>{"all", "wgrad"};
template <>
constexpr std::array<const char*, 2> kChoices<LateBf16>{"forward", "all"};
template <>
constexpr std::array<const char*, 3> kChoices<RotationForm>{"drawn", "fixed", "fixed_bf16"};
template <>
constexpr std::array<const char*, 4> kChoices<Nvfp4Rule>{"divided", "transformer_engine", "torchao",
                                                         "torchao_one_level"};
template <>
constexpr std::array<const char*, 5> kChoices<FourOverSixChoice>{"off", "mae_256", "mse_256", "mae_448", "mse_448"};
template <>
constexpr std::array<const char*, 3> kChoices<TokenPayload>{"fp32", "bf16", "mxfp8"};

// In the order of the enumeration.
template <class E>
const std::vector<std::string>& choices_of() {
  static const std::vector<std::string> names(kChoices<E>.begin(), kChoices<E>.end());
  return names;
}
template <>
const std::vector<std::string>& choices_of<Recipe>() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const RecipeInfo& info : recipes()) list.emplace_back(info.name);
    return list;
  }();
  return names;
}

constexpr const char* kNoOverride = "none";
using Override = std::optional<OperandFormat>;
template <>
const std::vector<std::string>& choices_of<Override>() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = {kNoOverride};
    for (const NamedFormat& named : named_formats())
      if (named.in_training) list.emplace_back(named.name);
    return list;
  }();
  return names;
}

template <class T>
ConfigValue to_value(const T& member) {
  if constexpr (std::is_same_v<T, Override>) {
    return std::string(member ? find_format(*member)->name : kNoOverride);
  } else if constexpr (std::is_enum_v<T>) {
    return choices_of<T>()[static_cast<std::size_t>(member)];
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
    return member;
  } else {
    return static_cast<std::int64_t>(member);
  }
}

template <class T>
void from_value(T& member, const ConfigValue& value) {
  if constexpr (std::is_same_v<T, Override>) {
    const NamedFormat* named = find_format(std::get<std::string>(value));
    member = named ? std::optional(named->format) : std::nullopt;
  } else if constexpr (std::is_enum_v<T>) {
    const auto& name = std::get<std::string>(value);
    const std::vector<std::string>& names = choices_of<T>();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (name == names[i]) member = static_cast<T>(i);
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
    member = std::get<T>(value);
  } else {
    member = static_cast<T>(std::get<std::int64_t>(value));
  }
}

// Access to config.*Section.*Member, and for keys without a section to config.*Member.
template <auto... Path>
struct Access;
template <auto Member>
struct Access<Member> {
  static auto& of(auto& config) { return config.*Member; }
};
template <auto Section, auto Member>
struct Access<Section, Member> {
  static auto& of(auto& config) { return (config.*Section).*Member; }
};

struct Range {
  double min = 0, max = 0;
};

template <auto... Path>
ConfigField field(const char* key, const char* group, const char* label, const char* unit, Range range,
                  const char* help) {
  ConfigField f;
  f.key = key;
  f.group = group;
  f.label = label;
  f.unit = unit;
  f.help = help;
  f.min = range.min;
  f.max = range.max;
  f.get = [](const RunConfig& config) { return to_value(Access<Path...>::of(config)); };
  f.set = [](RunConfig& config, const ConfigValue& value) { from_value(Access<Path...>::of(config), value); };
  using Member = std::remove_cvref_t<decltype(Access<Path...>::of(std::declval<RunConfig&>()))>;
  if constexpr (std::is_enum_v<Member> || std::is_same_v<Member, Override>) f.choices = choices_of<Member>();
  return f;
}

ConfigField live(ConfigField f) {
  f.live = true;
  return f;
}

constexpr Range kNone{};

// 2^53: every seed is exact as a double, too, so that JSON and spreadsheets keep it.
constexpr double kMaxSeed = 9007199254740992.0;

void add_run(std::vector<ConfigField>& t) {
  t.push_back(field<&RunConfig::name>(
      "name", "Run", "Name", "", kNone,
      "The name of this run in legends, recordings and checkpoint files. Letters, digits and - _ . + only."));
  t.push_back(field<&RunConfig::seed>(
      "seed", "Run", "Seed", "", {0, kMaxSeed},
      "Starts all random numbers: the initial weights and the order of the data. The same seed and settings give "
      "bit-identical losses with any number of threads. Two runs that differ only in the seed show how large noise is. "
      "Runs side by side all read run A's batches, so that only their initial weights differ."));
  t.push_back(field<&RunConfig::perturbation>(
      "perturbation", "Run", "Perturbation", "", {0, kMaxSeed},
      "Any number above 0 moves every initial weight up or down by one unit in its last place; the number chooses the "
      "directions. Training is chaotic, so even this difference makes two runs drift apart. A twin that differs only "
      "in this setting shows how far they drift without another start. Repeated runs on a GPU differ in the same way, "
      "because their sums are added in any order. 0: off."));
}

void add_model_shape(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::model;
  t.push_back(field<s, &ModelConfig::vocab>(
      "model.vocab", "Model", "Vocabulary", "tokens", {256, 256},
      "Number of different tokens. The model reads bytes, so it is 256. DeepSeek-V3 uses 129280 sub-word tokens."));
  t.push_back(field<s, &ModelConfig::dim>(
      "model.dim", "Model", "Width (dim)", "features", {8, 8192},
      "Length of the vector that represents a token between layers. It is also the payload of the all-to-all: 2 x dim "
      "bytes per token in BF16. DeepSeek-V3: 7168. A larger width makes the model stronger and the step slower, about "
      "quadratically. MXFP8 needs a multiple of 32."));
  t.push_back(field<s, &ModelConfig::n_layers>(
      "model.n_layers", "Model", "Layers", "layers", {1, 64},
      "Transformer blocks, each attention plus a feed-forward part (dense or MoE). DeepSeek-V3: 61. Time and memory "
      "rise in proportion. Each MoE layer has its own router."));
  t.push_back(field<s, &ModelConfig::n_dense_layers>(
      "model.n_dense_layers", "Model", "Dense layers", "layers", {0, 64},
      "Number of first layers that have one ordinary feed-forward network instead of experts. DeepSeek-V3: 3, because "
      "routers in the first layers balance slowest. 0: every layer is an MoE layer. The number of layers: a dense "
      "model."));
  t.push_back(field<s, &ModelConfig::dense_inter>(
      "model.dense_inter", "Model", "Dense hidden width", "features", {8, 32768},
      "Hidden width of the feed-forward network in the dense layers. DeepSeek-V3: 18432, the width of the 8 routed "
      "experts and the 1 shared expert that a token uses in an MoE layer."));
  t.push_back(field<s, &ModelConfig::n_experts>(
      "model.n_experts", "Model", "Expert count", "experts", {2, 1024},
      "Number of routed experts in each MoE layer: small feed-forward networks among which the router chooses. "
      "DeepSeek-V3: 256. More experts hold more parameters for the same work per token, but each gets fewer tokens of "
      "a batch: the load is noisier and the GEMMs of the experts are smaller."));
  t.push_back(field<s, &ModelConfig::moe_inter>(
      "model.moe_inter", "Model", "Expert width", "features", {8, 16384},
      "Hidden width of one expert's SwiGLU network. DeepSeek-V3: 2048, narrow beside its width of 7168: many small "
      "experts in place of few large ones. MXFP8 needs a multiple of 32."));
  t.push_back(field<s, &ModelConfig::n_shared>(
      "model.n_shared", "Model", "Shared expert count", "experts", {0, 16},
      "Number of experts that every token uses besides the routed ones. They are computed as one network of this many "
      "times the expert width. DeepSeek-V3: 1. They learn what all tokens need, so that the routed experts can "
      "specialise. 0: none."));
  t.push_back(field<s, &ModelConfig::shared_expert_gate>(
      "model.shared_expert_gate", "Model", "Shared expert gate", "", kNone,
      "Multiplies the output of the shared experts for a token by sigmoid(x w_g), a number from 0 to 1. w_g is one "
      "more vector of dim weights in each MoE layer (Qwen3-Next and Qwen3.5; Megatron-LM's moe-shared-expert-gate). "
      "The gate is computed in FP32, whatever the recipes are. false: the output is added as it is, as in "
      "DeepSeek-V3."));
  t.push_back(field<s, &ModelConfig::latent_dim>(
      "model.latent_dim", "Model", "Latent width", "features", {0, 8192},
      "Routed experts work on shorter rows: one projection takes each token from dim to this width before it is "
      "dispatched, another takes the mixed outputs of its experts back (Nemotron 3 Super: 4096 to 1024; Kimi K3: 7168 "
      "to 3584; Megatron-LM's moe_latent_size). Dispatched bytes, expert weights and expert FLOPs shrink by latent_dim "
      "/ dim, which leaves room for more experts per token. Router and shared experts read the whole width. The two "
      "projections are computed in FP32, whatever the recipes are. 0: off."));
  t.push_back(field<s, &ModelConfig::latent_norm>(
      "model.latent_norm", "Model", "Latent RMSNorm", "", kNone,
      "Only with a latent width: applies RMSNorm to the mixed expert outputs of a token before they are projected back "
      "to the full width, as in Kimi K3. Only the proportions of the mixing weights count then, not their size. "
      "Nemotron 3 Super: false."));
  t.push_back(field<s, &ModelConfig::outlier_channel>(
      "model.outlier_channel", "Model", "Outlier channel", "", {0, 8191},
      "Channel of the feed-forward inputs that is scaled by the outlier factor. Counted from 0."));
  t.push_back(field<s, &ModelConfig::outlier_factor>(
      "model.outlier_factor", "Model", "Outlier factor", "", {1e-3, 1e4},
      "At the start of a run, the gain of the outlier channel in every RMSNorm before a feed-forward is multiplied by "
      "this factor, and the weights that read it (gate, w1, w3) are divided by it. The model computes the same "
      "function, but its activations have an outlier, as those of large models do. In a block with one scale the "
      "outlier costs the other values their precision. 30 to 300 shows the effect. 1: off."));
}

void add_attention(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::model;
  constexpr auto kGroup = "Attention";
  t.push_back(field<s, &ModelConfig::n_heads>(
      "model.n_heads", kGroup, "Attention heads", "heads", {1, 128},
      "Independent attention patterns per layer. DeepSeek-V3: 128. Time grows with heads x sequence length squared."));
  t.push_back(field<s, &ModelConfig::q_lora_rank>(
      "model.q_lora_rank", kGroup, "Query latent", "features", {0, 8192},
      "q_lora_rank: multi-head latent attention compresses the query to a vector of this length. DeepSeek-V3: 1536. 0: "
      "a plain projection from the model width, as in DeepSeek-V2-Lite."));
  t.push_back(field<s, &ModelConfig::kv_lora_rank>(
      "model.kv_lora_rank", kGroup, "Key-value latent", "features", {1, 8192},
      "kv_lora_rank: keys and values of all heads are computed from one latent vector of this length. Only that vector "
      "must be cached when text is generated, which is the purpose of multi-head latent attention. DeepSeek-V3: 512. A "
      "latent vector that is too short raises the loss."));
  t.push_back(field<s, &ModelConfig::qk_nope_head_dim>(
      "model.qk_nope_head_dim", kGroup, "Width without RoPE", "features", {1, 512},
      "Part of each head's query and key that carries content only. DeepSeek-V3: 128."));
  t.push_back(field<s, &ModelConfig::qk_rope_head_dim>(
      "model.qk_rope_head_dim", kGroup, "Width with RoPE", "features", {2, 512},
      "Part of each head's query and key that is rotated by the token's position; its key is shared by all heads. "
      "DeepSeek-V3: 64. Must be even, since features are rotated in pairs."));
  t.push_back(field<s, &ModelConfig::v_head_dim>("model.v_head_dim", kGroup, "Value width", "features", {1, 512},
                                                 "Length of each head's output. DeepSeek-V3: 128."));
  t.push_back(field<s, &ModelConfig::rope_theta>(
      "model.rope_theta", kGroup, "RoPE base", "", {1, 1e8},
      "Slowest rotation of the position code: pair j of d/2 turns by position / base^(2j/d). DeepSeek-V3: 10000. "
      "Larger bases distinguish distant positions in long sequences."));
  t.push_back(field<s, &ModelConfig::norm_eps>("model.norm_eps", kGroup, "RMSNorm epsilon", "", {1e-12, 1e-1},
                                               "Added under the root of every RMSNorm to avoid dividing by zero. 1e-5 "
                                               "in TorchTitan, 1e-6 in DeepSeek-V3; no need to change it."));
}

void add_router_choice(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::router;
  constexpr auto kGroup = "Router";
  t.push_back(live(field<s, &RouterConfig::top_k>(
      "router.top_k", kGroup, "Experts per token", "experts", {1, 64},
      "Number of routed experts that each token uses (top_k). DeepSeek-V3: 8 of 256. Expert time and all-to-all volume "
      "rise in proportion. A higher value also makes the load more even. With 1 and normalised gates the router gets "
      "no gradient from the language loss.")));
  t.push_back(live(field<s, &RouterConfig::score_func>(
      "router.score_func", kGroup, "Score function", "", kNone,
      "Turns the router's outputs into scores. sigmoid (DeepSeek-V3): each expert is scored independently. softmax "
      "(DeepSeek-V2 and 16B models): the scores sum to 1, so that a gain of one expert is a loss of the others. "
      "sqrtsoftplus (DeepSeek-V4): sqrt(ln(1 + e^x)), independent and unbounded, 0.83 at an output of 0. A change "
      "during training changes the size of all scores at once: biases that were learnt for sigmoid scores (about 0.5) "
      "dominate softmax scores (about 1/E).")));
  t.push_back(live(field<s, &RouterConfig::n_groups>(
      "router.n_groups", kGroup, "Expert groups", "groups", {0, 256},
      "Number of groups into which the experts are split. A token may choose from a few groups only. DeepSeek-V3: 8, "
      "one group per node, so that a token is sent to few nodes. The number must divide the experts, with at least 2 "
      "experts per group. During training, change this setting before the groups per token. 0: no groups.")));
  t.push_back(live(field<s, &RouterConfig::n_limited_groups>(
      "router.n_limited_groups", kGroup, "Groups per token", "groups", {0, 256},
      "Number of groups from which a token may choose. Groups are ranked by the sum of their two best scores. "
      "DeepSeek-V3: 4 of 8. Fewer groups mean less traffic between nodes and fewer experts to choose from. 0: all "
      "groups.")));
  t.push_back(live(field<s, &RouterConfig::route_norm>(
      "router.route_norm", kGroup, "Normalised gates", "", kNone,
      "Divides the scores of a token's chosen experts by their sum, so that its mixing weights add up to route_scale. "
      "DeepSeek-V3: true; DeepSeek-V2-Lite and TorchTitan's 16B: false.")));
  t.push_back(live(field<s, &RouterConfig::route_scale>(
      "router.route_scale", kGroup, "Gate scale", "", {0.01, 100},
      "Factor of all mixing weights (route_scale). DeepSeek-V3: 2.5. The mean of 8 unrelated outputs has 1/sqrt(8) of "
      "the length of one; times 2.5 this is 0.9. A change during training disturbs the loss for some steps.")));
}

void add_router_balance(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::router;
  constexpr auto kGroup = "Balance";
  t.push_back(live(field<s, &RouterConfig::balance_rule>(
      "router.balance_rule", kGroup, "Bias rule", "", kNone,
      "Rule by which expert_bias changes after each step. sign: by the bias update rate, down for overloaded and up "
      "for underloaded experts (DeepSeek-V3, arXiv:2408.15664). quantile_batch: to the value at which each expert "
      "would have got its share of this batch, computed from a histogram of 1000 bins (Kimi K3, TorchTitan's "
      "QuantileBalancer); needs sigmoid scores. quantile_microbatch: the exact quantile of each sequence on the "
      "router's outputs in place of the scores, averaged over the batch (Megatron-LM's qb_beta with the opposite sign; "
      "one sequence is one microbatch); biases, margins and cutoffs are then in units of router outputs. The quantile "
      "rules do not work with expert groups, forced balance or gate noise.")));
  t.push_back(live(field<s, &RouterConfig::quantile_ema>(
      "router.quantile_ema", kGroup, "Quantile smoothing", "", {0, 0.9999},
      "Only with quantile_microbatch: exponential moving average of the biases; the value is the share of the old bias "
      "that stays at each step. Megatron-LM's default is 0: the biases fit the last batch. 0.9 averages over about 10 "
      "steps and needs about 10 steps to balance the start.")));
  t.push_back(live(field<s, &RouterConfig::bias_update_rate>(
      "router.bias_update_rate", kGroup, "Bias update rate", "per step", {0, 1},
      "Step of the sign rule, which balances without a loss: after each step the bias of an overloaded expert falls by "
      "this value and that of an underloaded expert rises. The bias changes which experts are chosen, never the mixing "
      "weights. DeepSeek-V3: 0.001. 0.1 oscillates: MaxVio of the batch stays high while MaxVio of the window is low. "
      "0: the biases do not change.")));
  t.push_back(live(field<s, &RouterConfig::bias_centring>(
      "router.bias_centring", kGroup, "Centred updates", "", kNone,
      "Subtracts the mean of each bias update, as TorchTitan does, so that the biases do not drift together. The "
      "choice of experts does not depend on it. false: as in arXiv:2408.15664.")));
  t.push_back(live(field<s, &RouterConfig::aux_mode>(
      "router.aux_mode", kGroup, "Auxiliary loss", "", kNone,
      "Loss that penalises uneven load. sequence: the load of each sequence (DeepSeek-V3, in addition to the bias). "
      "batch: the load of the whole batch, so that sequences may specialise (Switch, Qwen). none: off. The load counts "
      "the experts that were chosen with the bias, as in TorchTitan; DeepSeek's formula counts the top K of the scores "
      "without the bias.")));
  t.push_back(live(field<s, &RouterConfig::aux_coeff>(
      "router.aux_coeff", kGroup, "Loss weight", "", {0, 10},
      "Weight of the auxiliary loss. DeepSeek-V3: 0.0001 per sequence. Small models react visibly from about 0.01. At "
      "1 the load is even and the scores no longer distinguish tokens (in 300 steps of nano, mutual information stays "
      "below a tenth of its value without balancing), and the language loss of so small a model rises by a few per "
      "cent at most. Useful values depend on the size of the model.")));
  t.push_back(
      live(field<s, &RouterConfig::z_coeff>("router.z_coeff", kGroup, "Z-loss weight", "", {0, 1},
                                            "Weight of mean(logsumexp(router outputs)^2), which keeps the router's "
                                            "outputs small. ST-MoE: 0.001. DeepSeek-V3 does not use it. 0: off.")));
  t.push_back(live(field<s, &RouterConfig::force_balance>(
      "router.force_balance", kGroup, "Forced balance", "", kNone,
      "Replaces the router's choice: token t gets experts t*K ... t*K+K-1 modulo E (round-robin). Throughput is often "
      "published this way. The load is even and the experts of a token are on one or few ranks, which is the best case "
      "for DeepEP. The experts cannot specialise.")));
  t.push_back(live(field<s, &RouterConfig::capacity_factor>(
      "router.capacity_factor", kGroup, "Capacity factor", "", {0, 16},
      "Capacity of each expert as a multiple of its fair share of the token copies of a batch. Copies above it are "
      "dropped as token_drop says; with token_drop = none nothing is dropped, as in DeepSeek-V3, and the copies above "
      "capacity are only counted. Switch: 1.25. 0: off.")));
  t.push_back(live(field<s, &RouterConfig::token_drop>(
      "router.token_drop", kGroup, "Token dropping", "", kNone,
      "Which token copies are kept by an expert that was chosen more often than its capacity. probs: those with the "
      "largest mixing weights. position: the first of the batch (Megatron-LM's policies). none: all (dropless). A "
      "dropped copy is not sent, adds nothing to the output and gets no gradient; the other weights of the token do "
      "not change, and no other expert replaces it. As in Megatron-LM, the auxiliary loss and expert_bias count the "
      "copies that are left. The capacity applies to the whole batch; in Megatron-LM it applies to the tokens of each "
      "rank.")));
  t.push_back(field<s, &RouterConfig::n_hash_layers>(
      "router.n_hash_layers", kGroup, "Hash layers", "layers", {0, 4096},
      "The first MoE layers get each byte's experts from a fixed table instead of the router's choice (DeepSeek-V4's "
      "hash layers; it has 3). Their gate still learns the mixing weights, their biases do not change, and their load "
      "follows from the bytes of the text. The table is drawn from the seed, with K different experts for each byte, "
      "as TorchTitan does where the published table is not available. 0: off."));
  t.push_back(field<s, &RouterConfig::replay>(
      "router.replay", kGroup, "Routing replay", "", kNone,
      "A twin runs the experts that run A chose, at every token of every MoE layer and step (routing replay, R3: "
      "arXiv:2510.11370, Megatron-LM's moe_enable_routing_replay). Only the choice is replayed: the mixing weights "
      "come from the twin's own scores of those experts, and its gate learns from them. The part of the loss gap that "
      "remains is caused by arithmetic, the part that disappears was caused by routing. Only for a twin that starts "
      "together with run A."));
}

void add_router_actions(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::router;
  constexpr auto kGroup = "Router actions";
  t.push_back(live(field<s, &RouterConfig::killed_experts>(
      "router.killed_experts", kGroup, "Killed experts", "", kNone,
      "Experts that cannot be chosen from the next step on, as LAYER:EXPERT: 2:7 is expert 7 of layer 2, *:3 is expert "
      "3 of every MoE layer. Commas separate several. Their weights get no gradient, their bias does not change, and "
      "the other experts balance among themselves. This shows what the loss of a machine does to a model and how fast "
      "the other experts take over. Remove an entry to revive the expert. Empty: none.")));
  t.push_back(live(field<s, &RouterConfig::pinned_bias>(
      "router.pinned_bias", kGroup, "Pinned biases", "", kNone,
      "Holds expert_bias of single experts at a value, as LAYER:EXPERT=BIAS: 2:7=0.5, *:3=-1. Commas separate several. "
      "A positive bias gives an expert tokens that would have chosen another one; 0.5 is large for sigmoid scores, 1/E "
      "for softmax scores. When an entry is removed, the bias moves again from that value. Empty: none.")));
  t.push_back(live(field<s, &RouterConfig::frozen>(
      "router.frozen", kGroup, "Frozen router", "", kNone,
      "The weights of the gate and expert_bias do not change while everything else trains. This shows what the experts "
      "learn under a fixed routing rule. The gradient of the frozen gate does not count in the gradient norm.")));
  t.push_back(live(field<s, &RouterConfig::gate_noise>(
      "router.gate_noise", kGroup, "Gate noise", "", {0, 100},
      "Standard deviation of Gaussian noise that is added to the router's outputs when experts are chosen in training; "
      "the mixing weights come from the scores without noise. The noisy gate of Shazeer et al. 2017 differs: there the "
      "standard deviation is learnt per expert and token, and the noise also enters the mixing weights. Router outputs "
      "are about 1 to 5 in size: 0.1 changes only narrow choices, 10 makes the choice random. The noise depends on "
      "seed, step and position only. 0: none.")));
  t.push_back(field<s, &RouterConfig::initial_bias>(
      "router.initial_bias", kGroup, "Initial biases", "", kNone,
      "expert_bias before the first step, as LAYER:EXPERT=BIAS: *:0=0.3. Commas separate several. An uneven start "
      "shows whether and how fast balancing corrects it. Unlike a pinned bias, it moves from the first step on. Empty: "
      "all 0, as in DeepSeek-V3."));
}

void add_optimizer(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::optimizer;
  constexpr auto kGroup = "Optimizer";
  t.push_back(field<s, &OptimizerConfig::name>(
      "optimizer.name", kGroup, "Optimizer", "", kNone,
      "adamw: divides the running mean of each gradient by the root of the running mean of its square (DeepSeek-V3). "
      "muon: replaces the momentum of each matrix by the nearest orthogonal matrix, so that all directions change "
      "equally (Kimi K2, Moonlight). It applies to the three matrices of each expert, to the query, key and value "
      "matrices of each head, and to the other matrices of attention, feed-forwards and gate; embedding, head and "
      "norms use AdamW. Muon keeps one number per weight, AdamW two (the program reserves both). Its matrix products "
      "double the time of a step of nano. Mean loss of steps 250 to 299 there, three seeds, each optimizer at its best "
      "learning rate: 1.54 to 1.58 nats/token with adamw (0.004 or 0.008), 1.33 to 1.38 with muon (0.016)."));
  t.push_back(live(field<s, &OptimizerConfig::lr>(
      "optimizer.lr", kGroup, "Learning rate", "", {0, 1},
      "Peak step size. DeepSeek-V3: 2.2e-4; small models tolerate 1e-3 to 5e-3. Too high: the loss jumps or becomes "
      "NaN, and routers oscillate. Too low: the loss falls slowly.")));
  t.push_back(field<s, &OptimizerConfig::lr_min>("optimizer.lr_min", kGroup, "Final learning rate", "", {0, 1},
                                                 "Learning rate at the end of the cosine decay. DeepSeek-V3: a tenth "
                                                 "of the peak or less. It must not exceed the learning rate."));
  t.push_back(field<s, &OptimizerConfig::schedule>(
      "optimizer.schedule", kGroup, "Schedule", "", kNone,
      "Learning rate after the warm-up. cosine: falls to the final learning rate at the end of the schedule "
      "(DeepSeek-V3 in its decay phase). constant: does not change; better for experiments without a fixed length."));
  t.push_back(field<s, &OptimizerConfig::warmup_steps>(
      "optimizer.warmup_steps", kGroup, "Warm-up", "steps", {0, 1e6},
      "Steps over which the learning rate rises from near 0 to its peak. DeepSeek-V3: 2000. Without a warm-up the "
      "first steps of Adam are too large and early routing choices persist."));
  t.push_back(field<s, &OptimizerConfig::total_steps>(
      "optimizer.total_steps", kGroup, "Schedule length", "steps", {1, 1e9},
      "Step at which the cosine decay reaches the final rate, and the default length of a run on the command line. "
      "Training may go on beyond it at the final rate."));
  t.push_back(field<s, &OptimizerConfig::beta1>(
      "optimizer.beta1", kGroup, "Adam beta1", "", {0, 0.99999},
      "Decay of the running mean of the gradient; 0.9 averages over about 10 steps. DeepSeek-V3: 0.9."));
  t.push_back(field<s, &OptimizerConfig::beta2>(
      "optimizer.beta2", kGroup, "Adam beta2", "", {0, 0.99999},
      "Decay of the running mean of the squared gradient; 0.95 averages over about 20 steps. DeepSeek-V3: 0.95. With "
      "0.999, experts that are rarely chosen keep old step sizes for long."));
  t.push_back(field<s, &OptimizerConfig::eps>("optimizer.eps", kGroup, "Adam epsilon", "", {1e-20, 1e-1},
                                              "Added to the root of the squared gradient's mean. 1e-8 is usual. Large "
                                              "values make small gradients count less."));
  t.push_back(field<s, &OptimizerConfig::weight_decay>(
      "optimizer.weight_decay", kGroup, "Weight decay", "", {0, 10},
      "Each step multiplies all weights by 1 - learning rate x weight decay. DeepSeek-V3: 0.1."));
  t.push_back(field<s, &OptimizerConfig::clip>(
      "optimizer.clip", kGroup, "Gradient clipping", "", {1e-6, 1e9},
      "Largest norm of the gradient over all weights; a larger gradient is scaled down to it. DeepSeek-V3: 1.0. If the "
      "norm is above the limit at every step, every step has the same norm."));
  t.push_back(live(field<s, &OptimizerConfig::router_lr_factor>(
      "optimizer.router_lr_factor", kGroup, "Gate rate factor", "", {0, 1000},
      "Factor of the learning rate and weight decay of the gates. Above 1 routing becomes fixed early and may "
      "collapse; below 1 it stays flexible for longer. 0: the weights of the gates do not change while expert_bias "
      "still moves. 1: as all other weights.")));
}

void add_muon(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::optimizer;
  constexpr auto kGroup = "Optimizer";
  t.push_back(field<s, &OptimizerConfig::muon_momentum>("optimizer.muon_momentum", kGroup, "Muon momentum", "",
                                                        {0, 0.99999},
                                                        "Only with muon: decay of the running mean of the gradient; "
                                                        "0.95 (Kimi K2, TorchTitan) averages over about 20 steps."));
  t.push_back(field<s, &OptimizerConfig::muon_nesterov>(
      "optimizer.muon_nesterov", kGroup, "Muon Nesterov", "", kNone,
      "Only with muon: Nesterov momentum. true in Kimi K2 and TorchTitan, false by default in Megatron-LM."));
  t.push_back(field<s, &OptimizerConfig::muon_scale>(
      "optimizer.muon_scale", kGroup, "Muon scale", "", kNone,
      "Only with muon: factor on the learning rate of an m x n matrix. match_rms_adamw: 0.2 sqrt(max(m, n)), steps as "
      "large as AdamW's, so that its learning rate fits (Moonlight, Kimi K2). original: sqrt(max(1, m / n)), for which "
      "0.02 is usual; spectral: sqrt(m / n). Both need their own learning rate, which also applies to embedding, head "
      "and norms."));
  t.push_back(field<s, &OptimizerConfig::muon_bf16>(
      "optimizer.muon_bf16", kGroup, "Muon in BF16", "", kNone,
      "Only with muon: the matrix products of its five Newton-Schulz steps have BF16 operands and results, as in "
      "TorchTitan; momentum and weights stay FP32. false: all in FP32. BF16 loses directions that are far smaller than "
      "the largest one of their matrix."));
}

void add_qk_clip(std::vector<ConfigField>& t) {
  t.push_back(live(field<&RunConfig::optimizer, &OptimizerConfig::qk_clip>(
      "optimizer.qk_clip", "Optimizer", "QK-clip", "", {0, 10000},
      "Limit of the attention score (query times key over the root of the head width). Heads with a larger score in "
      "any query of the batch are scaled down after the step: queries and keys without RoPE by the root of the excess, "
      "queries with RoPE by all of it. Kimi K2 trains with muon and 100; scores that grow without limit end in NaN. "
      "Models as small as the presets stay below 10 to 20 for long; the Loss panel shows the value as Max QK logit. 0: "
      "off.")));
}

constexpr const char* kOwnRecipe = "own";

// All of [precision] but the payload at once.
ConfigField published_recipe_field() {
  ConfigField f;
  f.key = "precision.published_recipe", f.group = "Precision", f.label = "Published recipe";
  f.help =
      "Sets all precision settings except the format of dispatched tokens to those of a paper or a training framework: "
      "formats of GEMMs and layers, rounding, rotation and scales. The description of a recipe states its source and "
      "what this program does not reproduce. Settings that are changed afterwards take precedence. own: the settings "
      "below.";
  f.choices = {kOwnRecipe};
  for (const std::string_view name : published_recipe_names()) f.choices.emplace_back(name);
  f.live = f.derived = true;
  f.get = [](const RunConfig& config) -> ConfigValue {
    const std::string name = published_recipe_of(config.precision);
    return name.empty() ? kOwnRecipe : name;
  };
  f.set = [](RunConfig& config, const ConfigValue& value) {
    const auto& name = std::get<std::string>(value);
    if (name != kOwnRecipe) apply_published_recipe(name, config.precision);
  };
  return f;
}

void add_precision(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::precision;
  constexpr auto kGroup = "Precision";
  const auto add = [&](ConfigField f) { t.push_back(live(std::move(f))); };
  t.push_back(published_recipe_field());
  add(field<s, &PrecisionConfig::experts>(
      "precision.experts", kGroup, "Routed experts", "", kNone,
      "Recipe of number formats for all operands of the routed experts' GEMMs (forward, input gradient, weight "
      "gradient). mxfp8_rceil: E4M3 elements in blocks of 32 with a power-of-two scale rounded up, as on B200 GPUs; "
      "mxfp8_floor: the scale rounded down, which clips the top of some blocks; fp8_deepseek_128: DeepSeek-V3's FP8 "
      "with scales per 128; mxfp4 and nvfp4: 4 bits; bf16; fp32: exact here. Most of the arithmetic of a model is in "
      "these GEMMs, so that low precision saves most here."));
  add(field<s, &PrecisionConfig::shared_experts>(
      "precision.shared_experts", kGroup, "Shared experts", "", kNone,
      "Recipe of the shared experts, with the same choices as for the routed experts. DeepSeek-V3: FP8, as for the "
      "routed experts. TorchTitan's MXFP8 runs quantize the routed experts only, unless configured otherwise."));
  add(field<s, &PrecisionConfig::dense_ffn>("precision.dense_ffn", kGroup, "Dense feed-forward", "", kNone,
                                            "Recipe of the feed-forward networks of the dense layers, with the same "
                                            "choices as for the routed experts. DeepSeek-V3: FP8."));
  add(field<s, &PrecisionConfig::attention>(
      "precision.attention", kGroup, "Attention", "", kNone,
      "Recipe of the projections of attention (wq, wkv_a, wkv_b, wo). With fp32, scores and the sum of values are "
      "computed in FP32, too. With all other recipes they are products of BF16 numbers and never quantized further, as "
      "in DeepSeek-V3 and NVIDIA's NVFP4 recipe. The softmax is computed in FP32. A row whose length is not a multiple "
      "of the block ends in a shorter block. DeepSeek-V3: FP8 projections."));
  add(field<s, &PrecisionConfig::router_gate>(
      "precision.router_gate", kGroup, "Router gate", "", kNone,
      "Recipe of the product that scores the experts. Training frameworks do not quantize it (TorchTitan: FP32 since "
      "March 2026, BF16 in its published runs; DeepSeek-V3: BF16 or FP32). It is 0.3 % of the arithmetic of the 671B "
      "model, but a rounding error that exceeds the margin between the last chosen and the first rejected expert sends "
      "the token to another expert. Set it to mxfp8_rceil or mxfp4 beside an fp32 twin and watch the routing flips."));
  add(field<s, &PrecisionConfig::head>(
      "precision.head", kGroup, "Output head", "", kNone,
      "Recipe of the product that gives the logits. Real trainings keep it in high precision (DeepSeek-V3: BF16 or "
      "FP32), because its errors enter the loss and every gradient."));
  add(field<s, &PrecisionConfig::rounding>(
      "precision.rounding", kGroup, "Rounding", "", kNone,
      "Rounding of quantized operands (not of bf16). nearest: to the closer number, ties to even. stochastic: up or "
      "down with a probability given by the distance, so that errors cancel on average and small gradients survive in "
      "4-bit formats, at twice the squared error. Clipping errors do not cancel: the largest values of the blocks of "
      "nvfp4 come out 1.1 % too small on average, those of mxfp8_floor 1.2 % (bell-shaped data). The random bits "
      "depend on seed, step and position only, so that a run repeats bit for bit."));
  add(field<s, &PrecisionConfig::stochastic_operands>(
      "precision.stochastic_operands", kGroup, "Stochastic operands", "", kNone,
      "Only with stochastic rounding: the operands to which it applies. gradients: dY alone, as in NVIDIA's NVFP4 "
      "recipe; activations and weights are rounded to nearest. all: every quantized operand."));
  add(field<s, &PrecisionConfig::hadamard>(
      "precision.hadamard", kGroup, "Hadamard rotation", "", kNone,
      "Rotates the contracted dimension of both operands of every quantized GEMM by random Hadamard matrices in blocks "
      "of 16 (nvfp4) or 32. The product does not change, but an outlier is spread over its block and no longer costs "
      "the other values their precision. Useful in 4 bits. NVIDIA's NVFP4 recipe rotates the operands of wgrad alone, "
      "in blocks of 16."));
  add(field<s, &PrecisionConfig::hadamard_gemms>(
      "precision.hadamard_gemms", kGroup, "Rotated GEMMs", "", kNone,
      "Only with the Hadamard rotation: the GEMMs whose operands are rotated. wgrad: the weight gradient alone, along "
      "the tokens, as in NVIDIA's NVFP4 recipe. all: forward and dgrad, too."));
  add(field<s, &PrecisionConfig::hadamard_signs>(
      "precision.hadamard_signs", kGroup, "Rotation signs", "", kNone,
      "Only with the Hadamard rotation: its random signs. drawn: new signs for every step and place. fixed: the "
      "sixteen signs of TransformerEngine for every block of 16. fixed_bf16: as fixed, and rotated values are rounded "
      "to BF16 before they are quantized, as in TransformerEngine's kernels."));
  add(field<s, &PrecisionConfig::nvfp4_rule>(
      "precision.nvfp4_rule", kGroup, "NVFP4 scales", "", kNone,
      "Arithmetic of the scales of nvfp4, equal bit for bit to the named library. divided: torchao's scales, at least "
      "2^-6 of the scale of the tensor; values are divided by them. transformer_engine: the arithmetic of NVIDIA and "
      "of torchao for training; scales may be as small as 2^-9 or 0, and values are multiplied by a reciprocal. "
      "torchao: NVFP4Tensor with a scale of the tensor, multiplied. torchao_one_level: as torchao without a scale of "
      "the tensor, so that gradients far below 1 become 0. On ordinary data the first three differ in single bits; "
      "only transformer_engine keeps the values of blocks that are far below the largest value of the tensor."));
  add(field<s, &PrecisionConfig::nvfp4_square_weights>(
      "precision.nvfp4_square_weights", kGroup, "NVFP4 square scales", "", kNone,
      "Weights in nvfp4 have one scale per 16 x 16 values in place of 1 x 16, as in NVIDIA's recipe. The scales are "
      "coarser, but forward and dgrad multiply the same numbers."));
  add(field<s, &PrecisionConfig::nvfp4_four_over_six>(
      "precision.nvfp4_four_over_six", kGroup, "NVFP4 4over6", "", kNone,
      "Only with transformer_engine scales. Every block of nvfp4 is quantized twice, with its largest value at 6 and "
      "at 4, and the result with the smaller absolute (mae) or squared (mse) error is kept, because E2M1 has no number "
      "between 4 and 6. 256 or 448: the largest scale; 256 leaves room for the larger scale of 4 everywhere. "
      "TransformerEngine offers it for weights, activations or both, mae_256 by default, and not with rotation."));
  add(field<s, &PrecisionConfig::payload>(
      "precision.payload", kGroup, "Dispatched tokens", "", kNone,
      "Format of the rows that the all-to-all sends. bf16: dispatch and combine, forward and backward, as usual. "
      "mxfp8: dispatch of the forward pass and combine of the backward pass send E4M3 with one scale per 32 values, "
      "the other two send BF16, as torchao's MXFP8 all-to-all. fp32: exact. DeepSeek-V3: FP8 dispatch, BF16 combine."));
  add(field<s, &PrecisionConfig::override_x>(
      "precision.override_x", kGroup, "Override: activations", "", kNone,
      "Format of the activations (x) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. Set activations, weights and gradients in turn to find the operand that a format harms. none: the format "
      "of the recipe."));
  add(field<s, &PrecisionConfig::override_w>(
      "precision.override_w", kGroup, "Override: weights", "", kNone,
      "Format of the weights (W) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. The master weights of the optimizer stay in FP32. none: the format of the recipe."));
  add(field<s, &PrecisionConfig::override_dy>(
      "precision.override_dy", kGroup, "Override: gradients", "", kNone,
      "Format of the gradients (dY) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. mxfp8_e5m2 gives them more range and one bit less precision. none: the format of the recipe."));
  add(field<s, &PrecisionConfig::operands>(
      "precision.operands", kGroup, "Operand overrides", "", kNone,
      "Recipes of single operands of a class of GEMMs, as CLASS.OPERAND=RECIPE: experts.dY=mxfp8_e5m2_grad, "
      "attention.W=bf16. They override everything above. Commas or semicolons separate several. Classes: experts, "
      "shared_experts, dense_ffn, attention, router_gate, head; operands: x, W, dY; recipes as for precision.experts. "
      "For one GEMM: experts.dY.wgrad=bf16 (forward, dgrad or wgrad). For some layers: 2-3:experts.W=bf16. With "
      "rounding or rotation: experts.dY.wgrad=mxfp4+stochastic+rotated (nearest or stochastic, rotated or unrotated; a "
      "rotation applies to both operands of the GEMM). Later entries override earlier ones. Empty: none."));
}

void add_bf16_layers(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::precision;
  constexpr auto kGroup = "Precision";
  t.push_back(live(field<s, &PrecisionConfig::layers_at_start_in_bf16>(
      "precision.layers_at_start_in_bf16", kGroup, "First BF16 layers", "layers", {0, 64},
      "Number of first layers whose GEMMs are all in BF16 (those in fp32 stay in FP32), whatever the recipes are. "
      "Megatron-LM: 1 where the option is used; NVIDIA's NVFP4 recipe: 0.")));
  t.push_back(live(field<s, &PrecisionConfig::layers_at_end_in_bf16>(
      "precision.layers_at_end_in_bf16", kGroup, "Last BF16 layers", "layers", {0, 64},
      "Number of last layers whose GEMMs are all in BF16 (those in fp32 stay in FP32). NVIDIA's 12B model in NVFP4 "
      "(arXiv:2509.25149, section 4.1): the first two and the last eight of 62 blocks; Nemotron 3 Super: the last 14 "
      "of 88. The output head has its own format.")));
  t.push_back(live(field<s, &PrecisionConfig::bf16_from_step>(
      "precision.bf16_from_step", kGroup, "BF16 from step", "", {0, 1e12},
      "Step from which the operands named by late_bf16 are in BF16. In NVIDIA's study of NVFP4 such a late switch "
      "closes most of the remaining loss gap at little cost. 0: never.")));
  t.push_back(live(field<s, &PrecisionConfig::late_bf16>(
      "precision.late_bf16", kGroup, "Switched to BF16", "", kNone,
      "Only with bf16_from_step: the operands that are switched to BF16. forward: those of the forward pass; gradients "
      "keep their formats. all: every GEMM that is not in fp32.")));
}

void add_rest(std::vector<ConfigField>& t) {
  constexpr auto d = &RunConfig::data;
  t.push_back(
      field<d, &DataConfig::path>("data.path", "Data", "Text file or folder", "", kNone,
                                  "Text that the model reads. Empty: built-in text of the kind that data.generator "
                                  "names. A file: its text. A folder: every file or sub-folder in it is one domain."));
  t.push_back(field<d, &DataConfig::generator>(
      "data.generator", "Data", "Built-in text", "", kNone,
      "Text that the program generates where no file is given. passages: ten domains, from prose, code and arithmetic "
      "to Morse; one expert learns them about as well as eight. facts: ten languages, Q to Z, with the same 59 "
      "symbols. The letter of the language and a symbol alternate, and each symbol has another successor in every "
      "language: 590 facts to memorize, which need many experts. One symbol in a hundred is random, so that no model "
      "reaches less than 0.048 nats/byte."));
  t.push_back(field<d, &DataConfig::batch>("data.batch", "Data", "Sequences per step", "sequences", {1, 4096},
                                           "Number of sequences in a batch. DeepSeek-V3: 15360. More tokens per step "
                                           "mean less noise in gradients and expert load, and slower steps."));
  t.push_back(field<d, &DataConfig::seq>(
      "data.seq", "Data", "Sequence length", "tokens", {2, 16384},
      "Tokens in one sequence. DeepSeek-V3: 4096. Time and memory of attention grow with its square."));
  t.push_back(live(field<d, &DataConfig::mixture>(
      "data.mixture", "Data", "Domain mixture", "", kNone,
      "Weights of the domains in the batches, as DOMAIN=WEIGHT: code=1 reads code alone; prose=0.5, JSON=2, *=1 sets "
      "two weights and that of all others (*). Domains that are not named have weight 0. A change during training is a "
      "domain shift and shows how slowly the biases follow. Runs side by side read the same batches, so that the "
      "change applies to all. Empty: built-in domains are equally frequent, and all places of your own text are "
      "equally likely.")));
  t.push_back(field<d, &DataConfig::held_out>(
      "data.held_out", "Data", "Held-out share", "share", {0, 0.5},
      "Share at the end of each of your own texts that is never trained on; the validation loss is measured on it. 0: "
      "no validation loss. The built-in generators always generate separate text for validation; that of facts "
      "contains the same facts."));
  constexpr auto p = &RunConfig::parallel;
  t.push_back(
      field<p, &ParallelConfig::ranks>("parallel.ranks", "All-to-all", "Virtual ranks", "ranks", {1, 256},
                                       "Virtual GPUs over which experts and tokens are spread; the all-to-all between "
                                       "them is counted from the real routing. DeepSeek-V3 trained with 64-way expert "
                                       "parallelism. Must divide the experts. No effect on the training."));
  t.push_back(field<p, &ParallelConfig::ranks_per_node>(
      "parallel.ranks_per_node", "All-to-all", "Ranks per node", "ranks", {1, 256},
      "Number of ranks that share a fast link (NVLink): 8 in most machines. Copies to other nodes are sent over the "
      "slower network, where DeepEP sends one copy per node in place of one per chosen expert."));
  t.push_back(live(field<p, &ParallelConfig::placement>(
      "parallel.placement", "All-to-all", "Expert placement", "", kNone,
      "Which virtual rank holds which expert, for counting. contiguous: in order. random. balanced: by the rule of "
      "EPLB, DeepSeek's balancer for inference: the experts with the highest load get replicas in one more slot per "
      "rank, then experts are packed by the load of the same step, which a real training knows too late. "
      "balanced:STEPS: by the load of the previous STEPS steps, planned every STEPS steps, as a real training can do "
      "it. By hand: the rank of each expert of a layer, LAYER:RANK,RANK,...;LAYER:..., as the panel Expert placement "
      "writes it. No effect on the training.")));
  constexpr auto v = &RunConfig::telemetry;
  t.push_back(live(field<v, &TelemetryConfig::every>(
      "telemetry.every", "Telemetry", "Router arrays every", "steps", {1, 10000},
      "Steps between recorded expert loads and all-to-all matrices; losses are recorded at every step. 1: every step. "
      "A larger value keeps the recordings of long runs small.")));
  t.push_back(live(field<v, &TelemetryConfig::quant_every>(
      "telemetry.quant_every", "Telemetry", "Quantization every", "steps", {1, 10000},
      "Steps between quantization statistics (scale histogram, SQNR, underflow, clipping).")));
  t.push_back(live(field<v, &TelemetryConfig::flips_every>(
      "telemetry.flips_every", "Telemetry", "Routing flips every", "steps", {0, 10000},
      "Steps between comparisons of the routing with that of run A, token by token: the share of the tokens that have "
      "another set of experts, and their score margins. Only with more than one run. The value of run A also sets the "
      "steps at which its routing is kept for runs that join later. 0: never.")));
  t.push_back(live(field<v, &TelemetryConfig::gradient_every>(
      "telemetry.gradient_every", "Telemetry", "Gradient error every", "steps", {0, 10000},
      "Steps between comparisons of the gradients with those of an additional forward and backward pass in FP32 on the "
      "same weights and batch: signal-to-noise ratio and cosine by layer and kind of tensor, and the share of the "
      "tokens that FP32 would have routed to other experts. Such a step takes about twice as long. No effect on the "
      "training. 0: never.")));
  t.push_back(live(field<v, &TelemetryConfig::validation_every>(
      "telemetry.validation_every", "Telemetry", "Validation every", "steps", {0, 10000},
      "Steps between losses of four fixed batches that are never trained on and do not depend on the seed. Because the "
      "text is always the same, they show the difference of two runs without the variation between batches. Each costs "
      "four forward passes. No effect on the training. Your own text needs a held-out share (data.held_out). 0: "
      "never.")));
  t.push_back(field<v, &TelemetryConfig::window>(
      "telemetry.window", "Telemetry", "Balance window", "steps", {2, 10000},
      "Number of steps over which MaxVio (window) and dead experts are computed. A single batch contains sampling "
      "noise: a value that is high in the batch and low in the window means oscillation or noise, a value that is high "
      "in both means imbalance."));
  t.push_back(live(field<v, &TelemetryConfig::checkpoint_every>(
      "telemetry.checkpoint_every", "Telemetry", "Checkpoints every", "steps", {0, 1e6},
      "Steps between automatic checkpoints, to which the training can be rewound and from which a twin can start. Each "
      "is a copy of 12 bytes per parameter, in memory and in the folder NAME.checkpoints beside the recording. A "
      "checkpoint delays the training by about 6 ms per million parameters: at the default of 100 steps, 0.3 % of the "
      "time of the preset mini-v3. The value of run A applies to all runs. 0: manual checkpoints only.")));
  t.push_back(live(field<v, &TelemetryConfig::checkpoints_kept>(
      "telemetry.checkpoints_kept", "Telemetry", "Checkpoints kept", "checkpoints", {1, 64},
      "Number of checkpoints that are kept, with 512 MiB at most (two of mini-v3, all 8 of the default for smaller "
      "models). They are close together near the newest step and farther apart before it; the first one and manual "
      "ones are removed last.")));
}

void add_texts(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::telemetry;
  constexpr auto kGroup = "Telemetry";
  t.push_back(live(field<s, &TelemetryConfig::specialisation_every>(
      "telemetry.specialisation_every", kGroup, "Specialisation every", "steps", {0, 10000},
      "Steps between tables of expert choices: domain by expert, expert by expert, byte by expert. A table counts "
      "every batch since the previous one, so that less frequent tables have less noise. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::texts_every>(
      "telemetry.texts_every", kGroup, "Probe routing every", "steps", {0, 10000},
      "Steps between routings of the probe text, token by token and layer by layer, with the weights of that step. A "
      "passage of the last batch is added, from each domain in turn. An edited probe text is routed at the next step. "
      "No effect on the training. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::probe>(
      "telemetry.probe", kGroup, "Probe text", "", kNone,
      "Text whose routing is shown in the workspace Text and compared from step to step; at most 1024 bytes. \\n is a "
      "new line, \\t a tab, \\x41 the byte 0x41, \\\\ a backslash. Longer texts than data.seq are read in pieces of "
      "that length, as in training. Empty: no probe.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_every>(
      "telemetry.sample_every", kGroup, "Sample every", "steps", {0, 10000},
      "Steps between samples: texts in which the model continues the beginning of the probe text. A sample takes up to "
      "one forward pass per byte. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_length>(
      "telemetry.sample_length", kGroup, "Sample length", "bytes", {1, 1024},
      "Number of bytes of a sample. Prompt and sample together are at most data.seq long.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_temperature>(
      "telemetry.sample_temperature", kGroup, "Temperature", "", {0, 5},
      "Randomness of a sample. 0: the most likely byte each time, which soon repeats itself. 1: as the model predicts. "
      "Larger: more random. The random numbers depend on seed and step only, so that the same run writes the same "
      "text.")));
}

std::vector<ConfigField> make_table() {
  std::vector<ConfigField> table;
  add_run(table);
  add_model_shape(table);
  add_attention(table);
  add_router_choice(table);
  add_router_balance(table);
  add_router_actions(table);
  add_optimizer(table);
  add_muon(table);
  add_qk_clip(table);
  add_precision(table);
  add_bf16_layers(table);
  add_rest(table);
  add_texts(table);
  return table;
}

}  // namespace

std::span<const ConfigField> config_fields() {
  static const std::vector<ConfigField> table = make_table();
  return table;
}

const ConfigField* find_field(std::string_view key) {
  for (const ConfigField& f : config_fields())
    if (f.key == key) return &f;
  return nullptr;
}

}  // namespace moescope
