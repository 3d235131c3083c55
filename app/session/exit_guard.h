// When the X server or the Wayland compositor dies, Qt and Xlib call exit(), which destroys objects that the training's
// threads still use. The guard ends these threads first, so that recordings are closed, and leaves the program at once.
#pragma once

#include <functional>

namespace moescope {

class ExitGuard {
 public:
  explicit ExitGuard(std::function<void()> end);  // at most one guard exists
  ~ExitGuard();                                   // the program ends normally
  // Registers the guard again. exit() calls the newest registration first, so call this after anything that registers
  // its own destruction.
  void renew();

 private:
  std::function<void()> end_;
};

}  // namespace moescope
