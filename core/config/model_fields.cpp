// The fields of [model], and those without a section.
#include "core/config/field_maker.h"

namespace moescope {

// A double holds every whole number up to 2^53 exactly, so that JSON and spreadsheets keep the seed.
static constexpr double kMaxSeed = 9007199254740992.0;

std::vector<ConfigField> run_fields() {
  FieldTable t;
  t.group("Run");
  t.add(field<&RunConfig::name>(
      "name", "Name",
      "The name of this run in legends, recordings and checkpoint files. Letters, digits and - _ . + only."));
  t.add(field<&RunConfig::seed>(
      "seed", "Seed", "", {0, kMaxSeed},
      "Determines all random numbers: the initial weights and the order of the data. The same seed and settings give "
      "bit-identical losses with any number of threads. Two runs that differ only in the seed show how large noise is. "
      "Runs side by side all read run A's batches, so that only their initial weights differ."));
  t.add(field<&RunConfig::perturbation>(
      "perturbation", "Perturbation", "", {0, kMaxSeed},
      "Any number above 0 moves every initial weight up or down by one unit in its last place; the number chooses the "
      "directions. Training is chaotic, so even this difference makes two runs drift apart. A twin that differs only "
      "in this setting shows how far they drift without another start. Repeated runs on a GPU differ in the same way, "
      "because their sums are added in any order. 0: off."));
  t.add(field<&RunConfig::portable>(
      "portable", "Portable products",
      "Computes matrix products in one order on every processor, so that the same settings and seed give the same "
      "losses "
      "to the bit with SSE4, AVX2, AVX-512 and on Arm. Off: OpenBLAS and matrix units, which are faster and add in an "
      "order of their own on each kind of processor."));
  return t.fields;
}

std::vector<ConfigField> model_fields() {
  FieldTable t;
  t.group("Model");
  t.add(field<&ModelConfig::vocab>("vocab", "Vocabulary", "tokens", {256, 1 << 20},
                                   "Number of different tokens. Without a tokenizer (data.tokenizer) tokens are bytes, "
                                   "of which there are 256. DeepSeek-V3 uses 129280 sub-word tokens."));
  t.add(field<&ModelConfig::dim>(
      "dim", "Width (dim)", "features", {8, 8192},
      "Length of the vector that represents a token between layers. It is also the payload of the all-to-all: 2 x dim "
      "bytes per token in BF16. DeepSeek-V3: 7168. A larger width makes the model stronger and the step slower, about "
      "quadratically. MXFP8 needs a multiple of 32."));
  t.add(field<&ModelConfig::n_layers>(
      "n_layers", "Layers", "layers", {1, 64},
      "Transformer blocks, each attention plus a feed-forward part (dense or MoE). DeepSeek-V3: 61. Time and memory "
      "rise in proportion. Each MoE layer has its own router."));
  t.add(field<&ModelConfig::n_dense_layers>(
      "n_dense_layers", "Dense layers", "layers", {0, 64},
      "Number of first layers that have one ordinary feed-forward network instead of experts. DeepSeek-V3: 3, because "
      "routers in the first layers balance slowest. 0: every layer is an MoE layer. The number of layers: a dense "
      "model."));
  t.add(field<&ModelConfig::dense_inter>(
      "dense_inter", "Dense hidden width", "features", {8, 32768},
      "Hidden width of the feed-forward network in the dense layers. DeepSeek-V3: 18432, the width of the 8 routed "
      "experts and the 1 shared expert that a token uses in an MoE layer."));
  t.add(field<&ModelConfig::n_experts>(
      "n_experts", "Expert count", "experts", {2, 1024},
      "Number of routed experts in each MoE layer: small feed-forward networks among which the router chooses. "
      "DeepSeek-V3: 256. More experts hold more parameters for the same work per token, but each gets fewer tokens of "
      "a batch: the load is noisier and the GEMMs of the experts are smaller."));
  t.add(field<&ModelConfig::moe_inter>(
      "moe_inter", "Expert width", "features", {8, 16384},
      "Hidden width of one expert's SwiGLU network. DeepSeek-V3: 2048, narrow beside its width of 7168: many small "
      "experts in place of few large ones. MXFP8 needs a multiple of 32."));
  t.add(
      field<&ModelConfig::n_shared>("n_shared", "Shared expert count", "experts", {0, 16},
                                    "Number of experts that every token uses besides the routed ones. They are "
                                    "computed as one network of this many times the expert width. DeepSeek-V3: 1. They "
                                    "learn what all tokens need, so that the routed experts can specialise. 0: none."));
  t.add(field<&ModelConfig::shared_expert_gate>(
      "shared_expert_gate", "Shared expert gate",
      "Multiplies the output of the shared experts for a token by sigmoid(x w_g), a number from 0 to 1. w_g is one "
      "more vector of dim weights in each MoE layer (Qwen3-Next and Qwen3.5; Megatron-LM's moe-shared-expert-gate). "
      "The gate is computed in FP32, whatever the recipes are. false: the output is added as it is, as in "
      "DeepSeek-V3."));
  t.add(field<&ModelConfig::latent_dim>(
      "latent_dim", "Latent width", "features", {0, 8192},
      "Routed experts work on shorter rows: one projection takes each token from dim to this width before it is "
      "dispatched, another takes the mixed outputs of its experts back (Nemotron 3 Super: 4096 to 1024; Kimi K3: 7168 "
      "to 3584; Megatron-LM's moe_latent_size). Dispatched bytes, expert weights and expert FLOPs shrink by latent_dim "
      "/ dim, which leaves room for more experts per token. Router and shared experts read the whole width. The two "
      "projections are computed in FP32, whatever the recipes are. 0: off."));
  t.add(field<&ModelConfig::latent_norm>(
      "latent_norm", "Latent RMSNorm",
      "Only with a latent width: applies RMSNorm to the mixed expert outputs of a token before they are projected back "
      "to the full width, as in Kimi K3. Only the proportions of the mixing weights count then, not their size. "
      "Nemotron 3 Super: false."));
  t.add(field<&ModelConfig::outlier_channel>(
      "outlier_channel", "Outlier channel", "", {0, 8191},
      "Channel of the feed-forward inputs that is scaled by the outlier factor. Counted from 0."));
  t.add(field<&ModelConfig::outlier_factor>(
      "outlier_factor", "Outlier factor", "", {1e-3, 1e4},
      "At the start of a run, the gain of the outlier channel in every RMSNorm before a feed-forward is multiplied by "
      "this factor, and the weights that read it (gate, w1, w3) are divided by it. The model computes the same "
      "function, but its activations have an outlier, as those of large models do. In a block with one scale the "
      "outlier costs the other values their precision. 30 to 300 shows the effect. 1: off."));
  t.add(field<&ModelConfig::initial_weights>(
      "initial_weights", "Initial weights",
      "Folder with config.json and .safetensors of a DeepSeek-V2 or -V3 model, as transformers and moescope-cli export "
      "write it: the run begins with its weights and expert biases, in FP32. The settings of the model must be those "
      "of its config.json; \"Train from it\" in the window and moescope-cli train --from set them. Empty: weights are "
      "drawn at random, from the seed."));
  t.group("Attention");
  t.add(field<&ModelConfig::n_heads>(
      "n_heads", "Attention heads", "heads", {1, 128},
      "Independent attention patterns per layer. DeepSeek-V3: 128. Time grows with heads x sequence length squared."));
  t.add(field<&ModelConfig::q_lora_rank>(
      "q_lora_rank", "Query latent", "features", {0, 8192},
      "q_lora_rank: multi-head latent attention compresses the query to a vector of this length. DeepSeek-V3: 1536. 0: "
      "a plain projection from the model width, as in DeepSeek-V2-Lite."));
  t.add(field<&ModelConfig::kv_lora_rank>(
      "kv_lora_rank", "Key-value latent", "features", {1, 8192},
      "kv_lora_rank: keys and values of all heads are computed from one latent vector of this length. Only that vector "
      "must be cached when text is generated, which is the purpose of multi-head latent attention. DeepSeek-V3: 512. A "
      "latent vector that is too short raises the loss."));
  t.add(field<&ModelConfig::qk_nope_head_dim>(
      "qk_nope_head_dim", "Width without RoPE", "features", {1, 512},
      "Part of each head's query and key that carries content only. DeepSeek-V3: 128."));
  t.add(field<&ModelConfig::qk_rope_head_dim>(
      "qk_rope_head_dim", "Width with RoPE", "features", {2, 512},
      "Part of each head's query and key that is rotated by the token's position; its key is shared by all heads. "
      "DeepSeek-V3: 64. Must be even, since features are rotated in pairs."));
  t.add(field<&ModelConfig::v_head_dim>("v_head_dim", "Value width", "features", {1, 512},
                                        "Length of each head's output. DeepSeek-V3: 128."));
  t.add(field<&ModelConfig::rope_theta>(
      "rope_theta", "RoPE base", "", {1, 1e8},
      "Slowest rotation of the position code: pair j of d/2 turns by position / base^(2j/d). DeepSeek-V3: 10000. "
      "Larger bases distinguish distant positions in long sequences."));
  t.add(field<&ModelConfig::norm_eps>("norm_eps", "RMSNorm epsilon", "", {1e-12, 1e-1},
                                      "Added under the root of every RMSNorm to avoid dividing by zero. 1e-5 in "
                                      "TorchTitan, 1e-6 in DeepSeek-V3; no need to change it."));
  return t.fields;
}

}  // namespace moescope
