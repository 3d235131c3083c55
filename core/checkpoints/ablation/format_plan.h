// A number format for every group of weights of a checkpoint, within a budget of bits, and the plan as configs of the
// programs that quantize or train.
#pragma once

#include <string>
#include <vector>

#include "core/checkpoints/ablation/scans.h"
#include "core/numerics/recipes.h"

namespace moescope {

// Weights that get one format: one class of weights of a layer, or one of its routed experts. Routed experts that the
// file stores as one tensor get one format.
struct WeightGroup {
  int layer = -1;  // -1: the head
  GemmClass gemm_class = GemmClass::head;
  int expert = -1;                        // -1: not a single expert
  std::vector<std::string> modules = {};  // "model.layers.2.mlp.experts.7.up_proj"
  double weights = 0;                     // number of weights
  Recipe format = Recipe::bf16;
};

struct PlanRequest {
  double bits = 0;                           // per weight of all groups, with the scales of blocks
  std::vector<GemmClass> kept_classes = {};  // they keep the last format
  std::vector<Recipe> formats = {Recipe::mxfp4, Recipe::nvfp4, Recipe::mxfp8_rceil, Recipe::bf16};  // by rising bits
};

struct FormatPlan {
  double bits = 0;                       // per weight
  std::vector<WeightGroup> groups = {};  // empty if `progress` stopped the search
  int rounds = 0;
  // Divergence of the plan on the pieces on which it was chosen, and the sum of the single changes that it was chosen
  // by, nats per token.
  FigureOfPieces ranking_divergence = {};
  double summed_divergence = 0;
  int unused_experts = 0;  // experts without a token in these pieces, whose format does not rest on a measurement
  // On the other pieces: loss in FP32, nats per token; change by the plan; change by each format in all groups.
  int pieces = 0;
  double loss = 0;
  PublishedFit effect = {};
  std::vector<PublishedFit> uniform = {};
};

// Chooses the formats of the weights; activations, embedding, norms and biases are not rounded. A head that shares the
// weights of the embedding is not in the plan.
//
// Each format of each group is measured by a pass with this change alone, first of the model in the last format, and
// the changes with the greatest fall of the divergence KL(FP32 || plan) per bit are taken until the budget is spent.
// Then the whole plan is measured. If its divergence differs from the sum of the single changes by more than the
// interval, every format is measured again as a change of the plan, and chosen anew; the plan with the smallest
// measured divergence is kept. The loss is measured on pieces that had no part in the choice.
//
// Throws also as require_plan(), or if the loss in FP32 or of every plan is not finite.
FormatPlan plan_formats(CheckpointModel& model, const std::vector<LabelledText>& texts, const ComparedTexts& which,
                        const PlanRequest& request, const ScanProgress& progress);

// Throws std::runtime_error if the budget is below the smallest plan, or if weights are quantized already.
void require_plan(const CheckpointModel& model, const PlanRequest& request);

double bits_of(Recipe format);  // per weight, with the scales of blocks
double bits_per_weight(const std::vector<WeightGroup>& groups);

// Rounds the weights as the plan says, until round_nothing() is called.
void round_weights(CheckpointModel& model, const std::vector<WeightGroup>& groups);

// Groups of one layer, class and format.
struct PlanRow {
  int layer;
  GemmClass gemm_class;
  Recipe format;
  std::vector<const WeightGroup*> groups;
  double weights() const;
  std::vector<int> experts() const;  // empty if the groups are not single experts
};
std::vector<PlanRow> plan_rows(const FormatPlan& plan);

// Returns a JSON object: "plan" with the figures and rows; "compressed_tensors", the quantization_config of
// compressed-tensors with config_groups and ignore (llm-compressor); "torchao", the quantization_config of transformers
// with torchao's FqnToConfig; "modelopt", a YAML text for load_config() of Model-Optimizer; "moescope", a TOML text
// with [precision] for a training of this program; "not_expressed", sentences about what these configs cannot say.
std::string plan_json(const FormatPlan& plan);

}  // namespace moescope
