// Checks configs: every value on its own, then the values together.
#include <fmt/core.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/config/config_rules.h"
#include "core/config/expert_list.h"
#include "core/config/mixture.h"
#include "core/config/operand_recipes.h"
#include "core/config/placement_choice.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += '"' + names[i] + '"';
  }
  return text;
}

std::string range_text(const ConfigField& field) {
  return to_string(ConfigValue(field.min)) + " to " + to_string(ConfigValue(field.max));
}

std::string check_number(const ConfigField& field, double number, const ConfigValue& value) {
  if (number >= field.min && number <= field.max) return {};  // false for NaN as well
  return "is " + to_string(value) + "; allowed: " + range_text(field);
}

// Text that is not UTF-8 or holds control characters could not be written as TOML and read back.
bool is_plain_utf8(std::string_view text) {
  return simdjson::validate_utf8(text) &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

// A name becomes part of file names.
bool is_name(std::string_view text) {
  return !text.empty() && text[0] != '.' && valid_name(std::string(text)) == text;
}

std::string check_placement(const std::string& text) {
  try {
    parse_placement_choice(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

constexpr std::size_t kMaxProbe = 1024;

std::string check_probe(const std::string& text) {
  if (!is_plain_utf8(text)) return "holds control characters or is not UTF-8; allowed: escapes: \\n, \\t, \\x41";
  const auto bytes = unescape_bytes(text);
  if (!bytes)
    return "holds a backslash that does not begin one of \\n"
           ", \\t, \\r, \\x41 and \\\\";
  if (bytes->size() > kMaxProbe) return fmt::format("has {} bytes; allowed: at most {}", bytes->size(), kMaxProbe);
  return {};
}

std::string check_text(const ConfigField& field, const std::string& text) {
  if (!field.choices.empty()) {
    if (std::ranges::find(field.choices, text) != field.choices.end()) return {};
    return "is \"" + text + "\"; allowed: " + quoted_list(field.choices);
  }
  const Setting setting = field;
  if (setting == &RunConfig::name && !is_name(text))
    return "is \"" + text + "\"; allowed: 1 to 64 letters, digits and - _ . + without a leading dot";
  if (setting == &TelemetryConfig::probe) return check_probe(text);
  if (setting == &ParallelConfig::placement) return check_placement(text);
  if (!is_plain_utf8(text)) return "holds control characters or is not UTF-8; allowed: plain UTF-8 text";
  return {};
}

std::string type_name(const ConfigField& field, std::size_t type) {
  if (type == 0) return "true or false";
  if (type < 3) return (type == 1 ? "a whole number, " : "a number, ") + range_text(field);
  return field.choices.empty() ? "text" : quoted_list(field.choices);
}

// Sizes that have not been checked may have any value. They are multiplied and added as doubles, here and below,
// because an int could overflow.
double attention_weights(const ModelConfig& m) {
  const double d = m.dim, heads = m.n_heads, rope = m.qk_rope_head_dim, qk = m.qk_nope_head_dim + rope;
  const double query = m.q_lora_rank > 0 ? (d + heads * qk) * m.q_lora_rank : d * heads * qk;
  const double latent = d * (m.kv_lora_rank + rope);
  const double unpack = heads * m.kv_lora_rank * (double(m.qk_nope_head_dim) + m.v_head_dim);
  return query + latent + unpack + heads * m.v_head_dim * d;
}

std::string gib(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / (1 << 30));
}

// Returns the bytes of Muon's scratch memory: each thread has three matrices of the size of the largest one and two
// square matrices of its shorter side.
double muon_scratch(const RunConfig& c) {
  if (c.optimizer.name != OptimizerName::muon) return 0;
  const ModelConfig& m = c.model;
  double largest_elements = 0;
  const auto matrix = [&](double rows, double cols) {
    const double s = std::min(rows, cols);
    largest_elements = std::max(largest_elements, 3 * rows * cols + 2 * s * s);
  };
  matrix(m.dim, double(m.n_heads) * m.v_head_dim);
  matrix(m.dim, double(m.kv_lora_rank) + m.qk_rope_head_dim);
  matrix(m.dim, m.q_lora_rank);
  if (m.n_dense_layers > 0) matrix(m.dim, m.dense_inter);
  if (m.n_dense_layers < m.n_layers) matrix(m.dim, double(std::max(1, m.n_shared)) * m.moe_inter);
  return 4.0 * num_threads() * largest_elements;
}

struct RuleViolation {
  std::vector<Setting> settings;  // all that are involved; the first is the one to change
  std::string message;
};
using Rules = std::vector<RuleViolation>;

void check_layers(const RunConfig& c, Rules& found) {
  const ModelConfig& m = c.model;
  if (m.n_dense_layers > m.n_layers)
    found.push_back({{&ModelConfig::n_dense_layers, &ModelConfig::n_layers},
                     fmt::format("n_dense_layers is {}, but there are {} layers: choose 0 to {}", m.n_dense_layers,
                                 m.n_layers, m.n_layers)});
  if (m.qk_rope_head_dim % 2 != 0)
    found.push_back({{&ModelConfig::qk_rope_head_dim},
                     fmt::format("qk_rope_head_dim is {}, but features are rotated in pairs: choose an even number",
                                 m.qk_rope_head_dim)});
}

void check_vocabulary(const RunConfig& c, Rules& found) {
  if (!c.data.tokenizer.empty() || c.model.vocab == 256) return;
  found.push_back(
      {{&ModelConfig::vocab, &DataConfig::tokenizer},
       fmt::format("vocab is {}, but tokens are bytes without a tokenizer: choose 256, or set data.tokenizer",
                   c.model.vocab)});
}

void check_groups(const RunConfig& c, Rules& found) {
  const RouterConfig& r = c.router;
  const std::string groups = std::to_string(r.n_groups), limited_groups = std::to_string(r.n_limited_groups);
  const std::string experts = std::to_string(c.model.n_experts);
  if (r.n_groups == 0) {
    if (r.n_limited_groups != 0)
      found.push_back(
          {{&RouterConfig::n_limited_groups, &RouterConfig::n_groups},
           "n_limited_groups is " + limited_groups + ", but there are no groups: choose 0, or set n_groups"});
    return;
  }
  if (c.model.n_experts % r.n_groups != 0 || c.model.n_experts / r.n_groups < 2) {
    found.push_back({{&RouterConfig::n_groups, &ModelConfig::n_experts},
                     fmt::format("n_groups is {}, but the {} experts must be split into equal groups of at least 2: "
                                 "choose a divisor of {} up to {}, or 0 for no groups",
                                 groups, experts, experts, c.model.n_experts / 2)});
    return;
  }
  if (r.n_limited_groups == 0) return;
  if (r.n_limited_groups > r.n_groups) {
    found.push_back({{&RouterConfig::n_limited_groups, &RouterConfig::n_groups},
                     "n_limited_groups is " + limited_groups + ", but there are " + groups + " groups: choose 1 to " +
                         groups + ", or 0 for no limit"});
    return;
  }
  const int reachable = r.n_limited_groups * (c.model.n_experts / r.n_groups);
  if (reachable < r.top_k)
    found.push_back({{&RouterConfig::n_limited_groups, &RouterConfig::top_k, &RouterConfig::n_groups},
                     fmt::format("n_limited_groups is {}, which leaves a token {} experts, but top_k is {}: raise "
                                 "n_limited_groups or lower top_k",
                                 limited_groups, reachable, r.top_k)});
}

// The sources of quantile balancing refuse these settings as well (TorchTitan, Megatron-LM).
void check_quantiles(const RunConfig& c, Rules& found) {
  const RouterConfig& r = c.router;
  if (!by_quantiles(r.balance_rule)) return;
  const std::string rule = "balance_rule is " + to_string(Setting(&RouterConfig::balance_rule).field().get(c));
  if (r.balance_rule != BalanceRule::quantile_microbatch && r.score_func != ScoreFunc::sigmoid)
    found.push_back({{&RouterConfig::balance_rule, &RouterConfig::score_func},
                     rule + ", whose histogram needs independent scores from 0 to 1: choose "
                            "score_func sigmoid, or another rule"});
  if (r.limits_groups())
    found.push_back({{&RouterConfig::balance_rule, &RouterConfig::n_limited_groups},
                     rule + ", but a token's choice is limited to groups, so that its cutoff does not hold for all "
                            "experts: set n_limited_groups to 0, or choose sign"});
  if (r.force_balance)
    found.push_back({{&RouterConfig::balance_rule, &RouterConfig::force_balance},
                     rule + ", but force_balance chooses experts in turn, without a cutoff: choose sign"});
  if (r.gate_noise > 0)
    found.push_back({{&RouterConfig::balance_rule, &RouterConfig::gate_noise},
                     rule + ", which computes cutoffs from scores without noise: set gate_noise to 0, or choose sign"});
  if (r.top_k >= c.model.n_experts)
    found.push_back(
        {{&RouterConfig::balance_rule, &RouterConfig::top_k, &ModelConfig::n_experts},
         fmt::format("{}, but all {} experts are chosen: lower top_k, or choose sign", rule, c.model.n_experts)});
}

void check_expert_parts(const RunConfig& c, Rules& found) {
  const ModelConfig& m = c.model;
  if (m.shared_expert_gate && m.n_shared == 0)
    found.push_back({{&ModelConfig::shared_expert_gate, &ModelConfig::n_shared},
                     "shared_expert_gate is on, but there is no shared expert: choose n_shared 1 or more, or no gate"});
  if (m.latent_norm && m.latent_dim == 0)
    found.push_back(
        {{&ModelConfig::latent_norm, &ModelConfig::latent_dim},
         fmt::format("latent_norm is on, but experts are not latent: choose a latent_dim, for example {}, or no norm",
                     m.dim / 2)});
  if (m.latent_dim > m.dim)
    found.push_back({{&ModelConfig::latent_dim, &ModelConfig::dim},
                     fmt::format("latent_dim is {}, wider than the model: choose 0 to {}", m.latent_dim, m.dim)});
}

void check_dropping(const RunConfig& c, Rules& found) {
  if (c.router.token_drop != TokenDrop::none && c.router.capacity_factor == 0)
    found.push_back({{&RouterConfig::token_drop, &RouterConfig::capacity_factor},
                     "token_drop needs a capacity: set capacity_factor, for example to 1.25, or choose none"});
}

void check_hash_layers(const RunConfig& c, Rules& found) {
  const int layers = c.model.n_layers - c.model.n_dense_layers, hash_layers = c.router.n_hash_layers;
  if (hash_layers == 0) return;
  if (hash_layers > layers)
    found.push_back(
        {{&RouterConfig::n_hash_layers, &ModelConfig::n_layers, &ModelConfig::n_dense_layers},
         fmt::format("n_hash_layers is {}, but there are {} MoE layers: choose 0 to {}", hash_layers, layers, layers)});
  if (c.router.force_balance)
    found.push_back({{&RouterConfig::n_hash_layers, &RouterConfig::force_balance},
                     "n_hash_layers chooses experts by a table, force_balance in turn: set only one of them"});
  if (!c.router.killed_experts.empty())
    found.push_back({{&RouterConfig::killed_experts, &RouterConfig::n_hash_layers},
                     "the table of n_hash_layers does not leave out killed experts: set only one of them"});
}

void check_replay(const RunConfig& c, Rules& found) {
  if (!c.router.replay) return;
  if (c.router.force_balance)
    found.push_back(
        {{&RouterConfig::replay, &RouterConfig::force_balance},
         "replay uses the experts that run A chose, force_balance chooses them in turn: set only one of them"});
  if (!c.router.killed_experts.empty())
    found.push_back(
        {{&RouterConfig::killed_experts, &RouterConfig::replay},
         "replay uses the experts that run A chose, killed or not: set only one of them, or kill them in run A"});
}

void check_router(const RunConfig& c, Rules& found) {
  check_replay(c, found);
  check_quantiles(c, found);
  check_dropping(c, found);
  check_hash_layers(c, found);
  if (c.router.top_k > c.model.n_experts)
    found.push_back({{&RouterConfig::top_k, &ModelConfig::n_experts},
                     fmt::format("top_k is {}, but there are {} experts: choose 1 to {}", c.router.top_k,
                                 c.model.n_experts, c.model.n_experts)});
  else
    check_groups(c, found);
}

void check_ranks(const RunConfig& c, Rules& found) {
  const ParallelConfig& p = c.parallel;
  const std::string ranks = std::to_string(p.ranks);
  if (c.model.n_experts % p.ranks != 0)
    found.push_back({{&ParallelConfig::ranks, &ModelConfig::n_experts},
                     fmt::format("ranks is {}, but the {} experts must spread evenly: choose a divisor of {}", ranks,
                                 c.model.n_experts, c.model.n_experts)});
  const std::int64_t tokens = std::int64_t{c.data.batch} * c.data.seq;
  if (p.ranks > tokens)
    found.push_back({{&ParallelConfig::ranks, &DataConfig::batch, &DataConfig::seq},
                     fmt::format("ranks is {}, but a batch has only {} tokens (batch x seq): choose 1 to {}", ranks,
                                 tokens, tokens)});
  if (p.ranks > p.ranks_per_node && p.ranks % p.ranks_per_node != 0)
    found.push_back({{&ParallelConfig::ranks_per_node, &ParallelConfig::ranks},
                     fmt::format("ranks_per_node is {}, but the {} ranks must fill whole nodes: choose a divisor of {}",
                                 p.ranks_per_node, ranks, ranks)});
  const std::string misplaced =
      placement_problem(parse_placement_choice(p.placement), c.model.n_experts, std::max(1, p.ranks));
  if (!misplaced.empty())
    found.push_back({{&ParallelConfig::placement, &ParallelConfig::ranks, &ModelConfig::n_experts},
                     misplaced + ": choose another placement, or contiguous"});
}

void check_schedule(const RunConfig& c, Rules& found) {
  const OptimizerConfig& o = c.optimizer;
  if (o.warmup_steps > o.total_steps)
    found.push_back({{&OptimizerConfig::warmup_steps, &OptimizerConfig::total_steps},
                     fmt::format("warmup_steps is {}, but the schedule has only {} steps (total_steps): choose 0 to {}",
                                 o.warmup_steps, o.total_steps, o.total_steps)});
  if (o.lr_min > o.lr)
    found.push_back(
        {{&OptimizerConfig::lr_min, &OptimizerConfig::lr},
         "lr_min is " + to_string(o.lr_min) + ", but lr is " + to_string(o.lr) + ": choose 0 to " + to_string(o.lr)});
}

void check_batch(const RunConfig& c, Rules& found) {
  const DataConfig& d = c.data;
  if (d.documents > std::min(d.batch, d.seq))
    found.push_back({{&DataConfig::documents, &DataConfig::batch, &DataConfig::seq},
                     fmt::format("documents is {}, but the documents of a packed sequence come from different "
                                 "sequences and have at least one token: choose 1 to {}",
                                 d.documents, std::min(d.batch, d.seq))});
  if (d.batch % d.microbatches != 0)
    found.push_back(
        {{&DataConfig::microbatches, &DataConfig::batch},
         fmt::format(
             "microbatches is {}, but the batch of {} sequences must be split into equal parts: choose a divisor of {}",
             d.microbatches, d.batch, d.batch)});
  if (d.padding > 0 && by_quantiles(c.router.balance_rule))
    found.push_back({{&DataConfig::padding, &RouterConfig::balance_rule},
                     "the quantile rules do not support padding: choose 0, or balance_rule sign"});
}

// Rules for interventions on routers and data: lists of experts, the experts that can still be chosen, mixtures.
void check_list(Setting setting, const std::string& text, ListOf kind, const ModelConfig& model, Rules& found) {
  try {
    parse_experts(text, model, kind);
  } catch (const std::invalid_argument& error) {
    found.push_back(
        {{setting, &ModelConfig::n_experts, &ModelConfig::n_layers, &ModelConfig::n_dense_layers}, error.what()});
  }
}

// Returns the smallest number of living experts from which a token can choose, whichever groups it is limited to.
// Groups without a living expert are not chosen.
int reachable_experts(const RouterConfig& router, const std::vector<std::uint8_t>& killed) {
  const int experts = to_int(killed.size());
  const bool grouped = router.limits_groups();
  const int groups = grouped ? router.n_groups : 1, width = experts / groups;
  std::vector<int> living;
  for (int g = 0; g < groups; ++g) {
    const auto first = killed.begin() + static_cast<std::ptrdiff_t>(g) * width;
    const int alive = width - to_int(std::count(first, first + width, 1));
    if (alive > 0) living.push_back(alive);
  }
  std::sort(living.begin(), living.end());
  if (grouped && to_int(living.size()) > router.n_limited_groups) living.resize(router.n_limited_groups);
  int reachable = 0;
  for (const int alive : living) reachable += alive;
  return reachable;
}

void check_remaining(const RunConfig& c, Rules& found) {
  const ExpertMasks masks = killed_masks(c);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const int reachable = reachable_experts(c.router, masks[i]);
    if (reachable >= c.router.top_k) continue;
    found.push_back({{&RouterConfig::killed_experts, &RouterConfig::top_k, &RouterConfig::n_limited_groups,
                      &RouterConfig::n_groups},
                     fmt::format("killed_experts leaves a token {} experts in layer {}, but top_k is {}: choose fewer "
                                 "to kill, or a lower top_k",
                                 reachable, c.model.n_dense_layers + to_int(i), c.router.top_k)});
    return;
  }
}

void check_mixture(const DataConfig& data, Rules& found) {
  try {
    if (!data.path.empty()) {
      parse_mixture(data.mixture);  // the domains are unknown until the files are open
      return;
    }
    mixture_weights(data.mixture, generated_domain_names(data.generator));
  } catch (const std::invalid_argument& error) {
    found.push_back({{&DataConfig::mixture, &DataConfig::generator}, error.what()});
  }
}

void check_interventions(const RunConfig& c, Rules& found) {
  const std::size_t before = found.size();
  check_list(&RouterConfig::killed_experts, c.router.killed_experts, ListOf::experts, c.model, found);
  const bool killed_is_readable = found.size() == before;
  check_list(&RouterConfig::pinned_bias, c.router.pinned_bias, ListOf::values, c.model, found);
  check_list(&RouterConfig::initial_bias, c.router.initial_bias, ListOf::values, c.model, found);
  check_list(&OptimizerConfig::fault_missing_experts, c.optimizer.fault_missing_experts, ListOf::experts, c.model,
             found);
  const bool groups_fit = c.router.n_groups == 0 || c.model.n_experts % c.router.n_groups == 0;
  if (killed_is_readable && groups_fit && c.model.n_dense_layers <= c.model.n_layers) check_remaining(c, found);
  if (c.model.outlier_factor != 1 && c.model.outlier_channel >= c.model.dim)
    found.push_back({{&ModelConfig::outlier_channel, &ModelConfig::dim},
                     fmt::format("outlier_channel is {}, but dim is {}: choose 0 to {}", c.model.outlier_channel,
                                 c.model.dim, c.model.dim - 1)});
  check_mixture(c.data, found);
}

// A setting that gives operands of feed-forward GEMMs a format whose scales are shared by `block` values along the
// contracted dimension; 0 for a format without blocks, whose rows may have any length.
struct RowFormat {
  Setting setting;
  std::string name;
  int block;
};

RowFormat row_format(Setting setting, std::string name, const OperandFormat& format) {
  if (format.scheme == QuantScheme::nvfp4) return {setting, std::move(name), 16};
  return {setting, std::move(name), format.scheme == QuantScheme::mx ? format.block : 0};
}

RowFormat row_format(Setting recipe_of, Recipe recipe) {
  return row_format(recipe_of, recipe_info(recipe).name, recipe_format(recipe, Direction::forward, OperandRole::x));
}

// Returns the recipe of a class and the overrides of operands, which every class has that is not in FP32.
std::vector<RowFormat> row_formats(Setting recipe_of, Recipe recipe, const PrecisionConfig& precision) {
  std::vector<RowFormat> formats{row_format(recipe_of, recipe)};
  if (recipe == Recipe::fp32) return formats;
  for (const auto member : {&PrecisionConfig::override_x, &PrecisionConfig::override_w, &PrecisionConfig::override_dy})
    if (const auto& format = precision.*member) formats.push_back(row_format(member, format_name(*format), *format));
  return formats;
}

// Checks that the rows of a feed-forward fill the blocks of its formats. Rows of attention, gate and head are not
// checked: they may end in a shorter block (a row of the gate's dY has one value per expert).
void check_blocks(std::span<const RowFormat> formats, Setting size_of, int size, Rules& found) {
  for (const RowFormat& format : formats)
    if (format.block != 0 && size % format.block != 0)
      found.push_back(
          {{size_of, format.setting},
           fmt::format("{} is {}, but {} quantizes blocks of {} along it: choose a multiple of {}, or another {}",
                       size_of.name(), size, format.name, format.block, format.block, format.setting.key())});
}

void check_expert_rows(std::span<const RowFormat> formats, const ModelConfig& model, Rules& found) {
  check_blocks(formats, model.latent_dim > 0 ? &ModelConfig::latent_dim : &ModelConfig::dim, model.row_dim(), found);
  check_blocks(formats, &ModelConfig::moe_inter, model.moe_inter, found);
}

// Checks an entry of precision.operands: its layers must exist, and rows of a feed-forward must fill its blocks.
void check_operand_recipe(const RunConfig& c, const OperandRecipe& operand, Rules& found) {
  const Setting operands = &PrecisionConfig::operands;
  if (operand.layers != LayerRange{} && operand.layers.last >= c.model.n_layers)
    found.push_back({{operands, &ModelConfig::n_layers},
                     fmt::format("layer {} is named, but there are layers 0 to {}: choose one of these",
                                 operand.layers.last, c.model.n_layers - 1)});
  const bool dense = operand.gemm_class == GemmClass::dense_ffn;
  if (!dense && operand.gemm_class != GemmClass::experts && operand.gemm_class != GemmClass::shared_experts) return;
  const RowFormat format = row_format(operands, operand.recipe);
  if (operand.gemm_class == GemmClass::experts) return check_expert_rows({&format, 1}, c.model, found);
  check_blocks({&format, 1}, &ModelConfig::dim, c.model.dim, found);
  if (dense)
    check_blocks({&format, 1}, &ModelConfig::dense_inter, c.model.dense_inter, found);
  else
    check_blocks({&format, 1}, &ModelConfig::moe_inter, c.model.moe_inter, found);
}

bool contradict(const OperandRecipe& a, const OperandRecipe& b) {
  const bool meet = a.layers.first <= b.layers.last && b.layers.first <= a.layers.last;
  const bool pair = a.gemm_class == b.gemm_class && a.operand != b.operand && a.gemm && a.gemm == b.gemm;
  return meet && pair && a.rotated && b.rotated && *a.rotated != *b.rotated;
}

void check_operand_recipes(const RunConfig& c, Rules& found) {
  try {
    const std::vector<OperandRecipe> operands = parse_operand_recipes(c.precision.operands);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      check_operand_recipe(c, operands[i], found);
      for (std::size_t before = 0; before < i; ++before)
        if (contradict(operands[before], operands[i]))
          found.push_back({{&PrecisionConfig::operands},
                           "\"" + operand_recipes_text({operands[i]}) +
                               "\": the other operand of this GEMM has the "
                               "opposite rotation, and a rotation of one alone does not cancel: set both alike"});
    }
  } catch (const std::invalid_argument& error) {
    found.push_back({{&PrecisionConfig::operands}, error.what()});
  }
}

void check_precision(const RunConfig& c, Rules& found) {
  check_operand_recipes(c, found);
  const PrecisionConfig& p = c.precision;
  if (p.nvfp4_four_over_six != FourOverSixChoice::off && p.nvfp4_rule != Nvfp4Rule::transformer_engine)
    found.push_back({{&PrecisionConfig::nvfp4_four_over_six, &PrecisionConfig::nvfp4_rule},
                     "nvfp4_four_over_six chooses between two scales of TransformerEngine: choose nvfp4_rule "
                     "transformer_engine, or off"});
  if (p.layers_at_start_in_bf16 + p.layers_at_end_in_bf16 > c.model.n_layers)
    found.push_back(
        {{&PrecisionConfig::layers_at_end_in_bf16, &PrecisionConfig::layers_at_start_in_bf16, &ModelConfig::n_layers},
         fmt::format("{} layers at the start and {} at the end are in BF16, but there are only {}: choose fewer",
                     p.layers_at_start_in_bf16, p.layers_at_end_in_bf16, c.model.n_layers)});
  const bool any_moe = c.model.n_dense_layers < c.model.n_layers;
  const std::vector<RowFormat> experts = row_formats(&PrecisionConfig::experts, p.experts, p);
  check_expert_rows(experts, c.model, found);
  if (any_moe && c.model.n_shared > 0) {
    const std::vector<RowFormat> shared = row_formats(&PrecisionConfig::shared_experts, p.shared_experts, p);
    check_blocks(shared, &ModelConfig::dim, c.model.dim, found);
    check_blocks(shared, &ModelConfig::moe_inter, c.model.moe_inter, found);
  }
  if (c.model.n_dense_layers > 0) {
    const std::vector<RowFormat> dense = row_formats(&PrecisionConfig::dense_ffn, p.dense_ffn, p);
    check_blocks(dense, &ModelConfig::dim, c.model.dim, found);
    check_blocks(dense, &ModelConfig::dense_inter, c.model.dense_inter, found);
  }
  if (!any_moe && experts.front().block > 0)
    found.push_back({{&PrecisionConfig::experts, &ModelConfig::n_dense_layers},
                     "experts are to be quantized, but all layers are dense: choose fp32, or fewer n_dense_layers"});
}

void check_memory(const RunConfig& c, Rules& found) {
  const double needed = memory_estimate(c);
  const double present = memory_of_machine();
  if (needed > present)
    found.push_back({{&ModelConfig::dim, &ModelConfig::n_layers, &ModelConfig::n_experts, &ModelConfig::moe_inter,
                      &DataConfig::seq, &DataConfig::batch},
                     "training this would need about " + gib(needed) + " of memory, and this machine has " +
                         gib(present) + ": choose smaller dim, n_layers, n_experts, moe_inter, batch or seq"});
}

}  // namespace

