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
      "Start of all random numbers: initial weights and the order of the data. The same seed and settings give "
      "bit-identical losses on any number of threads. Two runs that differ only in the seed show how much of a "
      "difference is noise; side by side, all runs read run A's batches, so that only their initial weights differ."));
  t.push_back(field<&RunConfig::perturbation>(
      "perturbation", "Run", "Perturbation", "", {0, kMaxSeed},
      "0: none. Any other number moves every initial weight up or down by one unit in its last place, by a choice of "
      "its own. Training is chaotic: from so small a difference two runs drift apart, and a twin that differs only in "
      "this shows how far by chaos alone, without the luck of another start. It is what repeated runs on a GPU differ "
      "by, whose sums come in any order."));
}

void add_model_shape(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::model;
  t.push_back(field<s, &ModelConfig::vocab>(
      "model.vocab", "Model", "Vocabulary", "tokens", {256, 256},
      "Number of different tokens. The model reads bytes, so it is 256. DeepSeek-V3 uses 129280 sub-word tokens."));
  t.push_back(field<s, &ModelConfig::dim>(
      "model.dim", "Model", "Model width (dim)", "features", {8, 8192},
      "Length of the vector that represents a token between layers, and so the payload of the all-to-all: 2 x dim "
      "bytes a token in BF16. DeepSeek-V3: 7168. Raising it makes the model stronger and the step slower, about "
      "quadratically. MXFP8 needs a multiple of 32."));
  t.push_back(field<s, &ModelConfig::n_layers>(
      "model.n_layers", "Model", "Layers", "layers", {1, 64},
      "Transformer blocks, each attention plus a feed-forward part (dense or MoE). DeepSeek-V3: 61. Time and memory "
      "rise in proportion; each MoE layer has a router of its own."));
  t.push_back(field<s, &ModelConfig::n_dense_layers>(
      "model.n_dense_layers", "Model", "Dense layers first", "layers", {0, 64},
      "How many of the first layers have one ordinary feed-forward network instead of experts. DeepSeek-V3: 3, because "
      "routers in the first layers balance slowest. 0: every layer is MoE; as many as there are layers: a dense model "
      "to compare with."));
  t.push_back(field<s, &ModelConfig::dense_inter>(
      "model.dense_inter", "Model", "Dense hidden width", "features", {8, 32768},
      "Hidden width of the feed-forward network in the dense layers. DeepSeek-V3: 18432, that is 9 experts' width: the "
      "8 routed and the 1 shared expert that a token meets in an MoE layer."));
  t.push_back(field<s, &ModelConfig::n_experts>(
      "model.n_experts", "Model", "Routed experts", "experts", {2, 1024},
      "Small feed-forward networks in each MoE layer among which the router chooses. DeepSeek-V3: 256. More experts "
      "hold more parameters at the same work per token, but each sees fewer tokens of a batch, so load looks noisier "
      "and the experts' GEMMs get smaller."));
  t.push_back(field<s, &ModelConfig::moe_inter>(
      "model.moe_inter", "Model", "Expert hidden width", "features", {8, 16384},
      "Hidden width of one expert's SwiGLU network. DeepSeek-V3: 2048, narrow against dim 7168: many fine experts "
      "rather than few coarse ones. MXFP8 needs a multiple of 32."));
  t.push_back(field<s, &ModelConfig::n_shared>(
      "model.n_shared", "Model", "Shared experts", "experts", {0, 16},
      "Experts that every token uses, besides the routed ones; they are one network of this many times the expert "
      "width. DeepSeek-V3: 1. They learn what all tokens need, so that routed experts can specialise. 0: none."));
  t.push_back(field<s, &ModelConfig::shared_expert_gate>(
      "model.shared_expert_gate", "Model", "Gate of the shared experts", "", kNone,
      "Multiply what the shared experts add to a token by a number from 0 to 1 that the token decides: sigmoid(x w_g), "
      "w_g one more vector of dim weights in each MoE layer (Qwen3-Next and Qwen3.5; Megatron-LM's "
      "moe-shared-expert-gate). It computes in FP32 whatever the recipes. false: they are added as they are, as in "
      "DeepSeek-V3."));
  t.push_back(field<s, &ModelConfig::latent_dim>(
      "model.latent_dim", "Model", "Latent width of routed experts", "features", {0, 8192},
      "Routed experts work on shorter rows: one projection takes each token from dim to this width before it is "
      "dispatched, another takes the mixed outputs of its experts back (Nemotron 3 Super: 4096 to 1024; Kimi K3: 7168 "
      "to 3584; Megatron-LM's moe_latent_size). Dispatched bytes, expert weights and expert FLOPs shrink by latent_dim "
      "/ dim, which pays for more experts per token. Router and shared experts see all of dim. The two projections "
      "compute in FP32 whatever the recipes. 0: none."));
  t.push_back(field<s, &ModelConfig::latent_norm>(
      "model.latent_norm", "Model", "Normalise latent outputs", "", kNone,
      "Only with latent_dim: an RMSNorm of a token's mixed expert outputs before they are projected back to dim, as in "
      "Kimi K3. It takes the size out of the mixing weights: only their proportions count. Nemotron 3 Super: false."));
  t.push_back(field<s, &ModelConfig::outlier_channel>(
      "model.outlier_channel", "Model", "Loud channel", "", {0, 8191},
      "The channel of the feed-forward inputs that is scaled when the factor below is not 1. Counts from 0."));
  t.push_back(field<s, &ModelConfig::outlier_factor>(
      "model.outlier_factor", "Model", "Loud channel's factor", "", {1e-3, 1e4},
      "At the start, the gain of one channel in every RMSNorm before a feed-forward is multiplied by this, and the "
      "weights that read it (gate, w1, w3) are divided by it: the model computes the same, but its activations have an "
      "outlier, as large models grow them. In blocks with a scale of their own the outlier costs its neighbours their "
      "precision. 30 to 300 shows it. 1: none."));
}

