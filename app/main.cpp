// The window program.
#include <unistd.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QLoggingCategory>
#include <QSocketNotifier>
#include <QThreadPool>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/look/icons.h"
#include "app/program/arguments.h"
#include "app/program/program_start.h"
#include "app/program/screenshot.h"
#include "app/session/crash_watch.h"
#include "app/start/first_steps.h"
#include "app/window/main_window.h"
#include "app/window/projector_view.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/files/text/text_escape.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/operating_system.h"
#include "core/numerics/threads.h"

Q_LOGGING_CATEGORY(startLog, "moescope.start", QtWarningMsg)

namespace {

using namespace moescope;

int refuse(const QStringList& problems) {
  for (const QString& problem : problems)
    std::fprintf(stderr, "moescope: %s\n", printable_lines(problem.toStdString()).c_str());
  return 2;
}

int print(const QString& text) {
  if (std::fputs(qPrintable(text), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "moescope: standard output: cannot be written: %s\n", std::strerror(errno));
  return 1;
}

// Drops harmless warnings: those of Qt's offscreen platform that it cannot propagate size hints or raise windows, and
// those about XDG_RUNTIME_DIR, which many containers do not set and where this program stores nothing.
QtMessageHandler shown_by_qt = nullptr;
void dropKnownWarnings(QtMsgType type, const QMessageLogContext& context, const QString& text) {
  for (const char* known : {"This plugin does not support ", "QStandardPaths: "})
    if (text.startsWith(QLatin1String(known))) return;
  shown_by_qt(type, context, text);
}

// True if there is a display or an explicit choice of platform. Qt aborts without a display, but help, errors and
// pictures need none.
bool hasDisplay() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
    if (!qEnvironmentVariableIsEmpty(name)) return true;
  return false;
}

std::function<void()>* guarded = nullptr;

void atExit() {
  std::function<void()>* end = std::exchange(guarded, nullptr);
  if (!end) return;
  (*end)();
  std::fputs("moescope: the display is gone: training has ended and its recording is closed\n", stderr);
  _exit(1);
}

// When the X server or the Wayland compositor dies, Qt and Xlib call exit(), which destroys objects that the training's
// threads still use. The guard first ends these threads, so that recordings are closed, and then ends the program.
class ExitGuard {
 public:
  explicit ExitGuard(std::function<void()> end) : end_(std::move(end)) {  // at most one guard exists
    guarded = &end_;
    renew();
  }
  ~ExitGuard() { guarded = nullptr; }  // the program ends normally
  // Registers the guard again. exit() calls the newest registration first, so call this after anything that registers
  // its own destruction.
  void renew() { std::atexit(atExit); }

 private:
  std::function<void()> end_;
};

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

int signal_pipe[2] = {-1, -1};  // the signal handler, which may not call Qt, writes the signal into it

void on_signal(int signal) {
  const auto number = static_cast<unsigned char>(signal);
  if (::write(signal_pipe[1], &number, 1) < 0) _exit(128 + signal);  // the pipe is full, so nobody reads it
}

// SIGTERM, SIGHUP and Ctrl-C in the terminal end the program like closing its window: training stops after the current
// step, and the newest checkpoint stays beside the recording. Handles the signals during its life. SIGHUP stays ignored
// if it was (nohup). At most one object exists.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::unique_ptr<QSocketNotifier> notifier_;
};

