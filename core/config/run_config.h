// All settings of a run, as plain structs. Their keys, ranges, units and meanings: config_field.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/numerics/recipes.h"

namespace moescope {

enum class ScoreFunc { sigmoid, softmax, sqrtsoftplus };
// What moves expert_bias: core/model/moe/router.h and quantile_balance.h.
enum class BalanceRule { sign, quantile_batch, quantile_microbatch };
enum class AuxMode { none, sequence, batch };
// Which copies of tokens an expert takes where they are more than its capacity: core/model/moe/token_drop.h.
enum class TokenDrop { none, probs, position };
enum class Schedule { constant, cosine };
// Text that the program writes itself. passages: ten kinds of text, from prose to Morse. facts: ten languages of the
// same symbols, to be known by heart (core/data/facts.h).
enum class Generator { passages, facts };
// Format of the token rows that dispatch and combine send. mxfp8 is torchao's all-to-all: dispatch in the forward pass
// and combine in the backward pass send MXFP8 (E4M3, scales by rceil), the two return trips BF16.
enum class TokenPayload { fp32, bf16, mxfp8 };

// Shapes of the model. Field names and meanings are those of TorchTitan's DeepSeek-V3 arguments.
struct ModelConfig {
  int vocab = 256;  // byte-level
  int dim = 128;
  int n_layers = 4;
  int n_dense_layers = 1;  // the first ones; the rest are MoE
  int dense_inter = 384;
  int n_heads = 4;
  int q_lora_rank = 0;  // 0: plain query projection
  int kv_lora_rank = 64;
  int qk_nope_head_dim = 32;
  int qk_rope_head_dim = 16;
  int v_head_dim = 32;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  int n_experts = 16;
  int moe_inter = 128;
  int n_shared = 1;                 // one FFN of width n_shared * moe_inter; 0: none
  bool shared_expert_gate = false;  // a token's output of it times sigmoid(h w_g) (core/model/moe/shared_gate.h)
  int latent_dim = 0;               // of the rows that routed experts get; 0: dim (core/model/moe/latent_experts.h)
  bool latent_norm = false;         // RMSNorm of their mixed outputs, before these return to dim
  int outlier_channel = 0;
  double outlier_factor = 1;  // gain of that channel in every feed-forward's input at the start; 1: none

  int row_dim() const { return latent_dim > 0 ? latent_dim : dim; }  // of the rows that dispatch sends
};

struct RouterConfig {
  int top_k = 2;
  ScoreFunc score_func = ScoreFunc::sigmoid;
  int n_groups = 0;  // 0: no group limit
  int n_limited_groups = 0;
  bool route_norm = true;
  double route_scale = 1.0;
  BalanceRule balance_rule = BalanceRule::sign;
  double bias_update_rate = 1e-3;  // of the sign rule; 0: expert_bias stays as it is
  bool bias_centring = true;       // subtract the mean of each update (TorchTitan); off: as in arXiv:2408.15664
  double quantile_ema = 0.0;       // share of the old bias that quantile_microbatch keeps
  AuxMode aux_mode = AuxMode::none;
  double aux_coeff = 0.0;
  double z_coeff = 0.0;
  bool force_balance = false;  // round-robin, as in the published throughput runs
  TokenDrop token_drop = TokenDrop::none;
  double capacity_factor = 0.0;  // what an expert takes, in fair shares; without token_drop only counted; 0: off
  int n_hash_layers = 0;    // the first MoE layers, whose experts a table gives each byte (model/moe/expert_table.h)
  double gate_noise = 0.0;  // standard deviation of the noise on the logits that choose experts; 0: none
  bool frozen = false;      // gate and expert_bias stay as they are
  std::string killed_experts = {};  // cannot be chosen; this and the next two: core/config/expert_list.h
  std::string pinned_bias = {};     // expert_bias held at these values
  std::string initial_bias = {};    // expert_bias before the first step
  bool replay = false;              // of a twin: run A's choice of experts at every token (R3)
};

// core/model/muon.h
enum class OptimizerName : std::uint8_t { adamw, muon };
enum class MuonScale : std::uint8_t { match_rms_adamw, original, spectral };

struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double lr = 2e-3;
  double lr_min = 2e-4;
  Schedule schedule = Schedule::cosine;
  int warmup_steps = 50;
  int total_steps = 2000;  // end of the cosine decay; training may go on at lr_min
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;              // gradient norm limit
  double router_lr_factor = 1.0;  // on the learning rate of the gates
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  MuonScale muon_scale = MuonScale::match_rms_adamw;
  bool muon_bf16 = false;  // rounds between the products of a step
  double qk_clip = 0;      // largest score of attention that heads are scaled down to (core/model/qk_clip.h); 0: off
};

