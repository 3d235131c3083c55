// Explanations of scalars of a run and of a layer.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/files/text/words.h"
#include "core/findings/explain/explain_parts.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "core/numerics/processor.h"
#include "core/recording/history/router_window.h"

namespace moescope::explaining {
namespace {

// The parts of a figure whose row has CardForm::own, at a layer or of the run.
template <Metric metric>
Parts own_parts(const Context& at) = delete;

constexpr const char* kNoLoad = "the tokens of each expert are not kept for this step";

bool has_load(const Context& at) {
  return at.router && total(at.router->tokens_per_expert) > 0 && !are_shares(at.info(), *at.router);
}

// Returns the figure `metric` of every MoE layer at the step.
std::vector<double> values_by_layer(const Context& at, Metric metric) {
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

template <>
Parts own_parts<Metric::ce_loss>(const Context& at) {
  const double p = std::exp(-at.value);
  const auto settings = at.history.settings_at(at.step);
  const bool reads_bytes = settings->config() && settings->config()->reads_bytes();
  return {"-ln(" + num(p) + ")",
          num(p) +
              " is the probability that the model gives to the right next token: the geometric mean over the batch's " +
              (at.tokens() > 0 ? grouped(at.tokens()) + " " : std::string()) + "tokens." +
              (reads_bytes ? " A uniform guess gives 1/256: a token is a byte." : "")};
}

Parts sum_of_layers(const Context& at, Metric metric, const std::string& text) {
  const std::vector<double> values = values_by_layer(at, metric);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (values.empty() || std::fabs(sum - at.value) > 1e-3 * std::fabs(at.value) + 1e-12) return plain(at, text);
  return {sum_text(values), text + " of the MoE layers, " + listed(at.info().moe_layers)};
}

template <>
Parts own_parts<Metric::grad_norm>(const Context& at) {
  Parts parts{"sqrt(" + num(at.value * at.value) + ")", "the sum of the squares of all gradients"};
  const auto clip = at.setting(&OptimizerConfig::clip);
  if (!clip) return parts;
  parts.note += at.value > *clip ? "; above optimizer.clip = " + num(*clip) + ", so the gradient is multiplied by " +
                                       num(*clip / at.value)
                                 : "; not above optimizer.clip = " + num(*clip) + ", so the gradient is not clipped";
  return parts;
}

template <>
Parts own_parts<Metric::lr>(const Context& at) {
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

template <>
Parts own_parts<Metric::tokens_per_s>(const Context& at) {
  if (at.tokens() <= 0) return with_units(at, plain(at));
  return with_units(at, {num(at.tokens()) + " / " + num(at.tokens() / at.value),
                         "tokens of the batch over the seconds that the step took"});
}

template <>
Parts own_parts<Metric::step_ms>(const Context& at) {
  std::vector<double> values;
  std::string names;
  const bool has_frame = at.frame && at.frame->step == at.step;
  for (int phase = 0; has_frame && phase < kNumPhases; ++phase) {
    const double ms = at.frame->phase_ms[phase];
    if (ms <= 0) continue;
    values.push_back(ms);
    names += (names.empty() ? "" : ", ") + std::string(phase_name(static_cast<Phase>(phase)));
  }
  if (values.empty()) return with_units(at, plain(at, "sum over the phases of the step"));
  return with_units(at, {joined(values, " + ", num), names});
}

Parts median_layer(const Context& at, Metric metric) {
  std::vector<double> values = values_by_layer(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values);
  if (values.size() <= kMaxTerms) return {function_of_values("median", values), "the layers' values in order"};
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2) return {num(values[middle]), fmt::format("the middle one of {} layers", values.size())};
  return {"(" + num(values[middle - 1]) + " + " + num(values[middle]) + ") / 2",
          fmt::format("the middle two of {} layers", values.size())};
}

Parts upper_layers(const Context& at, Metric metric) {
  std::vector<double> values = values_by_layer(at, metric);
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
  std::vector<double> values = values_by_layer(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values, std::greater{});
  if (values.size() > kMaxTerms) values.resize(kMaxTerms);
  return {function_of_values("max", values), "the highest of the layers' values"};
}

std::string fullest(const RouterFrame& router) {
  const auto fullest_expert = std::ranges::max_element(router.tokens_per_expert);
  return fmt::format("expert {}", fullest_expert - router.tokens_per_expert.begin());
}

template <>
Parts own_parts<Metric::max_vio>(const Context& at) {
  if (!has_load(at)) return plain(at, kNoLoad);
  const auto& counts = at.router->tokens_per_expert;
  const double mean = total(counts) / static_cast<double>(counts.size());
  return {"(" + num(*std::ranges::max_element(counts)) + " - " + num(mean) + ") / " + num(mean),
          fullest(*at.router) + " has the most copies; the fair share is n = T K / E = " + num(mean)};
}

template <>
Parts own_parts<Metric::max_vio_window>(const Context& at) {
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

template <>
Parts own_parts<Metric::cv>(const Context& at) {
  if (!has_load(at)) return plain(at, kNoLoad);
  const auto& counts = at.router->tokens_per_expert;
  const double mean = total(counts) / static_cast<double>(counts.size());
  return {num(at.value * mean) + " / " + num(mean), "standard deviation of the copies over their mean n = T K / E"};
}

template <>
Parts own_parts<Metric::entropy_norm>(const Context& at) {
  const double experts = at.info().n_experts;
  if (experts < 2) return plain(at);
  return {num(at.value * std::log(experts)) + " / ln(" + num(experts) + ")",
          "as even as if " + decimal(std::pow(experts, at.value), 3) + " of the " + num(experts) +
              " experts shared all tokens"};
}

template <>
Parts own_parts<Metric::dead_fraction>(const Context& at) {
  const int experts = at.info().n_experts;
  if (experts < 1) return plain(at);
  return {fmt::format("{} / {}", num(std::round(at.value * experts)), experts),
          fmt::format("experts without a token in the last {} steps, of all experts", at.info().window)};
}

template <>
Parts own_parts<Metric::score_entropy>(const Context& at) {
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

template <>
Parts own_parts<Metric::router_aux_loss>(const Context& at) {
  const bool sequences = at.setting(&RouterConfig::aux_mode) == AuxMode::sequence;
  return layer_loss(at, &RouterConfig::aux_coeff,
                    sequences ? "the mean over sequences of E sum_e f_e P_e, which is 1 if every sequence is even"
                              : "E sum_e f_e P_e, which is 1 at an even load");
}

template <>
Parts own_parts<Metric::router_z_loss>(const Context& at) {
  return layer_loss(at, &RouterConfig::z_coeff, "the mean square of ln sum_e exp logit");
}

template <>
Parts own_parts<Metric::padding_fraction>(const Context& at) {
  if (!has_load(at)) return plain(at, kNoLoad);
  return padded_to(at.router->tokens_per_expert, 32);
}

template <>
Parts own_parts<Metric::dropped_fraction>(const Context& at) {
  if (!has_load(at)) return plain(at, kNoLoad);
  const auto factor = at.setting(&RouterConfig::capacity_factor);
  const auto& counts = at.router->tokens_per_expert;
  const double slots = total(counts);
  if (!factor || *factor <= 0) return plain(at, "copies beyond the capacity, of all copies");
  const double capacity = std::ceil(*factor * slots / counts.size());
  return {num(std::round(at.value * slots)) + " / " + num(slots), "copies beyond the capacity of " + num(capacity) +
                                                                      " an expert (router.capacity_factor " +
                                                                      num(*factor) + "), of all copies"};
}

Parts share_of_tokens(const Context& at, const std::string& note) {
  if (at.tokens() <= 0) return plain(at);
  return {fmt::format("{} / {}", num(std::round(at.value * at.tokens())), at.tokens()), note};
}

template <>
Parts own_parts<Metric::changed_by_counts>(const Context& at) {
  const int experts = at.info().n_experts;
  return {fmt::format("{} / {}", num(std::round(at.value * experts)), experts),
          "experts whose bias moves in another direction, of all experts"};
}

Parts mean_sqnr(const Context& at) {
  std::vector<double> values;
  const auto frame = at.history.quant_frame_at(at.step);
  if (frame && frame->step == at.step) {
    for (const QuantFrame& quant : frame->quants)
      if ((at.target.layer == kWholeRun || quant.layer == at.target.layer) && std::isfinite(quant.sqnr_db))
        values.push_back(quant.sqnr_db);
  }
  if (values.empty()) return plain(at, "mean over the quantized operands");
  return {mean_text(values), "over " + counted(std::ssize(values), "quantized operand", "quantized operands")};
}

Parts parts_of_form(const Context& at, CardParts parts, const std::string& text) {
  switch (parts.form) {
    case CardForm::share_of_tokens:
      return share_of_tokens(at, text);
    case CardForm::mean_of_tokens:
      return mean_of_tokens(at, text);
    case CardForm::sum_of_layers:
      return sum_of_layers(at, parts.layer_metric, text);
    case CardForm::median_layer:
      return median_layer(at, parts.layer_metric);
    case CardForm::upper_layers:
      return upper_layers(at, parts.layer_metric);
    case CardForm::worst_layer:
      return worst_layer(at, parts.layer_metric);
    case CardForm::mean_of_operands:
      return mean_sqnr(at);
    case CardForm::gradient_snr:
      return gradient_snr(at);
    case CardForm::gradient_angle:
      return angle(at, "between the gradient and the FP32 gradient");
    default:
      return plain(at, text);
  }
}

using PartsFunction = Parts (*)(const Context&);

template <Metric metric>
constexpr PartsFunction own_function() {
  if constexpr (metric_info(metric).parts.form == CardForm::own)
    return &own_parts<metric>;
  else
    return nullptr;
}

template <int... metrics>
constexpr std::array<PartsFunction, sizeof...(metrics)> own_functions(std::integer_sequence<int, metrics...>) {
  return {own_function<static_cast<Metric>(metrics)>()...};
}
constexpr auto kOwnFunctions = own_functions(std::make_integer_sequence<int, kNumMetrics>());

// True if the card of the run's value shows the mean over the MoE layers.
bool is_mean_of_layers(Metric metric, CardParts parts) {
  if (metric_info(metric).run_value == RunValue::alone) return false;
  return parts.form == CardForm::value ? parts.text != nullptr : parts.form <= CardForm::mean_of_tokens;
}

}  // namespace

Parts scalar_parts(const Context& at, Metric metric) {
  const CardParts parts = metric_info(metric).parts;
  if (at.target.layer == kWholeRun && is_mean_of_layers(metric, parts)) {
    const std::vector<double> values = values_by_layer(at, metric);
    if (values.empty()) return plain(at);
    return {mean_text(values), "mean over the MoE layers, " + listed(at.info().moe_layers)};
  }
  if (const PartsFunction function = kOwnFunctions[static_cast<std::size_t>(metric)]) return function(at);
  const bool has_pair = run_origin(at.info()) == RunOrigin::checkpoint;
  const char* reference = has_pair ? "run A" : "an FP32 pass with the same weights";
  return parts_of_form(at, parts, fmt::format(fmt::runtime(parts.text ? parts.text : ""), reference));
}

}  // namespace moescope::explaining