void add_attention(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::model;
  constexpr auto kGroup = "Attention";
  t.push_back(field<s, &ModelConfig::n_heads>(
      "model.n_heads", kGroup, "Attention heads", "heads", {1, 128},
      "Independent attention patterns per layer. DeepSeek-V3: 128. Time grows with heads x sequence length squared."));
  t.push_back(field<s, &ModelConfig::q_lora_rank>(
      "model.q_lora_rank", kGroup, "Query latent (q_lora_rank)", "features", {0, 8192},
      "Multi-head latent attention compresses the query to a vector of this length. DeepSeek-V3: 1536. 0: a plain "
      "projection from the model width, as in DeepSeek-V2-Lite."));
  t.push_back(field<s, &ModelConfig::kv_lora_rank>(
      "model.kv_lora_rank", kGroup, "Key-value latent (kv_lora_rank)", "features", {1, 8192},
      "Keys and values of all heads are unpacked from one latent vector of this length: the idea of MLA, since only "
      "the latent must be cached when text is generated. DeepSeek-V3: 512. Too small a latent costs loss."));
  t.push_back(field<s, &ModelConfig::qk_nope_head_dim>(
      "model.qk_nope_head_dim", kGroup, "Head width without position", "features", {1, 512},
      "Part of each head's query and key that carries content only. DeepSeek-V3: 128."));
  t.push_back(field<s, &ModelConfig::qk_rope_head_dim>(
      "model.qk_rope_head_dim", kGroup, "Head width with position (RoPE)", "features", {2, 512},
      "Part of each head's query and key that is rotated by the token's position; its key is shared by all heads. "
      "DeepSeek-V3: 64. Must be even, since features are rotated in pairs."));
  t.push_back(field<s, &ModelConfig::v_head_dim>("model.v_head_dim", kGroup, "Head width of values", "features",
                                                 {1, 512}, "Length of each head's output. DeepSeek-V3: 128."));
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
      "router.top_k", kGroup, "Experts per token (top_k)", "experts", {1, 64},
      "How many routed experts each token visits. DeepSeek-V3: 8 of 256. Expert time and all-to-all volume rise in "
      "proportion; a higher value also evens out load. With 1 and normalised gates the router gets no gradient from "
      "the language loss.")));
  t.push_back(live(field<s, &RouterConfig::score_func>(
      "router.score_func", kGroup, "Score function", "", kNone,
      "Turns the router's outputs into scores. sigmoid (DeepSeek-V3): each expert is scored independently. softmax "
      "(DeepSeek-V2 and 16B models): experts compete, scores sum to 1, so what one gains the others lose. sqrtsoftplus "
      "(DeepSeek-V4): sqrt(ln(1 + e^x)), independent and without an upper end, 0.83 at an output of 0. If it is "
      "changed while training, scores change in size at once: biases that suited sigmoid scores (about 0.5) dominate "
      "softmax scores (about 1/E).")));
  t.push_back(live(field<s, &RouterConfig::n_groups>(
      "router.n_groups", kGroup, "Expert groups", "groups", {0, 256},
      "Experts split into this many groups, and a token may choose only from a few of them. DeepSeek-V3: 8, one group "
      "per node, so that a token travels to few nodes. 0: no groups. Must divide the experts, at least 2 in each. "
      "While training, change the groups first, then how many of them a token may choose from.")));
  t.push_back(live(field<s, &RouterConfig::n_limited_groups>(
      "router.n_limited_groups", kGroup, "Groups per token", "groups", {0, 256},
      "How many groups a token may choose from; a group counts by the sum of its two best scores. DeepSeek-V3: 4 of 8. "
      "Fewer means less traffic between nodes and a tighter choice. 0: from all of them, as if there were no "
      "groups.")));
  t.push_back(live(field<s, &RouterConfig::route_norm>(
      "router.route_norm", kGroup, "Normalise gates", "", kNone,
      "Divide the scores of a token's chosen experts by their sum, so that its mixing weights add up to route_scale. "
      "DeepSeek-V3: true; DeepSeek-V2-Lite and TorchTitan's 16B: false.")));
  t.push_back(live(field<s, &RouterConfig::route_scale>(
      "router.route_scale", kGroup, "Gate scale", "", {0.01, 100},
      "Factor on all mixing weights. DeepSeek-V3: 2.5. The mean of 8 unrelated outputs is 1/sqrt(8) as long as one of "
      "them; times 2.5 that is 0.9. Raising it while training disturbs the loss for some steps.")));
}

