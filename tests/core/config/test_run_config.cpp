#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/config/operand_recipes.h"
#include "core/config/run_config.h"

namespace moescope {
namespace {

std::string all_text(const std::vector<ConfigProblem>& problems) {
  std::string text;
  for (const ConfigProblem& problem : problems) text += problem.text() + '\n';
  return text;
}

void expect_equal(const RunConfig& a, const RunConfig& b) {
  for (const ConfigField& field : config_fields()) EXPECT_EQ(field.get(a), field.get(b)) << field.key;
}

// A value of the field's type and range, other than the default.
ConfigValue other_value(const ConfigField& field) {
  const ConfigValue usual = field.get(RunConfig{});
  if (const bool* flag = std::get_if<bool>(&usual)) return !*flag;
  if (!field.choices.empty())
    return field.choices.back() == std::get<std::string>(usual) ? field.choices.front() : field.choices.back();
  if (field.key == "parallel.placement") return std::string("1:0,1;2:1,0");
  if (std::holds_alternative<std::string>(usual)) return std::string("a-b_c.d+1");
  if (std::holds_alternative<std::int64_t>(usual)) return static_cast<std::int64_t>(field.max);
  return field.min + (field.max - field.min) / 3;
}

// Members of an aggregate: the most initializers that it takes.
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
  for (const ConfigField& field : config_fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(labels.insert(field.label).second) << field.label;
    EXPECT_FALSE(field.group.empty()) << field.key;
    EXPECT_GT(field.help.size(), 30u) << field.key;
    EXPECT_EQ(find_field(field.key), &field);
  }
  // One for each member of RunConfig's structs; the run itself has a name, a seed and a perturbation.
  static_assert(num_members<RunConfig>() == 3 + 7);
  EXPECT_EQ(keys.size(), 3 + num_members<ModelConfig>() + num_members<RouterConfig>() + num_members<OptimizerConfig>() +
                             num_members<PrecisionConfig>() + num_members<DataConfig>() +
                             num_members<ParallelConfig>() + num_members<TelemetryConfig>());
  EXPECT_EQ(find_field("router.topk"), nullptr);
}

TEST(ConfigFields, EachSetsItsOwnMemberOnly) {
  for (const ConfigField& field : config_fields()) {
    RunConfig config;
    const ConfigValue value = other_value(field);
    field.set(config, value);
    for (const ConfigField& seen : config_fields())
      EXPECT_EQ(seen.get(config), &seen == &field ? value : seen.get(RunConfig{}))
          << field.key << " moved " << seen.key;
  }
}

TEST(ConfigFields, LiveOnesAreThoseThatATrainerCanTakeOver) {
  std::set<std::string> live;
  for (const ConfigField& field : config_fields())
    if (field.live) live.insert(field.key);
  EXPECT_EQ(live, (std::set<std::string>{"optimizer.lr",
                                         "router.balance_rule",
                                         "router.quantile_ema",
                                         "router.bias_update_rate",
                                         "router.bias_centring",
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
                                         "precision.override_x",
                                         "precision.override_w",
                                         "precision.override_dy",
                                         "precision.operands",
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
                                  {"router.top_k", find_field("router.top_k")->label, "2", "4"},
                                  {"router.bias_centring", find_field("router.bias_centring")->label, "true", "false"},
                                  {"precision.experts", find_field("precision.experts")->label, "fp32", "mxfp8_rceil"},
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

TEST(Difference, TwinsAreNamedAfterWhatDiffers) {
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

TEST(CheckField, RefusesOtherTypesAndRanges) {
  const ConfigField& top_k = *find_field("router.top_k");
  EXPECT_EQ(check_field(top_k, std::int64_t{3}), "");
  EXPECT_EQ(check_field(top_k, std::int64_t{0}), "is 0, allowed is 1 to 64");
  EXPECT_EQ(check_field(top_k, 2.0), "is 2, allowed is a whole number, 1 to 64");
  const ConfigField& lr = *find_field("optimizer.lr");
  EXPECT_EQ(check_field(lr, -0.5), "is -0.5, allowed is 0 to 1");
  EXPECT_EQ(check_field(lr, std::nan("")), "is nan, allowed is 0 to 1");
  EXPECT_NE(check_field(lr, INFINITY), "");
  const ConfigField& aux = *find_field("router.aux_mode");
  EXPECT_EQ(check_field(aux, std::string("off")), "is \"off\", allowed is \"none\", \"sequence\" or \"batch\"");
  EXPECT_EQ(check_field(aux, true), "is true, allowed is \"none\", \"sequence\" or \"batch\"");
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

TEST(Toml, EveryFieldSurvivesWritingAndReading) {
  for (const ConfigField& field : config_fields()) {
    RunConfig config;
    field.set(config, other_value(field));
    const ParsedConfig read = parse_config(to_toml(config), "x.toml");
    expect_equal(read.config, config);
  }
}

TEST(Toml, AwkwardNumbersAndTextSurvive) {
  RunConfig config;
  config.seed = 9007199254740991;
  config.optimizer.lr = 0.1 + 0.2;
  config.optimizer.lr_min = 5e-324;
  config.optimizer.eps = 1e-8;
  config.model.rope_theta = 1e6;
  config.data.path = "a \"quoted\" \\ path # with [brackets] and \xC3\xBC";
  const ParsedConfig read = parse_config(to_toml(config), "x.toml");
  EXPECT_EQ(all_text(read.problems), "");
  expect_equal(read.config, config);
}

TEST(Toml, IsCommentedAndReadable) {
  const std::string text = to_toml(RunConfig{});
  for (const ConfigField& field : config_fields())
    EXPECT_NE(text.find(field.help.substr(0, 20)), std::string::npos) << field.key;
  EXPECT_NE(text.find("[router]"), std::string::npos);
  EXPECT_NE(text.find("# Allowed: 1 to 64 experts; can be changed while it trains.\ntop_k = 2\n"), std::string::npos);
}

TEST(ParseConfig, ReportsAllProblemsAtOnceWithTheirLines) {
  const ParsedConfig parsed = parse_config(R"(name = "bad"
sed = 3
[model]
dim = "wide"
n_experts = 16
[router]
top_k = 20
topk = 4
lr = 1e-3
[optimizer]
lr = 7
warmup_steps = 5000
[rooter]
x = 1
)",
                                           "run.toml");
  EXPECT_EQ(all_text(parsed.problems),
            "run.toml:2: sed: no such key, did you mean seed?\n"
            "run.toml:4: model.dim: is \"wide\", allowed is a whole number, 8 to 8192\n"
            "run.toml:8: router.topk: no such key, did you mean router.top_k?\n"
            "run.toml:9: router.lr: no such key, did you mean optimizer.lr?\n"
            "run.toml:11: optimizer.lr: is 7, allowed is 0 to 1\n"
            "run.toml:13: rooter: no such section, allowed are [model], [router], [optimizer], [precision], [data], "
            "[parallel], [telemetry]\n"
            "run.toml:7: router.top_k: top_k is 20, but there are 16 experts: choose 1 to 16\n"
            "run.toml:12: optimizer.warmup_steps: warmup_steps is 5000, but the schedule has only 2000 steps "
            "(total_steps): choose 0 to 2000\n");
}

TEST(ParseConfig, RuleIsReportedAtTheLineThatWasWritten) {
  // top_k is at its default; the line that made it wrong is that of n_experts.
  const ParsedConfig parsed =
      parse_config("[model]\n\nn_experts = 8\n[parallel]\nranks = 4\n[router]\ntop_k = 9\n", "f");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].line, 7);
  const ParsedConfig implied = parse_config("[model]\n\nn_experts = 12\n", "f");
  ASSERT_EQ(implied.problems.size(), 1u);
  EXPECT_EQ(implied.problems[0].text(),
            "f:3: model.n_experts: ranks is 8, but the 12 experts must spread evenly: choose a divisor of 12");
}

TEST(ParseConfig, TypesThatAreNoValues) {
  const ParsedConfig parsed = parse_config("seed = [1]\n[router]\ntop_k = {a = 1}\nn_groups = 1979-05-27\n", "f");
  EXPECT_EQ(all_text(parsed.problems),
            "f:1: seed: is an array, allowed is one value\nf:3: router.top_k: is a section, allowed is one value\n"
            "f:4: router.n_groups: is a date or time, allowed is a number, text, true or false\n");
  EXPECT_NE(all_text(parse_config("model = 3\n", "f").problems), "");
  EXPECT_NE(all_text(parse_config("[router.top_k]\nx = 1\n", "f").problems), "");
  EXPECT_NE(all_text(parse_config("[model.sub]\nx = 1\n", "f").problems), "");
}

TEST(ParseConfig, SyntaxErrorsHaveALine) {
  const ParsedConfig parsed = parse_config("name = \"x\"\n[model\ndim = 3\n", "broken.toml");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].line, 2);
  EXPECT_NE(parsed.problems[0].text().find("broken.toml:2: not TOML: "), std::string::npos);
  EXPECT_FALSE(parse_config(std::string(1000, '['), "f").problems.empty());
  EXPECT_FALSE(parse_config(std::string("a = \"\0\"", 8), "f").problems.empty());
  EXPECT_FALSE(parse_config("seed = 1\nseed = 2\n", "f").problems.empty());
  EXPECT_FALSE(parse_config("seed = 99999999999999999999\n", "f").problems.empty());
}

TEST(LoadConfig, FilesThatCannotBeRead) {
  EXPECT_EQ(all_text(load_config("/nonexistent/x.toml").problems), "/nonexistent/x.toml: no such file\n");
  EXPECT_EQ(all_text(load_config("/tmp").problems), "/tmp: is a folder, expected a TOML file\n");
  EXPECT_EQ(all_text(load_config("/dev/zero").problems), "/dev/zero: is a device, expected a file\n");
}

struct RuleCase {
  const char* key;
  void (*spoil)(RunConfig&);
};
class Rules : public testing::TestWithParam<RuleCase> {};
TEST_P(Rules, AreCheckedOnTheirOwn) {
  RunConfig config;
  ASSERT_EQ(all_text(validate(config)), "");
  GetParam().spoil(config);
  const auto problems = validate(config);
  ASSERT_EQ(problems.size(), 1u) << all_text(problems);
  EXPECT_EQ(problems[0].key, GetParam().key) << all_text(problems);
  EXPECT_NE(problems[0].message.find("choose"), std::string::npos) << problems[0].text();
}
INSTANTIATE_TEST_SUITE_P(
    Config, Rules,
    testing::Values(RuleCase{"router.top_k", [](RunConfig& c) { c.router.top_k = 17; }},
                    RuleCase{"router.n_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 3;
                               c.router.n_limited_groups = 1;
                             }},
                    RuleCase{"router.n_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 16;
                               c.router.n_limited_groups = 4;
                             }},
                    RuleCase{"router.n_limited_groups", [](RunConfig& c) { c.router.n_limited_groups = 2; }},
                    RuleCase{"router.n_limited_groups",
                             [](RunConfig& c) {
                               c.router.n_groups = 4;
                               c.router.n_limited_groups = 5;
                             }},
                    RuleCase{"router.token_drop", [](RunConfig& c) { c.router.token_drop = TokenDrop::probs; }},
                    RuleCase{"router.n_hash_layers", [](RunConfig& c) { c.router.n_hash_layers = 4; }},
                    RuleCase{"router.n_hash_layers",
                             [](RunConfig& c) {
                               c.router.n_hash_layers = 1;
                               c.router.force_balance = true;
                             }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.n_hash_layers = 1;
                               c.router.killed_experts = "2:3";
                             }},
                    RuleCase{"router.killed_experts", [](RunConfig& c) { c.router.killed_experts = "1:16"; }},
                    RuleCase{"router.killed_experts", [](RunConfig& c) { c.router.killed_experts = "0:1"; }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.killed_experts = "2:0, 2:1, 2:2";
                               c.router.top_k = 14;
                             }},
                    RuleCase{"router.killed_experts",
                             [](RunConfig& c) {
                               c.router.killed_experts = "*:4, *:5, *:6";
                               c.router.n_groups = 4;
                               c.router.n_limited_groups = 1;
                             }},
                    RuleCase{"router.pinned_bias", [](RunConfig& c) { c.router.pinned_bias = "2:3=1e9"; }},
                    RuleCase{"router.initial_bias", [](RunConfig& c) { c.router.initial_bias = "*:77=1"; }},
                    RuleCase{"model.outlier_channel",
                             [](RunConfig& c) {
                               c.model.outlier_channel = 128;
                               c.model.outlier_factor = 300;
                             }},
                    RuleCase{"data.mixture", [](RunConfig& c) { c.data.mixture = "klingon=1"; }},
                    RuleCase{"data.mixture",
                             [](RunConfig& c) {
                               c.data.generator = Generator::facts;
                               c.data.mixture = "code=1";
                             }},
                    RuleCase{"parallel.placement", [](RunConfig& c) { c.parallel.placement = "1:0,1"; }},
                    RuleCase{"data.mixture", [](RunConfig& c) { c.data.mixture = "*=0"; }},
                    RuleCase{"model.n_dense_layers", [](RunConfig& c) { c.model.n_dense_layers = 5; }},
                    RuleCase{"model.qk_rope_head_dim", [](RunConfig& c) { c.model.qk_rope_head_dim = 15; }},
                    RuleCase{"parallel.ranks", [](RunConfig& c) { c.parallel.ranks = 3; }},
                    RuleCase{"parallel.ranks",
                             [](RunConfig& c) {
                               c.parallel.ranks = 16;
                               c.data.batch = 1;
                               c.data.seq = 15;
                             }},
                    RuleCase{"parallel.ranks_per_node", [](RunConfig& c) { c.parallel.ranks_per_node = 3; }},
                    RuleCase{"optimizer.warmup_steps", [](RunConfig& c) { c.optimizer.warmup_steps = 2001; }},
                    RuleCase{"optimizer.lr_min", [](RunConfig& c) { c.optimizer.lr_min = 0.1; }},
                    RuleCase{"model.dim",
                             [](RunConfig& c) {
                               c.model.dim = 136;
                               c.precision.experts = Recipe::mxfp8_floor;
                             }},
                    RuleCase{"model.moe_inter",
                             [](RunConfig& c) {
                               c.model.moe_inter = 100;
                               c.precision.experts = Recipe::mxfp8_rceil;
                             }},
                    RuleCase{"model.dense_inter",
                             [](RunConfig& c) {
                               c.model.dense_inter = 392;
                               c.precision.dense_ffn = Recipe::nvfp4;
                             }},
                    RuleCase{"model.moe_inter",
                             [](RunConfig& c) {
                               c.model.moe_inter = 112;
                               c.precision.shared_experts = Recipe::mxfp4;
                             }},
                    RuleCase{"precision.experts",
                             [](RunConfig& c) {
                               c.model.n_dense_layers = 4;
                               c.precision.experts = Recipe::mxfp8_rceil;
                             }},
                    RuleCase{"model.dim", [](RunConfig& c) {
                               c.model.dim = 8192;
                               c.model.moe_inter = 16384;
                               c.model.n_experts = 1024;
                             }}));

