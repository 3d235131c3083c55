// A requested operand. The training thread fills it in; the window polls its state.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/model/layers/operand_tap.h"

namespace moescope {

class Capture {
 public:
  enum class State { waiting, ready, failed };

  State state() const { return state_.load(std::memory_order_acquire); }
  // Valid in state `ready`; does not change afterwards.
  std::shared_ptr<const CapturedOperand> operand() const { return operand_; }
  const std::string& error() const { return error_; }  // valid in state `failed`

  // finish() or fail() is called once, by the capturing thread.
  void finish(CapturedOperand operand) {
    operand_ = std::make_shared<const CapturedOperand>(std::move(operand));
    state_.store(State::ready, std::memory_order_release);
  }
  void fail(std::string reason) {
    error_ = std::move(reason);
    state_.store(State::failed, std::memory_order_release);
  }

 private:
  std::shared_ptr<const CapturedOperand> operand_;
  std::string error_;
  std::atomic<State> state_ = State::waiting;
};

}  // namespace moescope
