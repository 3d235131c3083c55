#include "core/explain/figure_knobs.h"

#include <map>
#include <string_view>

namespace moescope {

namespace {

struct Row {
  FigureKey figure;
  std::vector<Setting> knobs;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"ce_loss", {&OptimizerConfig::lr, &PrecisionConfig::experts}},
      {"aux_loss", {&RouterConfig::aux_mode, &RouterConfig::aux_coeff}},
      {"z_loss", {&RouterConfig::z_coeff}},
      {"grad_norm", {&OptimizerConfig::clip, &OptimizerConfig::lr}},
      {"lr", {&OptimizerConfig::lr, &OptimizerConfig::schedule, &OptimizerConfig::warmup_steps}},
      {"tokens_per_s", {&DataConfig::batch}},
      {"val_loss", {&TelemetryConfig::validation_every, &DataConfig::held_out}},
      {"max_logit", {&OptimizerConfig::qk_clip, &OptimizerConfig::lr}},
      {"max_vio", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_window", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff, &TelemetryConfig::window}},
      {"cv", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"entropy_norm", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"dead_fraction", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff, &TelemetryConfig::window}},
      {"score_entropy", {&RouterConfig::z_coeff, &RouterConfig::score_func}},
      {"margin", {&RouterConfig::bias_update_rate, &PrecisionConfig::experts}},
      {"router_aux_loss", {&RouterConfig::aux_mode, &RouterConfig::aux_coeff}},
      {"router_z_loss", {&RouterConfig::z_coeff}},
      {"padding_fraction", {&DataConfig::batch, &ModelConfig::n_experts}},
      {"dropped_fraction", {&RouterConfig::capacity_factor, &RouterConfig::token_drop}},
      {"mutual_information", {&RouterConfig::score_func, &RouterConfig::aux_coeff, &RouterConfig::z_coeff}},
      {"max_vio_microbatch", {&DataConfig::microbatches, &RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_sequence", {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &RouterConfig::bias_update_rate}},
      {"predicted_share", {&RouterConfig::top_k, &ModelConfig::n_experts}},
      {"amax", {&OptimizerConfig::lr}},
      {"sqnr_db", {&PrecisionConfig::experts}},
      {"relative_l2", {&PrecisionConfig::experts}},
      {"cosine", {&PrecisionConfig::experts}},
      {"underflow", {&PrecisionConfig::experts}},
      {"clipped", {&PrecisionConfig::experts}},
      {"clipped_blocks", {&PrecisionConfig::experts}},
      {"crest", {&PrecisionConfig::hadamard}},
      {"flip_rate", {&PrecisionConfig::experts, &RouterConfig::bias_update_rate}},
      {"overlap", {&RouterConfig::replay, &PrecisionConfig::experts}},
      {"gradient_snr_db", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"gradient_cosine", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"step_ms", {&DataConfig::batch, &PrecisionConfig::experts}},
      {"max_vio_p50", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_p90", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_max", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_window_p50", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_window_p90", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"max_vio_window_max", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"quant_sqnr_db", {&PrecisionConfig::experts}},
      {"ranks_per_token", {&ParallelConfig::ranks, &RouterConfig::n_limited_groups, &RouterConfig::top_k}},
      {"nodes_per_token", {&ParallelConfig::ranks_per_node, &RouterConfig::n_limited_groups}},
      {"rank_overload", {&ParallelConfig::ranks, &RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"rounding_flip_rate",
       {&PrecisionConfig::router_gate, &PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"pinned_gradient_snr_db", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"pinned_gradient_cosine", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"fp32_kl", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"fp32_k1", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"fp32_k3", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"fp32_ratio_beyond_2", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"fp32_any_layer_flipped", {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {"changed_by_operands", {&PrecisionConfig::router_gate, &TelemetryConfig::gradient_every}},
      {"changed_by_gate_output", {&PrecisionConfig::gate_output, &TelemetryConfig::gradient_every}},
      {"changed_by_bias", {&RouterConfig::bias_format, &RouterConfig::bias_centring, &TelemetryConfig::gradient_every}},
      {"changed_by_counts", {&RouterConfig::count_format, &DataConfig::batch, &TelemetryConfig::gradient_every}},
      {"changed_by_rounding", {&RouterConfig::bias_centring, &TelemetryConfig::gradient_every}},
      {"max_vio_with_rounding", {&RouterConfig::bias_centring, &TelemetryConfig::gradient_every}},
      {"bias_values", {&RouterConfig::bias_format, &RouterConfig::bias_centring, &RouterConfig::bias_update_rate}},
      {"e8m0_blocks", {&PrecisionConfig::experts}},
      {"utilisation", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {"expert_bias",
       {&RouterConfig::balance_rule, &RouterConfig::bias_update_rate, &RouterConfig::bias_centring,
        &RouterConfig::quantile_ema}},
      {"score_mass", {&RouterConfig::aux_coeff}},
      {"gate_mass", {&RouterConfig::route_norm, &RouterConfig::bias_update_rate}},
      {"copies", {&ParallelConfig::ranks, &RouterConfig::top_k}},
      {"distinct", {&ParallelConfig::ranks, &RouterConfig::n_limited_groups}},
      {"nodes", {&ParallelConfig::ranks_per_node, &RouterConfig::n_limited_groups}},
      {"margin_tokens", {&RouterConfig::bias_update_rate}},
      {"margin_flipped", {&PrecisionConfig::experts}},
      {"score_histogram", {&RouterConfig::score_func, &RouterConfig::z_coeff}},
      {"margin_histogram", {&RouterConfig::bias_update_rate}},
      {"domain_share", {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &DataConfig::path}},
      {"domain_lift", {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &DataConfig::path}},
      {"coactivation", {&RouterConfig::top_k, &RouterConfig::n_groups}},
      {"output_similarity", {&ModelConfig::n_experts, &ModelConfig::n_shared}},
      {"byte_affinity", {&ModelConfig::n_experts, &RouterConfig::top_k}},
      {"routing_stability", {&RouterConfig::bias_update_rate, &OptimizerConfig::lr}},
      {"unchanged_choices", {&RouterConfig::bias_update_rate, &OptimizerConfig::lr}},
      {"filler_fraction", {&RouterConfig::capacity_factor}},
      {"bias_for_share", {&RouterConfig::balance_rule, &RouterConfig::bias_update_rate}},
      {"bytes_moved",
       {&ParallelConfig::ranks, &RouterConfig::top_k, &RouterConfig::n_limited_groups, &ParallelConfig::placement}},
      {"bytes_across_nodes",
       {&ParallelConfig::ranks_per_node, &RouterConfig::n_limited_groups, &ParallelConfig::placement}},
      {"dispatch_overload", {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff, &ParallelConfig::placement}},
      {"bytes_saved", {&RouterConfig::n_limited_groups, &RouterConfig::top_k, &ParallelConfig::ranks}},
  };
  return rows;
}

}  // namespace

const std::vector<Setting>& knobs_of(FigureKey figure) {
  static const std::vector<Setting> none;
  static const std::map<std::string_view, const std::vector<Setting>*> by_key = [] {
    std::map<std::string_view, const std::vector<Setting>*> knobs;
    for (const Row& row : table()) knobs[row.figure.info().key] = &row.knobs;
    return knobs;
  }();
  const auto found = by_key.find(figure.info().key);
  return found == by_key.end() ? none : *found->second;
}

bool depends_on_model_sizes(FigureKey figure) {
  return figure == Metric::tokens_per_s || figure == Metric::step_ms;
}

std::string knobs_text(FigureKey figure) {
  std::string text = depends_on_model_sizes(figure) ? "model sizes" : "";
  for (const Setting knob : knobs_of(figure)) text += (text.empty() ? "" : ", ") + knob.key();
  return text;
}

}  // namespace moescope