// NVFP4's blocks are half as long as MX's, other scales take any length, and so do attention, gate and head.
TEST(Rules, RecipesAskForWhatTheirBlocksNeed) {
  RunConfig config;
  config.model.moe_inter = 112;
  config.precision.experts = config.precision.shared_experts = Recipe::nvfp4;
  config.precision.dense_ffn = config.precision.attention = config.precision.head = Recipe::mxfp8_rceil;
  config.precision.router_gate = Recipe::mxfp4;
  EXPECT_TRUE(validate(config).empty());
  config.model.moe_inter = 100;
  EXPECT_FALSE(validate(config).empty());
  config.precision.experts = config.precision.shared_experts = Recipe::fp8_deepseek_128;
  EXPECT_TRUE(validate(config).empty());
}

TEST(Rules, QuantilesAskForWhatTheyCut) {
  RunConfig config;
  config.router.balance_rule = BalanceRule::quantile_batch;
  EXPECT_TRUE(validate(config).empty());
  const auto refused = [&](auto change) {
    RunConfig changed = config;
    change(changed.router);
    return all_text(validate(changed));
  };
  EXPECT_EQ(refused([](RouterConfig& r) { r.score_func = ScoreFunc::softmax; }),
            "router.balance_rule: balance_rule is quantile_batch, whose histogram is made for scores from 0 to 1 of "
            "experts that do not compete: choose score_func sigmoid, or another rule\n");
  for (const BalanceRule rule : {BalanceRule::quantile_batch, BalanceRule::quantile_microbatch}) {
    config.router.balance_rule = rule;
    EXPECT_FALSE(refused([](RouterConfig& r) { r.n_groups = 4, r.n_limited_groups = 2; }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.force_balance = true; }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.gate_noise = 0.1; }).empty());
    EXPECT_FALSE(refused([](RouterConfig& r) { r.top_k = 16; }).empty());
    EXPECT_TRUE(refused([](RouterConfig& r) { r.n_groups = 4; }).empty());  // limits nothing
  }
  EXPECT_TRUE(refused([](RouterConfig& r) { r.score_func = ScoreFunc::softmax; }).empty());
}

