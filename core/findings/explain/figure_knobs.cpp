#include "core/findings/explain/figure_knobs.h"

#include <algorithm>

#include "core/files/text/words.h"

namespace moescope {

namespace {

struct Row {
  std::vector<FigureKey> figures;
  std::vector<Setting> knobs;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"ce_loss"}, {&OptimizerConfig::lr, &PrecisionConfig::experts}},
      {{"aux_loss", "router_aux_loss"}, {&RouterConfig::aux_mode, &RouterConfig::aux_coeff}},
      {{"z_loss", "router_z_loss"}, {&RouterConfig::z_coeff}},
      {{"grad_norm"}, {&OptimizerConfig::clip, &OptimizerConfig::lr}},
      {{"lr"}, {&OptimizerConfig::lr, &OptimizerConfig::schedule, &OptimizerConfig::warmup_steps}},
      {{"tokens_per_s"}, {&DataConfig::batch}},
      {{"val_loss"}, {&TelemetryConfig::validation_every, &DataConfig::held_out}},
      {{"max_logit"}, {&OptimizerConfig::qk_clip, &OptimizerConfig::lr}},
      {{"max_vio", "cv", "entropy_norm", "max_vio_p50", "max_vio_p90", "max_vio_max", "max_vio_window_p50",
        "max_vio_window_p90", "max_vio_window_max", "utilisation"},
       {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {{"max_vio_window", "dead_fraction"},
       {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff, &TelemetryConfig::window}},
      {{"score_entropy"}, {&RouterConfig::z_coeff, &RouterConfig::score_func}},
      {{"margin"}, {&RouterConfig::bias_update_rate, &PrecisionConfig::experts}},
      {{"padding_fraction"}, {&DataConfig::batch, &ModelConfig::n_experts}},
      {{"dropped_fraction"}, {&RouterConfig::capacity_factor, &RouterConfig::token_drop}},
      {{"mutual_information"}, {&RouterConfig::score_func, &RouterConfig::aux_coeff, &RouterConfig::z_coeff}},
      {{"max_vio_microbatch"}, {&DataConfig::microbatches, &RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {{"max_vio_sequence"}, {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &RouterConfig::bias_update_rate}},
      {{"predicted_share"}, {&RouterConfig::top_k, &ModelConfig::n_experts}},
      {{"amax"}, {&OptimizerConfig::lr}},
      {{"sqnr_db", "relative_l2", "cosine", "underflow", "clipped", "clipped_blocks", "quant_sqnr_db", "e8m0_blocks",
        "margin_flipped"},
       {&PrecisionConfig::experts}},
      {{"crest"}, {&PrecisionConfig::hadamard}},
      {{"flip_rate"}, {&PrecisionConfig::experts, &RouterConfig::bias_update_rate}},
      {{"overlap"}, {&RouterConfig::replay, &PrecisionConfig::experts}},
      {{"gradient_snr_db", "gradient_cosine", "pinned_gradient_snr_db", "pinned_gradient_cosine", "fp32_kl", "fp32_k1",
        "fp32_k3", "fp32_ratio_beyond_2", "fp32_any_layer_flipped"},
       {&PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {{"step_ms"}, {&DataConfig::batch, &PrecisionConfig::experts}},
      {{"ranks_per_token"}, {&ParallelConfig::ranks, &RouterConfig::n_limited_groups, &RouterConfig::top_k}},
      {{"nodes_per_token", "nodes"}, {&ParallelConfig::ranks_per_node, &RouterConfig::n_limited_groups}},
      {{"rank_overload"}, {&ParallelConfig::ranks, &RouterConfig::bias_update_rate, &RouterConfig::aux_coeff}},
      {{"rounding_flip_rate"},
       {&PrecisionConfig::router_gate, &PrecisionConfig::experts, &TelemetryConfig::gradient_every}},
      {{"changed_by_operands"}, {&PrecisionConfig::router_gate, &TelemetryConfig::gradient_every}},
      {{"changed_by_gate_output"}, {&PrecisionConfig::gate_output, &TelemetryConfig::gradient_every}},
      {{"changed_by_bias"},
       {&RouterConfig::bias_format, &RouterConfig::bias_centring, &TelemetryConfig::gradient_every}},
      {{"changed_by_counts"}, {&RouterConfig::count_format, &DataConfig::batch, &TelemetryConfig::gradient_every}},
      {{"changed_by_rounding", "max_vio_with_rounding"},
       {&RouterConfig::bias_centring, &TelemetryConfig::gradient_every}},
      {{"bias_values"}, {&RouterConfig::bias_format, &RouterConfig::bias_centring, &RouterConfig::bias_update_rate}},
      {{"expert_bias"},
       {&RouterConfig::balance_rule, &RouterConfig::bias_update_rate, &RouterConfig::bias_centring,
        &RouterConfig::quantile_ema}},
      {{"score_mass"}, {&RouterConfig::aux_coeff}},
      {{"gate_mass"}, {&RouterConfig::route_norm, &RouterConfig::bias_update_rate}},
      {{"copies"}, {&ParallelConfig::ranks, &RouterConfig::top_k}},
      {{"distinct"}, {&ParallelConfig::ranks, &RouterConfig::n_limited_groups}},
      {{"margin_tokens", "margin_histogram"}, {&RouterConfig::bias_update_rate}},
      {{"score_histogram"}, {&RouterConfig::score_func, &RouterConfig::z_coeff}},
      {{"domain_share", "domain_lift"}, {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &DataConfig::path}},
      {{"coactivation"}, {&RouterConfig::top_k, &RouterConfig::n_groups}},
      {{"output_similarity"}, {&ModelConfig::n_experts, &ModelConfig::n_shared}},
      {{"byte_affinity"}, {&ModelConfig::n_experts, &RouterConfig::top_k}},
      {{"routing_stability", "unchanged_choices"}, {&RouterConfig::bias_update_rate, &OptimizerConfig::lr}},
      {{"filler_fraction"}, {&RouterConfig::capacity_factor}},
      {{"bias_for_share"}, {&RouterConfig::balance_rule, &RouterConfig::bias_update_rate}},
      {{"bytes_moved"},
       {&ParallelConfig::ranks, &RouterConfig::top_k, &RouterConfig::n_limited_groups, &ParallelConfig::placement}},
      {{"bytes_across_nodes"},
       {&ParallelConfig::ranks_per_node, &RouterConfig::n_limited_groups, &ParallelConfig::placement}},
      {{"dispatch_overload"}, {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff, &ParallelConfig::placement}},
      {{"saved_by_deepep"}, {&RouterConfig::n_limited_groups, &RouterConfig::top_k, &ParallelConfig::ranks}},
  };
  return rows;
}

}  // namespace

const std::vector<Setting>& knobs_of(FigureKey figure) {
  static const std::vector<Setting> none;
  const auto row = std::ranges::find_if(table(), [&](const Row& knobs_row) {
    return std::ranges::find(knobs_row.figures, figure) != knobs_row.figures.end();
  });
  return row == table().end() ? none : row->knobs;
}

bool depends_on_model_sizes(FigureKey figure) {
  return figure == Metric::tokens_per_s || figure == Metric::step_ms;
}

std::string knobs_text(FigureKey figure) {
  const std::string knobs = joined(knobs_of(figure), ", ", &Setting::key);
  if (!depends_on_model_sizes(figure)) return knobs;
  return knobs.empty() ? "model sizes" : "model sizes, " + knobs;
}

}  // namespace moescope
