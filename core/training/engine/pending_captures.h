// Captures that wait for the next step of their run. Used by the training thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "core/model/layers/operand_tap.h"
#include "core/training/capture.h"
#include "core/training/engine/engine.h"

namespace moescope {

class PendingCaptures {
 public:
  ~PendingCaptures();  // fails waiting captures

  void add(int run, const OperandPlace& place, std::shared_ptr<Capture> capture);
  bool empty() const { return pending_.empty(); }
  void fail_run(int run, const std::string& why);
  void fail_all(const std::string& why);

  // Attaches the first waiting capture of each run that takes the next step to that step. Call finish_step() after it.
  void join_step(Engine& runs);
  void finish_step(Engine& runs);
  // Computes in advance the captures of runs that do not take the next step (of all runs while training is paused),
  // from the step that they will take next. Does not change the runs.
  void compute_ahead(Engine& runs, bool paused);

 private:
  struct Pending {
    int run;
    std::shared_ptr<Capture> capture;
    std::unique_ptr<OperandTap> tap;
    std::int64_t step = -1;  // step of the capture
  };
  void deliver(Pending& pending, const Trainer& trainer, std::int64_t step, bool ahead);
  std::deque<Pending> pending_;
};

}  // namespace moescope
