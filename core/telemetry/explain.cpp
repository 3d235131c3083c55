#include "core/telemetry/explain.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "core/telemetry/frame_fields.h"
#include "core/telemetry/router_stats.h"
#include "core/telemetry/run_settings.h"
#include "core/telemetry/specialisation.h"
#include "core/telemetry/volume_stats.h"
#include "core/telemetry/words.h"

namespace moescope {

namespace {

constexpr std::size_t kMostTerms = 10;  // of a sum or a mean that is written out

std::string num(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// An expression and its note.
struct Parts {
  std::string expression, note;
};

struct Context {
  const History& history;
  const FigureTarget& target;
  std::int64_t step = 0;                        // of the value shown
  std::shared_ptr<const TelemetryFrame> frame;  // with arrays, at or before; may be older than `step`
  const RouterFrame* router = nullptr;          // of the target's layer, of the very step; nullptr: none
  double value = 0;

  std::int64_t tokens() const { return history.info().tokens_per_step; }
  const RunInfo& info() const { return history.info(); }
  std::optional<double> setting(const char* key) const { return number_at(history, key, step); }
};

std::uint64_t total(const std::vector<std::uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::string many(const char* function, const std::vector<double>& values) {
  if (values.size() == 1) return num(values[0]);
  std::string text = std::string(function) + "(";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + num(values[i]);
  return text + ")";
}

std::string mean_text(const std::vector<double>& values) {
  if (values.size() <= kMostTerms) return many("mean", values);
  return num(std::accumulate(values.begin(), values.end(), 0.0)) + " / " + std::to_string(values.size());
}

std::string sum_text(const std::vector<double>& values) {
  if (values.size() > kMostTerms) {
    return std::to_string(values.size()) + " * " +
           num(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
  }
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? " + " : "") + num(values[i]);
  return text;
}

// The figure `metric` of every MoE layer at the step.
std::vector<double> of_layers(const Context& at, Metric metric) {
  std::vector<double> values;
  for (const int layer : at.info().moe_layers) {
    const float value = at.history.values(metric, layer, {at.step, at.step}).front();
    if (std::isfinite(value)) values.push_back(static_cast<double>(value));
  }
  return values;
}

Parts plain(const Context& at, std::string note = {}) {
  return {num(at.value), std::move(note)};
}

// A mean over the tokens of the batch, of which only the mean is kept.
Parts mean_of_tokens(const Context& at, const std::string& of) {
  if (at.tokens() <= 0) return plain(at, "mean over the tokens of " + of);
  const auto tokens = static_cast<double>(at.tokens());
  return {num(at.value * tokens) + " / " + num(tokens),
          "the sum over the batch's " + grouped(at.tokens()) + " tokens of " + of + ", over their number"};
}

Parts ce_loss(const Context& at) {
  const double p = std::exp(-at.value);
  const bool trained_here = !at.history.info().config_toml.empty();
  return {"-ln(" + num(p) + ")",
          num(p) +
              " is the probability that the model gives the right next token: the geometric mean over the batch's " +
              (at.tokens() > 0 ? grouped(at.tokens()) + " " : std::string()) + "tokens." +
              (trained_here ? " A guess gives 1/256: a token is a byte." : "")};
}

Parts sum_of_layers(const Context& at, Metric metric, const char* what) {
  std::vector<double> values = of_layers(at, metric);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (values.empty() || std::fabs(sum - at.value) > 1e-3 * std::fabs(at.value) + 1e-12) return plain(at, what);
  return {sum_text(values), std::string(what) + " of the MoE layers, " + listed(at.info().moe_layers)};
}

Parts grad_norm(const Context& at) {
  Parts parts{"sqrt(" + num(at.value * at.value) + ")", "the sum of the squares of all gradients"};
  const auto clip = at.setting("optimizer.clip");
  if (!clip) return parts;
  parts.note += at.value > *clip
                    ? "; over optimizer.clip = " + num(*clip) + ", so the step uses " + num(*clip / at.value) + " of it"
                    : "; under optimizer.clip = " + num(*clip) + ", so nothing is cut";
  return parts;
}

Parts learning_rate(const Context& at) {
  const auto lr = at.setting("optimizer.lr"), low = at.setting("optimizer.lr_min");
  const auto warmup = at.setting("optimizer.warmup_steps"), steps = at.setting("optimizer.total_steps");
  const auto schedule = setting_at(at.history, "optimizer.schedule", at.step);
  const auto step = static_cast<double>(at.step);
  if (!lr || !low || !warmup || !steps || !schedule) return plain(at, "of the run's schedule");
  if (step < *warmup)
    return {num(*lr) + " * " + num(step + 1) + " / " + num(*warmup), "warm-up: optimizer.lr times the steps so far"};
  if (*schedule == "constant") return {num(*lr), "constant after the warm-up"};
  const double share = std::min(1.0, (step - *warmup) / std::max(1.0, *steps - *warmup));
  return {num(*low) + " + (" + num(*lr) + " - " + num(*low) + ") * (1 + cos(3.14159265 * " + num(share) + ")) / 2",
          "cosine from optimizer.lr to lr_min: " + percent(share) + " of the way after the warm-up"};
}

Parts tokens_per_s(const Context& at) {
  if (at.tokens() <= 0) return plain(at);
  return {num(static_cast<double>(at.tokens())) + " / " + num(static_cast<double>(at.tokens()) / at.value),
          "tokens of the batch over the seconds that the step took"};
}

Parts step_ms(const Context& at) {
  if (!at.frame || at.frame->step != at.step) return plain(at, "sum over the phases of the step");
  std::vector<double> values;
  std::string names;
  for (int phase = 0; phase < kNumPhases; ++phase) {
    const auto ms = static_cast<double>(at.frame->phase_ms[static_cast<std::size_t>(phase)]);
    if (ms <= 0) continue;
    values.push_back(ms);
    names += (names.empty() ? "" : ", ") + std::string(phase_name(static_cast<Phase>(phase)));
  }
  if (values.empty()) return plain(at, "sum over the phases of the step");
  std::string text;
  for (const double ms : values) text += (text.empty() ? "" : " + ") + num(ms);
  return {text, names};
}

Parts median_layer(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values);
  if (values.size() <= kMostTerms) return {many("median", values), "the layers' values in order"};
  const std::size_t half = values.size() / 2;
  if (values.size() % 2) return {num(values[half]), "the middle one of " + std::to_string(values.size()) + " layers"};
  return {"(" + num(values[half - 1]) + " + " + num(values[half]) + ") / 2",
          "the middle two of " + std::to_string(values.size()) + " layers"};
}

Parts upper_layers(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values);
  const double place = 0.9 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return {num(values.back()), "the only layer"};
  return {num(values[below]) + " + " + num(place - std::floor(place)) + " * (" + num(values[below + 1]) + " - " +
              num(values[below]) + ")",
          "between layers " + std::to_string(below + 1) + " and " + std::to_string(below + 2) + " of " +
              std::to_string(values.size()) + " in order of the value"};
}

Parts worst_layer(const Context& at, Metric metric) {
  std::vector<double> values = of_layers(at, metric);
  if (values.empty()) return plain(at);
  std::ranges::sort(values, std::greater{});
  if (values.size() > kMostTerms) values.resize(kMostTerms);
  return {many("max", values), "the highest of the layers' values"};
}

std::string fullest(const RouterFrame& router) {
  const auto most = std::ranges::max_element(router.tokens_per_expert);
  return "expert " + std::to_string(most - router.tokens_per_expert.begin());
}

Parts max_vio(const Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const double mean = static_cast<double>(total(counts)) / static_cast<double>(counts.size());
  return {"(" + num(*std::ranges::max_element(counts)) + " - " + num(mean) + ") / " + num(mean),
          fullest(*at.router) + " has the most slots; the fair share is n = T K / E = " + num(mean)};
}

Parts max_vio_window(const Context& at) {
  Parts parts{num(at.value + 1) + " - 1", "the share of the fullest expert"};
  const int window = at.info().window;
  if (window <= 0) return parts;
  const StepRange range{std::max(at.history.steps().first, at.step - window + 1), at.step};
  const std::vector<float> mean = at.history.utilisation(at.target.layer, range, 1, Summary::mean);
  if (mean.empty() || std::isnan(mean[0])) return parts;
  const auto most = std::ranges::max_element(mean) - mean.begin();
  parts.note = "expert " + std::to_string(most) + " has had " + num(at.value + 1) + " times its fair share over " +
               steps_in_words(range.first, range.last) + ", the last W = " + std::to_string(window) + " at most";
  return parts;
}

Parts variation(const Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const double mean = static_cast<double>(total(counts)) / static_cast<double>(counts.size());
  return {num(at.value * mean) + " / " + num(mean), "standard deviation of the slots over their mean n = T K / E"};
}

Parts load_entropy(const Context& at) {
  const auto experts = static_cast<double>(at.info().n_experts);
  if (experts < 2) return plain(at);
  return {num(at.value * std::log(experts)) + " / ln(" + num(experts) + ")",
          "as even as if " + decimal(std::pow(experts, at.value), 3) + " of the " + num(experts) +
              " experts shared all tokens"};
}

Parts dead_fraction(const Context& at) {
  const int experts = at.info().n_experts;
  if (experts < 1) return plain(at);
  return {num(std::round(at.value * experts)) + " / " + std::to_string(experts),
          "experts without a token in the last " + std::to_string(at.info().window) + " steps, of all"};
}

Parts score_entropy(const Context& at) {
  const double even = std::exp(at.value);
  return {"ln(" + num(even) + ")", "a token's scores are spread as over " + decimal(even, 3) +
                                       " experts of equal score (mean over tokens); K is " +
                                       std::to_string(at.info().top_k) +
                                       " of E = " + std::to_string(at.info().n_experts)};
}

Parts layer_loss(const Context& at, const char* coefficient, const char* rest) {
  const auto a = at.setting(coefficient);
  if (!a || *a == 0) return plain(at, rest);
  return {num(*a) + " * " + num(at.value / *a), std::string(coefficient) + " times " + rest};
}

Parts padding(const Context& at) {
  const auto slots = static_cast<double>(total(at.router->tokens_per_expert));
  double rows = 0;
  for (const std::uint32_t n : at.router->tokens_per_expert) rows += std::ceil(n / 32.0) * 32;
  return {"(" + num(rows) + " - " + num(slots) + ") / " + num(slots),
          "rows after each expert's were filled up to a multiple of 32, and slots"};
}

Parts dropped(const Context& at) {
  const auto factor = at.setting("router.capacity_factor");
  const auto& counts = at.router->tokens_per_expert;
  const auto slots = static_cast<double>(total(counts));
  if (!factor || *factor <= 0) return plain(at, "slots beyond the capacity, of all");
  const double capacity = std::ceil(*factor * slots / static_cast<double>(counts.size()));
  return {num(std::round(at.value * slots)) + " / " + num(slots), "slots beyond the capacity of " + num(capacity) +
                                                                      " an expert (router.capacity_factor " +
                                                                      num(*factor) + "), of all"};
}

Parts flips(const Context& at) {
  if (at.tokens() <= 0) return plain(at);
  return {num(std::round(at.value * static_cast<double>(at.tokens()))) + " / " + std::to_string(at.tokens()),
          "tokens whose set of experts differs from run A's, of the batch"};
}

Parts mean_sqnr(const Context& at) {
  std::vector<double> values;
  const auto frame = at.history.quant_frame_at(at.step);
  if (frame && frame->step == at.step) {
    for (const QuantFrame& quant : frame->quants) {
      if ((at.target.layer == kWholeRun || quant.layer == at.target.layer) && std::isfinite(quant.sqnr_db)) {
        values.push_back(static_cast<double>(quant.sqnr_db));
      }
    }
  }
  if (values.empty()) return plain(at, "mean over the quantized operands");
  return {mean_text(values), "over " + counted(std::ssize(values), "quantized operand", "quantized operands")};
}

Parts gradient_snr(const Context& at) {
  if (!std::isfinite(at.value)) return plain(at, "the gradient is FP32's to the bit");
  const double error = std::pow(10.0, -at.value / 20);
  return {"20 * log10(1 / " + num(error) + ")", "the error is " + num(error) + " times as long as FP32's gradient"};
}

Parts angle(const Context& at, const char* between) {
  const double radians = std::acos(std::clamp(at.value, -1.0, 1.0));
  return {"cos(" + num(radians) + ")", "an angle of " + decimal(radians * 57.29577951, 2) + " degrees " + between};
}

// Scalars of a router: at a layer from its arrays where there are any, of the run the mean over layers.
Parts router_scalar(const Context& at, Metric metric, Parts (*taken_apart)(const Context&)) {
  if (at.target.layer == kWholeRun) {
    const std::vector<double> values = of_layers(at, metric);
    if (values.empty()) return plain(at);
    return {mean_text(values), "mean over the MoE layers, " + listed(at.info().moe_layers)};
  }
  return taken_apart(at);
}

Parts scalar_parts(const Context& at, Metric metric) {
  const bool counts = at.router && total(at.router->tokens_per_expert) > 0;
  const auto with_counts = [&](Parts (*taken_apart)(const Context&)) -> Parts {
    if (at.target.layer != kWholeRun && !counts) return plain(at, "the load itself is not kept for this step");
    return router_scalar(at, metric, taken_apart);
  };
  switch (metric) {
    case Metric::ce_loss:
      return ce_loss(at);
    case Metric::aux_loss:
      return sum_of_layers(at, Metric::router_aux_loss, "the load-balance losses");
    case Metric::z_loss:
      return sum_of_layers(at, Metric::router_z_loss, "the z-losses");
    case Metric::grad_norm:
      return grad_norm(at);
    case Metric::lr:
      return learning_rate(at);
    case Metric::tokens_per_s:
      return tokens_per_s(at);
    case Metric::step_ms:
      return step_ms(at);
    case Metric::max_vio_p50:
      return median_layer(at, Metric::max_vio);
    case Metric::max_vio_p90:
      return upper_layers(at, Metric::max_vio);
    case Metric::max_vio_max:
      return worst_layer(at, Metric::max_vio);
    case Metric::max_vio_window_p50:
      return median_layer(at, Metric::max_vio_window);
    case Metric::max_vio_window_p90:
      return upper_layers(at, Metric::max_vio_window);
    case Metric::max_vio_window_max:
      return worst_layer(at, Metric::max_vio_window);
    case Metric::max_vio:
      return with_counts(max_vio);
    case Metric::max_vio_window:
      return router_scalar(at, metric, max_vio_window);
    case Metric::cv:
      return with_counts(variation);
    case Metric::entropy_norm:
      return router_scalar(at, metric, load_entropy);
    case Metric::dead_fraction:
      return router_scalar(at, metric, dead_fraction);
    case Metric::score_entropy:
      return router_scalar(at, metric, score_entropy);
    case Metric::margin:
      return router_scalar(at, metric, [](const Context& c) { return mean_of_tokens(c, "s_(K) - s_(K+1)"); });
    case Metric::router_aux_loss:
      return router_scalar(at, metric, [](const Context& c) {
        return layer_loss(c, "router.aux_coeff", "E sum_e f_e P_e, which is 1 at an even load");
      });
    case Metric::router_z_loss:
      return router_scalar(at, metric, [](const Context& c) {
        return layer_loss(c, "router.z_coeff", "the mean square of ln sum_e exp logit");
      });
    case Metric::padding_fraction:
      return with_counts(padding);
    case Metric::dropped_fraction:
      return with_counts(dropped);
    case Metric::flip_rate:
      return router_scalar(at, metric, flips);
    case Metric::quant_sqnr_db:
      return mean_sqnr(at);
    case Metric::gradient_snr_db:
      return gradient_snr(at);
    case Metric::gradient_cosine:
      return angle(at, "between the gradient and FP32's");
    default:
      return plain(at);
  }
}

// --- figures of a quantized operand ---

const QuantFrame* find_quant(const TelemetryFrame& frame, const FigureTarget& target) {
  for (const QuantFrame& quant : frame.quants) {
    if (target.quant ? place_of(quant) == *target.quant : target.layer == kWholeRun || quant.layer == target.layer) {
      return &quant;
    }
  }
  return nullptr;
}

Parts counted_share(double share, double of, const std::string& what) {
  return {num(std::round(share * of)) + " / " + num(of), what};
}

Parts quant_parts(Context& at, const QuantFrame& quant) {
  const std::string& key = at.target.key;
  double blocks = 0;
  int commonest = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint32_t n = quant.e8m0_blocks[static_cast<std::size_t>(byte)];
    blocks += n;
    if (n > quant.e8m0_blocks[static_cast<std::size_t>(commonest)]) commonest = byte;
  }
  if (key == "sqnr_db") {
    if (std::isinf(at.value)) return {"", "exact: the format holds every value"};
    return {"-20 * log10(" + num(std::pow(10.0, -at.value / 20)) + ")", "the relative error ||x - q|| / ||x||"};
  }
  if (key == "relative_l2") {
    if (std::isinf(quant.sqnr_db)) return plain(at, "exact");
    return {"10 ^ (-" + num(static_cast<double>(quant.sqnr_db)) + " / 20)", "from the SQNR in dB"};
  }
  if (key == "cosine") return angle(at, "between the tensor before and after");
  if (key == "clipped_blocks" && blocks > 0)
    return counted_share(at.value, blocks, "blocks with a clipped value, of all blocks");
  if ((key == "underflow" || key == "clipped") && blocks > 0) {
    const std::string what = key == "underflow" ? "values became zero" : "values are beyond the largest number";
    return plain(at,
                 "about " + decimal(at.value * blocks * 32, 3) + " of some " + decimal(blocks * 32, 3) + " " + what);
  }
  if (key == "e8m0_blocks") {
    at.value = quant.e8m0_blocks[static_cast<std::size_t>(commonest)];
    return plain(at, "blocks with the commonest scale, 2^" + std::to_string(commonest - 127) + " (byte " +
                         std::to_string(commonest) + "), of " + grouped(static_cast<std::int64_t>(blocks)));
  }
  if (key == "amax") return plain(at, "the largest absolute value of the tensor, all its blocks");
  if (key == "crest") return plain(at, "mean over blocks; 32 equal values give 1, a lone one sqrt(32) = 5.66");
  return plain(at, key == "underflow" ? "share of the values that are not zero" : "share of all values");
}

// --- arrays ---

Parts utilisation(Context& at) {
  const auto& counts = at.router->tokens_per_expert;
  const auto expert = static_cast<std::size_t>(at.target.expert);
  const auto slots = static_cast<double>(total(counts));
  at.value = counts[expert] * static_cast<double>(counts.size()) / slots;
  return {num(counts[expert]) + " * " + num(static_cast<double>(counts.size())) + " / " + num(slots),
          "slots of the expert n_e, experts E, all slots T K"};
}

Parts expert_bias(Context& at) {
  const auto expert = static_cast<std::size_t>(at.target.expert);
  at.value = static_cast<double>(at.router->expert_bias[expert]);
  const auto before = at.history.frame_at(at.step - 1);
  if (!before || before->step != at.step - 1) return plain(at, "of the scores that choose; the gates do not see it");
  for (const RouterFrame& router : before->routers) {
    if (router.layer != at.target.layer || router.expert_bias.size() <= expert) continue;
    const auto was = static_cast<double>(router.expert_bias[expert]);
    const auto& counts = at.router->tokens_per_expert;
    std::string note = "the bias a step earlier, and this step's change";
    if (expert < counts.size()) {
      const double mean = static_cast<double>(total(counts)) / static_cast<double>(counts.size());
      note += ": n_e = " + num(counts[expert]) + " against n = " + num(mean);
    }
    const double change = at.value - was;
    return {num(was) + (change < 0 ? " - " : " + ") + num(std::fabs(change)), note};
  }
  return plain(at);
}

Parts mass(Context& at, const std::vector<float>& shares, const char* what) {
  at.value = static_cast<double>(shares[static_cast<std::size_t>(at.target.expert)]);
  const auto experts = static_cast<double>(shares.size());
  return {num(at.value * experts) + " / " + num(experts), std::string(what) + ": so many times the fair share 1 / E"};
}

Parts copies(Context& at, const std::vector<std::uint32_t>& matrix, const char* what) {
  at.value = static_cast<double>(total(matrix));
  if (at.tokens() <= 0) return plain(at, what);
  return {num(static_cast<double>(at.tokens())) + " * " + num(at.value / static_cast<double>(at.tokens())),
          std::string("tokens of the batch times ") + what};
}

// Totals of one layer's dispatch, standard or de-duplicated.
std::optional<Parts> dispatch(Context& at) {
  const VolumeFrame& volume = at.router->volume;
  const auto cells = static_cast<std::size_t>(volume.ranks) * static_cast<std::size_t>(volume.ranks);
  if (cells == 0 || volume.copies_RR.size() != cells || volume.distinct_RR.size() != cells) return std::nullopt;
  const bool lean = at.target.other == 1;
  const DispatchTotals totals = dispatch_totals(volume, lean);
  const double bytes = std::isfinite(at.target.parameter) ? at.target.parameter : 2.0 * at.info().dim;
  const std::string& key = at.target.key;
  const std::string kind = lean ? "one for each destination rank" : "one for each chosen expert";
  if (key == "dispatch_overload") {
    at.value = totals.max_over_mean;
    if (totals.received <= 0) return std::nullopt;
    return Parts{num(totals.fullest) + " * " + std::to_string(volume.ranks) + " / " + num(totals.received),
                 "copies (" + kind + ") that reach the fullest rank, ranks R, copies that reach all"};
  }
  if (key == "bytes_saved") {
    const double standard = dispatch_totals(volume, false).moved, merged = dispatch_totals(volume, true).moved;
    if (standard <= 0) return std::nullopt;
    at.value = 1 - merged / standard;
    return Parts{"1 - " + num(merged) + " / " + num(standard),
                 "moved copies, one for each destination rank, and one for each chosen expert"};
  }
  const double copies = key == "bytes_moved" ? totals.moved : totals.across_nodes;
  at.value = copies * bytes;
  return Parts{num(copies) + " * " + num(bytes),
               std::string(key == "bytes_moved" ? "copies that leave their rank" : "copies to another node") + " (" +
                   (lean && key == "bytes_across_nodes" ? "one for each destination node" : kind) +
                   "), bytes of a token's row"};
}

// Padding to another alignment than the recorded one, drops at another capacity factor: from the load itself.
std::optional<Parts> what_if(Context& at) {
  const bool padding = at.target.key == "padding_fraction";
  const double parameter = at.target.parameter;
  const auto value = [&](const RouterFrame& router) {
    return static_cast<double>(padding
                                   ? padding_fraction(router.tokens_per_expert, static_cast<std::uint32_t>(parameter))
                                   : dropped_fraction(router.tokens_per_expert, parameter));
  };
  if (!at.frame) return std::nullopt;
  at.step = at.frame->step;
  if (at.target.layer == kWholeRun) {
    std::vector<double> values;
    for (const RouterFrame& router : at.frame->routers)
      if (const double of_layer = value(router); std::isfinite(of_layer)) values.push_back(of_layer);
    if (values.empty()) return std::nullopt;
    at.value = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    return Parts{mean_text(values), "mean over the MoE layers, " + listed(at.info().moe_layers) +
                                        (padding ? ", padded to a multiple of " : ", at capacity factor ") +
                                        num(parameter)};
  }
  if (!at.router) return std::nullopt;
  at.value = value(*at.router);
  const auto& counts = at.router->tokens_per_expert;
  const auto slots = static_cast<double>(total(counts));
  if (!std::isfinite(at.value) || slots <= 0) return std::nullopt;
  if (!padding) {
    const double room = std::ceil(parameter * slots / static_cast<double>(counts.size()));
    return Parts{num(std::round(at.value * slots)) + " / " + num(slots),
                 "slots beyond the room of " + num(room) + " an expert, ceil(c T K / E) with c = " + num(parameter) +
                     ", of all"};
  }
  double rows = 0;
  for (const std::uint32_t n : counts) rows += std::ceil(n / parameter) * parameter;
  return Parts{"(" + num(rows) + " - " + num(slots) + ") / " + num(slots),
               "rows after each expert's were filled up to a multiple of " + num(parameter) + ", and slots"};
}

// --- who chooses which expert ---

std::uint64_t cell(const std::vector<std::uint32_t>& table, std::size_t columns, std::size_t row, std::size_t column) {
  return table[row * columns + column];
}

double row_sum(const std::vector<std::uint32_t>& table, std::size_t columns, std::size_t row) {
  double sum = 0;
  for (std::size_t c = 0; c < columns; ++c) sum += table[row * columns + c];
  return sum;
}

double column_sum(const std::vector<std::uint32_t>& table, std::size_t columns, std::size_t column) {
  double sum = 0;
  for (std::size_t i = column; i < table.size(); i += columns) sum += table[i];
  return sum;
}

// A cell as share of its row, over the share that its column has of all.
std::optional<Parts> lift(Context& at, const std::vector<std::uint32_t>& table, std::size_t columns, std::size_t row,
                          std::size_t column, const std::string& note) {
  const auto here = static_cast<double>(cell(table, columns, row, column));
  const double of_row = row_sum(table, columns, row), of_column = column_sum(table, columns, column);
  const auto all = static_cast<double>(total(table));
  if (of_row <= 0 || of_column <= 0) return std::nullopt;
  at.value = here / of_row / (of_column / all);
  return Parts{"(" + num(here) + " / " + num(of_row) + ") / (" + num(of_column) + " / " + num(all) + ")", note};
}

std::optional<Parts> specialisation(Context& at) {
  const auto frame = at.history.specialisation_layer_at(at.target.layer, at.target.step);
  const auto experts = static_cast<std::size_t>(at.info().n_experts);
  const auto expert = static_cast<std::size_t>(std::max(0, at.target.expert));
  const auto other = static_cast<std::size_t>(std::max(0, at.target.other));
  if (!frame || expert >= experts) return std::nullopt;
  at.step = frame->step;
  for (const SpecialisationFrame& special : frame->specialisation) {
    if (special.layer != at.target.layer) continue;
    const auto& key = at.target.key;
    if ((key == "domain_share" || key == "domain_lift") && (other + 1) * experts <= special.domain_DE.size()) {
      const std::string domain =
          other < at.info().domains.size() ? at.info().domains[other] : "domain " + std::to_string(other);
      if (key == "domain_lift") {
        return lift(at, special.domain_DE, experts, other, expert,
                    "share of the expert in " + domain + ", over its share in all text");
      }
      const auto slots = static_cast<double>(cell(special.domain_DE, experts, other, expert));
      const double all = row_sum(special.domain_DE, experts, other);
      if (all <= 0) return std::nullopt;
      at.value = slots / all;
      return Parts{num(slots) + " / " + num(all), "slots of the expert from " + domain + ", of all from there"};
    }
    if (key == "coactivation" && special.together_EE.size() == experts * experts && other < experts) {
      const auto alone = static_cast<double>(cell(special.together_EE, experts, expert, expert));
      if (alone <= 0) return std::nullopt;
      const auto both = static_cast<double>(cell(special.together_EE, experts, expert, other));
      at.value = both / alone;
      return Parts{num(both) + " / " + num(alone), "tokens that chose experts " + std::to_string(expert) + " and " +
                                                       std::to_string(other) + ", of those that chose the first"};
    }
    if (key == "byte_affinity" && special.byte_256E.size() == 256 * experts && other < 256) {
      // P(b | e) / P(b) is the same as P(e | b) / P(e).
      return lift(at, special.byte_256E, experts, other, expert,
                  "share of the expert among the slots of byte " + std::to_string(other) + ", over its share of all");
    }
  }
  return std::nullopt;
}

// Of one layer, or the mean over those that can be compared.
std::optional<Parts> stability(Context& at) {
  std::int64_t step = at.target.step;
  const auto now = at.history.text_at(TextKind::probe, step);
  if (!now) return std::nullopt;
  std::int64_t reference = at.target.reference >= 0 ? at.target.reference : step - 1;
  const auto then = at.history.text_at(TextKind::probe, reference);
  if (!then) return std::nullopt;
  at.step = step;
  const bool sets = at.target.key == "unchanged_choices";
  const auto value = [&](int layer) {
    return static_cast<double>(sets ? unchanged_choices(*now, *then, layer) : routing_stability(*now, *then, layer));
  };
  if (at.target.layer == kWholeRun) {
    std::vector<double> values;
    for (const TokenLayer& layer : now->layers)
      if (const double of_layer = value(layer.layer); std::isfinite(of_layer)) values.push_back(of_layer);
    if (values.empty()) return std::nullopt;
    at.value = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    return Parts{mean_text(values), "mean over the MoE layers, against step " + grouped(reference)};
  }
  at.value = value(at.target.layer);
  const double of = static_cast<double>(now->text.size()) * (sets ? 1 : at.info().top_k);
  if (!std::isfinite(at.value) || of <= 0) return std::nullopt;
  return Parts{num(std::round(at.value * of)) + " / " + num(of),
               (sets ? "tokens of the probe whose experts are all those of step "
                     : "choices of the probe's tokens that are those of step ") +
                   grouped(reference) + ", of all"};
}

std::optional<Parts> histogram(Context& at) {
  const RouterFrame& router = *at.router;
  if (at.target.key == "margin_histogram") {
    if (router.margin_tokens.empty()) return std::nullopt;
    at.value = static_cast<double>(total(router.margin_tokens));
    return plain(at, "tokens in all bins");
  }
  if (router.score_chosen.empty()) return std::nullopt;
  const auto chosen = static_cast<double>(total(router.score_chosen));
  const auto rejected = static_cast<double>(total(router.score_rejected));
  at.value = chosen + rejected;
  return Parts{num(chosen) + " + " + num(rejected), "scores of chosen experts, T K, and of all others"};
}

std::optional<Parts> array_parts(Context& at) {
  const std::string& key = at.target.key;
  if (key == "margin_tokens" || key == "margin_flipped") {
    const auto frame = at.history.flip_frame_at(at.target.step);
    if (!frame) return std::nullopt;
    std::vector<double> values;
    for (const FlipFrame& flip : frame->flips) {
      if (at.target.layer != kWholeRun && flip.layer != at.target.layer) continue;
      const HalfOctaves& bins = key == "margin_tokens" ? flip.margin_tokens : flip.margin_flipped;
      values.push_back(static_cast<double>(std::accumulate(bins.begin(), bins.end(), std::uint64_t{0})));
    }
    if (values.empty()) return std::nullopt;
    at.step = frame->step;
    at.value = std::accumulate(values.begin(), values.end(), 0.0);
    return Parts{sum_text(values), "tokens in all bins, by layer"};
  }
  if (key == "routing_stability" || key == "unchanged_choices") return stability(at);
  if (key == "domain_share" || key == "domain_lift" || key == "coactivation" || key == "byte_affinity")
    return specialisation(at);
  if (!at.router) return std::nullopt;
  if (key == "score_histogram" || key == "margin_histogram") return histogram(at);
  const auto expert = static_cast<std::size_t>(std::max(0, at.target.expert));
  const RouterFrame& router = *at.router;
  if (key == "utilisation" && expert < router.tokens_per_expert.size() && total(router.tokens_per_expert) > 0)
    return utilisation(at);
  if (key == "expert_bias" && expert < router.expert_bias.size()) return expert_bias(at);
  if (key == "score_mass" && expert < router.score_mass.size()) return mass(at, router.score_mass, "of the scores");
  if (key == "gate_mass" && expert < router.gate_mass.size())
    return mass(at, router.gate_mass, "of the mixing weights");
  if (key == "bytes_moved" || key == "bytes_across_nodes" || key == "dispatch_overload" || key == "bytes_saved")
    return dispatch(at);
  const VolumeFrame& volume = router.volume;
  if (key == "copies" && !volume.copies_RR.empty()) return copies(at, volume.copies_RR, "experts per token, K");
  if (key == "distinct" && !volume.distinct_RR.empty())
    return copies(at, volume.distinct_RR, "ranks that a token goes to on average");
  if (key == "nodes" && !volume.nodes_RN.empty())
    return copies(at, volume.nodes_RN, "nodes that a token goes to on average");
  return std::nullopt;
}

std::string place_text(const Context& at, bool of_expert) {
  std::string text;
  if (at.target.layer != kWholeRun) text += "layer " + std::to_string(at.target.layer) + ", ";
  if (of_expert && at.target.expert >= 0) text += "expert " + std::to_string(at.target.expert) + ", ";
  return text + "step " + grouped(at.step);
}

std::vector<Explanation::Knob> knobs_of(const MetricInfo& info, const History& history, std::int64_t step) {
  std::vector<Explanation::Knob> knobs;
  std::string_view rest = info.knob;
  while (!rest.empty()) {
    const auto comma = rest.find(", ");
    const std::string key(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 2);
    knobs.push_back({key, setting_at(history, key, step).value_or("")});
  }
  return knobs;
}

std::optional<Metric> scalar_of(std::string_view key) {
  for (int m = 0; m < kNumMetrics; ++m) {
    if (key == metric_info(static_cast<Metric>(m)).key) return static_cast<Metric>(m);
  }
  return std::nullopt;
}

const RouterFrame* router_of(const TelemetryFrame* frame, int layer) {
  if (!frame) return nullptr;
  for (const RouterFrame& router : frame->routers) {
    if (router.layer == layer) return &router;
  }
  return nullptr;
}

// The step of the newest value at or before `step`; -1: there is none.
std::int64_t step_of_value(const History& history, Metric metric, int layer, std::int64_t step) {
  constexpr std::int64_t kReach = 4096;
  const StepRange all = history.steps();
  if (all.empty()) return -1;
  const StepRange range{std::max(all.first, std::min(step, all.last) - kReach), std::min(step, all.last)};
  const std::vector<float> values = history.values(metric, layer, range);
  for (std::size_t i = values.size(); i-- > 0;) {
    if (!is_missing(values[i])) return range.first + static_cast<std::int64_t>(i);
  }
  return -1;
}

void put(Explanation& out, const Context& at, Parts parts, bool of_expert) {
  out.value = at.value;
  out.expression = std::move(parts.expression);
  out.note = std::move(parts.note);
  out.where = place_text(at, of_expert);
}

void explain_scalar(Explanation& out, Context& at, Metric metric) {
  at.step = step_of_value(at.history, metric, at.target.layer, at.target.step);
  if (at.step < 0) return;
  at.value = static_cast<double>(at.history.values(metric, at.target.layer, {at.step, at.step}).front());
  at.frame = at.history.frame_at(at.step);
  if (at.frame && at.frame->step == at.step) at.router = router_of(at.frame.get(), at.target.layer);
  put(out, at, std::isfinite(at.value) ? scalar_parts(at, metric) : Parts{"", "no number"}, false);
}

// One cell of the matrix of layers and groups of tensors.
void explain_gradient(Explanation& out, Context& at) {
  const auto frame = at.history.gradient_frame_at(at.target.step);
  if (!frame) return;
  const auto group = static_cast<GradientGroup>(at.target.other);
  for (const GradientFrame& gradient : frame->gradients) {
    if (gradient.layer != at.target.layer || gradient.group != group) continue;
    const bool cosine = at.target.key == "gradient_cosine";
    at.step = frame->step;
    at.value = static_cast<double>(cosine ? gradient.cosine : gradient.snr_db);
    put(out, at, cosine ? angle(at, "between the gradient and FP32's") : gradient_snr(at), false);
    out.where =
        std::string(gradient_group_name(group)) + (at.target.layer < 0 ? " of the model, " : " of ") + out.where;
    return;
  }
}

void explain_quant(Explanation& out, Context& at, float QuantFrame::*member) {
  const auto frame = at.history.quant_frame_at(at.target.step);
  const QuantFrame* quant = frame ? find_quant(*frame, at.target) : nullptr;
  if (!quant) return;
  at.step = frame->step;
  at.value = member ? static_cast<double>(quant->*member) : 0;
  put(out, at, quant_parts(at, *quant), false);
  out.where = place_text(place_of(*quant)) + " in " + quant->format + ", step " + grouped(at.step);
}

// nullptr: the histogram of scales, which is no single figure; nothing: not of the quantizers.
std::optional<float QuantFrame::*> quant_member(const std::string& key) {
  if (key == "e8m0_blocks") return nullptr;
  for (const auto& field : kQuantFields)
    if (key == field.name) return field.member;
  return std::nullopt;
}

}  // namespace

