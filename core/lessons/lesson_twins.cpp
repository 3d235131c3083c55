#include "core/lessons/lesson_twins.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/files/text/words.h"
#include "core/lessons/assignment.h"

namespace moescope {
namespace {

using Configs = std::vector<RunConfig>;

// Returns whether a bias and whether an auxiliary loss balances.
std::pair<bool, bool> balancing_of(const RouterConfig& router) {
  return {by_quantiles(router.balance_rule) || router.bias_update_rate > 0,
          router.aux_mode != AuxMode::none && router.aux_coeff > 0};
}

bool another_way_of_balancing(const RouterConfig& a, const RouterConfig& b) {
  constexpr std::pair both(true, true);
  const auto balancing_a = balancing_of(a), balancing_b = balancing_of(b);
  return (balancing_a != balancing_b || a.balance_rule != b.balance_rule) && balancing_a != both && balancing_b != both;
}

// True if all linear layers except the head have one recipe.
bool has_one_recipe(const PrecisionConfig& precision) {
  return precision.experts == precision.shared_experts && precision.experts == precision.dense_ffn &&
         precision.experts == precision.attention;
}

// Replaces the keys of the settings of a choice by its name.
void fold(std::vector<std::string>& things, const char* recipe, std::initializer_list<Setting> settings) {
  const auto removed = std::erase_if(things, [&](const std::string& thing) {
    return std::ranges::find(settings, thing, &Setting::key) != settings.end();
  });
  if (removed > 0) things.push_back(recipe);
}

// Adds a sentence unless the list has it.
void add(const std::string& sentence, std::vector<std::string>& unclear) {
  if (std::find(unclear.begin(), unclear.end(), sentence) == unclear.end()) unclear.push_back(sentence);
}

void apply(const LessonTask& task, Configs& configs) {
  if (task.kind == LessonTask::Kind::start) configs = task.start;
  if (task.kind == LessonTask::Kind::twin && !configs.empty()) configs.push_back(configs.front());
  for (const auto& [setting, value] : task.settings) {
    for (std::size_t place = 0; place < configs.size(); ++place) {
      const bool meant = task.kind == LessonTask::Kind::twin
                             ? place + 1 == configs.size()
                             : task.run == kAllRuns || to_int(place) == task.run || setting == &DataConfig::mixture;
      if (meant) setting.field().set(configs[place], value);
    }
  }
}

// Returns the differences between the twin and the nearest run before it, if these are more than one thing.
std::vector<std::string> too_far(const Configs& configs, std::size_t twin) {
  std::vector<std::string> nearest = things_that_differ(configs[0], configs[twin]);
  for (std::size_t before = 1; before < twin; ++before) {
    const auto things = things_that_differ(configs[before], configs[twin]);
    if (things.size() < nearest.size()) nearest = things;
  }
  return nearest.size() > 1 ? nearest : std::vector<std::string>{};
}

// Judges a check whose limit is another run's figure.
void judge_comparison(const LessonCheck& check, const Configs& configs, const std::string& step,
                      std::vector<std::string>& unclear) {
  for (const auto* bound : {&check.above, &check.below}) {
    if (!*bound || !(*bound)->figure) continue;
    const int a = check.figure.run(), b = (*bound)->figure->run();
    if (a == b || std::min(a, b) < 0 || std::max(a, b) >= std::ssize(configs)) continue;
    const auto things = things_that_differ(configs[a], configs[b]);
    if (things.size() > 1)
      add(fmt::format("{}, \"{}\": {} and {} differ in {} settings: {}", step, check.text, run_letter(a), run_letter(b),
                      things.size(), joined(things, ", ")),
          unclear);
  }
}

}  // namespace

std::vector<std::string> things_that_differ(const RunConfig& a, const RunConfig& b) {
  std::vector<std::string> things;
  for (const ConfigDifference& changed : difference(a, b)) things.push_back(changed.setting.key());
  if (another_way_of_balancing(a.router, b.router))
    fold(things, "way of balancing",
         {&RouterConfig::balance_rule, &RouterConfig::bias_update_rate, &RouterConfig::aux_mode,
          &RouterConfig::aux_coeff});
  if (dense_size(a, b) || dense_size(b, a))
    fold(things, "experts", {&ModelConfig::n_dense_layers, &ModelConfig::dense_inter});
  if (has_one_recipe(a.precision) && has_one_recipe(b.precision))
    fold(things, "recipe",
         {&PrecisionConfig::experts, &PrecisionConfig::shared_experts, &PrecisionConfig::dense_ffn,
          &PrecisionConfig::attention});
  if (!a.router.limits_groups() || !b.router.limits_groups())
    fold(things, "limit on groups", {&RouterConfig::n_groups, &RouterConfig::n_limited_groups});
  return things;
}

std::vector<std::string> unclear_comparisons(const Lesson& lesson) {
  std::vector<std::string> unclear;
  Configs configs = lesson.runs;
  for (const LessonStep& step : lesson.steps) {
    const std::string step_name = "\"" + step.title + "\"";
    for (const LessonTask& task : step.tasks) {
      apply(task, configs);
      if (task.kind != LessonTask::Kind::run_until) continue;
      for (std::size_t twin = 1; twin < configs.size(); ++twin)
        if (const auto things = too_far(configs, twin); !things.empty())
          add(step_name + ": " + run_letter(to_int(twin)) +
                  " differs from every earlier run in more than one setting: " + joined(things, ", "),
              unclear);
    }
    for (const LessonCheck& check : step.checks) judge_comparison(check, configs, step_name, unclear);
  }
  return unclear;
}

}  // namespace moescope
