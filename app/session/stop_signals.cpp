#include "app/session/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <QSocketNotifier>
#include <csignal>

namespace moescope {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

int told[2] = {-1, -1};  // a pipe: of what a handler may call, write() is what wakes Qt

void tell(int signal) {
  const auto number = static_cast<unsigned char>(signal);
  if (write(told[1], &number, 1) < 0) _exit(128 + signal);  // told so often that the pipe is full: nobody listens
}

}  // namespace

StopSignals::StopSignals(QObject* parent) : QObject(parent) {
  if (pipe2(told, O_CLOEXEC | O_NONBLOCK) != 0) return;
  auto* notifier = new QSocketNotifier(told[0], QSocketNotifier::Read, this);
  connect(notifier, &QSocketNotifier::activated, this, [this] {
    unsigned char number = 0;
    if (read(told[0], &number, 1) == 1) emit stopped(number);
  });
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = tell;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals)
    if (struct sigaction action{}; sigaction(signal, nullptr, &action) == 0 && action.sa_handler == tell)
      std::signal(signal, SIG_DFL);
  for (int& end : told) {
    if (end >= 0) close(end);
    end = -1;
  }
}

}  // namespace moescope
