// Effect of the window on the time of a training step. A model trains while the window is stopped, without input,
// stopped again, and under a mouse that moves over Loss 60 times per second, for 0.8 s each (a turn). Prints medians
// over the turns: of the mean step time, of this time divided by that of the stopped window in the turn before (with
// quartiles), and of the CPU time of the window's thread.
//   bench_window [PRESET] [TURNS] [THREADS]
// Runs offscreen. With QT_QPA_PLATFORM=xcb it uses a real window, and the time includes the work of the X server.
#include <QApplication>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QStandardPaths>
#include <QStyleFactory>
#include <QTest>
#include <QTimer>
#include <QWindow>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

#include "app/actions/run_control.h"
#include "app/program/program_start.h"
#include "app/session/run_session.h"
#include "app/window/main_window.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/numerics/threads.h"
#include "tests/benchmarks/bench_measures.h"
#include "widgets/plots/plot_frame.h"

using namespace moescope;

namespace {

constexpr int kTurnMs = 800, kMovesPerS = 60, kSettleMs = 4000;

double threadCpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

void handleEvents(int ms) {
  QEventLoop loop;
  QTimer::singleShot(ms, Qt::PreciseTimer, &loop, &QEventLoop::quit);
  loop.exec();
}

void handleEventsUnderAMouse(int ms, MainWindow& window) {
  QWidget* plot = window.findChild<QDockWidget*>("dock_loss")->findChild<PlotFrame*>();
  const QPoint centre = plot->mapTo(&window, plot->rect().center());
  QElapsedTimer clock;
  clock.start();
  QTimer mouse;
  mouse.setTimerType(Qt::PreciseTimer);
  mouse.setSingleShot(true);
  int moves = 0;
  const auto wait = [&] {
    mouse.start(static_cast<int>(std::max<qint64>(0, 1000 * (moves + 1) / kMovesPerS - clock.elapsed())));
  };
  QObject::connect(&mouse, &QTimer::timeout, &window, [&] {
    ++moves;
    QTest::mouseMove(window.windowHandle(), centre + QPoint(3 * (moves % 40) - 60, moves % 30));
    wait();
  });
  wait();
  handleEvents(ms);
}

// Returns the mean time in ms of the steps that begin and end during `work`.
double meanStep(LiveRuns& live, const std::function<void()>& work) {
  const std::int64_t first = live.status().step + 1;
  work();
  const std::int64_t end = live.status().step;
  live.flush();
  if (end <= first) throw std::runtime_error("a step takes longer than a turn");
  const HistoryPtr history = live.histories().front();
  double sum = 0;
  for (std::int64_t step = first; step < end; ++step)
    sum += static_cast<double>(history->value_at(Metric::step_ms, kWholeRun, step));
  return sum / static_cast<double>(end - first);
}

struct Turns {
  // Mean time of a step; this time divided by that with a stopped window; CPU time of the window's thread.
  std::vector<double> step_ms, ratios, cpu_ms;

  void add(LiveRuns& live, double without, const std::function<void()>& work) {
    const double before = threadCpuMs();
    step_ms.push_back(meanStep(live, work));
    ratios.push_back(step_ms.back() / without);
    cpu_ms.push_back(threadCpuMs() - before);
  }
  void print(const char* what) {
    std::ranges::sort(ratios);
    std::printf(
        "%-22s step %.1f ms, %.3f of one without the window (quartiles %.3f and %.3f); window's thread %.0f ms\n", what,
        median(step_ms), median(ratios), ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4], median(cpu_ms));
  }
};

void measure(const std::string& preset, int turns) {
  MainWindow window(false);
  window.resize(1920, 1080);
  window.show();
  window.runControl()->setRecorded(false);
  window.runControl()->start(load_preset(preset).config);
  while (!window.session()->live()) handleEvents(50);
  handleEvents(kSettleMs);
  LiveRuns& live = *window.session()->live();
  const auto nothing = [] { std::this_thread::sleep_for(std::chrono::milliseconds(kTurnMs)); };
  Turns idle, under_mouse;
  for (int turn = 0; turn < turns; ++turn) {
    double without = meanStep(live, nothing);
    idle.add(live, without, [] { handleEvents(kTurnMs); });
    without = meanStep(live, nothing);
    under_mouse.add(live, without, [&] { handleEventsUnderAMouse(kTurnMs, window); });
  }
  std::printf("%s, %d threads, %d turns of %.1f s each, %s\n", preset.c_str(), num_threads(), turns, kTurnMs / 1e3,
              qPrintable(QGuiApplication::platformName()));
  idle.print("left alone");
  under_mouse.print("under a moving mouse");
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%s\n", start_with_fast_kernels(argv).c_str());
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QStandardPaths::setTestModeEnabled(true);
  if (argc > 3) set_num_threads(std::atoi(argv[3]));
  QApplication app(argc, argv);
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  try {
    measure(argc > 1 ? argv[1] : "small", argc > 2 ? std::max(1, std::atoi(argv[2])) : 40);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_window: %s\n", failure.what());
    return 2;
  }
}