double memory_of_machine() {
  return double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
}

double parameter_count(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const double d = m.dim, moe_layers = std::max(0.0, double(m.n_layers) - m.n_dense_layers);
  const double dense_layers = m.n_layers - moe_layers;
  const double shared = 3.0 * d * m.moe_inter, expert = 3.0 * m.row_dim() * m.moe_inter;
  const double latent = m.latent_dim > 0 ? (2 * d + double(m.latent_norm)) * m.latent_dim : 0;
  return 2.0 * m.vocab * d + d + m.n_layers * (attention_weights(m) + 2 * d + m.q_lora_rank + m.kv_lora_rank) +
         dense_layers * 3.0 * d * m.dense_inter +
         moe_layers *
             (m.n_experts * expert + m.n_shared * shared + d * m.n_experts + latent + (m.shared_expert_gate ? d : 0));
}

double memory_estimate(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const double d = m.dim, tokens = double(c.data.batch) * c.data.seq;
  const double moe_layers = std::max(0.0, double(m.n_layers) - m.n_dense_layers),
               dense_layers = m.n_layers - moe_layers;
  const double head = 2.0 * (double(m.qk_nope_head_dim) + m.qk_rope_head_dim + m.v_head_dim);
  const double attention = 4 * d + m.n_heads * (head + c.data.seq) + m.q_lora_rank + m.kv_lora_rank;
  const double moe = c.router.top_k * (2.0 * m.row_dim() + 4.0 * m.moe_inter) + 4.0 * m.n_shared * m.moe_inter +
                     2.0 * m.n_experts + 3.0 * m.latent_dim + (m.shared_expert_gate ? d : 0);
  const double saved = m.n_layers * attention + dense_layers * 4.0 * m.dense_inter + moe_layers * moe + 2.0 * m.vocab;
  return 16 * parameter_count(c) + 4 * tokens * saved + muon_scratch(c);
}