TEST(Rules, FourOverSixChoosesBetweenScalesOfTransformerEngine) {
  RunConfig config;
  config.precision.nvfp4_four_over_six = FourOverSixChoice::mae_256;
  for (const Nvfp4Rule rule : {Nvfp4Rule::divided, Nvfp4Rule::torchao, Nvfp4Rule::torchao_one_level}) {
    config.precision.nvfp4_rule = rule;
    EXPECT_EQ(all_text(validate(config)),
              "precision.nvfp4_four_over_six: nvfp4_four_over_six chooses between two scales of TransformerEngine: "
              "choose nvfp4_rule transformer_engine, or off\n");
  }
  config.precision.nvfp4_rule = Nvfp4Rule::transformer_engine;
  EXPECT_TRUE(validate(config).empty());
}

TEST(MemoryEstimate, OfMuonHasRoomForItsLargestMatrix) {
  RunConfig config;
  const double by_adamw = memory_estimate(config);
  config.optimizer.name = OptimizerName::muon;
  const double by_muon = memory_estimate(config);
  EXPECT_GT(by_muon, by_adamw);
  config.model.dense_inter *= 2;
  EXPECT_GT(memory_estimate(config) - by_muon, 0);
}

TEST(Rules, TooLittleReachableExperts) {
  RunConfig config;
  config.router.n_groups = 8;
  config.router.n_limited_groups = 2;
  config.router.top_k = 6;
  EXPECT_EQ(all_text(validate(config)),
            "router.n_limited_groups: n_limited_groups is 2, which leaves a token 4 experts, but top_k is 6: raise "
            "n_limited_groups or lower top_k\n");
}

