// Reads lessons from TOML files and reports all problems at once, each with its line.
#include <fmt/core.h>

#include <algorithm>

#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "core/findings/findings.h"
#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/toml_runs.h"
#include "core/numerics/index.h"
#include "core/numerics/number_format.h"
#include "core/numerics/scale_rules.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxLessonBytes = std::size_t{1} << 20;
constexpr int kMaxTensorSide = 4096;
constexpr std::int64_t kMaxSteps = 100000;  // largest step in a lesson

LessonPick read_pick(TomlSection& section, std::string_view key, LessonPick otherwise) {
  const toml::node* node = section.node(key);
  if (!node) return otherwise;
  if (const auto* index = node->as_integer(); index && **index >= 0 && **index < 1024)
    return {LessonPick::Of::one, to_int(**index)};
  const auto* text = node->as_string();
  if (text && **text == "mean") return {LessonPick::Of::mean};
  if (text && **text == "max") return {LessonPick::Of::max};
  if (text && **text == "min") return {LessonPick::Of::min};
  section.problem(key, "must be a number, \"mean\", \"max\" or \"min\"");
  return otherwise;
}

MatrixFormat read_format(TomlSection& section) {
  ElementFormat element = ElementFormat::e4m3;
  const std::string name = section.required_text("format");
  const NamedFormat* recipe_format = find_format(name);
  if (const auto named = element_named(name))
    element = *named;
  else if (!recipe_format && !name.empty())
    section.problem("format", "is \"" + name + "\"; allowed: nvfp4, fp8_1x128, ..., " + element_names());
  const auto rule = static_cast<ScaleRule>(section.choice("rule", {"floor", "rceil", "even", "ceil"}, 1));
  MatrixFormat chosen;
  chosen.format =
      recipe_format ? recipe_format->format : mx_format(element, rule, to_int(section.integer("block", 32, 1, 4096)));
  chosen.axis = section.choice("axis", {"row", "column"}, 0) == 0 ? BlockAxis::row : BlockAxis::column;
  return chosen;
}

class LessonParser {
 public:
  LessonParser(std::string file, std::optional<std::int64_t> seed) : seed_(seed), problems_{std::move(file)} {}

  ParsedLesson parse(std::string_view text) {
    read_toml(text, problems_, [this](TomlSection& root) {
      lesson_.title = root.required_text("title");
      lesson_.subject = root.text("subject");
      lesson_.teaches = root.required_text("teaches");
      lesson_.group = root.text("group");
      lesson_.explained_by = root.text("lesson");
      lesson_.minutes = to_int(root.integer("minutes", 5, 1, 120));
      root.for_each_section("tensor", [this](TomlSection& tensor) { read_tensor(tensor); });
      root.inside("runs", [this](TomlSection& runs) { lesson_.runs = read_runs(runs, seed_); });
      runs_open_ = lesson_.runs.size();
      if (lesson_.runs.empty() && lesson_.tensors.empty())
        problems_.add(0, "runs", "a lesson needs [runs] to train or a [[tensor]] to show");
      root.for_each_section("step", [this](TomlSection& step) { read_step(step); });
      root.node("assignment");  // core/lessons/assignment.h
      if (lesson_.steps.empty()) problems_.add(0, "step", "a lesson needs at least one [[step]]");
    });
    problems_.sort();
    return {std::move(lesson_), std::move(problems_.found)};
  }

 private:
  void check_tensor(TomlSection& section, const std::string& name) {
    const bool known = std::ranges::find(lesson_.tensors, name, &LessonTensor::name) != lesson_.tensors.end();
    if (!name.empty() && !known) section.problem("tensor", "there is no [[tensor]] named " + name);
  }

  void read_tensor(TomlSection& section) {
    LessonTensor tensor;
    tensor.name = section.required_text("name");
    tensor.about = section.text("about");
    tensor.rows = to_int(section.integer("rows", tensor.rows, 1, kMaxTensorSide));
    tensor.cols = to_int(section.integer("cols", tensor.cols, 1, kMaxTensorSide));
    tensor.mean = section.number("mean", tensor.mean, -1e6, 1e6);
    tensor.sigma = section.number("sigma", tensor.sigma, 0, 1e6);
    tensor.spread = section.number("spread", 0, 0, 40);
    tensor.patch_spread = section.number("patch_spread", 0, 0, 40);
    tensor.outlier_column = to_int(section.integer("outlier_column", -1, 0, tensor.cols - 1));
    tensor.outlier_factor = section.number("outlier_factor", 1, 0, 1e6);
    if (seed_) tensor.seed = *seed_;
    lesson_.tensors.push_back(tensor);
  }