// Returns all violations of the rules between settings. Each value must be within its own range.
static Rules rule_violations(const RunConfig& config) {
  Rules found;
  check_layers(config, found);
  check_vocabulary(config, found);
  check_expert_parts(config, found);
  check_router(config, found);
  check_interventions(config, found);
  check_ranks(config, found);
  check_schedule(config, found);
  check_batch(config, found);
  check_precision(config, found);
  check_memory(config, found);
  return found;
}

std::string check_field(const ConfigField& field, const ConfigValue& value) {
  const std::size_t type = field.get(RunConfig{}).index();
  if (value.index() != type) {
    const std::string quote = value.index() == 3 ? "\"" : "";
    return "is " + quote + to_string(value) + quote + "; allowed: " + type_name(field, type);
  }
  if (type == 0) return {};
  if (type == 3) return check_text(field, std::get<std::string>(value));
  return check_number(field, type == 1 ? std::get<std::int64_t>(value) : std::get<double>(value), value);
}

std::vector<ConfigProblem> validate(const RunConfig& config, const std::map<Setting, int>& lines) {
  std::vector<ConfigProblem> problems;
  std::set<Setting> bad;
  for (const ConfigField& field : config_fields())
    if (std::string message = check_field(field, field.get(config)); !message.empty()) {
      problems.push_back({"", lines.contains(field) ? lines.at(field) : 0, field.key, message});
      bad.insert(field);
    }
  add_rule_problems(config, bad, lines, "", problems);
  return problems;
}

