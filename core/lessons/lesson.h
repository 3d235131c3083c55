// Guided lessons: what to train, what to look at, what to predict, and figures that show whether the prediction was
// right.
//
// A lesson is a TOML file, assets/lessons/NN-name.toml (built in) or a user's own file; assets/lessons/README.md
// describes its form. The window (app/lessons/lesson_guide.h) and the runner without a window
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
#include "core/numerics/quantize.h"

namespace moescope {

// A generated tensor for lessons about number formats. Every value is  (mean + sigma z) * f,  with z drawn from the
// standard normal distribution and f = 2^-(spread u1) * 2^-(patch_spread u2), times `outlier_factor` in the outlier
// column `outlier_column`. u1 of the element and u2 of its patch (32 columns of one row) are uniform in [0, 1).
struct LessonTensor {
  std::string name, about;
  int rows = 256, cols = 256;
  double mean = 0, sigma = 1;
  double spread = 0, patch_spread = 0;  // octaves
  int outlier_column = -1;              // -1: no outlier column
  double outlier_factor = 1;
  std::int64_t seed = 1;
};

// Returns [rows, cols] row-major; equal seeds give equal bits.
std::vector<float> make_tensor(const LessonTensor& tensor);

// Selects one layer or expert, or a statistic over all of them.
struct LessonPick {
  enum class Of { mean, max, min, one } rule = Of::mean;
  int index = 0;  // Of::one
  bool operator==(const LessonPick&) const = default;
};

// A figure of a run: over a range of steps, and over layers and experts if the figure has them.
struct RunFigure {
  int run = 0;  // index of the run: 0 is A
  LessonPick layer;
  LessonPick expert{.rule = LessonPick::Of::max};
  std::int64_t last = 1;                 // number of last steps; used if `from` is not given
  std::int64_t until = INT64_MAX;        // no later step counts among the last ones
  std::optional<std::int64_t> from, to;  // inclusive
  bool since_change = false;             // `from` and `to` count from the run's newest live change
  // Parameters of certain figures.
  std::int64_t lag = 1;  // load_correlation
  std::string argument;  // steps_until: a metric; finding: a kind
  double limit = 0;      // steps_until
  std::string model;     // modelled_deep_ep_ms: model of the layer
  bool operator==(const RunFigure&) const = default;
};

// A figure of a sample tensor of the lesson.
struct TensorFigure {
  std::string tensor;
  MatrixFormat format;
  bool without_outlier = false;  // of all columns except the outlier column
  bool operator==(const TensorFigure&) const = default;
};

// A figure of a layer that was measured on a cluster (assets/calibration).
struct ClusterFigure {
  std::string model, routing;
  bool operator==(const ClusterFigure&) const = default;
};

// A figure that can be read during the lesson. lesson_figures() lists the keys, their sources and meanings.
struct LessonFigure {
  std::string key;
  double times = 1;
  std::variant<RunFigure, TensorFigure, ClusterFigure> source;
  // Returns the index of its run; -1: it is not the figure of a run.
  int run() const {
    const auto* run_figure = std::get_if<RunFigure>(&source);
    return run_figure ? run_figure->run : -1;
  }
  bool operator==(const LessonFigure&) const = default;
};

// The check holds if above < figure < below; a limit that is not given does not count.
struct LessonCheck {
  std::string text;
  LessonFigure figure;
  struct Bound {
    double number = 0;
    std::optional<LessonFigure> figure;  // used instead of the number
  };
  std::optional<Bound> above, below;
};

struct LessonSetting {
  Setting setting;
  ConfigValue value;
};

// Used instead of a run's index: every run of the lesson.
inline constexpr int kAllRuns = -1;

struct LessonTask {
  enum class Kind { start, run_until, set, twin, show } kind = Kind::run_until;
  std::string text;              // text of the button
  std::vector<RunConfig> start;  // these runs replace the open ones, paused at step 0
  std::int64_t until = 0;
  int run = 0;                          // for set; may be kAllRuns
  std::vector<LessonSetting> settings;  // for set and twin
  std::string name;                     // for twin
  std::string tensor;                   // for show
  MatrixFormat format;
  int row = 0, column = 0;  // element whose block the microscope shows
};

struct LessonPrediction {
  std::string question;
  std::vector<std::string> choices;  // empty: asks for a number
  int right = 0;                     // index of the choice that the checks confirm
  std::optional<LessonFigure> number;
  double within = 0;  // largest difference that counts as right, in the shown unit
};

// What the window shows during this step; empty members change nothing.
struct LessonView {
  std::string workspace;
  std::vector<std::string> panels;  // names of docks, which are framed; other docks of the workspace are closed
  std::optional<int> run, layer, expert;
  std::optional<Metric> metric;  // metric of the loss panels; nullopt: the loss
  std::string choice;            // entry to select in the head of the panels
  bool panel_per_run = false;    // one copy of the first panel for every run
  // Covers the panels until the prediction, because they show the answer. They are also covered in a step that trains
  // nothing: what it asks for is there already.
  bool after_prediction = false;
};

struct LessonStep {
  std::string title, text, hint, reveal;  // Markdown; {name} in `reveal` stands for a value
  LessonView view;
  std::optional<LessonPrediction> prediction;
  std::vector<LessonTask> tasks;
  std::vector<LessonCheck> checks;
  std::vector<std::pair<std::string, LessonFigure>> values;
};

struct Lesson {
  std::string name;  // file name without number and suffix
  std::string title;
  std::string subject;       // a phrase that gives no answer of the lesson away; only in lessons
  std::string teaches;       // shown at the end of the lesson
  std::string group;         // heading under which a list shows the lesson; empty in other lessons than built-in ones
  std::string explained_by;  // of an exhibit: name of the lesson that explains its fault
  int minutes = 0;
  std::vector<RunConfig> runs;  // A first; empty if the lesson is about tensors alone
  std::vector<LessonTensor> tensors;
  std::vector<LessonStep> steps;
};

struct ParsedLesson {
  Lesson lesson;
  std::vector<ConfigProblem> problems;  // empty: the lesson can be started
};
// `seed` replaces the seed of every run and tensor; a run with its own seed keeps the difference to the first run's.
ParsedLesson parse_lesson(std::string_view toml, std::string_view file_name, std::optional<std::int64_t> seed = {});

// Returns the built-in lessons in teaching order.
std::vector<std::string> lesson_names();
// Returns the exhibits, assets/exhibits/NN-name.toml: lessons on one fault of a real training each.
std::vector<std::string> exhibit_names();
// Reads a built-in lesson by name or number ("2"), an exhibit by name, or a file by its path.
ParsedLesson find_lesson(std::string_view name_or_path, std::optional<std::int64_t> seed = {});

}  // namespace moescope