  LessonFigure read_figure(TomlSection& section) {
    LessonFigure figure;
    figure.key = section.required_text("figure");
    const LessonFigureInfo* info = find_lesson_figure(figure.key);
    if (!info) {
      if (!figure.key.empty())
        section.problem("figure", "there is no figure " + figure.key +
                                      "; allowed: " + joined(lesson_figures(), ", ", &LessonFigureInfo::key));
      figure.key = "ce_loss";
      info = find_lesson_figure(figure.key);
    }
    figure.times = section.number("times", 1, -1e6, 1e6);
    if (info->source == LessonFigureInfo::Source::run) figure.source = read_run_figure(section, figure.key);
    if (info->source == LessonFigureInfo::Source::tensor) figure.source = read_tensor_figure(section);
    if (info->source != LessonFigureInfo::Source::cluster) return figure;
    figure.source = ClusterFigure{section.required_text("model"), section.required_text("routing")};
    if (!LessonReader({}).read(figure))
      section.problem("routing", "calibration/h200x8.toml has no layer " + section.text("model") + " with routing " +
                                     section.text("routing"));
    return figure;
  }

  // Reads the index of a run, which must be open after the tasks that have been read.
  int read_open_run(TomlSection& section) { return read_run(section, "run", 0, runs_open_); }

  RunFigure read_run_figure(TomlSection& section, std::string_view key) {
    RunFigure figure;
    figure.run = read_open_run(section);
    figure.layer = read_pick(section, "layer", figure.layer);
    figure.last = section.integer("last", 1, 1, kMaxSteps);
    figure.until = last_trained_;
    figure.from = section.optional_integer("from", 0, kMaxSteps);
    figure.to = section.optional_integer("to", figure.from.value_or(0), kMaxSteps);
    if (figure.to && !figure.from) section.problem("to", "is allowed only with from");
    figure.since_change = section.choice("since", {"start", "change"}, 0) == 1;
    if (key == "utilisation" || key.starts_with("expert_")) figure.expert = read_pick(section, "expert", figure.expert);
    if (key == "load_correlation") figure.lag = section.integer("lag", 1, 1, 1000);
    if (key == "modelled_deep_ep_ms") figure.model = section.choice("model", {"671B", "16B"}, 0) == 0 ? "671B" : "16B";
    if (key == "steps_until" || key == "finding" || key == "part_gradient_snr_db")
      figure.argument = section.required_text("of");
    if (key == "steps_until") read_steps_until(section, figure);
    if (key == "finding" &&
        std::ranges::none_of(finding_kinds(), [&](const auto& info) { return info.name == figure.argument; }))
      section.problem("of", "must be the kind of a finding, such as \"dead experts\"");
    if (key == "part_gradient_snr_db") check_part(section, figure);
    return figure;
  }

  static void read_steps_until(TomlSection& section, RunFigure& figure) {
    figure.limit = section.number("limit", 0, -1e9, 1e9);
    if (!section.has("limit")) section.problem("limit", "is missing");
    const LessonFigureInfo* metric = find_lesson_figure(figure.argument);
    if (!metric || metric->source != LessonFigureInfo::Source::run)
      section.problem("of", "must be a metric, such as max_vio");
  }

  static void check_part(TomlSection& section, const RunFigure& figure) {
    for (int group = 0; group < kNumGradientGroups; ++group)
      if (gradient_group_name(static_cast<GradientGroup>(group)) == figure.argument) return;
    section.problem("of", "must be a group of tensors, such as \"routed experts\"");
  }

  TensorFigure read_tensor_figure(TomlSection& section) {
    TensorFigure figure;
    figure.tensor = section.required_text("tensor");
    check_tensor(section, figure.tensor);
    figure.without_outlier = section.choice("columns", {"all", "others"}, 0) == 1;
    figure.format = read_format(section);
    return figure;
  }

  std::optional<LessonCheck::Bound> read_bound(TomlSection& section, std::string_view key) {
    const toml::node* node = section.node(key);
    if (!node) return std::nullopt;
    LessonCheck::Bound bound;
    if (const toml::table* table = node->as_table()) {
      TomlSection figure(*table, section.path(key), problems_);
      bound.figure = read_figure(figure);
    } else if (node->is_number()) {
      bound.number = *node->value<double>();
    } else {
      section.problem(key, "must be a number or a figure { figure = ... }");
    }
    return bound;
  }

