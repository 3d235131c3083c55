// Explanations of scalars of a run and of a layer.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/files/text/words.h"
#include "core/findings/explain/explain_parts.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "core/numerics/processor.h"
#include "core/recording/history/router_window.h"

namespace moescope::explaining {
namespace {

// Returns the figure `metric` of every MoE layer at the step.
std::vector<double> of_layers(const Context& at, Metric metric) {
  std::vector<double> values;
  for (const int layer : at.info().moe_layers) {
    const float value = at.history.values(metric, layer, {at.step, at.step}).front();
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// Explains a mean over the tokens of the batch, of which only the mean is recorded.
Parts mean_of_tokens(const Context& at, const std::string& quantity) {
  if (at.tokens() <= 0) return plain(at, "mean over the tokens of " + quantity);
  const double tokens = at.tokens();
  return {num(at.value * tokens) + " / " + num(tokens),
          "the sum over the batch's " + grouped(at.tokens()) + " tokens of " + quantity + ", divided by their number"};
}

Parts ce_loss(const Context& at) {
  const double p = std::exp(-at.value);
  const auto settings = at.history.settings_at(at.step);
  const bool reads_bytes = settings->config() && settings->config()->reads_bytes();
  return {"-ln(" + num(p) + ")",
          num(p) +
              " is the probability that the model gives to the right next token: the geometric mean over the batch's " +
              (at.tokens() > 0 ? grouped(at.tokens()) + " " : std::string()) + "tokens." +
              (reads_bytes ? " A uniform guess gives 1/256: a token is a byte." : "")};
}

Parts sum_of_layers(const Context& at, Metric metric, const char* what) {
  std::vector<double> values = of_layers(at, metric);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (values.empty() || std::fabs(sum - at.value) > 1e-3 * std::fabs(at.value) + 1e-12) return plain(at, what);
  return {sum_text(values), std::string(what) + " of the MoE layers, " + listed(at.info().moe_layers)};
}

Parts grad_norm(const Context& at) {
  Parts parts{"sqrt(" + num(at.value * at.value) + ")", "the sum of the squares of all gradients"};
  const auto clip = at.setting(&OptimizerConfig::clip);
  if (!clip) return parts;
  parts.note += at.value > *clip ? "; above optimizer.clip = " + num(*clip) + ", so the gradient is multiplied by " +
                                       num(*clip / at.value)
                                 : "; not above optimizer.clip = " + num(*clip) + ", so the gradient is not clipped";
  return parts;
}

Parts learning_rate(const Context& at) {
  const auto settings = at.history.settings_at(at.step);
  if (!settings->config()) return plain(at, "from the run's schedule");
  const OptimizerConfig& o = settings->config()->optimizer;
  const double step = at.step, warmup = o.warmup_steps;
  if (step < warmup)
    return {num(o.lr) + " * " + num(step + 1) + " / " + num(warmup),
            "warm-up: optimizer.lr times the steps so far, over the steps of the warm-up"};
  if (o.schedule == Schedule::constant) return {num(o.lr), "constant after the warm-up"};
  const double share = std::min(1.0, (step - warmup) / std::max(1.0, o.total_steps - warmup));
  return {
      num(o.lr_min) + " + (" + num(o.lr) + " - " + num(o.lr_min) + ") * (1 + cos(3.14159265 * " + num(share) + ")) / 2",
      "cosine from optimizer.lr to lr_min: " + percent(share) + " of the way after the warm-up"};
}

// Adds the matrix units to the note, because times depend on them.
Parts with_units(const Context& at, Parts parts) {
  const std::string units = multiplied_by(at.info().kernels);
  if (!units.empty()) parts.note += (parts.note.empty() ? "GEMMs: " : ". GEMMs: ") + units;
  return parts;
}

Parts tokens_per_s(const Context& at) {
  if (at.tokens() <= 0) return plain(at);
  return {num(at.tokens()) + " / " + num(at.tokens() / at.value),
          "tokens of the batch over the seconds that the step took"};
}

Parts step_ms(const Context& at) {
  if (!at.frame || at.frame->step != at.step) return plain(at, "sum over the phases of the step");
  std::vector<double> values;
  std::string names;
  for (int phase = 0; phase < kNumPhases; ++phase) {
    const double ms = at.frame->phase_ms[phase];
    if (ms <= 0) continue;
    values.push_back(ms);
    names += (names.empty() ? "" : ", ") + std::string(phase_name(static_cast<Phase>(phase)));
  }
  if (values.empty()) return plain(at, "sum over the phases of the step");
  return {joined(values, " + ", num), names};
}

Parts median_layer(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values);
  if (values.size() <= kMaxTerms) return {function_of_values("median", values), "the layers' values in order"};
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2) return {num(values[middle]), fmt::format("the middle one of {} layers", values.size())};
  return {"(" + num(values[middle - 1]) + " + " + num(values[middle]) + ") / 2",
          fmt::format("the middle two of {} layers", values.size())};
}

Parts upper_layers(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values);
  const double place = 0.9 * (values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return {num(values.back()), "the only layer"};
  return {
      num(values[below]) + " + " + num(place - std::floor(place)) + " * (" + num(values[below + 1]) + " - " +
          num(values[below]) + ")",
      fmt::format("between places {} and {} of {} layers in order of the value", below + 1, below + 2, values.size())};
}

Parts worst_layer(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values, std::greater{});
  if (values.size() > kMaxTerms) values.resize(kMaxTerms);
  return {function_of_values("max", values), "the highest of the layers' values"};
}

std::string fullest(const RouterFrame& router) {
  const auto fullest_expert = std::ranges::max_element(router.tokens_per_expert);
  return fmt::format("expert {}", fullest_expert - router.tokens_per_expert.begin());
}

Parts max_vio(const Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const double mean = total(counts) / static_cast<double>(counts.size());
  return {"(" + num(*std::ranges::max_element(counts)) + " - " + num(mean) + ") / " + num(mean),
          fullest(*at.router) + " has the most slots; the fair share is n = T K / E = " + num(mean)};
}

Parts max_vio_window(const Context& at) {
  Parts parts{num(at.value + 1) + " - 1", "the share of the fullest expert"};
  const int window = at.info().window;
  if (window <= 0) return parts;
  const StepRange range = window_steps(at.history, at.step, window);
  const std::vector<float> mean = at.history.utilisation(at.target.layer, range, 1, Summary::mean);
  if (mean.empty() || std::isnan(mean[0])) return parts;
  const auto fullest_expert = std::ranges::max_element(mean) - mean.begin();
  parts.note = fmt::format("expert {} has had {} times its fair share over {}, at most the last W = {} steps",
                           fullest_expert, num(at.value + 1), steps_in_words(range.first, range.last), window);
  return parts;
}

Parts variation(const Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const double mean = total(counts) / static_cast<double>(counts.size());
  return {num(at.value * mean) + " / " + num(mean), "standard deviation of the slots over their mean n = T K / E"};
}

Parts load_entropy(const Context& at) {
  const double experts = at.info().n_experts;
  if (experts < 2) return plain(at);
  return {num(at.value * std::log(experts)) + " / ln(" + num(experts) + ")",
          "as even as if " + decimal(std::pow(experts, at.value), 3) + " of the " + num(experts) +
              " experts shared all tokens"};
}

Parts dead_fraction(const Context& at) {
  const int experts = at.info().n_experts;
  if (experts < 1) return plain(at);
  return {fmt::format("{} / {}", num(std::round(at.value * experts)), experts),
          fmt::format("experts without a token in the last {} steps, of all experts", at.info().window)};
}

Parts score_entropy(const Context& at) {
  const double even = std::exp(at.value);
  return {
      "ln(" + num(even) + ")",
      fmt::format("a token's scores are spread as over {} experts of equal score (mean over tokens); K is {} of E = {}",
                  decimal(even, 3), at.info().top_k, at.info().n_experts)};
}

Parts layer_loss(const Context& at, double RouterConfig::*coefficient, const std::string& factor) {
  const auto a = at.setting(coefficient);
  if (!a || *a == 0) return plain(at, factor);
  return {num(*a) + " * " + num(at.value / *a), Setting(coefficient).key() + " times " + factor};
}

Parts balance_loss(const Context& at) {
  const bool sequences = at.setting(&RouterConfig::aux_mode) == AuxMode::sequence;
  return layer_loss(at, &RouterConfig::aux_coeff,
                    sequences ? "the mean over sequences of E sum_e f_e P_e, which is 1 if every sequence is even"
                              : "E sum_e f_e P_e, which is 1 at an even load");
}

Parts z_loss(const Context& at) {
  return layer_loss(at, &RouterConfig::z_coeff, "the mean square of ln sum_e exp logit");
}

Parts margin(const Context& at) {
  return mean_of_tokens(at, "s_(K) - s_(K+1)");
}

Parts max_vio_of_parts(const Context& at) {
  return plain(at, "mean of max_e n_e / n - 1 over the microbatches or sequences; only the mean is recorded");
}

Parts padding(const Context& at) {
  return padded_to(at.router->tokens_per_expert, 32);
}

Parts dropped(const Context& at) {
  const auto factor = at.setting(&RouterConfig::capacity_factor);
  const auto& counts = at.router->tokens_per_expert;
  const double slots = total(counts);
  if (!factor || *factor <= 0) return plain(at, "slots beyond the capacity, of all slots");
  const double capacity = std::ceil(*factor * slots / counts.size());
  return {num(std::round(at.value * slots)) + " / " + num(slots), "slots beyond the capacity of " + num(capacity) +
                                                                      " an expert (router.capacity_factor " +
                                                                      num(*factor) + "), of all slots"};
}

Parts share_of_tokens(const Context& at, const std::string& note) {
  if (at.tokens() <= 0) return plain(at);
  return {fmt::format("{} / {}", num(std::round(at.value * at.tokens())), at.tokens()), note};
}

Parts flips(const Context& at) {
  return share_of_tokens(at, "tokens whose set of experts differs from run A's, of the batch");
}

Parts changed_tokens(const Context& at) {
  return share_of_tokens(at, "tokens whose set of experts changes with this rounding alone, of the batch");
}

Parts turned_experts(const Context& at) {
  const int experts = at.info().n_experts;
  return {fmt::format("{} / {}", num(std::round(at.value * experts)), experts),
          "experts whose bias moves in another direction, of all experts"};
}

Parts mean_sqnr(const Context& at) {
  std::vector<double> values;
  const auto frame = at.history.quant_frame_at(at.step);
  if (frame && frame->step == at.step) {
    for (const QuantFrame& quant : frame->quants) {
      if ((at.target.layer == kWholeRun || quant.layer == at.target.layer) && std::isfinite(quant.sqnr_db)) {
        values.push_back(quant.sqnr_db);
      }
    }
  }
  if (values.empty()) return plain(at, "mean over the quantized operands");
  return {mean_text(values), "over " + counted(std::ssize(values), "quantized operand", "quantized operands")};
}

// Explains a scalar of a router: for a layer by `of_layer`, for the run as the mean over layers.
template <auto of_layer>
Parts of_router(const Context& at) {
  if (at.target.layer != kWholeRun) return of_layer(at);
  const std::vector<double> values = of_layers(at, *find_scalar(at.target.key.info().key));
  if (values.empty()) return plain(at);
  return {mean_text(values), "mean over the MoE layers, " + listed(at.info().moe_layers)};
}

// As of_router(), if `of_layer` reads the load of the layer.
template <auto of_layer>
Parts of_load(const Context& at) {
  const bool is_known = at.router && total(at.router->tokens_per_expert) > 0;
  if (at.target.layer != kWholeRun && !is_known) return plain(at, "the load itself is not kept for this step");
  return of_router<of_layer>(at);
}

// Adds to the note what the reference is.
std::string with_reference(const Context& at, std::string note) {
  const bool pair = run_origin(at.info()) == RunOrigin::checkpoint;
  return note + (pair ? "; the reference is run A" : "; the reference is an FP32 pass with the same weights");
}

Parts predictions(const Context& at) {
  return plain(at, with_reference(at, "mean over the tokens, of all probabilities of the next token"));
}
Parts next_tokens(const Context& at) {
  return plain(at, with_reference(at, "mean over the tokens, of the probability of the token that follows"));
}
Parts changed_probabilities(const Context& at) {
  return share_of_tokens(
      at, with_reference(at, "tokens whose probability differs by more than a factor of 2, of the batch"));
}
Parts flipped_in_any_layer(const Context& at) {
  return share_of_tokens(
      at, with_reference(at, "tokens with other experts than in the reference in at least one layer, of the batch"));
}
Parts gradient_angle(const Context& at) {
  return angle(at, "between the gradient and the FP32 gradient");
}

struct ScalarParts {
  Metric metric;
  Parts (*parts)(const Context& at);
};
constexpr ScalarParts kScalarParts[] = {
    {Metric::ce_loss, ce_loss},
    {Metric::aux_loss, [](auto& at) { return sum_of_layers(at, Metric::router_aux_loss, "the auxiliary losses"); }},
    {Metric::z_loss, [](auto& at) { return sum_of_layers(at, Metric::router_z_loss, "the z-losses"); }},
    {Metric::grad_norm, grad_norm},
    {Metric::lr, learning_rate},
    {Metric::tokens_per_s, [](auto& at) { return with_units(at, tokens_per_s(at)); }},
    {Metric::step_ms, [](auto& at) { return with_units(at, step_ms(at)); }},
    {Metric::max_vio_p50, [](auto& at) { return median_layer(at, Metric::max_vio); }},
    {Metric::max_vio_p90, [](auto& at) { return upper_layers(at, Metric::max_vio); }},
    {Metric::max_vio_max, [](auto& at) { return worst_layer(at, Metric::max_vio); }},
    {Metric::max_vio_window_p50, [](auto& at) { return median_layer(at, Metric::max_vio_window); }},
    {Metric::max_vio_window_p90, [](auto& at) { return upper_layers(at, Metric::max_vio_window); }},
    {Metric::max_vio_window_max, [](auto& at) { return worst_layer(at, Metric::max_vio_window); }},
    {Metric::max_vio, of_load<max_vio>},
    {Metric::max_vio_window, of_router<max_vio_window>},
    {Metric::cv, of_load<variation>},
    {Metric::entropy_norm, of_router<load_entropy>},
    {Metric::dead_fraction, of_router<dead_fraction>},
    {Metric::score_entropy, of_router<score_entropy>},
    {Metric::margin, of_router<margin>},
    {Metric::router_aux_loss, of_router<balance_loss>},
    {Metric::router_z_loss, of_router<z_loss>},
    {Metric::padding_fraction, of_load<padding>},
    {Metric::dropped_fraction, of_load<dropped>},
    {Metric::max_vio_microbatch, of_router<max_vio_of_parts>},
    {Metric::max_vio_sequence, of_router<max_vio_of_parts>},
    {Metric::flip_rate, of_router<flips>},
    {Metric::changed_by_operands, of_router<changed_tokens>},
    {Metric::changed_by_gate_output, of_router<changed_tokens>},
    {Metric::changed_by_bias, of_router<changed_tokens>},
    {Metric::changed_by_counts, of_router<turned_experts>},
    {Metric::fp32_kl, predictions},
    {Metric::fp32_k1, next_tokens},
    {Metric::fp32_k3, next_tokens},
    {Metric::fp32_ratio_beyond_2, changed_probabilities},
    {Metric::fp32_any_layer_flipped, flipped_in_any_layer},
    {Metric::quant_sqnr_db, mean_sqnr},
    {Metric::gradient_snr_db, gradient_snr},
    {Metric::pinned_gradient_snr_db, gradient_snr},
    {Metric::gradient_cosine, gradient_angle},
    {Metric::pinned_gradient_cosine, gradient_angle},
};

}  // namespace

Parts scalar_parts(const Context& at, Metric metric) {
  const auto* row = std::ranges::find(kScalarParts, metric, &ScalarParts::metric);
  return row == std::end(kScalarParts) ? plain(at) : row->parts(at);
}

}  // namespace moescope::explaining
