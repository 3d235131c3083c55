// Measures how long a step takes here, and tells the list of presets, the set-up form and the
// dialogs of twins what another run will cost.
#pragma once

#include <QObject>
#include <QStringList>

#include "app/setup/run_speeds.h"
#include "core/training/engine/live_status.h"

namespace moescope {

class CompareActions;
class RunSession;
class Selection;
class SetupForm;

class RunCosts : public QObject {
  Q_OBJECT

 public:
  // `keeps`: what was measured counts in the next start of the program, too.
  RunCosts(RunSession* session, Selection* selection, SetupForm* form, CompareActions* comparison, bool keeps);

  void showStatus(const LiveStatus& status);             // of the open run, from time to time
  QStringList presetTexts(const QString& preset) const;  // what it is and costs in a line, from long to short

 private:
  void measureAnew();
  void expectFirstStep();  // for panels that wait for it

  RunSession* session_;
  Selection* selection_;
  SetupForm* form_;
  RunSpeeds speeds_;
  double seconds_ = 0;  // per step, summed over the samples
  int samples_ = 0, wanted_ = 0;
  std::int64_t last_step_ = 0;
};

}  // namespace moescope
