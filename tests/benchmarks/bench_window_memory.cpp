// Memory of the window with a run of a million steps, offscreen. The window shows all workspaces one after another.
// Exit status 1 if memory grows without end (long_run.h).
//   bench_window_memory [STEPS]
#include <QApplication>
#include <QStyleFactory>
#include <cstdlib>
#include <exception>

#include "tests/support/long_window.h"

using namespace moescope;

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1000000;
  try {
    LongWindow window;
    return measure(window, steps);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_window_memory: %s\n", failure.what());
    return 2;
  }
}
