// A format plan as configs of other programs. Names and fields are those of compressed-tensors (QuantizationConfig,
// presets NVFP4A16, MXFP4A16 and MXFP8A16), of torchao (FqnToConfig as core/config.py writes it) and of Model-Optimizer
// (QuantizeConfig and configs/numerics).
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/checkpoints/ablation/format_plan.h"
#include "core/config/operand_recipes.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

std::string parent_of(const std::string& module) {
  return module.substr(0, std::min(module.rfind('.'), module.size()));
}

std::string escaped_dots(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '.' ? std::string("\\.") : std::string(1, c);
  return text;
}

// "re:model\.layers\.2\.mlp\.experts\.(0|7)\.(down_proj|up_proj)$": matches the modules of a row, by re.match() and by
// re.fullmatch().
std::string pattern_of(const PlanRow& row) {
  const std::string& first = row.groups.front()->modules.front();
  std::string parent = parent_of(first);
  if (parent == first) return first;
  std::set<std::string> names;
  for (const std::string& module : row.groups.front()->modules) names.insert(module.substr(parent.size() + 1));
  const std::vector<int> experts = row.experts();
  std::string numbers;
  if (!experts.empty()) {
    parent = parent_of(parent);
    numbers = "(" + joined(experts, "|", [](int expert) { return std::to_string(expert); }) + ")\\.";
  }
  return "re:" + escaped_dots(parent) + "\\." + numbers + "(" + joined(names, "|") + ")$";
}

bool is_rounded(const PlanRow& row) {
  return row.format != Recipe::bf16;
}

