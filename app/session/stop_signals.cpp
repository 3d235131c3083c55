#include "app/session/stop_signals.h"

#include <unistd.h>

#include <QSocketNotifier>
#include <csignal>

#include "core/numerics/operating_system.h"

namespace moescope {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

int signal_pipe[2] = {-1, -1};  // the signal handler, which may not call Qt, writes the signal into it

void on_signal(int signal) {
  const auto number = static_cast<unsigned char>(signal);
  if (::write(signal_pipe[1], &number, 1) < 0) _exit(128 + signal);  // the pipe is full, so nobody reads it
}

}  // namespace

StopSignals::StopSignals(QObject* parent) : QObject(parent) {
  if (!make_pipe(signal_pipe)) return;
  auto* notifier = new QSocketNotifier(signal_pipe[0], QSocketNotifier::Read, this);
  connect(notifier, &QSocketNotifier::activated, this, [this] {
    unsigned char number = 0;
    if (read(signal_pipe[0], &number, 1) == 1) emit stopped(number);
  });
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals)
    if (struct sigaction action{}; sigaction(signal, nullptr, &action) == 0 && action.sa_handler == on_signal)
      std::signal(signal, SIG_DFL);
  for (int& end : signal_pipe) {
    if (end >= 0) close(end);
    end = -1;
  }
}

}  // namespace moescope