void add_router_balance(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::router;
  constexpr auto kGroup = "Balance";
  t.push_back(live(field<s, &RouterConfig::balance_rule>(
      "router.balance_rule", kGroup, "Bias rule", "", kNone,
      "How expert_bias moves after each step. sign: by the bias update rate against the load (DeepSeek-V3, "
      "arXiv:2408.15664), over many steps. quantile_batch: at once to where each expert would have got its share of "
      "this batch, by quantiles of a histogram of 1000 bins (Kimi K3, TorchTitan's QuantileBalancer); needs sigmoid "
      "scores. quantile_microbatch: the same for each sequence, exactly and on the router's outputs in place of the "
      "scores, averaged over the batch (Megatron-LM's qb_beta with its sign turned, one sequence being its "
      "microbatch); biases, margins and cutoffs are then in units of router outputs. Neither quantile works with "
      "expert groups, forced balance or gate noise.")));
  t.push_back(live(field<s, &RouterConfig::quantile_ema>(
      "router.quantile_ema", kGroup, "Memory of the quantile", "", {0, 0.9999},
      "Only with quantile_microbatch: the share of the old bias that stays at each step. Megatron-LM's default is 0: "
      "the biases fit the last batch. 0.9 averages over about 10 steps, and takes as long to balance at the start.")));
  t.push_back(live(field<s, &RouterConfig::bias_update_rate>(
      "router.bias_update_rate", kGroup, "Bias update rate", "", {0, 1},
      "The sign rule balances without a loss: after each step an overloaded expert's bias falls by this much and an "
      "underloaded one's rises; the bias only shifts which experts are chosen, never the mixing weights. DeepSeek-V3: "
      "0.001. 0.1 oscillates: MaxVio of the batch stays high while MaxVio over the window is low. 0: biases stay as "
      "they are.")));
  t.push_back(live(field<s, &RouterConfig::bias_centring>(
      "router.bias_centring", kGroup, "Centre bias updates", "", kNone,
      "Subtract the mean of each bias update, as TorchTitan does, so that the biases do not drift together. The choice "
      "of experts is the same either way. false: exactly as in arXiv:2408.15664.")));
  t.push_back(live(field<s, &RouterConfig::aux_mode>(
      "router.aux_mode", kGroup, "Auxiliary loss", "", kNone,
      "Loss that penalises uneven load. sequence: load counted within each sequence (DeepSeek-V3, beside the bias); "
      "batch: over the whole batch, which leaves sequences free to specialise (as in Switch and Qwen); none: off. The "
      "load counts the experts that were chosen, bias included, as in TorchTitan; DeepSeek's formula counts the top K "
      "of the scores without the bias.")));
  t.push_back(live(field<s, &RouterConfig::aux_coeff>(
      "router.aux_coeff", kGroup, "Auxiliary loss weight", "", {0, 10},
      "Weight of the auxiliary loss. DeepSeek-V3: 0.0001 per sequence. Small models react visibly from about 0.01 on; "
      "at 1 the load is even and the scores hardly distinguish tokens any more (in 300 steps of nano mutual "
      "information comes to less than a tenth of that without balancing), while the language loss of so small a model "
      "rises by a few per cent at most. Useful values depend on the size of the model.")));
  t.push_back(live(field<s, &RouterConfig::z_coeff>(
      "router.z_coeff", kGroup, "Router z-loss weight", "", {0, 1},
      "Weight of mean(logsumexp(router outputs)^2), which keeps the router's outputs small and its choices soft. "
      "ST-MoE: 0.001; DeepSeek-V3 does not use it (0).")));
  t.push_back(live(field<s, &RouterConfig::force_balance>(
      "router.force_balance", kGroup, "Force balance (round-robin)", "", kNone,
      "Ignore the router's choice: token t gets experts t*K ... t*K+K-1 modulo E. Throughput is often published this "
      "way. Load is perfect and a token's experts are neighbours, on one rank or few: the best case for DeepEP; the "
      "experts cannot specialise.")));
  t.push_back(live(field<s, &RouterConfig::capacity_factor>(
      "router.capacity_factor", kGroup, "Capacity factor", "", {0, 16},
      "Each expert takes at most this many times its fair share of the batch's copies of tokens, if token_drop says "
      "so; with token_drop = none nothing is dropped, as in DeepSeek-V3, and what would have been is counted. 0: off; "
      "Switch uses 1.25.")));
  t.push_back(live(field<s, &RouterConfig::token_drop>(
      "router.token_drop", kGroup, "Drop tokens beyond capacity", "", kNone,
      "Which copies of tokens an expert keeps that was chosen more often than its capacity. probs: those with the "
      "largest mixing weights; position: the first in the batch (Megatron-LM's policies). A copy that is dropped is "
      "not sent, adds nothing and moves no weight; the token's other weights stay as they are, and it does not go to "
      "another expert. As in Megatron-LM the auxiliary loss and expert_bias count what is left. The capacity is of the "
      "whole batch, where Megatron-LM has one for each rank's tokens. none: dropless.")));
  t.push_back(field<s, &RouterConfig::n_hash_layers>(
      "router.n_hash_layers", kGroup, "Layers routed by a table", "layers", {0, 4096},
      "The first MoE layers get each byte's experts from a fixed table instead of the router's choice (DeepSeek-V4's "
      "hash layers; it has 3). Their gate still learns the mixing weights, no bias moves, and their balance is "
      "whatever the bytes of the text give. The table is drawn from the seed, K different experts for each byte, as "
      "TorchTitan does where the published one is not at hand. 0: none."));
  t.push_back(field<s, &RouterConfig::replay>(
      "router.replay", kGroup, "Replay run A's routing", "", kNone,
      "A twin runs the experts that run A chose, at every token of every MoE layer and step (routing replay, R3: "
      "arXiv:2510.11370, Megatron-LM's moe_enable_routing_replay). Only the choice is replayed: the mixing weights are "
      "the twin's own, from its own scores at those experts, and its gate learns from them. What of the gap to run A "
      "remains is arithmetic, what goes was routing. Only for a twin that starts together with run A."));
}

