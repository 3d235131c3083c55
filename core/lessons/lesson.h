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
#include <variant>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/frame/metrics.h"
#include "core/lessons/lesson_tensors.h"
#include "core/numerics/quantize.h"

namespace moescope {

// One of several layers or experts, or a figure over all of them.
struct LessonPick {
  enum class Of { mean, max, min, one } of = Of::mean;
  int index = 0;  // Of::one
};

// Of a run: over a stretch of steps, and over layers and experts where the figure has them.
struct RunFigure {
  int run = 0;  // place: 0 is A
  LessonPick layer;
  LessonPick expert{.of = LessonPick::Of::max};
  std::int64_t last = 1;                 // steps, when `from` is not given
  std::optional<std::int64_t> from, to;  // inclusive
  bool since_change = false;             // from and to count from the run's newest live change
  LessonPick::Of over = LessonPick::Of::mean;
  // What single figures want besides.
  std::int64_t lag = 1;    // load_correlation
  std::string of;          // steps_until: a metric
  double limit = 0;        // steps_until
  int slots_per_rank = 0;  // placed_max_over_mean
  std::string model;       // modelled_*: whose layer
};

// Of a sample tensor of the lesson.
struct TensorFigure {
  std::string tensor;
  std::optional<MatrixFormat> format;  // nothing: the one that the person has chosen
  LessonColumns columns = LessonColumns::all;
};

// Of a layer that was measured on a cluster (assets/calibration).
struct ClusterFigure {
  std::string model, routing;
};

// A figure that can be read while the lesson runs. Which keys exist, of what they are and what they mean:
// lesson_figures().
struct LessonFigure {
  std::string key;
  double times = 1;
  std::variant<RunFigure, TensorFigure, ClusterFigure> of;
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
  Setting setting;
  ConfigValue value;
};

// The runs of a lesson. None: the lesson is about tensors alone.
struct LessonRuns {
  std::vector<RunConfig> configs;  // A first
  bool empty() const { return configs.empty(); }
};

// In place of a run's number: every run of the lesson.
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
  MatrixFormat format;
  int row = 0, column = 0;  // the element whose block is under the microscope
};

struct LessonPrediction {
  std::string question;
  std::vector<std::string> choices;  // empty: asks for a number
  int right = 0;                     // index of the choice that the checks then show
  std::optional<LessonFigure> number;
  double within = 2;  // a number counts as right within this factor
};

// What the window shows during this step; empty: nothing changes.
struct LessonView {
  std::string workspace;
  std::vector<std::string> panels;     // names of docks; the workspace's others are closed
  std::vector<std::string> highlight;  // of these
  std::optional<int> run, layer, expert;
  std::optional<Metric> metric;   // what the loss panels draw; nothing: the loss
  bool each_run = false;          // the first panel once for every run
  bool after_prediction = false;  // shown only then, since it would give the answer away
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
  std::vector<ConfigProblem> problems;  // empty: the lesson can be started
};
// `seed` replaces the seed of every run and tensor (a run with a seed of its own keeps its difference to the first).
ParsedLesson parse_lesson(std::string_view toml, std::string_view file_name, std::optional<std::int64_t> seed = {});
ParsedLesson load_lesson(const std::string& path, std::optional<std::int64_t> seed = {});

// Built-in lessons in teaching order.
std::vector<std::string> lesson_names();
// A built-in lesson by name or number ("2"), or a file by its path.
ParsedLesson find_lesson(std::string_view name_or_path, std::optional<std::int64_t> seed = {});

}  // namespace moescope
