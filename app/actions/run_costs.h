// Measures the time of a step on this machine and estimates from it what another run will cost. The list of presets,
// the set-up form and the dialogs of twins show the estimates.
#pragma once

#include <QStringList>

#include "app/actions/actions.h"
#include "app/setup/run_speeds.h"
#include "core/training/engine/live_status.h"

namespace moescope {

class CompareActions;
class SetupForm;

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
