// The main window, offscreen, used with mouse and keyboard events while a model trains.
#include <QDockWidget>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QMainWindow>
#include <QMenu>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QWindow>
#include <algorithm>
#include <functional>

#include "app/actions/file_actions.h"
#include "app/actions/source_status.h"
#include "app/bars/popovers.h"
#include "app/bars/run_chips.h"
#include "app/bars/status_line.h"
#include "app/bars/window_bar.h"
#include "app/look/messages.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_drawer.h"
#include "app/setup/setup_form.h"
#include "app/window/frame_clock.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "tests/support/laid_out.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

using namespace moescope;

class MainWindowTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void spacePausesAndGoesOn() {
    OpenWindow w;
    w.key(Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() >= 3, kWaitMs);
    w.key(Qt::Key_Space);
    QTRY_VERIFY(!w.live()->status().running);
    w.live()->flush();
    const auto paused_at = w.step();
    QTest::qWait(200);  // no step is taken
    QCOMPARE(w.step(), paused_at);
    QTRY_COMPARE(w.window.findChild<WindowBar*>()->runAction()->text(), QString("Run"));
  }

  void aFileOfTensorsHasAChipInTheBar() {
    const QString path = home_.filePath("layer12.safetensors");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    const QByteArray header = R"({"w":{"dtype":"F32","shape":[8,32],"data_offsets":[0,1024]}})";
    const auto size = static_cast<quint64>(header.size());
    file.write(reinterpret_cast<const char*>(&size), 8);
    file.write(header + QByteArray(1024, '\x3f'));
    file.close();
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    auto* chip = window.findChild<QToolButton*>("chip_file");
    QVERIFY(chip->isHidden());
    window.files()->open({path});
    QTRY_VERIFY(chip->isVisible());
    QCOMPARE(chip->text(), QString("layer12.safetensors"));
    QCOMPARE(window.workspaces()->current()->name(), QString("Microscaling"));
    window.workspaces()->bringUp("overview");
    QTest::mouseClick(chip, Qt::LeftButton);
    QCOMPARE(window.workspaces()->current()->name(), QString("Microscaling"));
  }

  void periodTakesExactlyOneStep() {
    OpenWindow w;
    for (std::int64_t n = 1; n <= 3; ++n) {
      w.key(Qt::Key_Period);
      QTRY_COMPARE_WITH_TIMEOUT(w.step(), n, kWaitMs);
      QTest::qWait(50);  // no second step is taken
      QCOMPARE(w.step(), n);
    }
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), 2, kWaitMs);  // the cursor follows the newest step
  }

  void periodInANumberIsAPeriod() {
    OpenWindow w;
    w.typeLive(&OptimizerConfig::lr, "0.003");
    QCOMPARE(w.step(), 0);
    QCOMPARE(w.live()->config(0).optimizer.lr, 0.003);
  }

  void keysOfTheRunWorkWhileANumberHasTheFocus() {
    OpenWindow w;
    const double before = w.live()->config(0).router.bias_update_rate;
    w.key(Qt::Key_F2);
    auto* line = w.window.findChild<SetupForm*>()->editor("router.bias_update_rate")->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, "0.1");
    QTest::keyClick(line, Qt::Key_Return);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.1);
    QWidget* editor = w.window.focusWidget();
    QVERIFY(qobject_cast<NumberEdit*>(editor) || qobject_cast<QLineEdit*>(editor));
    QTest::keyClick(editor, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, before);
    QTest::keyClick(editor, Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() >= 1, kWaitMs);
    w.live()->pause();
  }

  void resetStartsOverWithTheSettingsAsTheyAre() {
    OpenWindow w;
    w.trainTo(3);
    w.typeLive(&RouterConfig::bias_update_rate, "0.05");
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.key(Qt::Key_R, Qt::ControlModifier);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.step(), 0);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.05);
  }

  void aLiveChangeIsAMarkerAndUndoBringsTheOldValueBack() {
    OpenWindow w;
    const double before = w.live()->config(0).router.bias_update_rate;
    w.trainTo(2);
    w.typeLive(&RouterConfig::bias_update_rate, "0.1");
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.1);
    w.trainTo(4);
    auto markers = w.markers();
    QCOMPARE(markers.size(), 1u);
    QCOMPARE(markers[0].step, 2);
    QVERIFY(markers[0].text.find("router.bias_update_rate") != std::string::npos);

    w.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, before);
    QCOMPARE(std::get<double>(*w.window.findChild<LivePopover*>()->editor(&RouterConfig::bias_update_rate)->value()),
             before);
    QCOMPARE(std::get<double>(*w.window.findChild<SetupForm*>()->editor("router.bias_update_rate")->value()), before);
    w.key(Qt::Key_Y, Qt::ControlModifier);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.1);
    w.trainTo(5);
    QCOMPARE(w.markers().size(), 3u);
  }

  void theFormChangesTheRunningModelToo() {
    OpenWindow w;
    auto* line = w.window.findChild<SetupForm*>()->editor("router.bias_update_rate")->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, "0.02");
    QTest::keyClick(line, Qt::Key_Return);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.02);
    QCOMPARE(w.window.findChild<QUndoStack*>()->count(), 1);
  }

  void anImpossibleLiveChangeIsToldAndNotMade() {
    OpenWindow w;
    const int before = w.live()->config(0).router.top_k;
    w.typeLive(&RouterConfig::top_k, "63");
    QCOMPARE(w.live()->config(0).router.top_k, before);
    QCOMPARE(w.window.findChild<QUndoStack*>()->count(), 0);
    w.trainTo(1);
  }

  // Shortcuts of the window work in the popover of live settings, too.
  void livePopoverOpensAndTakesChangesBack() {
    OpenWindow w;
    const double before = w.live()->config(0).router.bias_update_rate;
    auto* live = w.window.findChild<LivePopover*>();
    w.key(Qt::Key_F4);
    QVERIFY(live->isVisible());
    w.typeLive(&RouterConfig::bias_update_rate, "0.1");
    QCOMPARE(w.live()->config(0).router.bias_update_rate, 0.1);
    QTest::keyClick(live, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.live()->config(0).router.bias_update_rate, before);
    QTest::keyClick(live, Qt::Key_Escape);
    QVERIFY(!live->isVisible());
  }

  void setUpAndLiveSettingsCloseEachOther() {
    OpenWindow w;
    auto* live = w.window.findChild<LivePopover*>();
    auto* drawer = w.window.findChild<SetupDrawer*>();
    w.key(Qt::Key_F2);
    QVERIFY(drawer->isVisible());
    w.key(Qt::Key_F4);
    QVERIFY(live->isVisible() && !drawer->isVisible());
    QTest::keyClick(live, Qt::Key_F2);
    QVERIFY(drawer->isVisible() && !live->isVisible());
  }

  void shortcutsOfTheWindowWorkInItsPopovers() {
    OpenWindow w;
    auto* live = w.window.findChild<LivePopover*>();
    w.key(Qt::Key_F4);
    QVERIFY(live->isVisible());
    QTest::keyClick(live, Qt::Key_3, Qt::ControlModifier);
    QVERIFY(!live->isVisible());
    QCOMPARE(w.window.workspaces()->current()->name(), QString("All-to-all"));
    w.key(Qt::Key_F4);
    QTest::keyClick(live->findChild<QWidget*>(), Qt::Key_L, Qt::AltModifier);
    QVERIFY(!live->isVisible() && w.window.workspaces()->isHidden());
  }

  void theBarHasNothingThatALogCanNeverUse() {
    MainWindow window(false);
    window.show();
    const auto shown = [&](const char* name) { return window.findChild<QToolButton*>(name)->isVisible(); };
    QVERIFY(shown("set-up_button") && shown("menu_button"));
    for (const char* name : {"run_button", "step_button", "reset_button", "live_button", "compare_button"})
      QVERIFY2(!shown(name), name);
    window.files()->open({QStringLiteral(MOESCOPE_TEST_DATA "/../assets/samples/unbalanced_bf16.jsonl")});
    QTRY_VERIFY_WITH_TIMEOUT(shown("run_button"), kWaitMs);
    for (const char* name : {"step_button", "reset_button", "live_button"}) QVERIFY2(!shown(name), name);
    QVERIFY(shown("compare_button"));  // "+ Log"
    QTest::keyClick(&window, Qt::Key_F4);
    QVERIFY(!window.findChild<LivePopover*>()->isVisible());
  }

  // A narrow bar hides the names of the runs first, that of the active run last, then other words. Nothing is cut and
  // nothing overlaps.
  void theBarFitsEveryWidth_data() {
    QTest::addColumn<int>("width");
    for (const int width : {860, 1024, 1280, 1920}) QTest::addRow("%d", width) << width;
  }
  void theBarFitsEveryWidth() {
    QFETCH(int, width);
    MainWindow window(false);
    window.resize(width, 700);
    window.show();
    auto* bar = window.findChild<WindowBar*>();
    bar->showOpen(WindowBar::Open::training, nano().optimizer.total_steps);
    bar->chips()->setLive(true);
    bar->chips()->showRuns(
        {{"A", 0, "a-rather-long-name-of-a-run", {}, {}}, {"B", 1, "another-long-name", {}, {}}, {"C", 2, "c", {}, {}}},
        0);
    LiveStatus status;
    status.step = 123456;
    bar->showStatus(status);
    QVERIFY(isLaidOut(&window));
    const auto* tabs = window.findChild<QTabBar*>("workspace_tabs");
    QCOMPARE(tabs->isVisible(), width > kNarrowWindow);
    const QWidget* content = tabs->parentWidget();
    int right = 0;
    for (int i = 0; i < content->layout()->count(); ++i) {
      const QWidget* part = content->layout()->itemAt(i)->widget();
      if (!part || !part->isVisible()) continue;
      QVERIFY2(part->width() >= part->minimumSizeHint().width(), qPrintable(part->objectName()));
      QVERIFY2(part->x() >= right, qPrintable(part->objectName()));
      right = part->x() + part->width();
    }
    QVERIFY2(right <= width, qPrintable(QString::number(right)));
    QCOMPARE(bar->chips()->findChild<QToolButton*>("chip_B")->text().isEmpty(), width < 1920);
    if (width >= 1280) QVERIFY(!bar->chips()->findChild<QToolButton*>("chip_A")->text().isEmpty());
  }

  void theMenuOpensByAltAndF10() {
    MainWindow window(false);
    window.show();
    QVERIFY(takesKeys(&window));
    auto* menu = window.findChild<QMenu*>("window_menu");
    QStringList titles;
    for (const QAction* action : menu->actions()) titles << action->text().remove('&');
    QCOMPARE(titles,
             (QStringList{"Start page", "Search", "", "File", "Edit", "Run", "Actions", "View", "Lessons", "Help"}));
    bool has_opened = false;
    connect(menu, &QMenu::aboutToShow, menu, [&] {
      has_opened = true;
      QTimer::singleShot(0, menu, &QMenu::close);
    });
    const auto opens = [&](const std::function<void()>& press, int wait_ms = kWaitMs) {
      has_opened = false;
      press();
      return QTest::qWaitFor([&] { return has_opened && !menu->isVisible(); }, wait_ms);
    };
    QVERIFY(opens([&] { QTest::keyClick(&window, Qt::Key_F10); }));
    const auto alt = [&](QTest::KeyAction action) {
      QTest::sendKeyEvent(action, &window, Qt::Key_Alt, QString(),
                          action == QTest::Press ? Qt::AltModifier : Qt::NoModifier);
    };
    QVERIFY(opens([&] {
      alt(QTest::Press);
      alt(QTest::Release);
    }));
    const auto press_with_x = [&] {  // Alt with another key does not open the menu
      alt(QTest::Press);
      QTest::keyClick(&window, Qt::Key_X, Qt::AltModifier);
      alt(QTest::Release);
    };
    QVERIFY(!opens(press_with_x, 150));
  }

  void untilPausesBeforeTheStep() {
    OpenWindow w;
    w.window.runControl()->setUntil(4);
    w.key(Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() == 4 && !w.live()->status().running, kWaitMs);
    w.key(Qt::Key_Period);
    QTRY_COMPARE_WITH_TIMEOUT(w.step(), 5, kWaitMs);
  }

  // A text that is typed into the wrong window does not continue a finished run.
  void noKeyTrainsBeyondTheSchedule() {
    RunConfig config = nano();
    config.optimizer.total_steps = 3;
    config.optimizer.warmup_steps = 0;
    OpenWindow w(config);
    QAction* run = w.window.findChild<WindowBar*>()->runAction();
    w.key(Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() == 3 && !w.live()->status().running, kWaitMs);
    QTRY_VERIFY(run->shortcut().isEmpty());
    w.key(Qt::Key_Space);
    w.key(Qt::Key_Period);
    QTest::qWait(200);
    QCOMPARE(w.step(), 3);
    run->trigger();
    QTRY_VERIFY_WITH_TIMEOUT(w.step() > 3, kWaitMs);
    QTRY_COMPARE(run->shortcut(), QKeySequence(Qt::Key_Space));
  }

  void closingInMidStepEndsWithinAStep() {
    auto w = std::make_unique<OpenWindow>();
    w->live()->run();
    QTRY_VERIFY_WITH_TIMEOUT(w->step() > 2, kWaitMs);
    const auto history = w->window.session()->histories().front();
    w->window.close();
    const std::int64_t next = w->step();
    w.reset();  // joins the training thread
    QVERIFY2(history->steps().last <= next, qPrintable(QString::number(history->steps().last - next)));
  }

  void theFrameClockTakesAtMostItsShareOfACore() {
    QCOMPARE(frameIntervalMs(1, false), 50);   // at most 20 Hz for new data
    QCOMPARE(frameIntervalMs(5, false), 100);  // at most 5 % of one core
    QCOMPARE(frameIntervalMs(100, false), 500);
    QCOMPARE(frameIntervalMs(4, true), 80);    // at most 5 % of one core also during input,
    QCOMPARE(frameIntervalMs(19, true), 200);  // but at least 5 Hz
  }

  void theFrameClockStopsWhereNothingCanChange() {
    MainWindow window;
    window.show();
    window.frameClock()->wake();
    QVERIFY(window.frameClock()->ticking());
    QTRY_VERIFY_WITH_TIMEOUT(!window.frameClock()->ticking(), 20000);
  }

  void aFastMouseRepaintsSixtyTimesASecond() {
    struct Paints : QObject {
      int count = 0;
      bool eventFilter(QObject*, QEvent* event) override {
        count += event->type() == QEvent::Paint;
        return false;
      }
    } paints;
    OpenWindow w;
    auto* plot = w.window.findChild<QDockWidget*>("dock_loss")->findChild<PlotFrame*>();
    QVERIFY(isLaidOut(&w.window, 150));  // until the layout of the panels is complete
    plot->installEventFilter(&paints);
    const QPoint corner = plot->mapTo(&w.window, plot->rect().center());
    QElapsedTimer clock;
    clock.start();
    for (int x = 0; clock.elapsed() < 200 || x < 200; ++x) {
      QTest::mouseMove(w.window.windowHandle(), corner + QPoint(x % 50, x / 50 % 20));
      QCoreApplication::processEvents();
    }
    QVERIFY2(paints.count >= 2 && paints.count <= clock.elapsed() / 16 + 4, qPrintable(QString::number(paints.count)));
  }

  void readoutsChangeTwelveTimesASecond() {
    QMainWindow window;
    window.show();
    Messages messages(window.statusBar());
    for (const char* text : {"step 1", "step 2", "step 3"}) messages.showReadout(text);
    QCOMPARE(window.statusBar()->currentMessage(), QString("step 1"));
    QTRY_COMPARE(window.statusBar()->currentMessage(), QString("step 3"));
    messages.showReadout("step 4");
    messages.showReadout({});  // the mouse has left: the text disappears immediately and does not return
    QVERIFY(window.statusBar()->currentMessage().isEmpty());
    QTest::qWait(250);  // no text comes: longer than the pause between two readouts
    QVERIFY(window.statusBar()->currentMessage().isEmpty());
  }

  void tabsAndKeysChooseTheWorkspace() {
    OpenWindow w;
    auto* tabs = w.window.findChild<QTabBar*>("workspace_tabs");
    QVERIFY(tabs);
    const int compare = 4;  // Overview, Router, All-to-all, Microscaling, Compare, Cluster
    QCOMPARE(tabs->tabText(compare), QStringLiteral("Compare"));
    QTest::mouseClick(tabs, Qt::LeftButton, {}, tabs->tabRect(compare).center());
    QVERIFY(w.window.workspaces()->compare()->isVisible());
    QTest::keyClick(&w.window, Qt::Key_4, Qt::ControlModifier);
    QVERIFY(w.window.workspaces()->microscaling()->isVisible());
    QVERIFY(!w.window.workspaces()->compare()->isVisible());
  }

  void shortcutSheetOpens() {
    OpenWindow w;
    w.key(Qt::Key_Slash, Qt::ControlModifier);
    QVERIFY(w.window.findChild<QDialog*>("text_dialog"));
  }

  void panelsSavePictureAndTable() {
    OpenWindow w(nanoInMxfp8());
    w.trainTo(3);
    w.window.selection()->refresh();
    for (Panel* panel : w.window.workspaces()->overview()->panels()) {
      if (panel->title() == "Loss gap" || panel->title() == "Gradient error") continue;  // not in this run
      const QString png = home_.filePath("panel.png"), csv = home_.filePath("panel.csv");
      Overview::savePicture(panel, png);
      Overview::saveTable(*panel, csv);
      QVERIFY(!QImage(png).isNull());
      QFile file(csv);
      QVERIFY(file.open(QIODevice::ReadOnly));
      const QByteArray table = file.readAll();
      QVERIFY2(table.count('\n') > 1, qPrintable(panel->title()));
      QVERIFY(table.left(table.indexOf('\n')).endsWith(",source"));
      QVERIFY2(table.contains((panel->caption() + ", active run A nano").toUtf8()), table.left(2000));
    }
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, Overview::savePicture(&w.window, "/nowhere/at/all.png"));
  }

  void theStatusLineSaysWhatIsBeingWaitedFor() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    window.show();
    const auto says = [&](const QString& text) {
      return window.findChild<QToolButton*>("status_state")->text().startsWith(text);
    };
    window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(says("Building the model... "));
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->isLive(), kWaitMs);
    QTRY_VERIFY(says("Paused after 0 steps"));
    window.runControl()->runUntil(3);
    QTRY_VERIFY_WITH_TIMEOUT(says("Paused after 3 steps"), kWaitMs);
  }

  // An item without room is hidden as a whole, the recording first.
  void theStatusLineCutsNoNumber() {
    StatusLine line;
    SyntheticRun run(SyntheticShape{});
    run.append(20);
    LiveStatus status;
    status.running = true;
    status.step = 20;
    status.steps_per_s = 4.7;
    status.tokens_per_s = 4813;
    line.resize(1280, 24);
    line.show();
    line.showTraining(status, 2, false);
    line.showRecording("/tmp/20261126-151323-small.moescope", true, *run.history());
    line.showFindings(5, 9, true);
    const auto shows = [&](const QString& part) {
      return std::ranges::any_of(line.findChildren<QToolButton*>(),
                                 [&](const QToolButton* item) { return item->text().contains(part); });
    };
    line.showRecording("standard input", false, *run.history());
    QVERIFY(shows("standard input") && !shows("0 bytes"));
    line.showRecording("/tmp/20261126-151323-small.moescope", true, *run.history());
    for (const int width : {1280, 500, 300, 120, 49, 20, 1}) {
      line.resize(width, 24);
      QVERIFY(isLaidOut(&line));
      QStringList shown;
      int right = 0;
      for (const QToolButton* item : line.findChildren<QToolButton*>()) {
        if (!item->isVisible()) continue;
        shown << item->text();
        QVERIFY2(item->width() >= item->sizeHint().width(), qPrintable(item->text()));
        right = std::max(right, item->mapTo(&line, QPoint(item->width(), 0)).x());
      }
      QVERIFY2(right <= width, qPrintable(QString("%1: %2").arg(width).arg(shown.join(" | "))));
      if (width >= 300) QVERIFY(shown.contains("5 severe, 9 warnings") && shown.contains("Training 2 runs"));
      QCOMPARE(shown.contains("4,813 tokens/s"), width >= 500);
    }
  }

  void aPausedRunThatHasNotBegunLetsTheWindowRest() {
    OpenWindow w;
    auto* status = w.window.findChild<SourceStatus*>();
    QTRY_VERIFY(!status->findChild<QTimer*>("beats")->isActive());
  }

  void aTrainingStopsAtTheEndOfItsScheduleAndGoesOnIfAsked() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    window.show();
    RunConfig config = nano();
    config.optimizer.total_steps = 5;
    config.optimizer.warmup_steps = 1;
    window.runControl()->start(config);
    const auto has_stopped_at = [&](std::int64_t step) {
      const LiveRuns* live = window.session()->live();
      return live && live->status().step == step && !live->status().running;
    };
    QTRY_VERIFY_WITH_TIMEOUT(has_stopped_at(5), kWaitMs);
    auto* go_on = window.findChild<QToolButton*>("status_offer");
    QTRY_VERIFY_WITH_TIMEOUT(go_on->isVisible(), kWaitMs);
    QCOMPARE(go_on->text(), QString("Go on"));
    QVERIFY2(go_on->toolTip().contains("All 5 steps of the schedule"), qPrintable(go_on->toolTip()));
    QVERIFY(window.findChild<NoticeBar*>()->isHidden());  // it would move the panels
    go_on->click();
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->live()->status().step > 6, kWaitMs);
    QTRY_VERIFY(go_on->isHidden());
  }

  // An end that was requested for the open runs does not hold for the next; one that the user has set does.
  void anEndOfTheUserHoldsForLaterRuns() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    auto* until = window.findChild<PacePopover*>()->findChild<QLineEdit*>();
    const auto start = [&](const char* preset) {
      QSignalSpy opened(window.session(), &RunSession::opened);
      window.runControl()->startAll(all_runs(load_preset(preset)), RunControl::Start::paused);
      return opened.wait(kWaitMs);
    };
    QVERIFY(start("nano"));
    QCOMPARE(until->text(), QString());
    window.runControl()->runUntil(3);
    QCOMPARE(until->text(), QString("3"));
    QVERIFY(start("nano"));
    QCOMPARE(until->text(), QString());
    until->setText("7");
    QVERIFY(QMetaObject::invokeMethod(until, "editingFinished"));
    QVERIFY(start("precisions"));
    QCOMPARE(until->text(), QString("7"));
    QStringList names;
    for (int place = 0; place < 5; ++place) names << runName(*window.selection(), place);
    QCOMPARE(names, QStringList({"BF16", "MXFP8", "NVFP4", "MXFP4", "BF16-perturbed"}));
  }
};

SCREEN_TEST(MainWindowTest)
#include "qt_main_window.moc"
