// When the X server or the Wayland compositor dies, Qt and Xlib call exit(), which destroys what the training's threads
// still use. This ends them first, so that recordings are closed, and leaves the program there and then.
#pragma once

#include <functional>

namespace moescope {

class ExitGuard {
 public:
  explicit ExitGuard(std::function<void()> end);  // one at a time
  ~ExitGuard();                                   // the program has come to its own end
  // Whatever was made since the last time is destroyed before an exit's first call: to be asked again after something
  // new has begun.
  void renew();

 private:
  std::function<void()> end_;
};

}  // namespace moescope
