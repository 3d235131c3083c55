// The fields of [precision].
#include "core/config/config_toml.h"
#include "core/config/field_maker.h"

namespace moescope {

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

template <>
const std::vector<std::string>& choices_of<Recipe>() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const RecipeInfo& info : recipes()) list.emplace_back(info.name);
    return list;
  }();
  return names;
}

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

namespace {

constexpr const char* kOwnRecipe = "own";

// Makes the derived field that sets all of [precision] except the payload.
ConfigField published_recipe_field() {
  ConfigField f;
  f.section = kSectionName<PrecisionConfig>;
  f.key = "precision.published_recipe";
  f.label = "Published recipe";
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

}  // namespace

std::vector<ConfigField> precision_fields() {
  FieldTable t;
  t.group("Precision");
  t.add(published_recipe_field());
  t.add(live(field<&PrecisionConfig::experts>(
      "experts", "Routed experts",
      "Recipe of number formats for all operands of the routed experts' GEMMs (forward, dgrad, wgrad). "
      "mxfp8_rceil: E4M3 elements in blocks of 32 with a power-of-two scale rounded up, as on B200 GPUs; "
      "mxfp8_floor: the scale rounded down, which clips the top of some blocks; fp8_deepseek_128: DeepSeek-V3's FP8 "
      "with scales per 128; mxfp4 and nvfp4: 4 bits; bf16; fp32: exact here. Most of the arithmetic of a model is in "
      "these GEMMs, so that low precision saves most here.")));
  t.add(live(field<&PrecisionConfig::shared_experts>(
      "shared_experts", "Shared experts",
      "Recipe of the shared experts, with the same choices as for the routed experts. DeepSeek-V3: FP8, as for the "
      "routed experts. TorchTitan's MXFP8 runs quantize the routed experts only, unless configured otherwise.")));
  t.add(live(field<&PrecisionConfig::dense_ffn>("dense_ffn", "Dense feed-forward",
                                                "Recipe of the feed-forward networks of the dense layers, with the "
                                                "same choices as for the routed experts. DeepSeek-V3: FP8.")));
  t.add(live(field<&PrecisionConfig::attention>(
      "attention", "Attention",
      "Recipe of the projections of attention (wq, wkv_a, wkv_b, wo). With fp32, scores and the sum of values are "
      "computed in FP32, too. With all other recipes they are products of BF16 numbers and never quantized further, as "
      "in DeepSeek-V3 and NVIDIA's NVFP4 recipe. The softmax is computed in FP32. A row whose length is not a multiple "
      "of the block ends in a shorter block. DeepSeek-V3: FP8 projections.")));
  t.add(live(field<&PrecisionConfig::router_gate>(
      "router_gate", "Router gate",
      "Recipe of the product that scores the experts. Training frameworks do not quantize it (TorchTitan: BF16 in its "
      "published runs, FP32 from March to September 2026, since then BF16 operands with sums and outputs in FP32; "
      "DeepSeek-V3: BF16 or FP32). It is 0.3 % of the arithmetic of the 671B model, but a rounding error that exceeds "
      "the margin between the last chosen and the first rejected expert sends the token to another expert. A twin "
      "with mxfp8_rceil or mxfp4 beside a run with fp32 shows the routing flips.")));
  t.add(live(field<&PrecisionConfig::head>(
      "head", "Output head",
      "Recipe of the product that gives the logits. Real trainings keep it in high precision (DeepSeek-V3: BF16 or "
      "FP32), because its errors enter the loss and every gradient.")));
  t.add(live(field<&PrecisionConfig::rounding>(
      "rounding", "Rounding",
      "Rounding of quantized operands (not of bf16). nearest: to the closer number, ties to even. stochastic: up or "
      "down with a probability given by the distance, so that errors cancel on average and small gradients are not "
      "lost in 4-bit formats, at twice the squared error. Clipping errors do not cancel: the largest values of the "
      "blocks of "
      "nvfp4 come out 1.1 % too small on average, those of mxfp8_floor 1.2 % (bell-shaped data). The random bits "
      "depend on seed, step and position only, so that a run repeats bit for bit.")));
  t.add(live(field<&PrecisionConfig::stochastic_operands>(
      "stochastic_operands", "Stochastic operands",
      "Only with stochastic rounding: the operands to which it applies. gradients: dY alone, as in NVIDIA's NVFP4 "
      "recipe; activations and weights are rounded to nearest. all: every quantized operand.")));
  t.add(live(field<&PrecisionConfig::hadamard>(
      "hadamard", "Hadamard rotation",
      "Rotates the contracted dimension of both operands of every quantized GEMM by random Hadamard matrices in blocks "
      "of 16 (nvfp4) or 32. The product does not change, but an outlier is spread over its block and no longer costs "
      "the other values their precision. Useful in 4 bits. NVIDIA's NVFP4 recipe rotates the operands of wgrad alone, "
      "in blocks of 16.")));
  t.add(live(field<&PrecisionConfig::hadamard_gemms>(
      "hadamard_gemms", "Rotated GEMMs",
      "Only with the Hadamard rotation: the GEMMs whose operands are rotated. wgrad: the weight gradient alone, along "
      "the tokens, as in NVIDIA's NVFP4 recipe. all: forward and dgrad, too.")));
  t.add(live(field<&PrecisionConfig::hadamard_signs>(
      "hadamard_signs", "Rotation signs",
      "Only with the Hadamard rotation: its random signs. drawn: new signs for every step and place. fixed: the "
      "sixteen signs of TransformerEngine for every block of 16. fixed_bf16: as fixed, and rotated values are rounded "
      "to BF16 before they are quantized, as in TransformerEngine's kernels.")));
  t.add(live(field<&PrecisionConfig::nvfp4_rule>(
      "nvfp4_rule", "NVFP4 scales",
      "Arithmetic of the scales of nvfp4, equal bit for bit to the named library. divided: torchao's scales, at least "
      "2^-6 of the scale of the tensor; values are divided by them. transformer_engine: the arithmetic of NVIDIA and "
      "of torchao for training; scales may be as small as 2^-9 or 0, and values are multiplied by a reciprocal. "
      "torchao: NVFP4Tensor with a scale of the tensor, multiplied. torchao_one_level: as torchao without a scale of "
      "the tensor, so that gradients far below 1 become 0. On ordinary data the first three differ in single bits; "
      "only transformer_engine keeps the values of blocks that are far below the largest value of the tensor.")));
  t.add(live(field<&PrecisionConfig::nvfp4_square_weights>(
      "nvfp4_square_weights", "NVFP4 square scales",
      "Weights in nvfp4 have one scale per 16 x 16 values in place of 1 x 16, as in NVIDIA's recipe. The scales are "
      "coarser, but forward and dgrad multiply the same numbers.")));
  t.add(live(field<&PrecisionConfig::nvfp4_four_over_six>(
      "nvfp4_four_over_six", "NVFP4 4over6",
      "Only with transformer_engine scales. Every block of nvfp4 is quantized twice, with its largest value at 6 and "
      "at 4, and the result with the smaller absolute (mae) or squared (mse) error is kept, because E2M1 has no number "
      "between 4 and 6. 256 or 448: the largest scale; 256 leaves room for the larger scale of 4 everywhere. "
      "TransformerEngine offers it for weights, activations or both, not for gradients, with mae_256 by default, and "
      "not with rotation. Here every operand in nvfp4 has it.")));
  t.add(live(field<&PrecisionConfig::payload>(
      "payload", "Dispatched tokens",
      "Format of the rows that the all-to-all sends. bf16: dispatch and combine, forward and backward, as usual. "
      "mxfp8: dispatch of the forward pass and combine of the backward pass send E4M3 with one scale per 32 values, "
      "the other two send BF16, as torchao's MXFP8 all-to-all. fp32: exact. DeepSeek-V3: FP8 dispatch, BF16 combine "
      "(arXiv:2412.19437, section 3.3.3).")));
  t.add(live(field<&PrecisionConfig::override_x>(
      "override_x", "Override: activations",
      "Format of the activations (x) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. Set activations, weights and gradients in turn to find the operand that a format harms. none: the format "
      "of the recipe.")));
  t.add(live(field<&PrecisionConfig::override_w>(
      "override_w", "Override: weights",
      "Format of the weights (W) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. The master weights of the optimizer stay in FP32. none: the format of the recipe.")));
  t.add(live(field<&PrecisionConfig::override_dy>(
      "override_dy", "Override: gradients",
      "Format of the gradients (dY) in place of the one of the recipe, in every part of the model whose recipe is not "
      "fp32. mxfp8_e5m2 gives them more range and one bit less precision. none: the format of the recipe.")));
  t.add(live(field<&PrecisionConfig::operands>(
      "operands", "Operand overrides",
      "Recipes of single operands of a class of GEMMs, as CLASS.OPERAND=RECIPE: experts.dY=mxfp8_e5m2_grad, "
      "attention.W=bf16. They override everything above. Commas or semicolons separate several. Classes: experts, "
      "shared_experts, dense_ffn, attention, router_gate, head; operands: x, W, dY; recipes as for precision.experts. "
      "For one GEMM: experts.dY.wgrad=bf16 (forward, dgrad or wgrad). For some layers: 2-3:experts.W=bf16. With "
      "rounding or rotation: experts.dY.wgrad=mxfp4+stochastic+rotated (nearest or stochastic, rotated or unrotated; a "
      "rotation applies to both operands of the GEMM). Later entries override earlier ones. Empty: none.")));
  t.add(live(field<&PrecisionConfig::layers_at_start_in_bf16>(
      "layers_at_start_in_bf16", "First BF16 layers", "layers", {0, 64},
      "Number of first layers whose GEMMs are all in BF16 (those in fp32 stay in FP32), whatever the recipes are. "
      "Megatron-LM: 1 where first_last_layers_bf16 is on. NVIDIA's 12B model in NVFP4: the first two of 62 blocks "
      "(arXiv:2509.25149, section 4.1); Nemotron 3 Super: 0 (Megatron Bridge).")));
  t.add(live(field<&PrecisionConfig::layers_at_end_in_bf16>(
      "layers_at_end_in_bf16", "Last BF16 layers", "layers", {0, 64},
      "Number of last layers whose GEMMs are all in BF16 (those in fp32 stay in FP32). NVIDIA's 12B model in NVFP4 "
      "(arXiv:2509.25149, section 4.1): the first two and the last eight of 62 blocks; Nemotron 3 Super: the last 14 "
      "of 88 (Megatron Bridge). The output head has its own format.")));
  t.add(live(field<&PrecisionConfig::bf16_from_step>(
      "bf16_from_step", "BF16 from step", "", {0, 1e12},
      "Step from which the operands named by late_bf16 are in BF16. With the forward pass in BF16 for the last 18 % of "
      "the training NVIDIA's 12B model in NVFP4 had a loss 0.5 % above that of FP8, in place of 1.5 % "
      "(arXiv:2509.25149, appendix D). 0: never.")));
  t.add(live(field<&PrecisionConfig::late_bf16>(
      "late_bf16", "Switched to BF16",
      "Only with bf16_from_step: the operands that are switched to BF16. forward: those of the forward pass; gradients "
      "keep their formats. all: every GEMM that is not in fp32.")));
  t.group("Stored formats");
  t.add(live(field<&PrecisionConfig::gate_output>(
      "gate_output", "Router outputs",
      "Format in which the router's outputs (logits) and their gradient are stored. bf16: rounded to BF16 (8 "
      "significant bits), as a BF16 GEMM returns them even if it accumulates in FP32. This changes more choices than "
      "BF16 operands do: with BF16 operands and FP32 outputs none of 8,192 choices changed (TorchTitan, issue 4273). "
      "fp32: as in TorchTitan and Megatron-LM with a router in FP32.")));
  t.add(live(field<&PrecisionConfig::activations>(
      "activations", "Activations",
      "Format in which the outputs of GEMMs, attention, SwiGLU and norms and their gradients are stored. bf16: "
      "rounded, as in BF16 training, where GEMMs accumulate in FP32 and store BF16. The setting applies to parts whose "
      "recipe is not fp32; weight gradients stay FP32. The sum over a token's experts is taken in FP32. fp32: only "
      "operands are rounded.")));
  t.add(live(field<&PrecisionConfig::residual>(
      "residual", "Residual stream",
      "Format of the residual stream between sub-layers and of its gradient. bf16: rounded after every addition, as in "
      "BF16 training; in a deep model a part of the output of late layers is lost. fp32: not rounded.")));
  t.add(live(field<&PrecisionConfig::norm_gains>(
      "norm_gains", "Norm gains",
      "Format in which norms use their weights; optimizer.master_format is the format in which the optimizer stores "
      "them. bf16: numbers near 1 are 0.004 to 0.008 apart. arXiv:2506.20752 traces instabilities in MX formats to the "
      "rounding of these gains. fp32: exact.")));
  return t.fields;
}

}  // namespace moescope
