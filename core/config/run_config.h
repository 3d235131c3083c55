// All settings of a run, as plain structs. config_field.h has their keys, ranges, units and meanings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/numerics/recipes.h"

namespace moescope {

enum class ScoreFunc { sigmoid, softmax, sqrtsoftplus };
// The rule that updates expert_bias: core/model/moe/bias_rules.h. quantile_sequence is
// quantile_batch on scores from which moving quantiles of each sequence are subtracted
// (core/model/moe/bias_rules.h).
enum class BalanceRule { sign, proportional, smebu, quantile_batch, quantile_microbatch, quantile_sequence };
constexpr bool by_quantiles(BalanceRule rule) {
  return rule == BalanceRule::quantile_batch || rule == BalanceRule::quantile_microbatch ||
         rule == BalanceRule::quantile_sequence;
}
enum class AuxMode { none, sequence, batch };
// Which token copies an expert keeps if they exceed its capacity: core/model/moe/router.h.
enum class TokenDrop { none, probs, position };
// The next two enumerations are faults of published trainings, which are shown beside a twin without the fault
// (assets/exhibits). Fault of the auxiliary loss: its gradient is multiplied or divided by the number of microbatches,
// or its scores are a softmax of the softmax.
enum class AuxFault : std::uint8_t { none, times_microbatches, over_microbatches, softmax_twice };
// Fault of group-limited choice: score of the experts in groups that were not chosen. minus_infinity is correct.
enum class GroupMask : std::uint8_t { minus_infinity, zero };
enum class Schedule { constant, cosine };
// Format in which a training stores numbers between operations or between steps. They are rounded to nearest, ties to
// even, except for weights with update_stochastic.
enum class StoredFormat : std::uint8_t { fp32, bf16 };
// Text that the program generates. passages: ten kinds of text, from prose to Morse. facts: ten languages with the same
// symbols, which the model has to memorize (core/model/text/domain_generator.h).
enum class Generator { passages, facts };
// Format of the token rows that dispatch and combine send. mxfp8 is torchao's all-to-all: dispatch in the forward pass
// and combine in the backward pass send MXFP8 (E4M3, scales by rceil), the other two send BF16.
enum class TokenPayload { fp32, bf16, mxfp8 };

// Shapes of the model. Field names and meanings are those of TorchTitan's DeepSeek-V3 arguments.
struct ModelConfig {
  int vocab = 256;  // 256 bytes, or the tokens of data.tokenizer
  int dim = 128;
  int n_layers = 4;
  int n_dense_layers = 1;  // first layers that are dense; the others are MoE
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
  bool shared_expert_gate = false;  // sigmoid(h w_g) multiplies their output, per token (core/model/moe/moe_layer.h)
  int latent_dim = 0;               // size of the rows of routed experts; 0: dim (core/model/moe/moe_layer.h)
  bool latent_norm = false;         // RMSNorm of the mixed outputs of routed experts, before the projection back to dim
  int outlier_channel = 0;
  double outlier_factor = 1;         // initial gain of one channel in every feed-forward's input; 1: none
  std::string initial_weights = {};  // folder of a checkpoint (core/checkpoints/training_start.h); empty: drawn by seed

