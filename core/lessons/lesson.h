// Guided lessons: what to train, what to look at, what to predict, and figures that show whether it happened.
//
// A lesson is a TOML file, assets/lessons/NN-name.toml (built in) or any other (a person's own); its form is documented
// in assets/lessons/README.md. The window (app/lessons/lesson_guide.h) and the headless runner
// (core/lessons/lesson_runner.h) perform the same tasks and judge the same checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/run_config.h"
#include "core/lessons/lesson_tensors.h"
#include "core/numerics/block_quantize.h"
#include "core/telemetry/frame/metrics.h"

namespace moescope {

// One of several layers or experts, or a figure over all of them.
struct LessonPick {
  enum class Of { mean, max, min, one } of = Of::mean;
  int index = 0;  // Of::one
};

// A number format that a tensor is shown or judged in.
struct LessonFormat {
  BlockFormat format;  // format.block 0: one scale for the whole tensor, amax / max (E4M3 and E5M2 only)
  BlockAxis axis = BlockAxis::row;
};

// A figure that can be read while the lesson runs. Which keys exist and what they mean: lesson_figures().
struct LessonFigure {
  std::string key;
  double times = 1;

  // Of runs: mean over a stretch of steps unless `over` says otherwise.
  int run = 0;  // place: 0 is A
  LessonPick layer;
  LessonPick expert{.of = LessonPick::Of::max};
  std::int64_t last = 1;                 // steps, when `from` is not given
  std::optional<std::int64_t> from, to;  // inclusive
  bool since_change = false;             // from and to count from the run's newest live change
  LessonPick::Of over = LessonPick::Of::mean;
  std::int64_t lag = 1;  // load_correlation
  std::string of;        // steps_until: a metric
  double limit = 0;      // steps_until

  int slots_per_rank = 0;  // placed_max_over_mean

  // Of tensors.
  std::string tensor;
  std::optional<LessonFormat> format;  // nothing: the one that the person has chosen
  LessonColumns columns = LessonColumns::all;

  // Of measured layers on a cluster (assets/calibration); `model` of modelled ones, too.
  std::string model, routing;
};

// holds: above < figure < below, each where given.
struct LessonCheck {
  std::string text;
  LessonFigure figure;
  struct Bound {
    double number = 0;
    std::optional<LessonFigure> figure;  // instead of the number
  };
  std::optional<Bound> above, below;
};

struct LessonSetting {
  std::string key;
  ConfigValue value;
};

// The runs of a lesson. None: it is about tensors alone.
struct LessonRuns {
  std::vector<RunConfig> configs;  // A first
  bool empty() const { return configs.empty(); }
};

// In the place of a run: every run of the lesson.
inline constexpr int kAllRuns = -1;

struct LessonTask {
  enum class Kind { start, run_until, set, twin, show } kind = Kind::run_until;
  std::string text;  // on the button
  LessonRuns start;  // replaces what is open, paused at step 0
  std::int64_t until = 0;
  int run = 0;                          // set; or kAllRuns
  std::vector<LessonSetting> settings;  // set, twin
  std::string name;                     // twin
  std::string tensor;                   // show
  LessonFormat format;
  int row = 0, column = 0;  // the element whose block is under the microscope
};

struct LessonPrediction {
  std::string question;
  std::vector<std::string> choices;  // empty: a number is asked for
  int right = 0;                     // index of the choice that the checks then show
  std::optional<LessonFigure> number;
  double within = 2;  // a number counts as right up to this factor away
};

// What the window shows while the step is read; empty: as it is.
struct LessonView {
  std::string workspace;
  std::vector<std::string> panels;     // dock names; the workspace's others are put away
  std::vector<std::string> highlight;  // of these
  std::optional<int> run, layer, expert;
  std::optional<Metric> metric;   // what the loss panels draw; nothing: the loss
  bool after_prediction = false;  // only then: it would give the answer away
};

struct LessonStep {
  std::string title, text, hint, reveal;  // Markdown; {name} in the reveal stands for a value
  LessonView view;
  std::optional<LessonPrediction> prediction;
  std::vector<LessonTask> tasks;
  std::vector<LessonCheck> checks;
  std::vector<std::pair<std::string, LessonFigure>> values;
};

struct Lesson {
  std::string name;  // of the file, without number and suffix
  std::string title, teaches;
  int minutes = 0;
  LessonRuns runs;
  std::vector<LessonTensor> tensors;
  std::vector<LessonStep> steps;
};

struct ParsedLesson {
  Lesson lesson;
  std::vector<ConfigProblem> problems;  // empty: it can be given
};
// `seed` replaces that of every run and tensor (a run of the file with a seed of its own keeps the distance to it).
ParsedLesson parse_lesson(std::string_view toml, std::string_view file_name, std::optional<std::int64_t> seed = {});
ParsedLesson load_lesson(const std::string& path, std::optional<std::int64_t> seed = {});

// Built-in lessons in teaching order.
std::vector<std::string> lesson_names();
// A built-in lesson by name or number ("2"), or a file by its path.
ParsedLesson find_lesson(std::string_view name_or_path, std::optional<std::int64_t> seed = {});

}  // namespace moescope