TEST(Rules, WildValuesNeverCrash) {
  for (const ConfigField& field : config_fields()) {
    for (const std::int64_t wild :
         {std::int64_t{-2147483648}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{2147483647}}) {
      RunConfig config;
      const std::size_t type = field.get(config).index();
      if (type == 1) field.set(config, wild);
      if (type == 2) field.set(config, wild == 0 ? std::nan("") : double(wild) * 1e300);
      validate(config);
    }
  }
}

TEST(Memory, EstimateCountsParameters) {
  RunConfig v3;  // DeepSeek-V3, whose 671,026,404,352 parameters include 58 layers x 256 experts
  v3.model = {.vocab = 129280,
              .dim = 7168,
              .n_layers = 61,
              .n_dense_layers = 3,
              .dense_inter = 18432,
              .n_heads = 128,
              .q_lora_rank = 1536,
              .kv_lora_rank = 512,
              .qk_nope_head_dim = 128,
              .qk_rope_head_dim = 64,
              .v_head_dim = 128,
              .rope_theta = 1e4,
              .norm_eps = 1e-5,
              .n_experts = 256,
              .moe_inter = 2048,
              .n_shared = 1};
  EXPECT_EQ(parameter_count(v3), 671026404352.0);
  EXPECT_GT(memory_estimate(v3), 16 * 671026404352.0);
}