void add_router_actions(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::router;
  constexpr auto kGroup = "Router actions";
  t.push_back(live(field<s, &RouterConfig::killed_experts>(
      "router.killed_experts", kGroup, "Killed experts", "", kNone,
      "Experts that cannot be chosen from the next step on, as LAYER:EXPERT: 2:7 is expert 7 of layer 2, *:3 expert 3 "
      "of every MoE layer; several with commas. Their weights get no gradient, their bias stays as it is, and the "
      "others balance among themselves. Shows what a lost machine does to a model, and how fast the others take over. "
      "Remove an entry to revive the expert. Empty: none.")));
  t.push_back(live(field<s, &RouterConfig::pinned_bias>(
      "router.pinned_bias", kGroup, "Pinned biases", "", kNone,
      "Holds expert_bias of single experts at a value, as LAYER:EXPERT=BIAS: 2:7=0.5, *:3=-1; several with commas. A "
      "positive bias attracts tokens whose scores are lower; with sigmoid scores 0.5 is a lot, with softmax 1/E is. "
      "When an entry is removed, the bias moves on from that value. Empty: none.")));
  t.push_back(live(field<s, &RouterConfig::frozen>(
      "router.frozen", kGroup, "Freeze the router", "", kNone,
      "The gate's weights and expert_bias stay as they are while everything else trains: shows what the experts learn "
      "when the routing rule does not change. The frozen gate's gradient does not count in the norm.")));
  t.push_back(live(field<s, &RouterConfig::gate_noise>(
      "router.gate_noise", kGroup, "Gate noise", "", {0, 100},
      "Standard deviation of Gaussian noise on the router's outputs when experts are chosen in training; mixing "
      "weights come from the scores without it. The noisy gate of Shazeer et al. 2017 differs: there the standard "
      "deviation is learnt per expert and token, and the noise also enters the mixing weights. Outputs are of the size "
      "of 1 to 5, so 0.1 only flips narrow margins and 10 makes the choice random. The noise depends on seed, step "
      "and position only. 0: none.")));
  t.push_back(field<s, &RouterConfig::initial_bias>(
      "router.initial_bias", kGroup, "Biases at the start", "", kNone,
      "expert_bias before the first step, as LAYER:EXPERT=BIAS: *:0=0.3; several with commas. An uneven start, to see "
      "whether and how fast balancing corrects it. Unlike a pinned bias it moves from the first step. Empty: all 0, as "
      "in DeepSeek-V3."));
}

void add_optimizer(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::optimizer;
  constexpr auto kGroup = "Optimizer";
  t.push_back(field<s, &OptimizerConfig::name>(
      "optimizer.name", kGroup, "Optimizer", "", kNone,
      "adamw: every weight moves by its gradient's running mean over the root of its square's (DeepSeek-V3). muon: "
      "matrices move along the nearest orthogonal matrix to their momentum, so that all directions move alike (Kimi "
      "K2, Moonlight): every expert's three, each head's of the queries, keys and values, and whole the rest of "
      "attention, feed-forwards and the gate; embedding, head and norms stay with AdamW. Muon keeps one number for a "
      "weight where AdamW keeps two (the program reserves both). It multiplies matrices in every step, which makes one "
      "of nano twice as long; measured there, mean loss of steps 250 to 299, three seeds, each at its best learning "
      "rate: 1.54 to 1.58 nats/token with adamw (0.004 or 0.008), 1.33 to 1.38 with muon (0.016)."));
  t.push_back(live(
      field<s, &OptimizerConfig::lr>("optimizer.lr", kGroup, "Learning rate", "", {0, 1},
                                     "Peak step size. DeepSeek-V3: 2.2e-4; small models tolerate 1e-3 to "
                                     "5e-3. Too high: the loss jumps or becomes NaN, and routers oscillate; too low: "
                                     "it falls slowly. A change while training takes effect at the next step.")));
  t.push_back(field<s, &OptimizerConfig::lr_min>(
      "optimizer.lr_min", kGroup, "Final learning rate", "", {0, 1},
      "Where the cosine decay ends. DeepSeek-V3: a tenth of the peak and less. Not above the learning rate."));
  t.push_back(field<s, &OptimizerConfig::schedule>(
      "optimizer.schedule", kGroup, "Schedule", "", kNone,
      "The learning rate after the warm-up. cosine: down to the final rate at the end of the schedule (as DeepSeek-V3 "
      "in its decay phase); constant: stays, the better choice for open-ended experiments."));
  t.push_back(field<s, &OptimizerConfig::warmup_steps>(
      "optimizer.warmup_steps", kGroup, "Warm-up", "steps", {0, 1e6},
      "Steps over which the learning rate rises from near 0 to its peak. DeepSeek-V3: 2000. Without it the first steps "
      "of Adam are too large and early routing choices persist."));
  t.push_back(field<s, &OptimizerConfig::total_steps>(
      "optimizer.total_steps", kGroup, "Length of the schedule", "steps", {1, 1e9},
      "Step at which the cosine decay reaches the final rate, and the default length of a run on the command line. "
      "Training may go on beyond it at the final rate."));
  t.push_back(field<s, &OptimizerConfig::beta1>(
      "optimizer.beta1", kGroup, "Adam beta1", "", {0, 0.99999},
      "Memory of the gradient's running mean; 0.9 remembers about 10 steps. DeepSeek-V3: 0.9."));
  t.push_back(field<s, &OptimizerConfig::beta2>("optimizer.beta2", kGroup, "Adam beta2", "", {0, 0.99999},
                                                "Memory of the squared gradient's running mean; 0.95 remembers about "
                                                "20 steps. DeepSeek-V3: 0.95. With 0.999 rarely "
                                                "chosen experts keep stale step sizes for long."));
  t.push_back(field<s, &OptimizerConfig::eps>("optimizer.eps", kGroup, "Adam epsilon", "", {1e-20, 1e-1},
                                              "Added to the root of the squared gradient's mean. 1e-8 is usual. Large "
                                              "values make small gradients count less."));
  t.push_back(field<s, &OptimizerConfig::weight_decay>(
      "optimizer.weight_decay", kGroup, "Weight decay", "", {0, 10},
      "Every step shrinks all weights by learning rate x this. DeepSeek-V3: 0.1."));
  t.push_back(field<s, &OptimizerConfig::clip>(
      "optimizer.clip", kGroup, "Gradient clipping", "", {1e-6, 1e9},
      "Gradients are scaled down so that their norm over all weights does not pass this. DeepSeek-V3: 1.0. If the norm "
      "is above it at every step, all gradients are scaled to this one norm."));
  t.push_back(live(field<s, &OptimizerConfig::router_lr_factor>(
      "optimizer.router_lr_factor", kGroup, "Router's learning rate factor", "", {0, 1000},
      "The gates' learning rate, with their weight decay, is this times that of all others. Above 1 routing becomes "
      "fixed early and may collapse; below 1 it stays flexible for longer. 0: the gates' weights stay as they are "
      "while expert_bias still moves. 1: like all other weights.")));
}