std::string first_problem(const RunConfig& config) {
  const std::vector<ConfigProblem> problems = validate(config);
  return problems.empty() ? std::string() : problems.front().message;
}

void require_valid(const RunConfig& config) {
  if (const auto problems = validate(config); !problems.empty()) throw std::invalid_argument(problems.front().text());
}

void require_live(const LiveChange& change) {
  const ConfigField& field = change.setting.field();
  const std::string problem = field.live ? check_field(field, change.value) : kNotLive;
  if (!problem.empty()) throw std::invalid_argument(field.key + ' ' + problem);
}

void add_rule_problems(const RunConfig& config, const std::set<Setting>& bad, const std::map<Setting, int>& lines,
                       const std::string& file, std::vector<ConfigProblem>& problems) {
  // The rules compute with the settings: a value that is out of its range could overflow or be a divisor of 0. Each has
  // its default here, and the rules that name it are not reported.
  RunConfig in_range = config;
  for (const Setting setting : bad) setting.field().set(in_range, setting.field().get(default_config()));
  for (RuleViolation& violation : rule_violations(in_range)) {
    if (std::ranges::any_of(violation.settings, [&](Setting setting) { return bad.contains(setting); })) continue;
    const auto set_by_user =
        std::ranges::find_if(violation.settings, [&](Setting setting) { return lines.contains(setting); });
    const Setting setting = set_by_user == violation.settings.end() ? violation.settings.front() : *set_by_user;
    const auto line = lines.find(setting);
    problems.push_back({file, line == lines.end() ? 0 : line->second, setting.key(), std::move(violation.message)});
  }
}

namespace {

// The rules that read a setting; other settings do not depend on the rule.
struct RuleSetting {
  Setting setting;
  std::vector<BalanceRule> rules;
};

const std::vector<RuleSetting>& rule_settings() {
  using enum BalanceRule;
  static const std::vector<RuleSetting> settings = {
      {&RouterConfig::bias_update_rate, {sign, proportional, smebu}},
      {&RouterConfig::bias_soft_clamp, {smebu}},
      {&RouterConfig::bias_momentum, {smebu}},
      {&RouterConfig::sequence_strength, {quantile_sequence}},
      {&RouterConfig::quantile_ema, {quantile_microbatch}},
      {&RouterConfig::count_format, {sign}},
  };
  return settings;
}

}  // namespace

bool is_offered(const ConfigField& field, const RunConfig& config) {
  if (field.group == "Faults") return field.get(config) != field.get(default_config());
  const auto found = std::ranges::find(rule_settings(), Setting(field), &RuleSetting::setting);
  return found == rule_settings().end() || std::ranges::count(found->rules, config.router.balance_rule) > 0;
}

}  // namespace moescope