TEST(Memory, RefusalSaysHowMuch) {
  RunConfig config;
  config.model.dim = 8192;
  config.model.moe_inter = 16384;
  config.model.n_experts = 1024;
  const auto problems = validate(config);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].message.find(" GiB of memory, and this machine has "), std::string::npos)
      << problems[0].message;
}

TEST(ParseConfig, TwinsAreTheRunWithTheirDifferences) {
  const ParsedConfig parsed = parse_config(
      "preset = \"nano\"\nseed = 4\n[[compare]]\nname = \"other\"\nrouter.top_k = 3\n[[compare]]\nseed = 5\n", "f");
  EXPECT_EQ(all_text(parsed.problems), "");
  EXPECT_EQ(parsed.config.model.dim, load_preset("nano").config.model.dim);
  EXPECT_EQ(parsed.config.seed, 4);
  ASSERT_EQ(parsed.twins.size(), 2u);
  EXPECT_EQ(parsed.twins[0].name, "other");
  EXPECT_EQ(parsed.twins[0].router.top_k, 3);
  EXPECT_EQ(parsed.twins[0].seed, 4);
  EXPECT_EQ(parsed.twins[1].name, "nano+seed-5");
}

TEST(ParseConfig, TwinsThatCannotBe) {
  const auto problems = [](const char* text) { return all_text(parse_config(text, "f").problems); };
  EXPECT_EQ(problems("[[compare]]\nname = \"x\"\n"),
            "f:1: compare: differs in nothing from the run that it is compared with\n");
  EXPECT_EQ(problems("[[compare]]\ndata.batch = 2\n"),
            "f:2: data.batch: runs that are compared read the same batches\n");
  EXPECT_EQ(problems("[[compare]]\nrouter.top_k = 17\n"),
            "f:2: router.top_k: top_k is 17, but there are 16 experts: choose 1 to 16\n");
  EXPECT_EQ(problems("[[compare]]\nrouter.topk = 9\n"), "f:2: router.topk: no such key, did you mean router.top_k?\n");
  EXPECT_EQ(problems("[[compare]]\npreset = \"nano\"\n"), "f:2: preset: no such key, did you mean seed?\n");
  EXPECT_EQ(problems("compare = 3\n"),
            "f:1: compare: expected [[compare]] with the settings in which a twin differs\n");
  EXPECT_EQ(problems("preset = \"huge\"\n").substr(0, 42), "f:1: preset: is \"huge\", allowed are nano, ");
  EXPECT_EQ(problems("preset = 3\n"), "f:1: preset: is not text; expected the name of a preset\n");
  std::string many;
  for (int seed = 2; seed < 18; ++seed) many += "[[compare]]\nseed=" + std::to_string(seed) + "\n";
  EXPECT_EQ(problems(many.c_str()), "");
  many += "[[compare]]\nseed=18\n";
  EXPECT_EQ(problems(many.c_str()), "f:1: compare: holds 17 twins, allowed are 16\n");
}

