// The fields of [optimizer].
#include "core/config/field_maker.h"

namespace moescope {

template <>
constexpr std::array<const char*, 2> kChoices<Schedule>{"constant", "cosine"};
template <>
constexpr std::array<const char*, 2> kChoices<OptimizerName>{"adamw", "muon"};
template <>
constexpr std::array<const char*, 3> kChoices<MuonScale>{"match_rms_adamw", "original", "spectral"};

std::vector<ConfigField> optimizer_fields() {
  FieldTable t;
  t.group("Optimizer");
  t.add(field<&OptimizerConfig::name>(
      "name", "Optimizer",
      "adamw: divides the running mean of each gradient by the root of the running mean of its square (DeepSeek-V3). "
      "muon: replaces the momentum of each matrix by the nearest orthogonal matrix, so that all directions change "
      "equally (Kimi K2, Moonlight). It applies to the three matrices of each expert, to the query, key and value "
      "matrices of each head, and to the other matrices of attention, feed-forwards and gate; embedding, head and "
      "norms use AdamW. Muon keeps one number per weight, AdamW two (the program reserves both). Its matrix products "
      "double the time of a step of nano. Mean loss of steps 250 to 299 there, three seeds, each optimizer at its best "
      "learning rate: 1.54 to 1.58 nats/token with adamw (0.004 or 0.008), 1.33 to 1.38 with muon (0.016)."));
  t.add(live(field<&OptimizerConfig::lr>(
      "lr", "Learning rate", "", {0, 1},
      "Peak step size. DeepSeek-V3: 2.2e-4; small models tolerate 1e-3 to 5e-3. Too high: the loss jumps or becomes "
      "NaN, and routers oscillate. Too low: the loss falls slowly.")));
  t.add(field<&OptimizerConfig::lr_min>("lr_min", "Final learning rate", "", {0, 1},
                                        "Learning rate at the end of the cosine decay. DeepSeek-V3: a tenth of the "
                                        "peak or less. It must not exceed the learning rate."));
  t.add(field<&OptimizerConfig::schedule>(
      "schedule", "Schedule",
      "Learning rate after the warm-up. cosine: falls to the final learning rate at the end of the schedule "
      "(DeepSeek-V3 in its decay phase). constant: does not change; better for experiments without a fixed length."));
  t.add(field<&OptimizerConfig::warmup_steps>(
      "warmup_steps", "Warm-up", "steps", {0, 1e6},
      "Steps over which the learning rate rises from near 0 to its peak. DeepSeek-V3: 2000. Without a warm-up the "
      "first steps of Adam are too large and early routing choices persist."));
  t.add(field<&OptimizerConfig::total_steps>(
      "total_steps", "Schedule length", "steps", {1, 1e9},
      "Step at which the cosine decay reaches the final rate, and the default length of a run on the command line. "
      "Training may go on beyond it at the final rate."));
  t.add(field<&OptimizerConfig::beta1>(
      "beta1", "Adam beta1", "", {0, 0.99999},
      "Decay of the running mean of the gradient; 0.9 averages over about 10 steps. DeepSeek-V3: 0.9."));
  t.add(field<&OptimizerConfig::beta2>(
      "beta2", "Adam beta2", "", {0, 0.99999},
      "Decay of the running mean of the squared gradient; 0.95 averages over about 20 steps. DeepSeek-V3: 0.95. With "
      "0.999, experts that are rarely chosen keep old step sizes for long."));
  t.add(field<&OptimizerConfig::eps>("eps", "Adam epsilon", "", {1e-20, 1e-1},
                                     "Added to the root of the squared gradient's mean. 1e-8 is usual. Large values "
                                     "make small gradients count less."));
  t.add(field<&OptimizerConfig::weight_decay>(
      "weight_decay", "Weight decay", "", {0, 10},
      "Each step multiplies all weights by 1 - learning rate x weight decay. DeepSeek-V3: 0.1."));
  t.add(field<&OptimizerConfig::clip>(
      "clip", "Gradient clipping", "", {1e-6, 1e9},
      "Largest norm of the gradient over all weights; a larger gradient is scaled down to it. DeepSeek-V3: 1.0. If the "
      "norm is above the limit at every step, the clipped gradient always has the same norm."));
  t.add(live(field<&OptimizerConfig::router_lr_factor>(
      "router_lr_factor", "Gate rate factor", "", {0, 1000},
      "Factor of the learning rate and weight decay of the gates. Above 1 routing becomes fixed early and may "
      "collapse; below 1 it stays flexible for longer. 0: the weights of the gates do not change while expert_bias "
      "still moves. 1: as all other weights.")));
  t.add(field<&OptimizerConfig::muon_momentum>("muon_momentum", "Muon momentum", "", {0, 0.99999},
                                               "Only with muon: decay of the running mean of the gradient; 0.95 (Kimi "
                                               "K2, TorchTitan) averages over about 20 steps."));
  t.add(field<&OptimizerConfig::muon_nesterov>(
      "muon_nesterov", "Muon Nesterov",
      "Only with muon: Nesterov momentum. true in Kimi K2 and TorchTitan, false by default in Megatron-LM."));
  t.add(field<&OptimizerConfig::muon_scale>(
      "muon_scale", "Muon scale",
      "Only with muon: factor on the learning rate of an m x n matrix. match_rms_adamw: 0.2 sqrt(max(m, n)), steps as "
      "large as AdamW's, so that its learning rate fits (Moonlight, Kimi K2). original: sqrt(max(1, m / n)), for which "
      "0.02 is usual; spectral: sqrt(m / n). Both need their own learning rate, which also applies to embedding, head "
      "and norms."));
  t.add(field<&OptimizerConfig::muon_bf16>(
      "muon_bf16", "Muon in BF16",
      "Only with muon: the matrix products of its five Newton-Schulz steps have BF16 operands and results, as in "
      "TorchTitan; momentum and weights stay FP32. false: all in FP32. BF16 loses directions that are far smaller than "
      "the largest one of their matrix."));
  t.add(live(field<&OptimizerConfig::qk_clip>(
      "qk_clip", "QK-clip", "", {0, 10000},
      "Limit of the attention score (query times key over the root of the head width). Heads with a larger score in "
      "any query of the batch are scaled down after the step: queries and keys without RoPE by the root of the excess, "
      "queries with RoPE by all of it. Kimi K2 trains with muon and 100; scores that grow without limit end in NaN. "
      "Models as small as the presets stay below 10 to 20 for long; the Loss panel shows the value as Max QK logit. 0: "
      "off.")));
  t.group("Stored formats");
  t.add(field<&OptimizerConfig::master_format>(
      "master_format", "Master weights",
      "Format in which all weights are stored between two steps. bf16: every step computes in FP32 and rounds the new "
      "weights to BF16 (8 significant bits), as fused optimizers of PyTorch do with a model in BF16. An update below "
      "half the distance of two BF16 numbers, 0.2 to 0.4 % of the weight, is lost. Low learning rates lose more "
      "updates: in an experiment of marin (issue 6486) the loss ended 0.0075 higher with experts and attention in "
      "BF16, and 0.0011 higher if the last tenth of the steps was in FP32; nothing was lost where the learning rate "
      "ended at 5e-4 or more. In a perturbed twin every initial weight differs by one BF16 unit. fp32: as in "
      "DeepSeek-V3."));
  t.add(field<&OptimizerConfig::update_stochastic>(
      "update_stochastic", "Stochastic update",
      "Only with master weights in BF16: rounds the new weights up or down with a probability given by the distance "
      "(torchao's bf16_stochastic_round), so that small updates are correct on average. The random numbers depend on "
      "seed, step and position only. false: rounds to nearest."));
  t.add(field<&OptimizerConfig::moment1_format>(
      "moment1_format", "First moment",
      "Format in which Adam's running mean of the gradient, or the momentum of Muon, is stored. bf16: computed in "
      "FP32, rounded after the step. DeepSeek-V3: BF16 (arXiv:2412.19437, section 3.3.3)."));
  t.add(field<&OptimizerConfig::moment2_format>(
      "moment2_format", "Second moment",
      "Format in which Adam's running mean of the squared gradient is stored. In BF16 the mean can fall only if a step "
      "changes it by more than 0.2 to 0.4 %, so that 1 - beta2 must be larger than that. DeepSeek-V3: BF16 with beta2 "
      "= 0.95."));
  t.group("Faults");
  t.add(field<&OptimizerConfig::fault_missing_experts>(
      "fault_missing_experts", "Experts not in the optimizer",
      "Experts whose weights the optimizer does not update, as LAYER:EXPERT: 2:7, or *:3 for every MoE layer. They get "
      "tokens and gradients but never change. This happens when the experts are left out of the trained parameters "
      "(unsloth, issue 4193 and pull request 6936). In KellerJordan/Muon (issue 65) experts had their initial weights "
      "after 1B tokens for another reason: the kernels had no backward pass, so that no gradient arrived. Empty: "
      "none."));
  t.add(live(field<&OptimizerConfig::fault_expert_gradient>(
      "fault_expert_gradient", "Expert gradient factor", "", {0, 1000},
      "Factor of the gradients of routed experts. A factor equal to the number of expert-parallel ranks is the effect "
      "of gradients that are summed over the ranks instead of averaged (PyTorch, issue 160285; Megatron-LM, pull "
      "request 5956). AdamW and Muon cancel most of a constant factor, but it remains in the gradient norm, so that "
      "clipping scales down all other gradients. 1: correct.")));
  return t.fields;
}

}  // namespace moescope