void add_muon(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::optimizer;
  constexpr auto kGroup = "Optimizer";
  t.push_back(field<s, &OptimizerConfig::muon_momentum>(
      "optimizer.muon_momentum", kGroup, "Muon's momentum", "", {0, 0.99999},
      "Only with muon: memory of the gradient's running mean; 0.95 (Kimi K2, TorchTitan) remembers about 20 steps."));
  t.push_back(field<s, &OptimizerConfig::muon_nesterov>(
      "optimizer.muon_nesterov", kGroup, "Muon looks ahead (Nesterov)", "", kNone,
      "Only with muon: the step follows the momentum as it will be if the gradient stays. true in Kimi K2 and "
      "TorchTitan, false by default in Megatron-LM."));
  t.push_back(field<s, &OptimizerConfig::muon_scale>(
      "optimizer.muon_scale", kGroup, "Muon's learning rate", "", kNone,
      "Only with muon: factor on the learning rate of an m x n matrix. match_rms_adamw: 0.2 sqrt(max(m, n)), steps as "
      "large as AdamW's, so that its learning rate fits (Moonlight, Kimi K2). original: sqrt(max(1, m / n)), for which "
      "0.02 is usual; spectral: sqrt(m / n). Both need a learning rate of their own, which embedding, head and norms "
      "have, too."));
  t.push_back(field<s, &OptimizerConfig::muon_bf16>(
      "optimizer.muon_bf16", kGroup, "Muon in BF16", "", kNone,
      "Only with muon: the matrix products of its five Newton-Schulz steps have BF16 operands and results, as in "
      "TorchTitan; momentum and weights stay FP32. false: all in FP32. A direction that is far below the largest one "
      "of its matrix is lost in BF16."));
}

void add_qk_clip(std::vector<ConfigField>& t) {
  t.push_back(live(field<&RunConfig::optimizer, &OptimizerConfig::qk_clip>(
      "optimizer.qk_clip", "Optimizer", "QK-clip", "", {0, 10000},
      "Heads whose largest attention score (query times key over the root of the head's width, in any query of the "
      "batch) is above this are scaled down after the step: queries and keys without rotation by the root of the "
      "excess, rotated queries by all of it. Kimi K2 trains with muon and 100; scores that grow without limit end in "
      "NaN. Models as small as these stay below 10 to 20 for long; Max QK logit in the Loss panel says "
      "where they are. 0: off.")));
}

constexpr const char* kOwnRecipe = "own";

