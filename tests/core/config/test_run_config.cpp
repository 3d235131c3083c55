#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/config/operand_recipes.h"
#include "core/config/run_config.h"
#include "tests/support/configs.h"

namespace moescope {
namespace {

// Initializes a member of any type; an aggregate has as many members as it takes of these.
struct Anything {
  template <class T>
  operator T() const {
    return T();
  }
};
template <class Struct, class... Values>
constexpr std::size_t num_members() {
  if constexpr (requires { Struct{Values{}..., Anything{}}; })
    return num_members<Struct, Values..., Anything>();
  else
    return sizeof...(Values);
}

TEST(ConfigFields, AreCompleteAndUnique) {
  std::set<std::string> keys, labels;
  std::size_t derived = 0;
  for (const ConfigField& field : config_fields()) {
    derived += field.derived;
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(labels.insert(field.label).second) << field.label;
    EXPECT_FALSE(field.group.empty()) << field.key;
    EXPECT_GT(field.help.size(), 30u) << field.key;
    EXPECT_EQ(find_field(field.key), &field);
  }
  // Every member of RunConfig's structs has one key; the run itself has a name, a seed, a perturbation and
  // its products.
  static_assert(num_members<RunConfig>() == 4 + 7);
  EXPECT_EQ(derived, 1u) << "precision.published_recipe";
  EXPECT_EQ(keys.size() - derived, 4 + num_members<ModelConfig>() + num_members<RouterConfig>() +
                                       num_members<OptimizerConfig>() + num_members<PrecisionConfig>() +
                                       num_members<DataConfig>() + num_members<ParallelConfig>() +
                                       num_members<TelemetryConfig>());
  EXPECT_EQ(find_field("router.topk"), nullptr);
}

TEST(ConfigFields, EachSetsItsOwnMemberOnly) {
  for (const ConfigField& field : config_fields()) {
    if (field.derived) continue;
    RunConfig config;
    const ConfigValue value = other_value(field);
    field.set(config, value);
    for (const ConfigField& other_field : config_fields())
      EXPECT_EQ(other_field.get(config), &other_field == &field ? value : other_field.get(RunConfig{}))
          << field.key << " moved " << other_field.key;
  }
}

TEST(ConfigFields, LiveFieldsEqualFieldsOfTrainerApply) {
  std::set<std::string> live;
  for (const ConfigField& field : config_fields())
    if (field.live) live.insert(field.key);
  EXPECT_EQ(live, (std::set<std::string>{"optimizer.lr",
                                         "router.balance_rule",
                                         "router.bias_soft_clamp",
                                         "router.bias_momentum",
                                         "router.sequence_strength",
                                         "router.quantile_ema",
                                         "router.bias_update_rate",
                                         "router.bias_centring",
                                         "router.bias_format",
                                         "router.count_format",
                                         "router.count_padding",
                                         "router.fault_stale_bias",
                                         "router.fault_aux_loss",
                                         "router.fault_group_mask",
                                         "router.fault_recount",
                                         "optimizer.fault_expert_gradient",
                                         "router.aux_mode",
                                         "router.aux_coeff",
                                         "router.z_coeff",
                                         "router.top_k",
                                         "router.force_balance",
                                         "router.route_scale",
                                         "router.capacity_factor",
                                         "router.token_drop",
                                         "precision.experts",
                                         "precision.shared_experts",
                                         "precision.dense_ffn",
                                         "precision.attention",
                                         "precision.router_gate",
                                         "precision.head",
                                         "precision.rounding",
                                         "precision.hadamard",
                                         "precision.hadamard_gemms",
                                         "precision.hadamard_signs",
                                         "precision.stochastic_operands",
                                         "precision.nvfp4_rule",
                                         "precision.nvfp4_square_weights",
                                         "precision.nvfp4_four_over_six",
                                         "precision.payload",
                                         "precision.gate_output",
                                         "precision.activations",
                                         "precision.residual",
                                         "precision.norm_gains",
                                         "precision.override_x",
                                         "precision.override_w",
                                         "precision.override_dy",
                                         "precision.operands",
                                         "precision.published_recipe",
                                         "precision.layers_at_start_in_bf16",
                                         "precision.layers_at_end_in_bf16",
                                         "precision.bf16_from_step",
                                         "precision.late_bf16",
                                         "telemetry.every",
                                         "telemetry.quant_every",
                                         "telemetry.flips_every",
                                         "telemetry.checkpoint_every",
                                         "telemetry.checkpoints_kept",
                                         "telemetry.gradient_every",
                                         "telemetry.validation_every",
                                         "router.score_func",
                                         "router.n_groups",
                                         "router.n_limited_groups",
                                         "router.route_norm",
                                         "router.gate_noise",
                                         "router.frozen",
                                         "router.killed_experts",
                                         "router.pinned_bias",
                                         "optimizer.router_lr_factor",
                                         "optimizer.qk_clip",
                                         "data.mixture",
                                         "parallel.placement",
                                         "telemetry.probe",
                                         "telemetry.sample_every",
                                         "telemetry.sample_length",
                                         "telemetry.sample_temperature",
                                         "telemetry.specialisation_every",
                                         "telemetry.texts_every"}));
}

TEST(ConfigFields, EveryRecipeMayBeChosen) {
  for (const RecipeInfo& info : recipes()) {
    RunConfig config;
    find_field("precision.attention")->set(config, std::string(info.name));
    EXPECT_EQ(config.precision.attention, info.recipe);
    EXPECT_EQ(find_field("precision.attention")->get(config), ConfigValue(std::string(info.name)));
  }
}

TEST(ConfigFields, FormatsInPlaceOfTheRecipesAreTheNamedOnesForTraining) {
  const ConfigField& field = *find_field("precision.override_dy");
  for (const char* stored :
       {"none", "fp32", "bf16", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4"})
    EXPECT_EQ(std::ranges::count(field.choices, stored), 1) << stored << " is in configs that people have";
  EXPECT_EQ(std::ranges::count(field.choices, "mxint8"), 0);
  for (const std::string& choice : field.choices) {
    RunConfig config;
    field.set(config, choice);
    EXPECT_EQ(field.get(config), ConfigValue(choice));
    EXPECT_EQ(config.precision.override_dy.has_value(), choice != "none");
  }
}

TEST(Difference, NamesKeysAndValues) {
  RunConfig a, b;
  b.name = "other";
  EXPECT_TRUE(difference(a, b).empty()) << "a name is no setting";
  b.precision.experts = Recipe::mxfp8_rceil;
  b.router.top_k = 4;
  b.router.bias_centring = false;
  EXPECT_EQ(difference(a, b), (std::vector<ConfigDifference>{
                                  {&RouterConfig::top_k, "2", "4"},
                                  {&RouterConfig::bias_centring, "true", "false"},
                                  {&PrecisionConfig::experts, "fp32", "mxfp8_rceil"},
                              }));
}

TEST(Difference, NoiseTwinsDifferInNothingButChance) {
  RunConfig a, b;
  EXPECT_FALSE(is_noise_twin(a, b)) << "the same run twice shows no noise";
  b.seed = 2;
  b.telemetry.gradient_every = 5;
  b.parallel.ranks = 4;
  EXPECT_TRUE(is_noise_twin(a, b));
  b.optimizer.lr *= 2;
  EXPECT_FALSE(is_noise_twin(a, b));
}

TEST(Difference, TwinsAreNamedAfterChangedSettings) {
  RunConfig a;
  a.name = "nano";
  RunConfig b = a;
  b.precision.experts = Recipe::mxfp8_rceil;
  b.router.top_k = 4;
  EXPECT_EQ(twin_name(a, b), "nano+top_k-4+mxfp8_rceil");
  b.data.path = std::string(100, '/');
  EXPECT_EQ(twin_name(a, b).size(), 64u);
  b.name = twin_name(a, b);
  EXPECT_TRUE(check_field(*find_field("name"), b.name).empty());
  const RunConfig noise = noise_twin(a);
  EXPECT_TRUE(is_noise_twin(a, noise));
  EXPECT_EQ(noise.name, "nano+seed-2");
  EXPECT_FALSE(same_start(a, noise));
  const RunConfig perturbed = perturbed_twin(a);
  EXPECT_TRUE(is_noise_twin(a, perturbed));
  EXPECT_TRUE(same_start(a, perturbed));
  EXPECT_EQ(perturbed.name, "nano+perturbation-1");
  EXPECT_EQ(perturbed_twin(perturbed).perturbation, 2);
  a.seed = std::int64_t{1} << 53;
  EXPECT_TRUE(validate(noise_twin(a)).empty());
}

TEST(DenseTwin, HasAsManyWeightsAsItSays) {
  for (const char* preset : {"nano", "small", "mini-v3", "mini-Qwen3-Next", "mini-Nemotron-3-Super"}) {
    const RunConfig first = load_preset(preset).config;
    const double rounding = 16 * 3.0 * first.model.dim * first.model.n_layers;
    // A model with as many experts as a token uses has exactly the weights that it multiplies, except rows of the gate.
    RunConfig without_idle = first;
    without_idle.model.n_experts = first.router.top_k;
    const double rows = double(first.model.n_experts) * first.model.dim * first.model.n_layers;

    const RunConfig active = dense_twin(first, DenseSize::active), total = dense_twin(first, DenseSize::total);
    EXPECT_NEAR(parameter_count(active), parameter_count(without_idle), rounding + rows) << preset;
    EXPECT_NEAR(parameter_count(total), parameter_count(first), rounding) << preset;
    for (const RunConfig& twin : {active, total}) {
      EXPECT_EQ(twin.model.n_dense_layers, first.model.n_layers) << preset;
      EXPECT_TRUE(validate(twin).empty()) << preset << ": " << validate(twin).front().message;
    }
    EXPECT_EQ(dense_size(first, active), DenseSize::active) << preset;
    EXPECT_EQ(dense_size(first, total), DenseSize::total) << preset;
    EXPECT_EQ(dense_size(first, perturbed_twin(first)), std::nullopt) << preset;
    EXPECT_EQ(twin_name(first, active), first.name + "+dense-active");
  }
}

TEST(DenseTwin, MultipliesInTheExpertsFormat) {
  RunConfig first = load_preset("small").config;
  first.precision.experts = Recipe::mxfp4;
  first.router.killed_experts = "1:5";
  const RunConfig twin = dense_twin(first, DenseSize::active);
  EXPECT_EQ(twin.precision.dense_ffn, Recipe::mxfp4);
  EXPECT_EQ(twin.precision.experts, Recipe::fp32);
  EXPECT_TRUE(validate(twin).empty()) << validate(twin).front().message;
}

TEST(CheckField, RefusesOtherTypesAndRanges) {
  const ConfigField& top_k = *find_field("router.top_k");
  EXPECT_EQ(check_field(top_k, std::int64_t{3}), "");
  EXPECT_EQ(check_field(top_k, std::int64_t{0}), "is 0; allowed: 1 to 64");
  EXPECT_EQ(check_field(top_k, 2.0), "is 2; allowed: a whole number, 1 to 64");
  const ConfigField& lr = *find_field("optimizer.lr");
  EXPECT_EQ(check_field(lr, -0.5), "is -0.5; allowed: 0 to 1");
  EXPECT_EQ(check_field(lr, std::nan("")), "is nan; allowed: 0 to 1");
  EXPECT_NE(check_field(lr, INFINITY), "");
  const ConfigField& aux = *find_field("router.aux_mode");
  EXPECT_EQ(check_field(aux, std::string("off")), "is \"off\"; allowed: \"none\", \"sequence\" or \"batch\"");
  EXPECT_EQ(check_field(aux, true), "is true; allowed: \"none\", \"sequence\" or \"batch\"");
  const ConfigField& name = *find_field("name");
  EXPECT_NE(check_field(name, std::string("../x")), "");
  EXPECT_NE(check_field(name, std::string("")), "");
  const ConfigField& path = *find_field("data.path");
  EXPECT_EQ(check_field(path, std::string("/tmp/B\xC3\xBC"
                                          "cher")),
            "");
  EXPECT_NE(check_field(path, std::string("a\nb")), "");
  EXPECT_NE(check_field(path, std::string("\xC3(")), "");
  EXPECT_NE(check_field(path, std::string("\xED\xA0\x80")), "") << "a surrogate";
}

TEST(ParseValue, ReadsTextOfTheFieldsType) {
  EXPECT_EQ(parse_value(*find_field("optimizer.lr"), "2e-3"), ConfigValue(2e-3));
  EXPECT_EQ(parse_value(*find_field("router.top_k"), "4"), ConfigValue(std::int64_t{4}));
  EXPECT_EQ(parse_value(*find_field("router.route_norm"), "false"), ConfigValue(false));
  EXPECT_EQ(parse_value(*find_field("router.aux_mode"), "batch"), ConfigValue(std::string("batch")));
  EXPECT_THROW(parse_value(*find_field("router.top_k"), "4.5"), std::invalid_argument);
  EXPECT_THROW(parse_value(*find_field("router.top_k"), ""), std::invalid_argument);
  EXPECT_THROW(parse_value(*find_field("router.route_norm"), "1"), std::invalid_argument);
}

TEST(TwinName, NamesAFormatOfSeveralClassesOnce) {
  RunConfig first, twin;
  twin.precision.experts = twin.precision.attention = Recipe::mxfp4;
  EXPECT_EQ(twin_name(first, twin), "run+mxfp4");
  twin.router.top_k = 3;
  EXPECT_EQ(twin_name(first, twin), "run+top_k-3+mxfp4");
}

TEST(OperandRecipes, RoundTripAndErrorsNameAllowedRecipes) {
  const std::string text = "experts.dY=mxfp8_e5m2_grad, attention.W=bf16";
  const auto recipes = parse_operand_recipes(text);
  ASSERT_EQ(recipes.size(), 2u);
  EXPECT_EQ(recipes[1], (OperandRecipe{GemmClass::attention, OperandRole::w, Recipe::bf16}));
  EXPECT_EQ(operand_recipes_text(recipes), text);
  EXPECT_TRUE(parse_operand_recipes(" ").empty());
  EXPECT_EQ(parse_operand_recipes("experts.dY=mxfp8_e5m2_grad; attention.W=bf16"), recipes);
  const auto refused = [](const char* entry) {
    RunConfig config;
    config.precision.operands = entry;
    const auto problems = validate(config);
    return problems.size() == 1 && problems[0].key == "precision.operands" ? problems[0].message : std::string();
  };
  EXPECT_NE(refused("gate.x=bf16").find("router_gate"), std::string::npos);
  EXPECT_NE(refused("head.y=bf16").find("x, W, dY"), std::string::npos);
  EXPECT_NE(refused("head.x=int3").find("mxfp6_e2m3"), std::string::npos);
  EXPECT_NE(refused("head.x").find("CLASS.OPERAND=RECIPE"), std::string::npos);
  EXPECT_NE(refused("head=x.bf16").find("CLASS.OPERAND=RECIPE"), std::string::npos);
  const std::string single = "experts.dY.wgrad=bf16, 2-3:experts.W.forward=mxfp4, 1:attention.x=fp32";
  const auto narrow = parse_operand_recipes(single);
  EXPECT_EQ(operand_recipes_text(narrow), single);
  EXPECT_EQ(narrow[1], (OperandRecipe{GemmClass::experts, OperandRole::w, Recipe::mxfp4, Direction::forward, {2, 3}}));
  EXPECT_EQ(parse_operand_recipes("head.x.fprop=bf16")[0].gemm, Direction::forward);
  EXPECT_NE(refused("experts.x.dgrad=bf16").find("dgrad does not read x"), std::string::npos);
  EXPECT_NE(refused("experts.x.sideways=bf16").find("forward (or fprop), dgrad, wgrad"), std::string::npos);
  EXPECT_NE(refused("3-2:experts.x=bf16").find("ends before it begins"), std::string::npos);
  EXPECT_NE(refused("two:experts.x=bf16").find("such as 2 or 2-5"), std::string::npos);
  EXPECT_NE(refused("1:head.x=bf16").find("not part of a layer"), std::string::npos);
  EXPECT_NE(refused("2-9:experts.x=bf16").find("layers 0 to 3"), std::string::npos);
  const std::string own_roundings =
      "experts.dY.wgrad=mxfp4+stochastic+rotated, experts.x.wgrad=mxfp4+nearest, head.W=nvfp4+unrotated";
  const auto rounded = parse_operand_recipes(own_roundings);
  EXPECT_EQ(operand_recipes_text(rounded), own_roundings);
  EXPECT_EQ(rounded[0].rounding, Rounding::stochastic);
  EXPECT_EQ(rounded[0].rotated, true);
  EXPECT_EQ(rounded[1].rotated, std::nullopt);
  EXPECT_NE(refused("experts.x=mxfp4+turned").find("+nearest or +stochastic, and +rotated or +unrotated"),
            std::string::npos);
  EXPECT_NE(refused("experts.x=mxfp4+").find("+rotated or +unrotated"), std::string::npos);
  EXPECT_NE(refused("experts.dY.wgrad=mxfp4+rotated, experts.x.wgrad=mxfp4+unrotated").find("does not cancel"),
            std::string::npos);
  RunConfig odd;
  odd.model.moe_inter = 40;
  odd.precision.operands = "experts.W=mxfp4";
  EXPECT_EQ(validate(odd).size(), 1u) << "40 values do not fill blocks of 32";
}

}  // namespace
}  // namespace moescope