  int row_dim() const { return latent_dim > 0 ? latent_dim : dim; }  // size of the rows that dispatch sends
};

struct RouterConfig {
  int top_k = 2;
  ScoreFunc score_func = ScoreFunc::sigmoid;
  int n_groups = 0;  // 0: no group limit
  int n_limited_groups = 0;
  bool route_norm = true;
  double route_scale = 1.0;
  BalanceRule balance_rule = BalanceRule::sign;
  double bias_update_rate = 1e-3;  // for the rules sign, proportional and smebu; 0: expert_bias does not change
  bool bias_centring = true;       // subtract the mean of each update (TorchTitan); off: as in arXiv:2408.15664
  StoredFormat bias_format = StoredFormat::fp32;      // format in which expert_bias is stored
  StoredFormat count_format = StoredFormat::fp32;     // format of the counts of the sign rule (model/moe/bias_rules.h)
  double bias_soft_clamp = 2.0, bias_momentum = 0.5;  // kappa and beta of smebu
  double quantile_ema = 0.0;                          // share of the old bias that quantile_microbatch keeps
  double sequence_strength = 0.3;                     // lambda of quantile_sequence
  AuxMode aux_mode = AuxMode::none;
  double aux_coeff = 0.0;
  double z_coeff = 0.0;
  bool force_balance = false;  // round-robin, as in the published throughput runs
  TokenDrop token_drop = TokenDrop::none;
  double capacity_factor = 0.0;  // largest load of an expert, in fair shares; 0: off. token_drop none counts the excess
  int n_hash_layers = 0;         // first MoE layers, in which a table gives each byte its experts (model/moe/router.h)
  double gate_noise = 0.0;       // standard deviation of the noise on the logits that choose experts; 0: none
  bool frozen = false;           // gate and expert_bias do not change
  std::string killed_experts = {};  // experts that cannot be chosen; core/config/expert_list.h, also for the next two
  std::string pinned_bias = {};     // expert_bias fixed to these values
  std::string initial_bias = {};    // expert_bias before the first step
  bool count_padding = false;       // with data.padding: padding tokens count in loads, losses and capacities
  bool fault_stale_bias = false;    // expert_bias is never updated
  AuxFault fault_aux_loss = AuxFault::none;
  GroupMask fault_group_mask = GroupMask::minus_infinity;
  bool fault_recount = false;  // counts are doubled, as by a recomputation that counts again
  bool replay = false;         // a twin uses the experts that run A chose, at every token (R3)

  bool limits_groups() const { return n_groups > 0 && n_limited_groups > 0; }
};

// core/model/optimizer.h describes Muon and its scales.
enum class OptimizerName : std::uint8_t { adamw, muon };
enum class MuonScale : std::uint8_t { match_rms_adamw, original, spectral };

struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double lr = 2e-3;
  double lr_min = 2e-4;
  Schedule schedule = Schedule::cosine;
  int warmup_steps = 50;
  int total_steps = 2000;  // end of the cosine decay; later steps use lr_min
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;              // limit of the gradient norm
  double router_lr_factor = 1.0;  // factor of the learning rate for the gates
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  MuonScale muon_scale = MuonScale::match_rms_adamw;
  bool muon_bf16 = false;  // operands and results of Muon's matrix products are rounded to BF16
  // Formats in which weights and moments are stored between two steps (core/model/optimizer.h).
  StoredFormat master_format = StoredFormat::fp32;
  StoredFormat moment1_format = StoredFormat::fp32, moment2_format = StoredFormat::fp32;
  std::string fault_missing_experts = {};  // experts whose weights the optimizer does not have
  double fault_expert_gradient = 1;        // factor of the gradients of routed experts
  bool update_stochastic = false;          // rounds weights in BF16 up or down at random
  double qk_clip =
      0;  // attention score to which heads with larger ones are scaled down (core/model/optimizer.h); 0: off
};

// 4over6 of NVFP4 (core/numerics/scale_rules.h). mae, mse: the error by which one of two scales of a block is chosen.
// The number is the block scale of the largest value of the tensor: 448, or 256, which leaves room for the other scale,
// one and a half times as large.
enum class FourOverSixChoice : std::uint8_t { off, mae_256, mse_256, mae_448, mse_448 };
enum class StochasticOperands : std::uint8_t { all, gradients };
enum class RotatedGemms : std::uint8_t { all, wgrad };
// GEMMs that switch to BF16 late in a training: the forward pass alone, or all.
enum class LateBf16 : std::uint8_t { forward, all };

// Number formats of the operands of every weight's three GEMMs, by class of weights. Attention also multiplies
// activations by activations (for the scores and for the weighted sums of values). These products are in FP32 if
// `attention` is fp32, otherwise in BF16.
struct PrecisionConfig {
  Recipe experts = Recipe::fp32;  // routed experts
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
  Nvfp4Rule nvfp4_rule = Nvfp4Rule::divided;  // this and the next two: for all operands in nvfp4
  bool nvfp4_square_weights = false;          // tiles of 16x16 share a scale
  FourOverSixChoice nvfp4_four_over_six = FourOverSixChoice::off;
  TokenPayload payload = TokenPayload::fp32;
  // Formats in which values are stored between operations (core/model/layers/precision.h).
  StoredFormat gate_output = StoredFormat::fp32, activations = StoredFormat::fp32, residual = StoredFormat::fp32,
               norm_gains = StoredFormat::fp32;
  // Replaces the recipe's format for one kind of operand, in every class whose recipe is not fp32: one of the named
  // formats that are for training (core/numerics/number_format.h). nullopt: as the recipe says.
  std::optional<OperandFormat> override_x = {}, override_w = {}, override_dy = {};
  std::string operands = {};  // recipes of single operands, which override all of these: core/config/operand_recipes.h
  // Layers and steps in BF16, whatever the settings above are. Classes in fp32 stay in FP32.
  int layers_at_start_in_bf16 = 0, layers_at_end_in_bf16 = 0;  // as in Megatron-LM; does not apply to the head
  std::int64_t bf16_from_step = 0;                             // 0: never
  LateBf16 late_bf16 = LateBf16::forward;
  bool operator==(const PrecisionConfig&) const = default;
};