// All of [precision] but the payload at once.
ConfigField published_recipe_field() {
  ConfigField f;
  f.key = "precision.published_recipe", f.group = "Precision", f.label = "Published recipe";
  f.help =
      "Sets everything about precision but the format of dispatched tokens as a paper or a training framework did: "
      "which GEMMs and layers are in which format, rounding, rotation, scales. What of it this program cannot do, and "
      "where it comes from, stands in the recipe's own description. Settings that are changed afterwards have the last "
      "word. own: as the settings below say.";
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
      "precision.experts", kGroup, "Format of the routed experts", "", kNone,
      "Recipe of number formats for all operands of the routed experts' GEMMs (forward, input gradient, weight "
      "gradient). mxfp8_rceil: E4M3 elements in blocks of 32 with a power-of-two scale rounded up, as on B200 GPUs; "
      "mxfp8_floor: the scale rounded down, which clips the top of some blocks; fp8_deepseek_128: DeepSeek-V3's FP8 "
      "with scales per 128; mxfp4 and nvfp4: 4 bits; bf16; fp32: exact here. Most of a model's arithmetic is in these "
      "GEMMs, so low precision saves most here."));
  add(field<s, &PrecisionConfig::shared_experts>(
      "precision.shared_experts", kGroup, "Format of the shared experts", "", kNone,
      "Recipe for the experts that every token visits; the same choices as precision.experts. DeepSeek-V3: FP8 as in "
      "the routed experts; TorchTitan's MXFP8 runs quantize the routed experts only, unless configured otherwise."));
  add(field<s, &PrecisionConfig::dense_ffn>("precision.dense_ffn", kGroup, "Format of the dense feed-forward", "",
                                            kNone,
                                            "Recipe for the feed-forward units of the first, dense layers; the same "
                                            "choices as precision.experts. DeepSeek-V3: FP8."));
  add(field<s, &PrecisionConfig::attention>(
      "precision.attention", kGroup, "Format of attention's projections", "", kNone,
      "Recipe for the weights of attention (wq, wkv_a, wkv_b, wo). With fp32 scores and the sum of values are in FP32, "
      "too; with all others they are products of BF16 numbers, never quantized further, as in DeepSeek-V3 and NVIDIA's "
      "NVFP4 recipe. The softmax is in FP32. Rows whose length is not a multiple of the block end in a shorter block. "
      "DeepSeek-V3: FP8 projections."));
  add(field<s, &PrecisionConfig::router_gate>(
      "precision.router_gate", kGroup, "Format of the router's gate", "", kNone,
      "Recipe for the product that scores the experts. Real stacks do not quantize it (TorchTitan: FP32 since March "
      "2026, BF16 in its published runs; DeepSeek-V3: BF16 or FP32): it is 0.3 % of the 671B model's arithmetic, but a "
      "rounding error in a score does not stay small: where the margin between the last chosen and the first rejected "
      "expert is less than the error, the token goes to another expert altogether. Set it to mxfp8_rceil or mxfp4 "
      "beside an fp32 twin and watch the routing flips."));
  add(field<s, &PrecisionConfig::head>(
      "precision.head", kGroup, "Format of the output head", "", kNone,
      "Recipe for the product that gives the logits. Kept in high precision in real training (DeepSeek-V3: BF16 or "
      "FP32): its errors go straight into the loss and into every gradient."));
  add(field<s, &PrecisionConfig::rounding>(
      "precision.rounding", kGroup, "Rounding", "", kNone,
      "How quantized operands (not bf16) round. nearest: the closer neighbour, ties to even. stochastic: up or down "
      "with a probability given by the distance, so that errors cancel on average and small gradients survive 4-bit "
      "formats, at the price of twice the squared error. Errors of clipping do not cancel: the largest values of "
      "nvfp4's blocks come out 1.1 % too small on average, those of mxfp8_floor 1.2 % (bell-shaped data). The random "
      "bits depend on seed, step and position only: a run repeats bit for bit."));
  add(field<s, &PrecisionConfig::stochastic_operands>(
      "precision.stochastic_operands", kGroup, "Stochastic for", "", kNone,
      "Only with stochastic rounding: the operands that it applies to. gradients: dY alone, as in NVIDIA's NVFP4 "
      "recipe; activations and weights round to nearest. all: every quantized operand."));
  add(field<s, &PrecisionConfig::hadamard>(
      "precision.hadamard", kGroup, "Random Hadamard rotation", "", kNone,
      "Rotates the contracted dimension of both operands of every quantized GEMM in small blocks (16 for nvfp4, else "
      "32). The product stays the same, but an outlier is spread over its block and no longer costs its neighbours "
      "their precision. Useful in 4 bits. NVIDIA's NVFP4 recipe rotates the weight gradient's operands alone, in "
      "blocks of 16."));
  add(field<s, &PrecisionConfig::hadamard_gemms>(
      "precision.hadamard_gemms", kGroup, "Rotated GEMMs", "", kNone,
      "Only with the Hadamard rotation. wgrad: the weight gradient's operands alone, along the tokens, as in NVIDIA's "
      "NVFP4 recipe. all: forward and input gradient, too."));
  add(field<s, &PrecisionConfig::hadamard_signs>(
      "precision.hadamard_signs", kGroup, "Signs of the rotation", "", kNone,
      "Only with the Hadamard rotation. drawn: new signs for every step and place. fixed: TransformerEngine's sixteen, "
      "the same for every block of 16. fixed_bf16: the same, and what is rotated is rounded to BF16 before it is "
      "quantized, as TransformerEngine's kernels do."));
  add(field<s, &PrecisionConfig::nvfp4_rule>(
      "precision.nvfp4_rule", kGroup, "NVFP4 scales", "", kNone,
      "Whose arithmetic operands in nvfp4 follow, bit for bit. divided: torchao's scales, not below 2^-6 of the "
      "tensor's; values are divided by them. transformer_engine: NVIDIA's and torchao's for training; scales may get "
      "as small as 2^-9 and 0, and values are multiplied by a reciprocal. torchao: its NVFP4Tensor with a scale for "
      "the tensor, multiplied. torchao_one_level: the same without a scale for the tensor, so that gradients far below "
      "1 become 0. On ordinary data the first three differ in single bits; blocks far below the tensor's largest value "
      "keep their values with transformer_engine alone."));
  add(field<s, &PrecisionConfig::nvfp4_square_weights>("precision.nvfp4_square_weights", kGroup,
                                                       "NVFP4 weights in 16x16", "", kNone,
                                                       "Weights in nvfp4 have a scale per 16 x 16 values in place of 1 "
                                                       "x 16, as in NVIDIA's recipe: coarser, but forward "
                                                       "pass and input gradient then multiply the same numbers."));
  add(field<s, &PrecisionConfig::nvfp4_four_over_six>(
      "precision.nvfp4_four_over_six", kGroup, "NVFP4 4over6", "", kNone,
      "Only with transformer_engine scales. Every block in nvfp4 is quantized twice, its largest value to 6 and to 4, "
      "and keeps what has the smaller absolute (mae) or squared (mse) error: E2M1 has nothing between 4 and 6. 256 or "
      "448: the scale of the tensor's largest value; 256 leaves room for the larger scale of 4 everywhere. "
      "TransformerEngine offers it for weights, activations or both, mae_256 by default, and not with rotation."));
  add(field<s, &PrecisionConfig::payload>(
      "precision.payload", kGroup, "Format of dispatched tokens", "", kNone,
      "Format of the rows that the all-to-all sends. bf16: in all four, forward and backward, as usual. mxfp8: "
      "dispatch in the forward pass and combine in the backward pass send E4M3 with a scale per 32 values, the return "
      "trips BF16, as torchao's MXFP8 all-to-all. fp32: exact. DeepSeek-V3: FP8 dispatch, BF16 combine."));
  add(field<s, &PrecisionConfig::override_x>(
      "precision.override_x", kGroup, "Instead for activations", "", kNone,
      "Format of the activations (x) in place of the recipe's, in every part of the model whose recipe is not fp32. To "
      "find out which operand a format harms, set each of the three to it in turn. none: as the recipe says."));
  add(field<s, &PrecisionConfig::override_w>(
      "precision.override_w", kGroup, "Instead for weights", "", kNone,
      "Format of the weights (W) in place of the recipe's, in every part of the model whose recipe is not fp32. The "
      "optimizer's own copy stays in FP32. none: as the recipe says."));
  add(field<s, &PrecisionConfig::override_dy>(
      "precision.override_dy", kGroup, "Instead for gradients", "", kNone,
      "Format of the gradients (dY) in place of the recipe's, in every part of the model whose recipe is not fp32. "
      "mxfp8_e5m2 gives them more range and one bit less precision. none: as the recipe says."));
  add(field<s, &PrecisionConfig::operands>(
      "precision.operands", kGroup, "Recipes of single operands", "", kNone,
      "A recipe for one operand of one class of GEMMs, which overrides everything above, as CLASS.OPERAND=RECIPE: "
      "experts.dY=mxfp8_e5m2_grad, attention.W=bf16; several with commas (or semicolons). Classes: experts, "
      "shared_experts, dense_ffn, attention, router_gate, head; operands: x, W, dY; recipes as for precision.experts. "
      "Of one GEMM alone: experts.dY.wgrad=bf16 (forward, dgrad or wgrad). Of some layers: 2-3:experts.W=bf16. With "
      "rounding or rotation of its own: experts.dY.wgrad=mxfp4+stochastic+rotated (nearest or stochastic, rotated or "
      "unrotated; a rotation is of both operands of the GEMM). Later entries override earlier ones. Empty: none."));
}

