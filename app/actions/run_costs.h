// Measures the time of a step on this machine and estimates from it what another run will cost. The list of presets,
// the set-up form and the dialogs of twins show the estimates.
#pragma once

#include <QList>
#include <QString>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/run_config.h"
#include "core/training/engine/live_status.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

class CompareActions;
class SetupForm;

// Speeds of models on this machine, measured while they train, and estimates for new runs. Before the first measurement
// the estimates are modelled.
class RunSpeeds {
 public:
  // `keeps`: the speeds are stored between sessions (settings.h).
  explicit RunSpeeds(bool keeps);

  // Records the time of a step of these runs together, measured over steps without a speed limit.
  void note(const std::vector<RunConfig>& runs, double seconds_per_step);

  struct Estimate {
    double seconds_per_step = 0;
    bool measured = false;  // true: measured with this work and these formats; false: scaled by FLOPs from the nearest
                            // run, or modelled
    QString measured_run;   // name of the measured run; empty: modelled
    bool isModelled() const { return measured_run.isEmpty(); }
  };
  Estimate estimate(const RunConfig& config) const;
  Estimate estimate(const std::vector<RunConfig>& runs) const;  // of a step of all runs together

  // Returns parameters, memory and the time to the end of the schedule of runs in lock-step, with the source of each
  // figure, in a sentence or two.
  QString costText(const std::vector<RunConfig>& runs) const;
  // Returns memory and time: "48 MB, 2,000 steps in about 7 min (measured here)".
  QString shortText(const RunConfig& run) const;
  // Returns the figures of costText() in a few words: "3 runs, 0.5 M parameters, 8.5 MB, 2,000 steps in about 40 s".
  QString listText(const std::vector<RunConfig>& runs) const;
  // Returns the costs of twins that start when the other run has taken `step` steps.
  QString twinsText(const std::vector<RunConfig>& twins, std::int64_t step) const;
  // Returns the costs of groups that train one after the other, `steps` steps each.
  QString groupsText(const std::vector<RunGroup>& groups, std::int64_t steps) const;

 private:
  struct Speed {
    QString name, formats;
    double flops_per_step = 0, seconds_per_step = 0;
  };

  static Speed speedOf(const std::vector<RunConfig>& runs, double seconds_per_step);

  const bool keeps_;
  QList<Speed> speeds_;  // measured speeds, the newest first
};

class RunCosts : public Actions {
  Q_OBJECT

 public:
  // `keeps`: whether the measured speeds are stored for the next start of the program.
  RunCosts(const Context& context, SetupForm* form, CompareActions* comparison, bool keeps);

  void showStatus(const LiveStatus& status);        // called by the frame clock with the status of the open run
  QString presetText(const QString& preset) const;  // model and cost
  // Returns the time that `steps` steps of a preset take: "about 40 s on this machine".
  QString timeText(const QString& preset, std::int64_t steps) const;

 private:
  void measureAnew();
  void expectFirstStep();  // shows the expected time of the first step in empty panels

  SetupForm* form_;
  RunSpeeds speeds_;
  double seconds_ = 0;  // seconds per step, summed over the samples
  int samples_ = 0, next_samples_ = 0;
  std::int64_t last_step_ = 0;
};

}  // namespace moescope
