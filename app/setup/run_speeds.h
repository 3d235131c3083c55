// How fast models train on this machine, as measured while they did, and what follows for one that has not begun.
#pragma once

#include <QList>
#include <QString>
#include <optional>
#include <vector>

#include "core/config/run_config.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

class RunSpeeds {
 public:
  // `keeps`: from one start of the program to the next (settings.h).
  explicit RunSpeeds(bool keeps);

  // A step of this run took so long, one after another without a limit of speed.
  void note(const RunConfig& config, double seconds_per_step);

  struct Estimate {
    double seconds_per_step = 0;
    bool measured = false;  // on this very work; else in proportion to the FLOPs of the nearest that was measured
    QString of;             // its name
  };
  std::optional<Estimate> of(const RunConfig& config) const;             // nothing: nothing was measured yet
  std::optional<Estimate> of(const std::vector<RunConfig>& runs) const;  // of a step of all together

  // Parameters, memory and the time to the end of the schedule, of runs in lock-step together, with where each comes
  // from. In a sentence or two.
  QString costText(const std::vector<RunConfig>& runs) const;
  // Memory and time alone: "48 MB, 2,000 steps in about 7 min (measured here)".
  QString shortText(const RunConfig& run) const;
  // The same in a few words: "3 runs, 0.5 M parameters, 8.5 MB, 2,000 steps in about 40 s".
  QString listText(const std::vector<RunConfig>& runs) const;
  // The same of a twin of `first` that starts when that one has taken `step` steps.
  QString twinText(const RunConfig& twin, std::int64_t step) const { return twinsText({twin}, step); }
  QString twinsText(const std::vector<RunConfig>& twins, std::int64_t step) const;
  // The same of groups that train one after the other, each so many steps.
  QString groupsText(const std::vector<RunGroup>& groups, std::int64_t steps) const;

 private:
  struct Speed {
    QString name, formats;
    double flops_per_step = 0, seconds_per_step = 0;
  };
  void keep() const;

  const bool keeps_;
  QList<Speed> speeds_;  // newest first
};

}  // namespace moescope
