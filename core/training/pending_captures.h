// Captures that wait for a step of their run; belongs to the training thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "core/model/layers/operand_tap.h"
#include "core/training/capture.h"
#include "core/training/lock_step.h"

namespace moescope {

class PendingCaptures {
 public:
  ~PendingCaptures();  // whatever waits fails

  void add(int run, const OperandPlace& place, std::shared_ptr<Capture> capture);
  bool empty() const { return pending_.empty(); }
  void fail_run(int run, const std::string& why);
  void fail_all(const std::string& why);

  // The first capture of each run that takes its next step together with the others rides along with that step; call
  // finish_step() after it.
  void join_step(LockStep& runs);
  void finish_step(LockStep& runs);
  // Computes those of runs that do not take the next step (all of them, while training is paused) ahead, as of the step
  // that they take when they go on. Leaves the runs as they are.
  void compute_ahead(LockStep& runs, bool paused);

 private:
  struct Pending {
    int run;
    std::shared_ptr<Capture> capture;
    std::unique_ptr<OperandTap> tap;
    std::int64_t step = -1;  // that it rides along with
  };
  void deliver(Pending& pending, const Trainer& trainer, std::int64_t step, bool ahead);
  std::deque<Pending> pending_;
};

}  // namespace moescope