Explanation explain_figure(const History& history, const FigureTarget& target) {
  Explanation out;
  out.info = find_metric(target.key);
  assert(out.info);
  Context at{history, target, 0, nullptr, nullptr, 0};
  const bool what_if_figure = (target.key == "padding_fraction" || target.key == "dropped_fraction") &&
                              std::isfinite(target.parameter) && target.parameter > 0;
  if ((target.key == "gradient_snr_db" || target.key == "gradient_cosine") && target.other >= 0) {
    explain_gradient(out, at);
  } else if (what_if_figure) {
    at.frame = history.frame_at(target.step);
    at.router = router_of(at.frame.get(), target.layer);
    if (auto parts = what_if(at)) put(out, at, std::move(*parts), false);
  } else if (const auto metric = scalar_of(target.key)) {
    explain_scalar(out, at, *metric);
  } else if (const auto member = quant_member(target.key)) {
    explain_quant(out, at, *member);
  } else {
    at.frame = history.frame_at(target.step);
    at.step = at.frame ? at.frame->step : target.step;
    at.router = router_of(at.frame.get(), target.layer);
    if (auto parts = array_parts(at)) put(out, at, std::move(*parts), true);
  }
  out.knobs = knobs_of(*out.info, history, at.step < 0 ? target.step : at.step);
  return out;
}

}  // namespace moescope
