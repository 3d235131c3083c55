// The fields of [router].
#include "core/config/field_maker.h"

namespace moescope {

template <>
constexpr std::array<const char*, 3> kChoices<ScoreFunc>{"sigmoid", "softmax", "sqrtsoftplus"};
template <>
constexpr std::array<const char*, 6> kChoices<BalanceRule>{
    "sign", "proportional", "smebu", "quantile_batch", "quantile_microbatch", "quantile_sequence"};
template <>
constexpr std::array<const char*, 3> kChoices<AuxMode>{"none", "sequence", "batch"};
template <>
constexpr std::array<const char*, 3> kChoices<TokenDrop>{"none", "probs", "position"};
template <>
constexpr std::array<const char*, 4> kChoices<AuxFault>{"none", "times_microbatches", "over_microbatches",
                                                        "softmax_twice"};
template <>
constexpr std::array<const char*, 2> kChoices<GroupMask>{"minus_infinity", "zero"};

std::vector<ConfigField> router_fields() {
  FieldTable t;
  t.group("Router");
  t.add(live(field<&RouterConfig::top_k>(
      "top_k", "Experts per token", "experts", {1, 64},
      "Number of routed experts that each token uses (top_k). DeepSeek-V3: 8 of 256. Expert time and all-to-all volume "
      "rise in proportion. A higher value also makes the load more even. With 1 and normalised gates the router gets "
      "no gradient from the language loss.")));
  t.add(live(field<&RouterConfig::score_func>(
      "score_func", "Score function",
      "Turns the router's outputs into scores. sigmoid (DeepSeek-V3): each expert is scored independently. softmax "
      "(DeepSeek-V2 and 16B models): the scores sum to 1, so that a gain of one expert is a loss of the others. "
      "sqrtsoftplus (DeepSeek-V4): sqrt(ln(1 + e^x)), independent and unbounded, 0.83 at an output of 0. A change "
      "during training changes the size of all scores at once: biases that were learnt for sigmoid scores (about 0.5) "
      "dominate softmax scores (about 1/E).")));
  t.add(live(field<&RouterConfig::n_groups>(
      "n_groups", "Expert groups", "groups", {0, 256},
      "Number of groups into which the experts are split. A token may choose from a few groups only. DeepSeek-V3: 8, "
      "one group per node, so that a token is sent to few nodes. The number must divide the experts, with at least 2 "
      "experts per group. During training, change this setting before the groups per token. 0: no groups.")));
  t.add(live(field<&RouterConfig::n_limited_groups>(
      "n_limited_groups", "Groups per token", "groups", {0, 256},
      "Number of groups from which a token may choose. Groups are ranked by the sum of their two best scores. "
      "DeepSeek-V3: 4 of 8. Fewer groups mean less traffic between nodes and fewer experts to choose from. 0: all "
      "groups.")));
  t.add(live(field<&RouterConfig::route_norm>(
      "route_norm", "Normalised gates",
      "Divides the scores of a token's chosen experts by their sum, so that its mixing weights add up to route_scale. "
      "DeepSeek-V3: true; DeepSeek-V2-Lite and TorchTitan's 16B: false.")));
  t.add(live(field<&RouterConfig::route_scale>(
      "route_scale", "Gate scale", "", {0.01, 100},
      "Factor of all mixing weights (route_scale). DeepSeek-V3: 2.5. The mean of 8 unrelated outputs has 1/sqrt(8) of "
      "the norm of one; times 2.5 this is 0.9. A change during training disturbs the loss for some steps.")));
  t.group("Balance");
  t.add(live(field<&RouterConfig::balance_rule>(
      "balance_rule", "Bias rule",
      "Rule by which expert_bias changes after each step. sign: by the bias update rate, down for overloaded and up "
      "for underloaded experts (DeepSeek-V3, arXiv:2408.15664). proportional: by that rate times the expert's distance "
      "from the mean load, as a share of the mean (the same paper, section 4.3, found more even loads and no better "
      "loss). smebu: by that rate times tanh of a multiple of this distance, averaged over the last steps (Trinity "
      "Large, arXiv:2602.17004). quantile_batch: to the value at which each expert would have got its share of this "
      "batch, computed from a histogram of 1000 bins (Kimi K3, TorchTitan's QuantileBalancer); needs sigmoid scores. "
      "quantile_microbatch: the exact quantile of each sequence on the router's outputs in place of the scores, "
      "averaged over the batch (Megatron-LM's qb_beta with the opposite sign; one sequence is one microbatch); biases, "
      "margins and cutoffs are then in units of router outputs. quantile_sequence: a part of the score at "
      "which each expert would get its share of the earlier tokens of the sequence is subtracted from the scores of "
      "each token, then quantile_batch balances the result (moving quantile balancing, Su Jianlin, "
      "kexue.fm/archives/11760); needs "
      "sigmoid scores. The quantile rules do not work with expert groups, forced balance or gate noise.")));
  t.add(live(field<&RouterConfig::bias_soft_clamp>(
      "bias_soft_clamp", "Soft clamp", "", {0.01, 1000},
      "Only with smebu: factor of an expert's distance from the mean load, as a share of the mean, inside tanh "
      "(kappa). Small: the update is proportional to the distance. Large: the update is that of the sign rule. Trinity "
      "Large: 2, so that an expert with half the mean load gets 76 % of the full step.")));
  t.add(live(
      field<&RouterConfig::bias_momentum>("bias_momentum", "Bias momentum", "", {0, 0.999},
                                          "Only with smebu: share of the last step's update in the update of this step "
                                          "(beta); the rest is the new update. Trinity Large: 0.5. 0: no momentum.")));
  t.add(live(field<&RouterConfig::sequence_strength>(
      "sequence_strength", "Sequence strength", "", {0, 1},
      "Only with quantile_sequence: the part of the moving quantile that is subtracted from the scores that choose "
      "experts (lambda). 1: sequences are nearly even, and the published loss is 0.06 higher. 0.3: the published loss "
      "does not change, and the load is more even than with quantile_batch. 0: quantile_batch. The quantile is that of "
      "an exponential moving average over the sequence with a decay of 0.99 (about 100 tokens), in 100 bins.")));
  t.add(live(field<&RouterConfig::quantile_ema>(
      "quantile_ema", "Quantile smoothing", "", {0, 0.9999},
      "Only with quantile_microbatch: exponential moving average of the biases; the value is the share of the old bias "
      "that stays at each step. Megatron-LM's default is 0: the biases fit the last batch. 0.9 averages over about 10 "
      "steps and needs about 10 steps to balance the start.")));
  t.add(live(field<&RouterConfig::bias_update_rate>(
      "bias_update_rate", "Bias update rate", "per step", {0, 1},
      "Step of the rules sign, proportional and smebu, which balance without a loss. sign: after each step the bias of "
      "an overloaded expert falls by this value and that of an underloaded expert rises. The bias changes which "
      "experts are chosen, never the mixing weights. DeepSeek-V3: 0.001. Trinity Large: 0.0005 with smebu. 0.1 "
      "oscillates: MaxVio of the batch stays high while MaxVio of the window is low. 0: the biases do not change.")));
  t.add(live(field<&RouterConfig::bias_centring>(
      "bias_centring", "Centred updates",
      "Subtracts the mean of each bias update, as TorchTitan does, so that the biases do not drift together. The "
      "choice of experts does not depend on it. false: as in arXiv:2408.15664.")));
  t.add(live(field<&RouterConfig::aux_mode>(
      "aux_mode", "Auxiliary loss",
      "Loss that penalises uneven load. sequence: the load of each sequence (DeepSeek-V3, in addition to the bias). "
      "batch: the load of the whole batch, so that sequences may specialise (Switch, Qwen). none: off. The load counts "
      "the experts that were chosen with the bias, as in TorchTitan; DeepSeek's formula counts the top K of the scores "
      "without the bias.")));
  t.add(live(field<&RouterConfig::aux_coeff>(
      "aux_coeff", "Auxiliary loss weight", "", {0, 10},
      "Weight of the auxiliary loss. DeepSeek-V3: 0.0001 per sequence. Small models react visibly from about 0.01. At "
      "1 the load is even and the scores no longer distinguish tokens (in 300 steps of nano, mutual information stays "
      "below a tenth of its value without balancing), and the language loss of so small a model rises by a few per "
      "cent at most. Useful values depend on the size of the model.")));
  t.add(live(field<&RouterConfig::z_coeff>("z_coeff", "Z-loss weight", "", {0, 1},
                                           "Weight of mean(logsumexp(router outputs)^2), which keeps the router's "
                                           "outputs small. ST-MoE: 0.001. DeepSeek-V3 does not use it. 0: off.")));
  t.add(live(field<&RouterConfig::force_balance>(
      "force_balance", "Forced balance",
      "Replaces the router's choice: token t gets experts t*K ... t*K+K-1 modulo E (round-robin). Throughput is often "
      "published this way. The load is even and the experts of a token are on one or few ranks, which is the best case "
      "for DeepEP. The experts cannot specialise.")));
  t.add(live(field<&RouterConfig::capacity_factor>(
      "capacity_factor", "Capacity factor", "", {0, 16},
      "Capacity of each expert as a multiple of its fair share of the token copies of a batch. Copies above it are "
      "dropped as token_drop says; with token_drop = none nothing is dropped, as in DeepSeek-V3, and the copies above "
      "capacity are only counted. Switch: 1.25. 0: off.")));
  t.add(live(field<&RouterConfig::token_drop>(
      "token_drop", "Token dropping",
      "Which token copies are kept by an expert that was chosen more often than its capacity. probs: those with the "
      "largest mixing weights. position: the first of the batch (Megatron-LM's policies). none: all (dropless). A "
      "dropped copy is not sent, adds nothing to the output and gets no gradient; the other weights of the token do "
      "not change, and no other expert replaces it. As in Megatron-LM, the auxiliary loss and expert_bias count the "
      "copies that are left. The capacity applies to the whole batch; in Megatron-LM it applies to the tokens of each "
      "rank.")));
  t.add(field<&RouterConfig::n_hash_layers>(
      "n_hash_layers", "Hash layers", "layers", {0, 4096},
      "The first MoE layers get each byte's experts from a fixed table instead of the router's choice (DeepSeek-V4's "
      "hash layers; it has 3). Their gate still learns the mixing weights, their biases do not change, and their load "
      "follows from the bytes of the text. The table is drawn from the seed, with K different experts for each byte, "
      "as TorchTitan does where the published table is not available. 0: off."));
  t.add(field<&RouterConfig::replay>(
      "replay", "Routing replay",
      "A twin runs the experts that run A chose, at every token of every MoE layer and step (routing replay, R3: "
      "arXiv:2510.11370, Megatron-LM's moe_enable_routing_replay). Only the choice is replayed: the mixing weights "
      "come from the twin's own scores of those experts, and its gate learns from them. The part of the loss gap that "
      "remains is caused by arithmetic, the part that disappears was caused by routing. Only for a twin that starts "
      "together with run A."));
  t.group("Router actions");
  t.add(live(field<&RouterConfig::killed_experts>(
      "killed_experts", "Killed experts",
      "Experts that cannot be chosen from the next step on, as LAYER:EXPERT: 2:7 is expert 7 of layer 2, *:3 is expert "
      "3 of every MoE layer. Commas separate several. Their weights get no gradient, their bias does not change, and "
      "the other experts balance among themselves. This shows what the loss of a machine does to a model and how fast "
      "the other experts take over. An expert can be chosen again after its entry is removed. Empty: none.")));
  t.add(live(field<&RouterConfig::pinned_bias>(
      "pinned_bias", "Pinned biases",
      "Holds expert_bias of single experts at a value, as LAYER:EXPERT=BIAS: 2:7=0.5, *:3=-1. Commas separate several. "
      "A positive bias gives an expert tokens that would have chosen another one; 0.5 is large for sigmoid scores, 1/E "
      "for softmax scores. When an entry is removed, the bias moves again from that value. Empty: none.")));
  t.add(live(field<&RouterConfig::frozen>(
      "frozen", "Frozen router",
      "The weights of the gate and expert_bias do not change while everything else trains. This shows what the experts "
      "learn under a fixed routing rule. The gradient of the frozen gate does not count in the gradient norm.")));
  t.add(live(field<&RouterConfig::gate_noise>(
      "gate_noise", "Gate noise", "", {0, 100},
      "Standard deviation of Gaussian noise that is added to the router's outputs when experts are chosen in training; "
      "the mixing weights come from the scores without noise. The noisy gate of arXiv:1701.06538 differs (section 2.1, "
      "equations 3 and 4): there the standard deviation is computed per expert and token from learnt weights, and the "
      "noise also enters the mixing weights. Router outputs are about 1 to 5 in size: 0.1 changes only choices with a "
      "small margin, 10 makes the choice random. The noise depends on seed, step and position only. 0: none.")));
  t.add(field<&RouterConfig::initial_bias>(
      "initial_bias", "Initial biases",
      "expert_bias before the first step, as LAYER:EXPERT=BIAS: *:0=0.3. Commas separate several. An uneven start "
      "shows whether and how fast balancing corrects it. Unlike a pinned bias, it moves from the first step on. Empty: "
      "all 0, as in DeepSeek-V3."));
  t.group("Stored formats");
  t.add(live(field<&RouterConfig::bias_format>(
      "bias_format", "Bias format",
      "Format in which expert_bias is stored. bf16: rounded after every update. BF16 numbers are 0.001 apart just "
      "below 0.25 and 0.002 above, so that an update of 0.001 is lost or doubled. Near 7, which biases without centred "
      "updates can reach, they are 0.03 apart, and different biases become equal: in GLM-5.2 238 values became 8, and "
      "98.5 % of the tokens got other experts (sglang, pull request 37133). Megatron-LM stored the bias in BF16 by "
      "accident (issue 1482). fp32: the usual format.")));
  t.add(live(field<&RouterConfig::count_format>(
      "count_format", "Count format",
      "Only with the sign rule: format of the token counts from which the update of expert_bias is computed. bf16: the "
      "counts of the sequences are added one after the other in BF16, and their mean is computed in BF16. This happens "
      "when a framework converts the buffer of the counts with the model (Megatron-LM, pull request 7081). BF16 "
      "represents every whole number up to 256; near 40,000 its numbers are 256 apart, and the update of experts near "
      "the fair share can get the wrong sign. The panels still show the exact counts. fp32: exact.")));
  t.group("Faults");
  t.add(live(field<&RouterConfig::count_padding>(
      "count_padding", "Counted padding",
      "Only with data.padding: padding tokens count in the load, expert_bias, capacities and auxiliary losses like all "
      "other tokens. Padding tokens are equal and go to the same few experts, so that the router balances padding "
      "instead of text (Megatron-LM, issue 1984 and pull request 5542; TorchTitan, pull request 4594). false: padding "
      "is routed but not counted.")));
  t.add(live(field<&RouterConfig::fault_stale_bias>(
      "fault_stale_bias", "Stale bias",
      "expert_bias is never updated, whatever the bias update rate. This happens when the update hook skips a layer or "
      "looks for a method that the model does not have (TorchTitan, pull request 4494; NeMo Automodel, pull request "
      "3207). false: correct.")));
  t.add(live(field<&RouterConfig::fault_aux_loss>(
      "fault_aux_loss", "Auxiliary loss fault",
      "times_microbatches, over_microbatches: the gradient of the auxiliary loss is multiplied or divided by "
      "data.microbatches; the logged value is correct (NeMo Automodel, pull request 3359, multiplied; Megatron-LM, "
      "pull request 5798, divided by the number of sequences in a microbatch). softmax_twice: the scores in the loss "
      "are a softmax of the softmax (transformers, issue 45120). They are nearly equal, and the loss stays at its "
      "minimum. none: correct.")));
  t.add(live(field<&RouterConfig::fault_group_mask>(
      "fault_group_mask", "Group mask",
      "Only with groups per token: score of the experts in groups that were not chosen. zero: 0 instead of minus "
      "infinity. If expert_bias makes the scores of the chosen groups negative, tokens get experts of other groups "
      "(transformers, issue 45440). minus_infinity: correct.")));
  t.add(live(field<&RouterConfig::fault_recount>(
      "fault_recount", "Counted twice",
      "Token counts are doubled. This happens when activations are recomputed in the backward pass and the router "
      "counts its tokens a second time (TorchTitan, pull request 1593; for the counts of an auxiliary loss pull "
      "request 4772). The sign rule is not affected; the counts and every rule that uses their size are wrong. false: "
      "correct.")));
  return t.fields;
}

}  // namespace moescope