void add_bf16_layers(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::precision;
  constexpr auto kGroup = "Precision";
  t.push_back(live(field<s, &PrecisionConfig::layers_at_start_in_bf16>(
      "precision.layers_at_start_in_bf16", kGroup, "First layers in BF16", "layers", {0, 64},
      "So many of the first layers have every GEMM in BF16 that is not in fp32, whatever else is set. Megatron-LM: 1 "
      "where it is used at all; NVIDIA's NVFP4 recipe: none.")));
  t.push_back(live(field<s, &PrecisionConfig::layers_at_end_in_bf16>(
      "precision.layers_at_end_in_bf16", kGroup, "Last layers in BF16", "layers", {0, 64},
      "So many of the last layers have every GEMM in BF16 that is not in fp32. NVIDIA's 12B model in NVFP4 "
      "(arXiv:2509.25149, section 4.1): the first two and the last eight of 62 blocks; Nemotron 3 Super: the last 14 of "
      "88. The output head has a format of its own.")));
  t.push_back(live(field<s, &PrecisionConfig::bf16_from_step>(
      "precision.bf16_from_step", kGroup, "BF16 from step", "", {0, 1e12},
      "From this step on what late_bf16 names is in BF16: a late switch, by which NVIDIA's study of NVFP4 closes most "
      "of what is left of the loss gap at little cost. 0: never.")));
  t.push_back(live(field<s, &PrecisionConfig::late_bf16>(
      "precision.late_bf16", kGroup, "In BF16 from then on", "", kNone,
      "Only with bf16_from_step. forward: the operands of the forward pass; gradients keep their formats. all: every "
      "GEMM that is not in fp32.")));
}