TEST(TwinName, NamesAFormatOfSeveralClassesOnce) {
  RunConfig first, twin;
  twin.precision.experts = twin.precision.attention = Recipe::mxfp4;
  EXPECT_EQ(twin_name(first, twin), "run+mxfp4");
  twin.router.top_k = 3;
  EXPECT_EQ(twin_name(first, twin), "run+top_k-3+mxfp4");
}

TEST(OperandRecipes, AreReadWrittenAndRefusedWithWhatIsAllowed) {
  const std::string text = "experts.dY=mxfp8_e5m2_grad, attention.W=bf16";
  const auto recipes = parse_operand_recipes(text);
  ASSERT_EQ(recipes.size(), 2u);
  EXPECT_EQ(recipes[1], (OperandRecipe{GemmClass::attention, Operand::w, Recipe::bf16}));
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
  EXPECT_EQ(narrow[1], (OperandRecipe{GemmClass::experts, Operand::w, Recipe::mxfp4, Direction::forward, {2, 3}}));
  EXPECT_EQ(parse_operand_recipes("head.x.fprop=bf16")[0].gemm, Direction::forward);
  EXPECT_NE(refused("experts.x.dgrad=bf16").find("dgrad does not read x"), std::string::npos);
  EXPECT_NE(refused("experts.x.sideways=bf16").find("forward (or fprop), dgrad, wgrad"), std::string::npos);
  EXPECT_NE(refused("3-2:experts.x=bf16").find("ends before it begins"), std::string::npos);
  EXPECT_NE(refused("two:experts.x=bf16").find("such as 2 or 2-5"), std::string::npos);
  EXPECT_NE(refused("1:head.x=bf16").find("of no layer"), std::string::npos);
  EXPECT_NE(refused("2-9:experts.x=bf16").find("layers 0 to 3"), std::string::npos);
  RunConfig odd;
  odd.model.moe_inter = 40;
  odd.precision.operands = "experts.W=mxfp4";
  EXPECT_EQ(validate(odd).size(), 1u) << "40 values do not fill blocks of 32";
}

}  // namespace
}  // namespace moescope
