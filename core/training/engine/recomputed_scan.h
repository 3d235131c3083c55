// A scan of operands (operand_scan.h) at a past step of a run, or at the step just taken. A copy of the run trains up
// to it in a separate thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "core/training/engine/recompute.h"
#include "core/training/operand_scan.h"

namespace moescope {

class RecomputedScan {
 public:
  explicit RecomputedScan(RecomputePlan plan);  // starts at once; ignores plan.place
  ~RecomputedScan();                            // stops after the current step or pass

  const RecomputePlan& plan() const { return plan_; }
  std::int64_t next_step() const { return next_step_; }  // next step of the copy
  int passes_done() const { return done_; }
  int passes() const { return of_; }  // 0: the copy has not reached the step
  bool over() const { return over_; }
  // Valid when over(). nullopt: see error(), for example that the step gave another loss than the recorded one.
  const std::optional<OperandScan>& scan() const { return scan_; }
  const std::string& error() const { return error_; }

 private:
  void work(const std::stop_token& stop);
  void scan_operands_of(Engine& engine, const std::stop_token& stop);

  RecomputePlan plan_;
  std::optional<OperandScan> scan_, found_;  // found_: until the loss of the step is checked
  std::string error_;
  std::atomic<std::int64_t> next_step_ = 0;
  std::atomic<int> done_ = 0, of_ = 0;
  std::atomic<bool> over_ = false;
  std::jthread thread_;  // last member: starts when all others are ready
};

}  // namespace moescope