void add_rest(std::vector<ConfigField>& t) {
  constexpr auto d = &RunConfig::data;
  t.push_back(
      field<d, &DataConfig::path>("data.path", "Data", "Text file or folder", "", kNone,
                                  "What the model reads. Empty: text that the program writes itself, of the kind that "
                                  "data.generator names. A file: "
                                  "its text. A folder: every file or sub-folder in it is a domain of its own."));
  t.push_back(field<d, &DataConfig::generator>(
      "data.generator", "Data", "Built-in text", "", kNone,
      "Text that the program writes itself where no file is given. passages: ten domains, from prose, code and "
      "arithmetic to Morse; one expert learns them about as well as eight. facts: ten languages, Q to Z, of the same "
      "59 symbols. The language's letter and a symbol alternate, and in every language each symbol has another "
      "successor: 590 facts to know by heart, and a use for many experts. One symbol in a hundred is random, so no "
      "model gets below 0.048 nats/byte."));
  t.push_back(field<d, &DataConfig::batch>(
      "data.batch", "Data", "Sequences per step", "sequences", {1, 4096},
      "Sequences in one batch. DeepSeek-V3: 15360. More tokens a step mean smoother gradients and less noise in the "
      "expert load (floor of MaxVio), and slower steps."));
  t.push_back(field<d, &DataConfig::seq>(
      "data.seq", "Data", "Sequence length", "tokens", {2, 16384},
      "Tokens in one sequence. DeepSeek-V3: 4096. Time and memory of attention grow with its square."));
  t.push_back(live(field<d, &DataConfig::mixture>(
      "data.mixture", "Data", "Mixture of domains", "", kNone,
      "Weights of the domains in the batches, as DOMAIN=WEIGHT: code=1 reads that one alone, prose=0.5, JSON=2, *=1 "
      "weights two and all others (*); domains that are not named count 0. A change while training is a domain shift, "
      "and shows how far biases lag behind. Runs side by side read the same batches, so it changes for all. Empty: the "
      "built-in domains equally often, of your own text every place equally likely.")));
  t.push_back(field<d, &DataConfig::held_out>(
      "data.held_out", "Data", "Held out for validation", "share", {0, 0.5},
      "Share of each of your own texts, at its end, that is never trained on: the validation loss is measured there. "
      "0: none, and no validation loss. The built-in generators write text of their own for it, whatever this says; "
      "that of facts is about the same facts."));
  constexpr auto p = &RunConfig::parallel;
  t.push_back(
      field<p, &ParallelConfig::ranks>("parallel.ranks", "All-to-all", "Virtual ranks", "ranks", {1, 256},
                                       "Virtual GPUs over which experts and tokens are spread; the all-to-all between "
                                       "them is counted from the real routing. DeepSeek-V3 trained with 64-way expert "
                                       "parallelism. Must divide the experts. No effect on the training."));
  t.push_back(field<p, &ParallelConfig::ranks_per_node>(
      "parallel.ranks_per_node", "All-to-all", "Ranks per node", "ranks", {1, 256},
      "Ranks that share a fast link (NVLink): 8 in most machines. Copies to other nodes go over the slower network, "
      "where DeepEP sends one copy per node instead of one per chosen expert."));
  t.push_back(live(field<p, &ParallelConfig::placement>(
      "parallel.placement", "All-to-all", "Expert placement", "", kNone,
      "Which expert is on which virtual rank, for counting: contiguous (in order); random; balanced (by the rule of "
      "EPLB, DeepSeek's balancer for inference: the heaviest get replicas in one more slot per rank, then experts are "
      "packed by the step's own load, which a real training would know too late); balanced:STEPS (the same from the "
      "load of the STEPS before, planned every so many steps, as a training can do it); or by hand, the rank of each "
      "expert of a layer, LAYER:RANK,RANK,...;LAYER:..., as dragging in the panel Expert placement writes it. No "
      "effect on "
      "the training.")));
  constexpr auto v = &RunConfig::telemetry;
  t.push_back(live(field<v, &TelemetryConfig::every>(
      "telemetry.every", "Telemetry", "Router arrays every", "steps", {1, 10000},
      "Steps between frames that carry expert load and all-to-all matrices; losses come with every step. 1: each step. "
      "Raise it for long runs to keep recordings small.")));
  t.push_back(live(field<v, &TelemetryConfig::quant_every>(
      "telemetry.quant_every", "Telemetry", "Quantization statistics every", "steps", {1, 10000},
      "Steps between frames with quantization statistics (scale histogram, SQNR, underflow, clipping).")));
  t.push_back(live(field<v, &TelemetryConfig::flips_every>(
      "telemetry.flips_every", "Telemetry", "Routing flips every", "steps", {0, 10000},
      "Steps between comparisons of this run's routing with run A's, token by token: the share of the tokens that went "
      "to another set of experts, and their score margins. Only with more than one run; run A's value also sets the "
      "steps at which its routing is kept for runs that join later. 0: never.")));
  t.push_back(live(field<v, &TelemetryConfig::gradient_every>(
      "telemetry.gradient_every", "Telemetry", "Gradients against FP32 every", "steps", {0, 10000},
      "Steps between comparisons of this run's gradients with those of an extra forward and backward pass in FP32 on "
      "the same weights and batch: signal-to-noise ratio and cosine per layer and kind of tensor, and the share of the "
      "tokens that FP32 would have routed to other experts. Such a step takes about twice as long; the training itself "
      "is not affected. 0: never.")));
  t.push_back(live(field<v, &TelemetryConfig::validation_every>(
      "telemetry.validation_every", "Telemetry", "Validation loss every", "steps", {0, 10000},
      "Steps between losses of four fixed batches that are never trained on, the same for any seed. Always the same "
      "text, they show a difference of two runs without the swings from batch to batch. Each costs four forward "
      "passes; the training itself is not affected. Of your own text a part must be held out (data.held_out). 0: "
      "never.")));
  t.push_back(field<v, &TelemetryConfig::window>(
      "telemetry.window", "Telemetry", "Window of balance", "steps", {2, 10000},
      "Steps that windowed MaxVio and dead experts are computed over. A batch alone shows sampling noise; high in the "
      "batch and low in the window means oscillation or noise, high in both means imbalance."));
  t.push_back(live(field<v, &TelemetryConfig::checkpoint_every>(
      "telemetry.checkpoint_every", "Telemetry", "Checkpoints every", "steps", {0, 1e6},
      "Steps between the checkpoints that the window keeps, to which the training can be rewound and from which a twin "
      "can branch off. Each is a copy of 12 bytes per parameter, in memory and in the folder NAME.checkpoints beside "
      "the recording. Taking one delays the training by some 6 ms per million parameters: at the default, every 100 "
      "steps, 0.3 % of the time on the preset mini-v3. Run A's value counts for all. 0: none but those made by "
      "hand.")));
  t.push_back(live(field<v, &TelemetryConfig::checkpoints_kept>(
      "telemetry.checkpoints_kept", "Telemetry", "Checkpoints kept", "checkpoints", {1, 64},
      "How many stay, and 512 MiB of them at most (of mini-v3 that is two, of smaller models all 8 of the default): "
      "close together near the newest step, farther apart before; the first and those made by hand are removed "
      "last.")));
}

void add_texts(std::vector<ConfigField>& t) {
  constexpr auto s = &RunConfig::telemetry;
  constexpr auto kGroup = "Telemetry";
  t.push_back(live(field<s, &TelemetryConfig::specialisation_every>(
      "telemetry.specialisation_every", kGroup, "Specialisation every", "steps", {0, 10000},
      "Steps between tables of expert choices: domain by expert, expert by expert, byte by expert. Every batch since "
      "the last table is counted, so less frequent tables are less noisy. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::texts_every>(
      "telemetry.texts_every", kGroup, "Probe text every", "steps", {0, 10000},
      "Steps between routings of the probe text, token by token and layer by layer, with the weights of that step; a "
      "passage of the batch just trained on is added, from each domain in turn. An edited probe is routed at the next "
      "step. Training is not affected. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::probe>(
      "telemetry.probe", kGroup, "Probe text", "", kNone,
      "The text whose routing is shown in the workspace Text and compared from step to step; at most 1024 bytes. \\n"
      " is a new line, \\t a tab, \\x41 the byte 0x41, \\\\ a backslash. Longer texts than data.seq are read in pieces "
      "of that length, as in training. Empty: no probe.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_every>(
      "telemetry.sample_every", kGroup, "Sample every", "steps", {0, 10000},
      "Steps between texts that the model writes, continuing the beginning of the probe text. Writing one takes up to "
      "as many forward passes as it has bytes. 0: never.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_length>(
      "telemetry.sample_length", kGroup, "Length of the sample", "bytes", {1, 1024},
      "Bytes that the model writes. Together with the prompt they fill data.seq at most.")));
  t.push_back(live(field<s, &TelemetryConfig::sample_temperature>(
      "telemetry.sample_temperature", kGroup, "Sampling temperature", "", {0, 5},
      "How randomly the model writes: 0 takes the most likely byte each time and soon repeats itself; 1 draws as the "
      "model predicts; more is more random. The random numbers depend on seed and step: the same run writes the same "
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