Json compressed_tensors_config(const std::vector<PlanRow>& rows) {
  Json groups = Json::object(), ignored = Json::array();
  for (const PlanRow& row : rows) {
    if (!is_rounded(row)) {
      ignored.push_back(pattern_of(row));
      continue;
    }
    Json& group = groups[recipe_info(row.format).name];
    const OperandFormat format = recipe_format(row.format, Direction::forward, OperandRole::w);
    const bool nvfp4 = format.scheme == QuantScheme::nvfp4;
    group["targets"].push_back(pattern_of(row));
    group["weights"] = {{"num_bits", traits(format.element).bits},
                        {"type", "float"},
                        {"symmetric", true},
                        {"dynamic", false},
                        {"strategy", nvfp4 ? "tensor_group" : "group"},
                        {"group_size", block_size(format)},
                        {"scale_dtype", nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8"}};
  }
  return {{"quant_method", "compressed-tensors"}, {"config_groups", std::move(groups)}, {"ignore", std::move(ignored)}};
}

Json torchao_object(const char* type, Json data) {
  return {{"_type", type}, {"_version", 1}, {"_data", std::move(data)}};
}

Json torchao_config(Recipe recipe) {
  if (recipe == Recipe::bf16) return nullptr;
  if (recipe == Recipe::nvfp4) return torchao_object("NVFP4WeightOnlyConfig", {{"use_dynamic_per_tensor_scale", true}});
  const OperandFormat format = recipe_format(recipe, Direction::forward, OperandRole::w);
  const Json element = {{"_type", "torch.dtype"},
                        {"_data", format.element == ElementFormat::e2m1 ? "float4_e2m1fn_x2" : "float8_e4m3fn"}};
  return torchao_object("MXDynamicActivationMXWeightConfig",
                        {{"block_size", format.block}, {"activation_dtype", element}, {"weight_dtype", element}});
}

Json torchao_of(const std::vector<PlanRow>& rows) {
  Json by_name = Json::object();
  for (const PlanRow& row : rows) by_name[pattern_of(row)] = torchao_config(row.format);
  return {{"quant_method", "torchao"},
          {"quant_type", {{"default", torchao_object("FqnToConfig", {{"fqn_to_config", std::move(by_name)}})}}}};
}

// YAML, because JSON has no integer keys, which block_sizes needs.
std::string modelopt_yaml(const std::vector<PlanRow>& rows) {
  std::string text = "algorithm: max\nquant_cfg:\n  - {quantizer_name: '*', enable: false}\n";
  for (const PlanRow& row : rows) {
    if (!is_rounded(row)) continue;
    const OperandFormat format = recipe_format(row.format, Direction::forward, OperandRole::w);
    const char* scale = format.scheme == QuantScheme::nvfp4 ? "e4m3" : "e8m0";
    for (const WeightGroup* group : row.groups)
      for (const std::string& module : group->modules)
        text += fmt::format(
            "  - {{quantizer_name: '{}.weight_quantizer', cfg: {{num_bits: {}, block_sizes: {{-1: {}, type: dynamic, "
            "scale_bits: {}}}}}}}\n",
            module, element_name(format), block_size(format), scale);
  }
  return text;
}

// The row with the most weights of each layer and class: a training has one format for all experts of a layer.
std::vector<PlanRow> training_rows(const std::vector<PlanRow>& rows) {
  std::vector<PlanRow> largest;
  for (const PlanRow& row : rows) {
    if (largest.empty() || largest.back().layer != row.layer || largest.back().gemm_class != row.gemm_class)
      largest.push_back(row);
    else if (row.weights() > largest.back().weights())
      largest.back() = row;
  }
  return largest;
}

std::string training_toml(const std::vector<PlanRow>& rows) {
  std::string text = "[precision]\n";
  for (int i = 0; i < kNumGemmClasses; ++i)
    text += std::string(gemm_class_name(static_cast<GemmClass>(i))) + " = \"bf16\"\n";
  std::vector<OperandRecipe> recipes;
  for (const PlanRow& row : training_rows(rows)) {
    if (!is_rounded(row)) continue;
    OperandRecipe entry{.gemm_class = row.gemm_class, .operand = OperandRole::w, .recipe = row.format};
    if (row.layer >= 0) entry.layers = {row.layer, row.layer};
    const auto before = std::ranges::find_if(recipes, [&](const OperandRecipe& other) {
      return other.gemm_class == entry.gemm_class && other.recipe == entry.recipe &&
             other.layers.last == entry.layers.first - 1;
    });
    if (before == recipes.end())
      recipes.push_back(entry);
    else
      before->layers.last = row.layer;
  }
  return text + "operands = \"" + operand_recipes_text(recipes) + "\"\n";
}

Json not_expressed(const FormatPlan& plan, const std::vector<PlanRow>& rows) {
  Json sentences = Json::array();
  const auto add_if = [&](bool needed, const char* sentence) {
    if (needed) sentences.push_back(sentence);
  };
  const auto any = [&](const auto& property) { return std::ranges::any_of(rows, property); };
  add_if(any([](const PlanRow& row) { return row.gemm_class == GemmClass::router_gate && is_rounded(row); }),
         "compressed_tensors, modelopt, torchao: they quantize torch.nn.Linear; transformers' routers are modules of "
         "another class and stay unquantized. Keep router_gate.");
  add_if(
      any([](const PlanRow& row) { return row.format == Recipe::mxfp4 || row.format == Recipe::mxfp8_rceil; }),
      "torchao: MXFP4 and MXFP8 round the activations of these modules, too; the loss of the plan is that of rounded "
      "weights.");
  add_if(any([](const PlanRow& row) { return row.format == Recipe::mxfp4 || row.format == Recipe::mxfp8_rceil; }),
         "compressed_tensors: MX scales are rounded to the nearest power of two; the plan was measured with scales "
         "rounded up.");
  add_if(
      any([](const PlanRow& row) { return row.gemm_class == GemmClass::experts && is_rounded(row); }),
      "torchao, modelopt: the names are those of the checkpoint. transformers 5 stores the experts of a layer as one "
      "parameter, which has no part for an expert: there the entries of experts match nothing.");
  add_if(
      training_rows(rows).size() < rows.size(),
      "moescope: a training has one format for all experts of a layer: here the format of most of them. vLLM's fused "
      "kernels need one format for all experts of a layer, too.");
  if (plan.unused_experts > 0)
    sentences.push_back(counted(plan.unused_experts, "expert", "experts") +
                        " got no token of these texts, so that no measurement supports the format.");
  return sentences;
}

// An interval that is not known becomes null.
Json figure_json(const FigureOfPieces& figure) {
  return {figure.mean, figure.interval};
}

Json effect_json(const PublishedFit& fit) {
  return {
      {"name", fit.name}, {"loss_change", figure_json(fit.loss_change)}, {"divergence", figure_json(fit.divergence)}};
}

}  // namespace

double PlanRow::weights() const {
  double sum = 0;
  for (const WeightGroup* group : groups) sum += group->weights;
  return sum;
}

std::vector<int> PlanRow::experts() const {
  std::vector<int> numbers;
  for (const WeightGroup* group : groups)
    if (group->expert >= 0) numbers.push_back(group->expert);
  return numbers;
}

std::vector<PlanRow> plan_rows(const FormatPlan& plan) {
  std::vector<PlanRow> rows;
  for (const WeightGroup& group : plan.groups) {
    const auto row_of_group = std::ranges::find_if(rows, [&](const PlanRow& row) {
      return row.layer == group.layer && row.gemm_class == group.gemm_class && row.format == group.format;
    });
    if (row_of_group == rows.end())
      rows.push_back({group.layer, group.gemm_class, group.format, {&group}});
    else
      row_of_group->groups.push_back(&group);
  }
  return rows;
}

std::string plan_json(const FormatPlan& plan) {
  const std::vector<PlanRow> rows = plan_rows(plan);
  Json weights = Json::array(), uniform = Json::array();
  for (const PlanRow& row : rows) {
    Json& entry = weights.emplace_back(Json{{"layer", row.layer >= 0 ? Json(row.layer) : Json()},
                                            {"class", gemm_class_name(row.gemm_class)},
                                            {"format", recipe_info(row.format).name},
                                            {"weights", row.weights()}});
    if (const std::vector<int> experts = row.experts(); !experts.empty()) entry["experts"] = experts;
  }
  for (const PublishedFit& fit : plan.uniform) uniform.push_back(effect_json(fit));
  const Json figures = {{"bits_per_weight", plan.bits},
                        {"pieces", plan.pieces},
                        {"rounds", plan.rounds},
                        {"loss_fp32", plan.loss},
                        {"effect", effect_json(plan.effect)},
                        {"all_weights_in_one_format", std::move(uniform)},
                        {"ranking_divergence", figure_json(plan.ranking_divergence)},
                        {"summed_divergence", plan.summed_divergence},
                        {"weights", std::move(weights)}};
  return Json{{"plan", figures},
              {"compressed_tensors", compressed_tensors_config(rows)},
              {"torchao", torchao_of(rows)},
              {"modelopt", modelopt_yaml(rows)},
              {"moescope", training_toml(rows)},
              {"not_expressed", not_expressed(plan, rows)}}
             .dump(2) +
         "\n";
}

}  // namespace moescope
