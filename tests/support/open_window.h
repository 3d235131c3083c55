// A shown window with a paused run, and separate settings and files for each test.
#pragma once

#include <QAction>
#include <QLineEdit>
#include <QMessageBox>
#include <QProgressDialog>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/run_control.h"
#include "app/bars/popovers.h"
#include "app/session/run_session.h"
#include "app/setup/field_editor.h"
#include "app/window/main_window.h"
#include "core/config/config_toml.h"
#include "tests/support/screen_test.h"
#include "tests/support/takes_keys.h"

namespace moescope {

inline RunConfig nano() {
  return load_preset("nano").config;
}

inline RunConfig nanoInMxfp8() {
  RunConfig config = nano();
  config.precision.experts = Recipe::mxfp8_rceil;  // the panels of number formats need quantization
  return config;
}

// A shown window with a paused nano run.
struct OpenWindow {
  MainWindow window;

  explicit OpenWindow(const RunConfig& config = nano(), bool recorded = false) {
    window.runControl()->setRecorded(recorded);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QSignalSpy opened(window.session(), &RunSession::opened);
    QSignalSpy failed(&window, &MainWindow::failed);
    window.runControl()->start(config, RunControl::Start::paused);
    if (opened.isEmpty() && !opened.wait(kWaitMs))
      qFatal("no run: %s", failed.isEmpty() ? "" : qPrintable(failed[0][0].toString()));
    QTRY_VERIFY(!window.findChild<QProgressDialog*>());  // when it closes, the window would lose the keyboard focus
    QVERIFY(takesKeys(&window));
  }
  LiveRuns* live() { return window.session()->live(); }
  std::int64_t step() { return live()->status().step; }
  void key(int key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::keyClick(&window, Qt::Key(key), modifiers);
  }
  void trainTo(std::int64_t step) {
    live()->run_until(step);
    QTRY_VERIFY_WITH_TIMEOUT(!live()->status().running && this->step() == step, kWaitMs);
    live()->flush();
  }
  void typeLive(Setting setting, const char* text) {
    auto* line = window.findChild<LivePopover*>()->editor(setting)->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, text);
    QTest::keyClick(line, Qt::Key_Return);
  }
  std::vector<Marker> markers() {
    live()->flush();
    return window.session()->histories().front()->markers();
  }
  QMessageBox* complaint() { return window.findChild<QMessageBox*>("warning"); }
};

inline QAction* menuAction(MainWindow& window, const QString& text) {
  for (QAction* action : window.findChildren<QAction*>())
    if (action->text().remove('&') == text) return action;
  return nullptr;
}

// Prevents reading and writing the user's own settings and files.
inline void useFolderOfTest(const QTemporaryDir& home) {
  qputenv("XDG_DATA_HOME", home.path().toUtf8());
  QCoreApplication::setApplicationName("moescope");
}
inline void useSettingsOfTest(const QTemporaryDir& home) {
  QSettings::setPath(QSettings::IniFormat, QSettings::UserScope,
                     home.path() + "/config-" + QTest::currentTestFunction());
}

}  // namespace moescope