  void read_check(TomlSection& section, LessonStep& step) {
    LessonCheck& check = step.checks.emplace_back();
    check.text = section.required_text("text");
    check.above = read_bound(section, "above");
    check.below = read_bound(section, "below");
    if (!check.above && !check.below) section.problem("above", "a check needs above, below or both");
    check.figure = read_figure(section);
  }

  void read_task(TomlSection& section, LessonStep& step) {
    LessonTask task;
    task.text = section.text("text");
    const std::vector<std::string> kinds = {"start", "run_until", "set", "twin", "show"};
    const auto is_stated = [&](const std::string& kind) { return section.has(kind); };
    if (std::ranges::count_if(kinds, is_stated) != 1)
      return section.problem("needs one of start, run_until, set, twin, show");
    task.kind = static_cast<LessonTask::Kind>(std::ranges::find_if(kinds, is_stated) - kinds.begin());
    read_task_kind(section, task);
    if (task.text.empty()) task.text = default_text(task);
    if (task.kind != LessonTask::Kind::show && lesson_.runs.empty())
      section.problem("this task needs a run: add [runs]");
    if (task.kind == LessonTask::Kind::start) runs_open_ = task.start.size();
    if (task.kind == LessonTask::Kind::twin && ++runs_open_ > std::size_t{kMaxRuns})
      section.problem("twin", "at most 5 runs can be compared");
    step.tasks.push_back(std::move(task));
  }

  void read_task_kind(TomlSection& section, LessonTask& task) {
    switch (task.kind) {
      case LessonTask::Kind::start:
        section.inside("start", [&](TomlSection& runs) { task.start = read_runs(runs, seed_); });
        break;
      case LessonTask::Kind::run_until:
        task.until = section.integer("run_until", 1, 1, kMaxSteps);
        break;
      case LessonTask::Kind::set:
        task.run = section.has("run") && section.text("run") == "all" ? kAllRuns : read_open_run(section);
        task.settings = settings_of(section, true);
        break;
      case LessonTask::Kind::twin:
        task.name = section.required_text("name");
        task.settings = settings_of(section, false, "twin");
        break;
      case LessonTask::Kind::show:
        section.inside("show", [&](TomlSection& show) {
          task.tensor = show.required_text("tensor");
          check_tensor(show, task.tensor);
          task.format = read_format(show);
          task.row = to_int(show.integer("row", 0, 0, kMaxTensorSide - 1));
          task.column = to_int(show.integer("column", 0, 0, kMaxTensorSide - 1));
        });
        break;
    }
  }

  static std::string default_text(const LessonTask& task) {
    const std::string settings = joined(
        task.settings, ", ", [](const LessonSetting& s) { return s.setting.key() + " = " + to_string(s.value); });
    switch (task.kind) {
      case LessonTask::Kind::start:
        return "Start the run of this step";
      case LessonTask::Kind::run_until:
        return fmt::format("Train until {} steps are done", task.until);
      case LessonTask::Kind::set:
        return (task.run == kAllRuns ? "All runs" : fmt::format("Run {:c}", 'A' + task.run)) + ": set " + settings;
      case LessonTask::Kind::twin:
        return "Add a twin with " + settings;
      case LessonTask::Kind::show:
        return "Open the tensor " + task.tensor;
    }
    return {};
  }

  void read_prediction(TomlSection& section, LessonStep& step) {
    LessonPrediction prediction;
    prediction.question = section.required_text("question");
    prediction.choices = section.texts("choices");
    if (section.inside("number", [&](TomlSection& figure) { prediction.number = read_figure(figure); })) {
      if (!section.has("within")) section.problem("within", "is missing: the largest difference that counts as right");
      prediction.within = section.number("within", 0, 0, 1e9);
      if (!prediction.choices.empty()) section.problem("number", "a prediction has choices or a number, not both");
    } else if (prediction.choices.size() < 2) {
      section.problem("choices", "a prediction needs at least two choices, or a number");
    } else {
      if (!section.has("right"))
        section.problem("right", "is missing: the number of the right choice, 1 for the first");
      prediction.right = to_int(section.integer("right", 1, 1, prediction.choices.size())) - 1;
    }
    step.prediction = std::move(prediction);
  }