struct DataConfig {
  std::string path = {};       // a text file or a folder; empty: text of the generator, in labelled domains
  std::string tokenizer = {};  // a tokenizer.json; empty: tokens are bytes
  Generator generator = Generator::passages;
  int batch = 8;             // sequences
  int seq = 128;             // tokens
  int microbatches = 1;      // equal parts of the batch, each with its own auxiliary loss and capacities
  int documents = 1;         // documents that are packed into one sequence; 1: sequences are not packed
  double padding = 0;        // mean share of padding at the end of sequences
  std::string mixture = {};  // weights of the domains (core/config/mixture.h); empty: their shares of the data
  double held_out = 0;       // share at the end of each text that is used for validation only
};

// Virtual ranks for which all-to-all volumes are counted.
struct ParallelConfig {
  int ranks = 8;
  int ranks_per_node = 8;
  std::string placement = "contiguous";  // placement of experts on ranks (core/config/placement_choice.h)
};

struct TelemetryConfig {
  int frame_interval = 1;    // steps between frames with arrays; every step has scalars
  int quant_every = 1;       // steps between frames with quantization statistics
  int flips_every = 10;      // steps between comparisons of the routing with that of run A; 0: never
  int gradient_every = 0;    // steps between comparisons of the gradients with FP32; 0: never
  int validation_every = 0;  // steps between losses of the held-out batches; 0: never
  int window = 50;           // steps over which windowed MaxVio and unused experts are computed
  int specialisation_every =
      20;  // steps between tables of expert choices by domain and byte; a table counts all of these steps; 0: never
  int texts_every = 20;  // steps between routings of the probe and of a passage of the batch; 0: never
  // Escapes as in core/files/text/text_escape.h; empty: none. The default has a line or two of each generated domain.
  std::string probe =
      R"(The old king sees the river.\nint sum_x(int x, int y) {\n  return x + y;\n}\n12+30=42\n7*8=56\n)"
      R"({"id":4165,"name":"Ada"}\n([{<>}])[()]\nTATAATATGGCTGAACTGTAA\n<div><p>old</p></div>\n)"
      R"(12:04:31 worker-2 INFO\nby 5: 10 15 20 25 30\nSOS .../---/.../\n)";
  int sample_every = 200;           // steps between samples, which are texts that the model writes; 0: never
  int sample_length = 64;           // tokens of a sample
  double sample_temperature = 0.8;  // 0: always the most likely token
  int checkpoint_every = 100;       // steps between checkpoints for rewinding; 0: none
  int checkpoints_kept = 8;         // largest number of them
};

struct RunConfig {
  std::string name = "run";
  std::int64_t seed = 1;
  std::int64_t perturbation = 0;  // 0: none; n: the n-th pattern by which weights move one unit in the last place
  bool portable = false;          // products with equal bits on every processor (core/numerics/matrix_units.h)
  ModelConfig model;
  RouterConfig router;
  OptimizerConfig optimizer;
  PrecisionConfig precision;
  DataConfig data;
  ParallelConfig parallel;
  TelemetryConfig telemetry;

  bool reads_bytes() const { return data.tokenizer.empty() && model.vocab == 256; }  // each token is a byte
};

// Returns the files and folders that a training reads; an entry is empty if the run does not read such a file.
inline std::vector<std::string> input_paths(const RunConfig& config) {
  return {config.data.path, config.data.tokenizer, config.model.initial_weights};
}

}  // namespace moescope
