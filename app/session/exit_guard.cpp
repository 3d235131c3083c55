#include "app/session/exit_guard.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace moescope {

namespace {

std::function<void()>* guarded = nullptr;

void atExit() {
  std::function<void()>* end = std::exchange(guarded, nullptr);
  if (!end) return;
  (*end)();
  std::fputs("moescope: the display is gone: training has ended and its recording is closed\n", stderr);
  _exit(1);
}

}  // namespace

ExitGuard::ExitGuard(std::function<void()> end) : end_(std::move(end)) {
  guarded = &end_;
  renew();
}

ExitGuard::~ExitGuard() {
  guarded = nullptr;
}

void ExitGuard::renew() {
  std::atexit(atExit);
}

}  // namespace moescope