  void read_step(TomlSection& section) {
    LessonStep step;
    step.title = section.required_text("title");
    step.text = section.required_text("text");
    step.hint = section.text("hint");
    step.reveal = section.text("reveal");
    section.for_each_section("do", [&](TomlSection& task) { read_task(task, step); });
    last_trained_ = INT64_MAX;
    for (const LessonTask& task : step.tasks)
      if (task.kind == LessonTask::Kind::run_until) last_trained_ = task.until - 1;
    step.view.workspace = section.text("workspace");
    step.view.panels = section.texts("panels");
    step.view.choice = section.text("choose");
    if (const std::string metric = section.text("metric"); !metric.empty()) {
      step.view.metric = find_scalar(metric);
      if (!step.view.metric) section.problem("metric", "there is no metric " + metric);
    }
    step.view.panel_per_run = section.choice("panel_for", {"selected_run", "each_run"}, 0) == 1;
    step.view.after_prediction = section.choice("arrange", {"at_once", "after_prediction"}, 0) == 1;
    if (section.node("run")) step.view.run = read_open_run(section);
    for (const auto& [key, place] : {std::pair{"layer", &step.view.layer}, std::pair{"expert", &step.view.expert}})
      if (const auto number = section.optional_integer(key, 0, 1023)) *place = to_int(*number);
    section.inside("predict", [&](TomlSection& predict) { read_prediction(predict, step); });
    section.for_each_section("check", [&](TomlSection& check) { read_check(check, step); });
    if (const toml::table* values = section.table("values")) {
      for (const auto& [key, node] : *values) {
        const std::string at = section.path("values") + "." + std::string(key.str());
        if (!node.is_table()) {
          problems_.add(line_of(node), at, "must be a figure { figure = ... }");
          continue;
        }
        TomlSection figure(*node.as_table(), at, problems_);
        step.values.emplace_back(key.str(), read_figure(figure));
      }
    }
    for (std::size_t at = step.reveal.find('{'); at != std::string::npos; at = step.reveal.find('{', at + 1)) {
      const std::string name = step.reveal.substr(at + 1, step.reveal.find('}', at) - at - 1);
      if (std::none_of(step.values.begin(), step.values.end(), [&](const auto& value) { return value.first == name; }))
        section.problem("reveal", "contains {" + name + "}, which [step.values] does not define");
    }
    if (step.view.after_prediction && !step.prediction) section.problem("arrange", "there is no [step.predict]");
    if (step.prediction && step.prediction->number == std::nullopt && step.checks.empty())
      section.problem("predict", "a prediction with choices needs checks that show which choice is right");
    lesson_.steps.push_back(std::move(step));
  }

  std::optional<std::int64_t> seed_;
  TomlProblems problems_;
  Lesson lesson_;
  std::size_t runs_open_ = 0;
  std::int64_t last_trained_ = INT64_MAX;  // by the tasks of the step that is read
};

constexpr std::string_view kLessons = "lessons/", kExhibits = "exhibits/";

}  // namespace

ParsedLesson parse_lesson(std::string_view text, std::string_view file, std::optional<std::int64_t> seed) {
  if (text.size() > kMaxLessonBytes) return unread<ParsedLesson>(file, "is larger than 1 MB, the limit for a lesson");
  ParsedLesson parsed = LessonParser(std::string(file), seed).parse(text);
  parsed.lesson.name = name_without_number(file);
  return parsed;
}

std::vector<std::string> lesson_names() {
  return names_in(kLessons);
}

std::vector<std::string> exhibit_names() {
  return names_in(kExhibits);
}

ParsedLesson find_lesson(std::string_view name, std::optional<std::int64_t> seed) {
  const std::vector<std::string_view> built_in = assets_in(kLessons);
  for (std::size_t i = 0; i < built_in.size(); ++i)
    if (name == name_without_number(built_in[i]) || name == std::to_string(i + 1))
      return parse_lesson(asset(built_in[i]), built_in[i], seed);
  for (const std::string_view file : assets_in(kExhibits))
    if (name == name_without_number(file)) return parse_lesson(asset(file), file, seed);
  if (!name.ends_with(".toml"))
    return unread<ParsedLesson>(
        name, "no such lesson; allowed: " + joined(lesson_names(), ", ") + ", or the path of a .toml file");
  std::string text;
  const std::string reason = read_toml_file(std::string(name), kMaxLessonBytes, "lesson", text);
  return reason.empty() ? parse_lesson(text, name, seed) : unread<ParsedLesson>(name, reason);
}

}  // namespace moescope
