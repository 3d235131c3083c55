#include "core/findings/explain/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>

#include "core/files/text/words.h"
#include "core/findings/explain/explain_parts.h"
#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/recording/history/router_window.h"

namespace moescope {

using namespace explaining;

namespace {

std::string place_text(const Context& at, bool has_expert) {
  std::string text;
  if (at.target.layer != kWholeRun) text += fmt::format("layer {}, ", at.target.layer);
  if (has_expert && at.target.expert >= 0) text += fmt::format("expert {}, ", at.target.expert);
  return text + "step " + grouped(at.step);
}

std::vector<Explanation::Knob> knobs_at(FigureKey figure, const History& history, std::int64_t step) {
  std::vector<Explanation::Knob> knobs;
  const auto settings = history.settings_at(step);
  for (const auto& part : std::views::split(std::string_view(figure.info().knobs), std::string_view(", "))) {
    const std::string key(part.begin(), part.end());
    const ConfigField* field = find_field(key);
    if (!field) {
      knobs.push_back({key, "", ""});
      continue;
    }
    const Setting knob(*field);
    const bool settable = settings->config() != nullptr && key.find('.') != std::string::npos;
    const std::string log_name = settings->config() ? std::string() : settings->name_of(knob, {});
    if (log_name.empty() && !settings->program().empty()) continue;  // that program has no such setting
    knobs.push_back({key, settings->text(knob).value_or(""), log_name, settable});
  }
  return knobs;
}

// Returns the step of the newest value at or before `step`; -1 if there is no value.
std::int64_t step_of_value(const History& history, Metric metric, int layer, std::int64_t step) {
  constexpr std::int64_t kSearchedSteps = 4096;
  const std::vector<std::int64_t> steps = history.steps_in(history.last_steps(kSearchedSteps, step));
  const std::vector<float> values = history.values_at(metric, layer, steps);
  for (std::size_t i = values.size(); i-- > 0;)
    if (!is_missing(values[i])) return steps[i];
  return -1;
}

void put(Explanation& out, const Context& at, Parts parts, bool has_expert) {
  out.value = at.value;
  out.expression = std::move(parts.expression);
  out.note = std::move(parts.note);
  out.place = place_text(at, has_expert);
}

void explain_scalar(Explanation& out, Context& at, Metric metric) {
  at.step = step_of_value(at.history, metric, at.target.layer, at.target.step);
  if (at.step < 0) return;
  at.value = at.history.values(metric, at.target.layer, {at.step, at.step}).front();
  at.frame = at.history.frame_at(at.step);
  if (at.frame && at.frame->step == at.step) at.router = find_router(at.frame.get(), at.target.layer);
  put(out, at, std::isfinite(at.value) ? scalar_parts(at, metric) : Parts{"", "not a finite number"}, false);
}

// Explains a figure of the loads of the window together: the load of an expert, or spread or entropy of all loads.
void explain_window(Explanation& out, Context& at) {
  at.step = at.target.step;
  const bool is_mean = at.target.layer == kWholeRun, has_expert = at.target.key == "utilisation";
  Parts parts = plain(at, is_mean ? "mean over the MoE layers" : "mean over the steps");
  if (!is_mean && at.target.key == FigureKey(Metric::cv))
    parts = plain(at, "standard deviation of the experts' loads over their mean, 1");
  if (!is_mean && at.target.key == FigureKey(Metric::entropy_norm)) parts = scalar_parts(at, Metric::entropy_norm);
  put(out, at, parts, has_expert);
  const StepRange steps = window_steps(at.history, at.step);
  out.place = (is_mean ? "" : fmt::format("layer {}, ", at.target.layer)) +
              (has_expert ? fmt::format("expert {}, ", at.target.expert) : "") +
              steps_in_words(steps.first, steps.last) + " together";
}

// Returns the figure over the window; a missing value if it is a figure of one step.
float value_of_window(const History& history, const FigureTarget& target) {
  if (!target.uses_window) return kNoValue;
  if (const auto metric = find_scalar(target.key.info().key))
    return window_value(history, *metric, target.layer, target.step);
  if (target.key != "utilisation" || target.expert < 0) return kNoValue;
  const std::vector<float> loads_E = layer_window(history, target.layer, target.step).utilisation;
  return target.expert < std::ssize(loads_E) ? loads_E[target.expert] : kNoValue;
}

// Explains a gradient figure of one layer and group of tensors.
void explain_gradient(Explanation& out, Context& at) {
  const auto frame = at.history.gradient_frame_at(at.target.step);
  if (!frame) return;
  const auto group = static_cast<GradientGroup>(at.target.other);
  for (const GradientFrame& gradient : frame->gradients) {
    if (gradient.layer != at.target.layer || gradient.group != group) continue;
    const auto figure =
        std::ranges::find_if(kGradientFigures, [&](const auto& row) { return at.target.key == row.card; });
    const bool cosine = figure->member == &GradientFrame::cosine || figure->member == &GradientFrame::pinned_cosine;
    at.step = frame->step;
    at.value = gradient.*figure->member;
    put(out, at, cosine ? angle(at, "between the gradient and the FP32 gradient") : gradient_snr(at), false);
    out.place =
        std::string(gradient_group_name(group)) + (at.target.layer < 0 ? " of the model, " : " of ") + out.place;
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
  out.place = place_text(*quant) + " in " + quant->format.name + ", step " + grouped(at.step);
}

// Returns the member of a quantizer figure; nullptr for the histogram of scales; nullopt for other figures.
std::optional<float QuantFrame::*> quant_member(FigureKey key) {
  if (key == "e8m0_blocks") return nullptr;
  for (const auto& figure : kQuantFigures)
    if (key == figure.card) return figure.member;
  return std::nullopt;
}

// Sets a capacity factor for filler_fraction, which is not recorded and needs one: the run's own, else 1.
FigureTarget with_capacity(const History& history, FigureTarget target) {
  if (target.key != "filler_fraction" || std::isfinite(target.parameter)) return target;
  const double configured_factor = history.settings_at(target.step)->value(&RouterConfig::capacity_factor).value_or(0);
  target.parameter = configured_factor > 0 ? configured_factor : 1;
  return target;
}

}  // namespace

Provenance provenance_in(const RunInfo& run, Provenance kind) {
  return run_origin(run) == RunOrigin::log && kind == Provenance::measured_here ? Provenance::from_log : kind;
}

Explanation explain_figure(const History& history, const FigureTarget& requested) {
  const FigureTarget target = with_capacity(history, requested);
  Explanation out;
  out.info = &target.key.info();
  out.kind = provenance_in(history.info(), out.info->provenance);
  const float over_window = value_of_window(history, target);
  Context at{history, target, 0, nullptr, nullptr, is_missing(over_window) ? 0.0 : over_window};
  const bool what_if_figure =
      (target.key == "padding_fraction" || target.key == "dropped_fraction" || target.key == "filler_fraction") &&
      std::isfinite(target.parameter) && target.parameter > 0;
  const bool is_gradient =
      std::ranges::any_of(kGradientFigures, [&](const auto& row) { return target.key == row.card; });
  if (!is_missing(over_window)) {
    explain_window(out, at);
  } else if (is_gradient && target.other >= 0) {
    explain_gradient(out, at);
  } else if (what_if_figure) {
    at.frame = history.frame_at(target.step);
    at.router = find_router(at.frame.get(), target.layer);
    if (auto parts = what_if(at)) put(out, at, std::move(*parts), false);
  } else if (const auto metric = find_scalar(target.key.info().key)) {
    explain_scalar(out, at, *metric);
  } else if (const auto member = quant_member(target.key)) {
    explain_quant(out, at, *member);
  } else {
    at.frame = history.frame_at(target.step);
    at.step = at.frame ? at.frame->step : target.step;
    at.router = find_router(at.frame.get(), target.layer);
    if (auto parts = array_parts(at)) put(out, at, std::move(*parts), true);
  }
  out.knobs = knobs_at(target.key, history, at.step < 0 ? target.step : at.step);
  return out;
}

}  // namespace moescope