// NVFP4's 4over6 and the scale of the tensor's largest value: by which error, with a bound of 256, which leaves room
// for scales one and a half times as large, or of 448 (core/numerics/scale_rules.h).
enum class FourOverSixChoice : std::uint8_t { off, mae_256, mse_256, mae_448, mse_448 };
enum class StochasticOperands : std::uint8_t { all, gradients };
enum class RotatedGemms : std::uint8_t { all, wgrad };
// What turns to BF16 late in a training: the forward pass alone, or every GEMM.
enum class LateBf16 : std::uint8_t { forward, all };

// Number formats of the operands of every weight's three GEMMs, by kind of weight. Attention's products of
// activations with activations (scores and their sums of values) are in FP32 where `attention` is, otherwise in BF16.
struct PrecisionConfig {
  Recipe experts = Recipe::fp32;  // routed
  Recipe shared_experts = Recipe::fp32;
  Recipe dense_ffn = Recipe::fp32;
  Recipe attention = Recipe::fp32;
  Recipe router_gate = Recipe::fp32;
  Recipe head = Recipe::fp32;
  Rounding rounding = Rounding::nearest;
  StochasticOperands stochastic_operands = StochasticOperands::all;
  bool hadamard = false;
  RotatedGemms hadamard_gemms = RotatedGemms::all;
  RotationForm hadamard_signs = RotationForm::drawn;
  Nvfp4Rule nvfp4_rule = Nvfp4Rule::divided;  // this and the next two: of all operands in nvfp4
  bool nvfp4_square_weights = false;          // in tiles of 16x16
  FourOverSixChoice nvfp4_four_over_six = FourOverSixChoice::off;
  TokenPayload payload = TokenPayload::fp32;
  // Replaces the recipe's format for one kind of operand, in every class whose recipe is not fp32: one of the named
  // formats that are for training (core/numerics/number_format.h). nullopt: as the recipe says.
  std::optional<OperandFormat> override_x = {}, override_w = {}, override_dy = {};
  std::string operands = {};  // of single operands, overrides all of these: core/config/operand_recipes.h
  // BF16 in place of whatever else is set above, but for classes that stay in fp32.
  int layers_at_start_in_bf16 = 0, layers_at_end_in_bf16 = 0;  // as in Megatron-LM; the head is in none of them
  std::int64_t bf16_from_step = 0;                             // 0: never
  LateBf16 late_bf16 = LateBf16::forward;
  bool operator==(const PrecisionConfig&) const = default;
};

struct DataConfig {
  std::string path = {};  // empty: text of the generator, in labelled domains; else a text file or a folder
  Generator generator = Generator::passages;
  int batch = 8;             // sequences
  int seq = 128;             // tokens
  std::string mixture = {};  // weights of the domains (core/config/mixture.h); empty: as they occur in the data
  double held_out = 0;       // share of each text, at its end, that is for validation only
};

// Virtual ranks over which all-to-all volumes are counted.
struct ParallelConfig {
  int ranks = 8;
  int ranks_per_node = 8;
  std::string placement = "contiguous";  // of experts (core/parallel/placement_choice.h)
};

struct TelemetryConfig {
  int every = 1;             // steps between frames with arrays; scalars come with every step
  int quant_every = 1;       // steps between frames with quantization statistics
  int flips_every = 10;      // steps between comparisons of the routing with run 0's; 0: never
  int gradient_every = 0;    // steps between comparisons of the gradients with FP32; 0: never
  int validation_every = 0;  // steps between losses of the held-out batches; 0: never
  int window = 50;           // steps that windowed MaxVio and dead experts are computed over
  int specialisation_every =
      20;                // steps between tables of expert choices by domain and byte, summed over them; 0: never
  int texts_every = 20;  // steps between routings of the probe and of a passage of the batch; 0: never
  // With escapes as in core/io/text_escape.h; empty: none. A line or two of each generated domain.
  std::string probe =
      R"(The old king sees the river.\nint sum_x(int x, int y) {\n  return x + y;\n}\n12+30=42\n7*8=56\n)"
      R"({"id":4165,"name":"Ada"}\n([{<>}])[()]\nTATAATATGGCTGAACTGTAA\n<div><p>old</p></div>\n)"
      R"(12:04:31 worker-2 INFO\nby 5: 10 15 20 25 30\nSOS .../---/.../\n)";
  int sample_every = 200;           // steps between texts written by the model; 0: never
  int sample_length = 64;           // bytes that it writes
  double sample_temperature = 0.8;  // 0: always the likeliest byte
  int checkpoint_every = 100;       // steps between the checkpoints that a rewind can use; 0: none
  int checkpoints_kept = 8;         // at most
};

struct RunConfig {
  std::string name = "run";
  std::int64_t seed = 1;
  std::int64_t perturbation = 0;  // 0: none; n: the n-th choice of weights moved up or down by a unit in the last place
  ModelConfig model;
  RouterConfig router;
  OptimizerConfig optimizer;
  PrecisionConfig precision;
  DataConfig data;
  ParallelConfig parallel;
  TelemetryConfig telemetry;
};

}  // namespace moescope