StopSignals::StopSignals() {
  if (!make_pipe(signal_pipe)) return;
  notifier_ = std::make_unique<QSocketNotifier>(signal_pipe[0], QSocketNotifier::Read);
  QObject::connect(notifier_.get(), &QSocketNotifier::activated, qApp, [] {
    unsigned char number = 0;
    if (read(signal_pipe[0], &number, 1) == 1) QApplication::exit(128 + number);
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

QStringList aboutFacts(const std::string& blas) {
  return {QString::fromStdString(blas).toHtmlEscaped(), QString("Qt %1").arg(qVersion()),
          QString("Training on %1 threads").arg(num_threads()),
          QString(has_matrix_unit() ? "BF16 and quantized operands are multiplied on %1 units, FP32 by OpenBLAS"
                                    : "OpenBLAS computes all products: %1")
              .arg(QString::fromStdString(has_matrix_unit()
                                              ? matrix_unit_title(kMatrixUnitNames[static_cast<int>(matrix_unit())])
                                              : matrix_unit_text()))};
}

int runWindow(QApplication& app, const Arguments& arguments, const QStringList& facts,
              const QElapsedTimer& since_start) {
  applyTheme(arguments.theme.value_or(rememberedTheme()));
  // `stop` outlives the window: a second signal must not interrupt the checkpoint that the first signal started.
  const StopSignals stop;
  const bool for_a_person = arguments.screenshot.isEmpty() && !arguments.export_request.is_given();
  MainWindow window(for_a_person, facts);
  if (arguments.size.isValid()) {
    window.setWindowState(Qt::WindowNoState);
    window.resize(arguments.size);
  }
  QObject::connect(&window, &MainWindow::pictureMoved, &window, [&since_start] {
    qCDebug(startLog, "first moving picture %lld ms after start", static_cast<long long>(since_start.elapsed()));
  });
  if (!arguments.workspace.isEmpty()) {
    window.workspaces()->bringUp(arguments.workspace);
    // The requested workspace is shown instead of the comparison that several files open.
    QObject::connect(
        window.session(), &RunSession::opened, &window, [&] { window.workspaces()->bringUp(arguments.workspace); },
        Qt::SingleShotConnection);
  } else if (arguments.configs.size() > 1)
    window.workspaces()->bringUp("compare");
  CrashWatch crashes(window.session(), &window);
  QObject::connect(&crashes, &CrashWatch::openRequested, window.files(),
                   [&window](const QString& recording) { window.files()->open({recording}); });
  ExitGuard guard([&] {
    window.end();
    crashes.release();
  });
  QObject::connect(window.session(), &RunSession::opened, &window, [&guard] { guard.renew(); });
  QObject::connect(&window, &MainWindow::pictureMoved, &window, [&guard] { guard.renew(); });
  window.show();
  window.projector()->action()->setChecked(arguments.projector);
  if (for_a_person) crashes.offerCrashedRecording();
  if (!arguments.screenshot.isEmpty())
    takeScreenshot(&window, arguments);
  else if (!arguments.follow.isEmpty())
    window.session()->follow(arguments.follow);
  else if (arguments.export_request.is_given())
    takeExport(&window, arguments);
  else if (!arguments.files.isEmpty())
    window.files()->open(arguments.files);
  else if (!arguments.setup.isEmpty())
    window.files()->open({arguments.setup});
  else if (!arguments.lesson.isEmpty())
    window.lessons()->start(arguments.lesson);
  else if (arguments.run_given)
    window.runControl()->startAll(arguments.configs, RunControl::Start::running);
  else if (arguments.workspace.isEmpty())
    window.firstSteps()->showPage();
  if (for_a_person) window.firstSteps()->offerPage();
  return app.exec();
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  const std::string blas = start_with_fast_kernels(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a write above the limit on file sizes then fails
  QElapsedTimer since_start;
  since_start.start();
  shown_by_qt = qInstallMessageHandler(dropKnownWarnings);
  const bool display = hasDisplay();
  if (!display) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  QApplication::setApplicationName("moescope");
  QApplication::setApplicationVersion(MOESCOPE_VERSION);
  QApplication::setDesktopFileName("moescope");
  QApplication::setWindowIcon(applicationIcon());
  QThreadPool::globalInstance()->setMaxThreadCount(1);  // so that painting takes no cores from training
  const Arguments arguments = parseArguments(app.arguments());
  if (!arguments.print.isEmpty()) return print(arguments.print);
  if (!arguments.problems.isEmpty()) return refuse(arguments.problems);
  if (!display && arguments.screenshot.isEmpty() && !arguments.export_request.is_given())
    return refuse(
        {"no display (DISPLAY and WAYLAND_DISPLAY are not set): a window cannot open; --screenshot OUT.png, "
         "--export and moescope-cli work without one"});
  try {
    return runWindow(app, arguments, aboutFacts(blas), since_start);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "moescope: %s\n", printable_lines(e.what()).c_str());
    return 1;
  }
}
