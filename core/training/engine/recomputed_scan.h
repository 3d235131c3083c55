// A scan of operands (operand_scan.h) at a step of a run, past or just taken, by a copy of the run that trains up to it
// in a thread of its own.
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
  explicit RecomputedScan(RecomputePlan plan);  // starts at once; `place` is not used
  ~RecomputedScan();                            // stops after the step or pass in flight

  const RecomputePlan& plan() const { return plan_; }
  std::int64_t next_step() const { return next_step_; }  // that the copy takes
  int passes_done() const { return done_; }
  int passes() const { return of_; }  // 0: the copy is not there yet
  bool over() const { return over_; }
  // Once it is over. Nothing: error() says why, for example that the step gave another loss than the recorded one.
  const std::optional<OperandScan>& scan() const { return scan_; }
  const std::string& error() const { return error_; }

 private:
  void work(const std::stop_token& stop);
  void scan_operands_of(Engine& engine, const std::stop_token& stop);

  RecomputePlan plan_;
  std::optional<OperandScan> scan_, found_;  // found_: until the loss of the step was checked
  std::string error_;
  std::atomic<std::int64_t> next_step_ = 0;
  std::atomic<int> done_ = 0, of_ = 0;
  std::atomic<bool> over_ = false;
  std::jthread thread_;  // last: everything above is ready when it starts
};

}  // namespace moescope
