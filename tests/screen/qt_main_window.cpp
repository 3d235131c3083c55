// The window as a person uses it, offscreen with real events, on a real model in training.
#include <QAccessible>
#include <QAction>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDropEvent>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QProgressDialog>
#include <QPushButton>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QSettings>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTabBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <cmath>
#include <filesystem>
#include <random>

#include "app/actions/file_actions.h"
#include "app/actions/heartbeat.h"
#include "app/actions/run_control.h"
#include "app/bars/live_bar.h"
#include "app/bars/notice_bar.h"
#include "app/bars/run_bar.h"
#include "app/bars/start_card.h"
#include "app/bars/start_doors.h"
#include "app/lessons/lesson_actions.h"
#include "app/look/theme.h"
#include "app/session/settings.h"
#include "app/setup/field_editor.h"
#include "app/setup/number_edit.h"
#include "app/setup/setup_form.h"
#include "app/window/first_steps.h"
#include "app/window/main_window.h"
#include "app/window/projector_view.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/telemetry/recording/recording.h"
#include "tests/support/sample_frames.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/takes_keys.h"
#include "widgets/plots/matrix_plot.h"

using namespace moescope;

namespace {

constexpr int kWaitMs = 60000;

RunConfig nano() {
  return load_preset("nano").config;
}

RunConfig nanoInMxfp8() {
  RunConfig config = nano();
  config.precision.experts = Recipe::mxfp8_rceil;  // so that the number formats' panels have something to show
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
    QVERIFY(takesKeys(&window));
  }
  Lab* lab() { return window.session()->lab(); }
  std::int64_t step() { return lab()->status().step; }
  void key(int key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::keyClick(&window, Qt::Key(key), modifiers);
  }
  void trainTo(std::int64_t step) {
    lab()->run_until(step);
    QTRY_VERIFY_WITH_TIMEOUT(!lab()->status().running && this->step() == step, kWaitMs);
    lab()->flush();
  }
  void typeLive(const char* field, const char* text) {
    auto* line = window.findChild<LiveBar*>()->editor(field)->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, text);
    QTest::keyClick(line, Qt::Key_Return);
  }
  std::vector<Marker> markers() {
    lab()->flush();
    return window.session()->histories().front()->markers();
  }
  QMessageBox* complaint() { return window.findChild<QMessageBox*>("warning"); }
};

void drop(QWidget* target, const QStringList& paths) {
  QMimeData data;
  QList<QUrl> urls;
  for (const QString& path : paths) urls << QUrl::fromLocalFile(path);
  data.setUrls(urls);
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(target, &enter);
  QVERIFY(enter.isAccepted());
  QDropEvent event(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(target, &event);
}

QString describeControl(const QWidget* control) {
  return QString("%1 \"%2\" in %3")
      .arg(control->metaObject()->className(),
           control->accessibleName().isEmpty() ? control->objectName() : control->accessibleName(),
           control->parentWidget()->metaObject()->className());
}

// The lines between docks belong to their window.
void dragLine(QWidget* window, QPoint from, QPoint by) {
  QTest::mousePress(window, Qt::LeftButton, {}, from);
  for (int i = 1; i <= 4; ++i) {
    const QPoint at = from + by * i / 4;
    QMouseEvent move(QEvent::MouseMove, at, window->mapToGlobal(at), Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(window, &move);
    QTest::qWait(20);
  }
  QTest::mouseRelease(window, Qt::LeftButton, {}, from + by);
  QTest::qWait(50);
}

// Of the panels on the screen: what part of the workspace's width and height each has.
QMap<QString, QSizeF> sharesOf(const Workspace& workspace) {
  QMap<QString, QSizeF> shares;
  for (const Panel* panel : workspace.panels())
    if (!panel->visibleRegion().isEmpty())
      shares[panel->title()] = {1.0 * panel->width() / workspace.width(), 1.0 * panel->height() / workspace.height()};
  return shares;
}

// Bars and lines of a fixed height take more of a small window.
void compareShares(const QMap<QString, QSizeF>& now, const QMap<QString, QSizeF>& before, QSize window) {
  QCOMPARE(now.keys(), before.keys());
  for (auto each = before.begin(); each != before.end(); ++each) {
    const QSizeF share = now[each.key()];
    const bool alike =
        std::abs(share.width() - each->width()) < 0.015 && std::abs(share.height() - each->height()) < 0.05;
    QVERIFY2(alike, qPrintable(QString("%1 at %2 x %3: %4 x %5 of the room, before %6 x %7")
                                   .arg(each.key())
                                   .arg(window.width())
                                   .arg(window.height())
                                   .arg(share.width())
                                   .arg(share.height())
                                   .arg(each->width())
                                   .arg(each->height())));
  }
}

QAction* menuAction(MainWindow& window, const QString& text) {
  for (QAction* action : window.findChildren<QAction*>())
    if (action->text().remove('&') == text) return action;
  return nullptr;
}

}  // namespace

class MainWindowTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void noEmptyTabBarStaysInAWorkspace() {
    OpenWindow t;
    t.window.resize(1900, 1000);
    for (const char* name : {"overview", "router", "text"}) {
      QVERIFY(t.window.workspaces()->bringUp(QString(name)));
      QTest::qWait(50);
      int with_tabs = 0;
      for (const QTabBar* bar : t.window.findChildren<QTabBar*>()) {
        if (!bar->isVisible()) continue;
        QVERIFY2(bar->count() > 0, name);
        with_tabs += qobject_cast<const Workspace*>(bar->parentWidget()) != nullptr;
      }
      QVERIFY2(with_tabs > 0, name);
    }
  }

  void initTestCase() {
    qputenv("XDG_DATA_HOME", home_.path().toUtf8());
    QCoreApplication::setApplicationName("moescope");
  }
  void init() {
    QSettings::setPath(QSettings::IniFormat, QSettings::UserScope,
                       home_.path() + "/config-" + QTest::currentTestFunction());
  }

  void spacePausesAndGoesOn() {
    OpenWindow w;
    w.key(Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() >= 3, kWaitMs);
    w.key(Qt::Key_Space);
    QTRY_VERIFY(!w.lab()->status().running);
    w.lab()->flush();
    const auto paused_at = w.step();
    QTest::qWait(200);
    QCOMPARE(w.step(), paused_at);
    QTRY_COMPARE(w.window.findChild<RunBar*>()->runAction()->text(), QString("Run"));
  }

  void periodTakesExactlyOneStep() {
    OpenWindow w;
    for (std::int64_t n = 1; n <= 3; ++n) {
      w.key(Qt::Key_Period);
      QTRY_COMPARE_WITH_TIMEOUT(w.step(), n, kWaitMs);
      QTest::qWait(50);
      QCOMPARE(w.step(), n);
    }
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), 2, kWaitMs);  // the screen followed
  }

  void periodInANumberIsAPeriod() {
    OpenWindow w;
    w.typeLive("optimizer.lr", "0.003");
    QCOMPARE(w.step(), 0);
    QCOMPARE(w.lab()->config(0).optimizer.lr, 0.003);
  }

  void keysOfTheRunWorkWhileANumberHasTheFocus() {
    OpenWindow w;
    const double before = w.lab()->config(0).router.bias_update_rate;
    w.typeLive("router.bias_update_rate", "0.1");
    QWidget* editor = w.window.focusWidget();
    QVERIFY(qobject_cast<NumberEdit*>(editor) || qobject_cast<QLineEdit*>(editor));
    QTest::keyClick(editor, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, before);
    QTest::keyClick(editor, Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() >= 1, kWaitMs);
    w.lab()->pause();
  }

  void resetStartsOverWithTheSettingsAsTheyAre() {
    OpenWindow w;
    w.trainTo(3);
    w.typeLive("router.bias_update_rate", "0.05");
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.key(Qt::Key_R);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.step(), 0);
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, 0.05);
  }

  void aLiveChangeIsAMarkerAndUndoBringsTheOldValueBack() {
    OpenWindow w;
    const double before = w.lab()->config(0).router.bias_update_rate;
    w.trainTo(2);
    w.typeLive("router.bias_update_rate", "0.1");
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, 0.1);
    w.trainTo(4);
    auto markers = w.markers();
    QCOMPARE(markers.size(), 1u);
    QCOMPARE(markers[0].step, 2);
    QVERIFY(markers[0].text.find("router.bias_update_rate") != std::string::npos);

    w.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, before);
    QCOMPARE(std::get<double>(*w.window.findChild<LiveBar*>()->editor("router.bias_update_rate")->value()), before);
    QCOMPARE(std::get<double>(*w.window.findChild<SetupForm*>()->editor("router.bias_update_rate")->value()), before);
    w.key(Qt::Key_Y, Qt::ControlModifier);
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, 0.1);
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
    QCOMPARE(w.lab()->config(0).router.bias_update_rate, 0.02);
    QCOMPARE(w.window.findChild<QUndoStack*>()->count(), 1);
  }

  void anImpossibleLiveChangeIsToldAndNotMade() {
    OpenWindow w;
    const int before = w.lab()->config(0).router.top_k;
    w.typeLive("router.top_k", "63");
    QCOMPARE(w.lab()->config(0).router.top_k, before);
    QCOMPARE(w.window.findChild<QUndoStack*>()->count(), 0);
    w.trainTo(1);
  }

  void untilPausesBeforeTheStep() {
    OpenWindow w;
    w.window.runControl()->setUntil(4);
    w.key(Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(w.step() == 4 && !w.lab()->status().running, kWaitMs);
    w.key(Qt::Key_Period);
    QTRY_COMPARE_WITH_TIMEOUT(w.step(), 5, kWaitMs);
  }

  void layoutSurvivesARestartAndDefaultComesBack() {
    {
      OpenWindow w;
      w.window.findChild<QDockWidget*>("dock_balance")->close();
      w.window.findChild<QDockWidget*>("dock_loss")->setFloating(true);
      w.window.close();
    }
    OpenWindow w;
    auto* balance = w.window.findChild<QDockWidget*>("dock_balance");
    auto* loss = w.window.findChild<QDockWidget*>("dock_loss");
    QVERIFY(balance->isHidden());
    QVERIFY(loss->isFloating());
    menuAction(w.window, "Restore Default Layout")->trigger();
    QVERIFY(!balance->isHidden());
    QVERIFY(!loss->isFloating());
    for (const QDockWidget* dock : w.window.workspaces()->overview()->docks())
      QVERIFY2(!dock->isHidden(), qPrintable(dock->objectName()));
  }

  void everyPanelHasItsShareOfTheWindow_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<bool>("form");
    QTest::newRow("small, the form folded") << QSize(1280, 800) << false;
    QTest::newRow("large, the form beside the panels") << QSize(1920, 1080) << true;
  }
  void everyPanelHasItsShareOfTheWindow() {
    QFETCH(QSize, size);
    QFETCH(bool, form);
    MainWindow window(false);
    window.resize(size);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::qWait(100);
    QCOMPARE(window.size(), size);
    QCOMPARE(window.findChild<SetupForm*>()->isVisible(), form);
    const int room = size.width() - (form ? 400 : 0);
    for (const Panel* panel : window.workspaces()->overview()->panels()) {
      if (panel->title() == "Findings") continue;  // a tab behind Balance
      QVERIFY2(!panel->visibleRegion().isEmpty(), qPrintable(panel->title()));
      QVERIFY2(panel->width() > room / 5, qPrintable(QString("%1: %2").arg(panel->title()).arg(panel->width())));
      QVERIFY2(panel->height() > size.height() / 4, qPrintable(panel->title()));
    }
  }

  void panelsKeepTheirSharesOfAWindowThatChangesItsSize_data() {
    QTest::addColumn<bool>("dragged");
    QTest::newRow("by default") << false;
    QTest::newRow("as a person dragged them") << true;
  }
  void panelsKeepTheirSharesOfAWindowThatChangesItsSize() {
    QFETCH(bool, dragged);
    MainWindow window(false);
    window.resize(1760, 1000);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::qWait(100);
    Workspace* overview = window.workspaces()->overview();
    if (dragged) {  // the line between the first two panels, and the one between the rows
      const QRect loss = overview->findChild<QDockWidget*>("dock_loss")->geometry();
      dragLine(overview, {loss.right() + 2, loss.center().y()}, {140, 0});
      QVERIFY(overview->findChild<QDockWidget*>("dock_loss")->width() > loss.width() + 100);
      dragLine(overview, {loss.center().x(), loss.bottom() + 2}, {0, 60});
      QVERIFY(overview->findChild<QDockWidget*>("dock_loss")->height() > loss.height() + 40);
    }
    const auto shares = sharesOf(*overview);
    for (const QSize size :
         {QSize(1280, 800), QSize(1024, 700), QSize(1920, 1080), QSize(1140, 720), QSize(1760, 1000)}) {
      window.resize(size);
      QTest::qWait(50);
      QCOMPARE(window.size(), size);
      compareShares(sharesOf(*overview), shares, size);
    }
    // In another workspace meanwhile.
    window.workspaces()->bringUp("router");
    window.resize(1024, 700);
    QTest::qWait(50);
    window.resize(1760, 1000);
    window.workspaces()->bringUp("overview");
    QTest::qWait(50);
    compareShares(sharesOf(*overview), shares, window.size());
    // What was arranged comes back with the shares, whatever was in between.
    const QVariantMap kept = overview->remembered();
    overview->arrangeAnew();
    overview->applySizes();
    QVERIFY(overview->restore(kept));
    QTest::qWait(50);
    compareShares(sharesOf(*overview), shares, window.size());
  }

  void theWindowFitsAScreenOf1080LinesAtTwiceTheScale() {
    MainWindow window(false);
    window.resize(960, 500);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    SyntheticRun run(SyntheticShape{.specialise_every = 1});
    run.append(20);
    window.selection()->setHistories({run.history()});
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QTest::qWait(20);
      const QSize size = window.size();
      QVERIFY2(size.width() <= 960 && size.height() <= 540 - 30,  // without the window's title
               qPrintable(QString("%1: %2 x %3").arg(workspace->name()).arg(size.width()).arg(size.height())));
      for (const QDockWidget* dock : workspace->docks()) {  // those in front, which the workspace scrolls to
        const bool seen = dock->isVisible() && dock->geometry().bottom() >= 0;
        if (seen && qobject_cast<const Panel*>(dock->widget()))
          QVERIFY2(dock->height() > 140, qPrintable(dock->windowTitle() + QString(": %1").arg(dock->height())));
      }
    }
    auto* overview = window.workspaces()->overview();
    window.workspaces()->bringUp(overview);
    auto* scroll = qobject_cast<QScrollArea*>(overview->parentWidget()->parentWidget());
    auto* timeline = window.findChild<QDockWidget*>("dock_timeline");
    const auto seen = [&] {
      const QRect place(timeline->mapTo(scroll->viewport(), QPoint(0, 0)), timeline->size());
      return scroll->viewport()->rect().contains(place);
    };
    scroll->verticalScrollBar()->setValue(0);
    QVERIFY(!seen());
    overview->bringIntoView(timeline);
    QVERIFY(seen());
  }

  void theFormGivesWayToThePanelsAndComesBack() {
    MainWindow window(false);
    window.resize(1500, 900);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::qWait(100);
    auto* form = window.findChild<QDockWidget*>("dock_setup");
    QVERIFY(form->isVisible());
    const int width = form->width();
    window.resize(1280, 800);
    QVERIFY(!form->isVisible());
    window.resize(1024, 700);
    window.resize(1600, 900);
    QVERIFY(form->isVisible());
    QTest::qWait(20);
    QVERIFY2(std::abs(form->width() - width) < 10, qPrintable(QString::number(form->width())));
    window.resize(1280, 800);
    form->toggleViewAction()->trigger();  // wanted all the same
    QVERIFY(form->isVisible());
    window.resize(1240, 800);
    QVERIFY(form->isVisible());
    form->toggleViewAction()->trigger();
    window.resize(1760, 1000);
    QVERIFY(!form->isVisible());
  }

  void theWindowGetsNarrowAtOnceWithTheFormOpen() {
    MainWindow window(false);
    window.resize(1600, 900);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::qWait(100);
    auto* form = window.findChild<QDockWidget*>("dock_setup");
    QVERIFY(form->isVisible());
    window.resize(1024, 700);
    QTest::qWait(50);
    QCOMPARE(window.width(), 1024);
    QVERIFY(!form->isVisible());
    window.resize(1600, 900);
    QTest::qWait(50);
    QVERIFY(form->isVisible());
  }

  void projectorViewEnlargesTypeAndBringsAllBack_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<bool>("dragged");
    QTest::newRow("small") << QSize(1280, 800) << false;
    QTest::newRow("large, as a person dragged it") << QSize(1920, 1080) << true;
  }
  void projectorViewEnlargesTypeAndBringsAllBack() {
    constexpr int kSettledMs = 150;
    QFETCH(QSize, size);
    QFETCH(bool, dragged);
    MainWindow window(false);
    window.resize(size);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    SyntheticRun run(SyntheticShape{.specialise_every = 1});
    run.append(20);
    window.selection()->setHistories({run.history()});
    QTest::qWait(kSettledMs);
    Workspace* overview = window.workspaces()->overview();
    if (dragged) {
      const QRect loss = overview->findChild<QDockWidget*>("dock_loss")->geometry();
      dragLine(overview, {loss.right() + 2, loss.center().y()}, {140, 0});
      window.findChild<QDockWidget*>("dock_balance")->close();
    }
    QTest::qWait(kSettledMs);
    const auto shapes = [&] {
      QMap<QString, QRect> rects;
      for (const Workspace* workspace : window.workspaces()->all())
        for (const QDockWidget* dock : workspace->docks())
          if (!dock->isHidden() && workspace == window.workspaces()->current())
            rects[dock->objectName()] = dock->geometry();
      return rects;
    };
    QMap<QString, QMap<QString, QRect>> before;
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QTest::qWait(kSettledMs);
      before[workspace->name()] = shapes();
    }
    window.workspaces()->bringUp(overview);
    const auto* plot = overview->findChild<PlotFrame*>();
    const int line = plot->fontMetrics().height();
    const auto* rows = window.findChild<QDockWidget*>("dock_compare_table")->findChild<QTableView*>()->verticalHeader();
    const int row = rows->defaultSectionSize();
    const QFont usual = QApplication::font();
    const bool form = window.findChild<QDockWidget*>("dock_setup")->isVisible();

    QTest::keyClick(&window, Qt::Key_F5);
    QTest::qWait(kSettledMs);
    QVERIFY(plot->fontMetrics().height() >= 1.35 * line);
    QVERIFY2(rows->defaultSectionSize() >= row + plot->fontMetrics().height() - line,
             qPrintable(QString("%1, then %2").arg(row).arg(rows->defaultSectionSize())));
    QVERIFY(!window.findChild<QDockWidget*>("dock_setup")->isVisible());
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QTest::qWait(kSettledMs);
      QCOMPARE(window.size(), size);
      int shown = 0;
      for (const Panel* panel : workspace->panels()) shown += panel->isVisible() && !panel->visibleRegion().isEmpty();
      QVERIFY2(shown >= 1 && shown <= 4, qPrintable(QString("%1: %2").arg(workspace->name()).arg(shown)));
    }
    window.workspaces()->bringUp(overview);
    QTest::keyClick(&window, Qt::Key_F5);
    QTest::qWait(kSettledMs);
    QCOMPARE(QApplication::font(), usual);
    QCOMPARE(plot->fontMetrics().height(), line);
    QCOMPARE(window.size(), size);
    QCOMPARE(window.findChild<QDockWidget*>("dock_setup")->isVisible(), form);
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QTest::qWait(kSettledMs);
      const auto after = shapes();
      QCOMPARE(after.keys(), before[workspace->name()].keys());
      for (auto dock = after.begin(); dock != after.end(); ++dock) {
        const QRect was = before[workspace->name()][dock.key()], is = dock.value();
        const int off = std::max({std::abs(was.left() - is.left()), std::abs(was.top() - is.top()),
                                  std::abs(was.width() - is.width()), std::abs(was.height() - is.height())});
        QVERIFY2(off <= size.width() / 80, qPrintable(QString("%1: off by %2").arg(dock.key()).arg(off)));
      }
    }
  }

  void aLessonKeepsItsPanelsInTheProjectorView() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QTest::qWait(100);
    auto* balance = window.findChild<QDockWidget*>("dock_balance");
    const QFont usual = QApplication::font();
    window.lessons()->start("1", LessonActions::Ask::never);
    QTRY_VERIFY(window.lessons()->active());
    QTest::qWait(100);
    const auto shown = [&] {
      QStringList names;
      for (const QDockWidget* dock : window.workspaces()->current()->docks())
        if (!dock->isHidden()) names << dock->objectName();
      return names;
    };
    const QStringList of_lesson = shown();
    window.projector()->action()->trigger();
    QTest::qWait(50);
    QCOMPARE(shown(), of_lesson);
    window.lessons()->leave();  // into the projector view
    QTest::qWait(50);
    window.workspaces()->bringUp("overview");
    QVERIFY(QApplication::font().pointSizeF() > 1.3 * usual.pointSizeF());
    QVERIFY(window.findChild<QDockWidget*>("dock_all_to_all")->isHidden());
    window.lessons()->start("1", LessonActions::Ask::never);
    QTest::qWait(50);
    window.projector()->action()->trigger();  // ends while the lesson goes on
    QTest::qWait(50);
    QCOMPARE(QApplication::font(), usual);
    window.lessons()->leave();
    QTest::qWait(50);
    window.workspaces()->bringUp("overview");
    for (const QDockWidget* dock : window.workspaces()->overview()->docks())
      QVERIFY2(!dock->isHidden(), qPrintable(dock->objectName()));
    QVERIFY(!balance->isHidden());
  }

  void theExpertPanelIsThereOnceAnExpertIsChosen() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    window.workspaces()->bringUp("router");
    QTest::qWait(50);
    auto* card = window.findChild<QDockWidget*>("dock_router_expert");
    QVERIFY(!card->isVisible());
    SyntheticRun run(SyntheticShape{});
    run.append(3);
    window.selection()->setHistories({run.history()});
    QVERIFY(!card->isVisible());
    window.selection()->setExpert(3);
    QVERIFY(card->isVisible());
    window.selection()->setExpert(-1);
    QVERIFY(!card->isVisible());
  }

  void everyPlotHasANameAndAValueForScreenReaders() {
    MainWindow window(false);
    window.resize(1600, 1000);
    window.show();
    SyntheticRun run(SyntheticShape{.specialise_every = 1}), twin(SyntheticShape{.specialise_every = 1});
    run.append(30);
    twin.append(30);
    window.selection()->setHistories({run.history(), twin.history()});
    int plots = 0, with_figures = 0;
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      for (Panel* panel : workspace->panels()) {
        panel->grab();  // fills its plots
        for (PlotFrame* plot : panel->findChildren<PlotFrame*>()) {
          if (!plot->isVisibleTo(panel)) continue;  // behind another page
          const QByteArray where = (panel->title() + ", " + plot->metaObject()->className()).toUtf8();
          QAccessibleInterface* told = QAccessible::queryAccessibleInterface(plot);
          QVERIFY2(told && told->role() == QAccessible::Chart, where);
          QVERIFY2(!told->text(QAccessible::Name).isEmpty(), where);
          QVERIFY2(!told->text(QAccessible::Value).isEmpty(), where);
          QCOMPARE(told->text(QAccessible::Description), told->text(QAccessible::Value));
          ++plots;
          with_figures += plot->notice().isEmpty();
        }
      }
    }
    QVERIFY2(plots > 40, qPrintable(QString::number(plots)));
    QVERIFY2(with_figures > plots / 2, qPrintable(QString::number(with_figures)));

    // What is under the mouse or the keyboard cursor.
    window.workspaces()->bringUp("router");
    auto* cells = window.findChild<QDockWidget*>("dock_router_load")->findChild<MatrixPlot*>();
    window.selection()->setLayer(2);
    window.selection()->setExpert(4);
    cells->grab();
    QAccessibleInterface* told = QAccessible::queryAccessibleInterface(cells);
    QTest::keyClick(cells, Qt::Key_Right);
    QVERIFY2(told->text(QAccessible::Value).contains("xpert 5"), qPrintable(told->text(QAccessible::Value)));
  }

  void focusIsSeenOnEveryControl_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void focusIsSeenOnEveryControl() {
    QFETCH(bool, dark);
    applyTheme(dark ? Theme::dark : Theme::light);
    MainWindow window(false);
    window.resize(1920, 1000);
    window.show();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    QStringList unseen;
    int seen = 0;
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QTest::qWait(20);
      for (QWidget* control : window.findChildren<QWidget*>()) {
        if (!(control->focusPolicy() & Qt::TabFocus) || control->focusProxy() || !control->isEnabled() ||
            control->visibleRegion().isEmpty() || qobject_cast<Panel*>(control))
          continue;
        control->clearFocus();
        const QImage before = control->grab().toImage();
        control->setFocus(Qt::TabFocusReason);
        window.setAttribute(Qt::WA_KeyboardFocusChange);  // as the key itself does
        const QImage with_focus = control->grab().toImage();
        if (!control->hasFocus()) continue;
        int changed = 0;
        for (int y = 0; y < before.height(); ++y)
          for (int x = 0; x < before.width(); ++x) changed += before.pixel(x, y) != with_focus.pixel(x, y);
        changed >= 8 ? void(++seen) : void(unseen << describeControl(control));
      }
    }
    unseen.removeDuplicates();
    QVERIFY2(unseen.isEmpty(), qPrintable(unseen.join("; ")));
    QVERIFY2(seen > 40, qPrintable(QString::number(seen)));
  }

  void everyDockHasANameOfItsOwn() {
    MainWindow window;
    QSet<QString> names;
    for (const QDockWidget* dock : window.findChildren<QDockWidget*>()) names << dock->objectName();
    QCOMPARE(names.size(), window.findChildren<QDockWidget*>().size());
    QVERIFY(!names.contains(QString()));
  }

  // So that a reader finds the file of any panel from its title.
  void everyPanelsClassIsNamedAfterItsTitle() {
    MainWindow window(false);
    for (const Workspace* workspace : window.workspaces()->all()) {
      for (const Panel* panel : workspace->panels()) {
        QString title = panel->title();
        title.remove("'s");
        if (title.startsWith("A ")) title.remove(0, 2);
        title = title.remove(QRegularExpression("[^A-Za-z0-9]"));
        const QString name = QString(panel->metaObject()->className()).section("::", -1).remove("Panel");
        QVERIFY2(title.contains(name, Qt::CaseInsensitive) || name.contains(title, Qt::CaseInsensitive),
                 qPrintable(panel->title() + ": " + name));
      }
    }
  }

  // Two of one name could not be told apart in menus, in the command palette and by --panel.
  void noTwoKindsOfPanelsShareATitle() {
    MainWindow window(false);
    QMap<QString, const QMetaObject*> kinds;
    for (const Workspace* workspace : window.workspaces()->all()) {
      for (const Panel* panel : workspace->panels()) {
        QVERIFY2(kinds.value(panel->title(), panel->metaObject()) == panel->metaObject(), qPrintable(panel->title()));
        kinds[panel->title()] = panel->metaObject();
      }
    }
  }

  void aBadConfigIsToldAndWhatRunsStays() {
    OpenWindow w;
    const QString path = home_.filePath("bad.toml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("name = \"bad\"\n[router]\ntop_k = 400\nbias_updaterate = 0.1\n");
    file.close();
    QSignalSpy failed(&w.window, &MainWindow::failed);
    drop(&w.window, {path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    const QString message = failed[0][0].toString();
    QVERIFY2(message.contains("bad.toml:3") && message.contains("bad.toml:4"), qPrintable(message));
    QVERIFY2(message.contains("bias_update_rate"), qPrintable(message));
    QVERIFY(w.complaint());
    QVERIFY(w.window.session()->isLive());
    w.trainTo(1);
  }

  void aFileThatIsNoRecordingIsTold() {
    OpenWindow w;
    const QString path = home_.filePath("no.moescope");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("this is no recording");
    file.close();
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    QVERIFY2(failed[0][0].toString().contains("no.moescope"), qPrintable(failed[0][0].toString()));
    w.trainTo(1);
  }

  void missingDataIsToldAndWhatRunsStays() {
    OpenWindow w;
    RunConfig config = nano();
    config.data.path = "/nowhere/at/all";
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.window.runControl()->start(config);
    if (failed.isEmpty()) QVERIFY(failed.wait(kWaitMs));
    QVERIFY2(failed[0][0].toString().contains("/nowhere/at/all"), qPrintable(failed[0][0].toString()));
    w.trainTo(1);
  }

  void aRecordingShowsTheFiguresOfItsRun() {
    std::map<QString, QString> live;
    QString path;
    {
      OpenWindow w(nanoInMxfp8(), true);
      w.trainTo(20);
      w.window.session()->lab()->flush();
      w.window.selection()->refresh();
      for (const Panel* panel : w.window.workspaces()->overview()->panels()) live[panel->title()] = panel->csv();
      path = w.window.session()->path();
      QVERIFY(!path.isEmpty());
    }
    MainWindow window;
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QVERIFY(window.session()->isRecording());
    QCOMPARE(window.selection()->history()->steps().size(), 20);
    for (const Panel* panel : window.workspaces()->overview()->panels()) {
      if (panel->title() == "Findings") continue;  // read beside the window's thread: qt_findings.cpp
      QVERIFY2(live[panel->title()].count('\n') > 1, qPrintable(panel->title()));
      QTRY_VERIFY2_WITH_TIMEOUT(  // a slow window reads its curves after it was opened
          panel->csv() == live[panel->title()],
          qPrintable(panel->title() + "\n" + live[panel->title()].left(400) + "\n--\n" + panel->csv().left(400)),
          kWaitMs);
    }
    window.selection()->setStep(7);
    QCOMPARE(window.selection()->step(), 7);
    QCOMPARE(window.findChild<RunBar*>()->runAction()->text(), QString("Play"));
  }

  void aRecordingWithoutItsLogSaysSo() {
    QTemporaryDir folder;
    const std::string whole = folder.filePath("whole.moescope").toStdString();
    const std::string alone = folder.filePath("alone.moescope").toStdString();
    RecordingWriter writer(whole);
    writer.add_run(sample_info({}));
    std::mt19937 rng(1);
    writer.write(std::vector{std::make_shared<const TelemetryFrame>(sample_frame(0, {}, rng))});
    std::filesystem::copy_file(whole, alone);  // as of a program that is killed now
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({QString::fromStdString(alone)});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QVERIFY(w.window.findChild<NoticeBar*>()->isVisible());
    QVERIFY2(w.window.findChild<NoticeBar*>()->text().contains(
                 "alone.moescope-wal, is not here. The recording ends with step 0"),
             qPrintable(w.window.findChild<NoticeBar*>()->text()));
  }

  void droppedLogsAreRunsSideBySide() {
    OpenWindow w;
    QTemporaryDir folder;
    const QString bad = folder.filePath("bad.jsonl");
    QFile file(bad);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,3]]}\nnot json\n{\"step\":1,\"loss\":2}\n");
    file.close();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    const QString samples = QString(MOESCOPE_TEST_DATA) + "/../assets/samples/";
    drop(&w.window, {samples + "unbalanced_bf16.jsonl", samples + "domain_shift.jsonl", bad});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.window.session()->histories().size(), std::size_t{3});
    QVERIFY(!w.window.session()->isLive());
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
    auto* message = w.window.findChild<QMessageBox*>("skipped_lines");
    QVERIFY(message);
    QVERIFY2(message->text().contains("bad.jsonl: 1 line could not be read"), qPrintable(message->text()));
    QVERIFY2(message->detailedText().contains("line 2: not JSON"), qPrintable(message->detailedText()));
    message->close();
    QCOMPARE(w.window.findChild<SetupForm*>()->findChild<QLabel*>("setup_purpose")->text(),
             QString("Settings of the next run, not of what is open"));
    drop(&w.window, {bad, "/usr/share/common-licenses"});  // data to train on beside a run
    QTRY_VERIFY(w.complaint());
    QVERIFY2(w.complaint()->text().contains("text to train on"), qPrintable(w.complaint()->text()));
  }

  void aLogIsFollowedWhileItGrows() {
    QTemporaryDir folder;
    const QString path = folder.filePath("run.jsonl");
    MainWindow window(false);
    window.show();
    window.session()->follow({path});
    QVERIFY(window.session()->isFollowing());
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->followingText().contains("waiting for run.jsonl"), kWaitMs);
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    for (int step = 0; step < 30; ++step)
      file.write(QString("{\"step\":%1,\"loss\":%2,\"tokens_per_expert\":[[1,3,4,2],[2,3,4,1]]}\n")
                     .arg(step)
                     .arg(5 - 0.1 * step)
                     .toUtf8());
    QTRY_COMPARE_WITH_TIMEOUT(window.selection()->step(), 29, kWaitMs);
    QVERIFY(window.selection()->following());
    file.write("half a line");
    file.write(" that is no JSON\n");
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->skipped().size(), std::size_t{1}, kWaitMs);
    QVERIFY(window.session()->followingText().contains("1 could not be read"));
    QVERIFY(file.resize(0));  // the training began anew
    QVERIFY(file.seek(0));
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->followingText().contains("restarted"), kWaitMs);
    file.write("{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,3]]}\n");
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->histories().front()->steps().last, 0, kWaitMs);
  }

  void anImportTellsHowFarItIsAndCanBeCancelled() {
    OpenWindow w;
    QTemporaryDir folder;
    const QString path = folder.filePath("large.jsonl");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QByteArray layer = "[1";
    for (int expert = 1; expert < 256; ++expert) layer += ",100";
    layer += "]";
    QByteArray layers = layer;
    for (int i = 1; i < 20; ++i) layers += "," + layer;
    for (int step = 0; step < 1000; ++step)
      file.write("{\"step\":" + QByteArray::number(step) + ",\"tokens_per_expert\":[" + layers + "]}\n");
    file.close();
    QSignalSpy progress(w.window.session(), &RunSession::openingProgress);
    QSignalSpy failed(w.window.session(), &RunSession::failed);
    connect(w.window.session(), &RunSession::openingProgress, &w.window, [&](double share) {
      if (share > 0.2) emit w.window.findChild<QProgressDialog*>()->canceled();  // as its button does
    });
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    QVERIFY(failed[0][0].toString().isEmpty());
    QVERIFY(progress.size() > 1);
    QVERIFY2(progress.last()[0].toDouble() < 1, "it did not read to the end");
    QVERIFY(w.window.session()->isLive());  // what was open stays
    QVERIFY(!w.complaint());
  }

  void theSampleOpensFromTheHelpMenu() {
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    QAction* sample = menuAction(window, "Open the sample");
    QVERIFY(sample);
    sample->trigger();
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(window.session()->histories().size(), std::size_t{2});
    QCOMPARE(QString::fromStdString(window.session()->histories()[1]->info().name), QString("domain_shift"));
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<FindingsWatch*>()->count(Severity::severe) == 3, kWaitMs);
  }

  void droppedTextBecomesTheData() {
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    drop(&w.window, {"/usr/share/common-licenses"});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.lab()->config(0).data.path, std::string("/usr/share/common-licenses"));
    w.window.session()->lab()->pause();
  }

  void closingInMidStepEndsWithinAStep() {
    auto w = std::make_unique<OpenWindow>();
    w->lab()->run();
    QTRY_VERIFY_WITH_TIMEOUT(w->step() > 2, kWaitMs);
    const auto history = w->window.session()->histories().front();
    w->window.close();
    const std::int64_t next = w->step();
    w.reset();  // returns: the training thread is joined
    QVERIFY2(history->steps().last <= next, qPrintable(QString::number(history->steps().last - next)));
  }

  void onlyTheNewestRecordingsAreKept() {
    const QDir folder(recordingsFolder());
    folder.mkpath(".");
    for (int i = 0; i < kKeptRecordings + 5; ++i) {
      QFile file(folder.filePath(QString("old-%1.moescope").arg(i)));
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.setFileTime(QDateTime::currentDateTime().addDays(-100 - i), QFileDevice::FileModificationTime);
    }
    const QString fresh = newRecordingPath("x");
    QCOMPARE(folder.entryList({"*.moescope"}).size(), kKeptRecordings - 1);
    QVERIFY(!QFile::exists(fresh));
    QVERIFY(!folder.exists(QString("old-%1.moescope").arg(kKeptRecordings + 4)));
  }

  void clockKeepsItsShare() {
    QCOMPARE(frameIntervalMs(1, false), 50);   // the data's rate has a ceiling of 20 Hz
    QCOMPARE(frameIntervalMs(5, false), 100);  // 5 % of one core
    QCOMPARE(frameIntervalMs(100, false), 500);
    QCOMPARE(frameIntervalMs(4, true), 16);
    QCOMPARE(frameIntervalMs(9, true), 32);
  }

  void clockRestsWhenNothingCanCome() {
    MainWindow window;
    window.show();
    window.frameClock()->wake();
    QVERIFY(window.frameClock()->ticking());
    QTRY_VERIFY_WITH_TIMEOUT(!window.frameClock()->ticking(), 5000);
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
      const QString png = home_.filePath("panel.png"), csv = home_.filePath("panel.csv");
      Overview::savePicture(panel, png);
      Overview::saveTable(*panel, csv);
      QVERIFY(!QImage(png).isNull());
      QFile file(csv);
      QVERIFY(file.open(QIODevice::ReadOnly));
      QVERIFY2(file.readAll().count('\n') > 1, qPrintable(panel->title()));
    }
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, Overview::savePicture(&w.window, "/nowhere/at/all.png"));
  }

  void doorsStandInEveryEmptyPanelUntilARunIsOpen() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    const auto doors = [&] {
      int seen = 0;
      for (const StartDoors* each : window.findChildren<StartDoors*>("panel_doors")) seen += each->isVisible();
      return seen;
    };
    for (const char* name : {"overview", "router", "all-to-all", "compare", "text"}) {
      window.workspaces()->bringUp(QString(name));
      QTRY_VERIFY2(doors() >= 3, name);
      window.grab().save(QString("/tmp/l22/empty-%1.png").arg(name));
      for (const StartDoors* each : window.findChildren<StartDoors*>("panel_doors"))
        if (each->isVisible())
          QTRY_VERIFY2(each->parentWidget()->rect().contains(each->geometry()),
                       qPrintable(each->parentWidget()->accessibleName()));
    }
    window.runControl()->start(nano(), RunControl::Start::paused);
    QTRY_COMPARE_WITH_TIMEOUT(doors(), 0, kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(!window.session()->opening(), kWaitMs);
    QTRY_COMPARE(doors(), 0);
  }

  void theFirstStartShowsDoorsUntilOneIsTaken() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    auto* card = window.findChild<StartCard*>();
    QVERIFY(card->isHidden());
    window.firstSteps()->showDoors();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(nano(), RunControl::Start::paused);  // the program's own
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(card->isVisible());
    window.session()->lab()->run_until(2);
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->lab()->status().step, 2, kWaitMs);
    card->findChild<QPushButton*>("door_lesson")->click();
    QVERIFY(window.lessons()->active());  // nobody is asked about a run that the program had begun
    QVERIFY(card->isHidden());
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(card->isHidden());
  }

  void aDoorComparesPrecisions() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    window.firstSteps()->showDoors();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    window.findChild<StartCard*>()->findChild<QPushButton*>("door_compare")->click();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(window.session()->histories().size(), std::size_t{3});
    QCOMPARE(window.session()->config(2).precision.experts, Recipe::mxfp4);
    QCOMPARE(window.workspaces()->current()->name(), QString("Compare"));
    QVERIFY(window.findChild<StartCard*>()->isHidden());
  }

  void oneHintComesAfterTheFirstStepsAndStaysAway() {
    auto* words = "start_words";
    {
      OpenWindow w;
      auto* card = w.window.findChild<StartCard*>();
      w.trainTo(3);
      QTest::qWait(300);
      QVERIFY(card->isHidden());
      w.trainTo(25);
      QTRY_VERIFY(card->isVisible());
      QVERIFY(card->findChild<QLabel*>(words)->text().contains("press ?"));
      QVERIFY(!card->findChild<QPushButton*>("door_open")->isVisible());
      card->findChild<QToolButton*>("close_start_card")->click();
      w.trainTo(30);
      QTest::qWait(400);
      QVERIFY(card->isHidden());
    }
    OpenWindow again;
    again.trainTo(25);
    QTest::qWait(400);
    QVERIFY(again.window.findChild<StartCard*>()->isHidden());
  }

  void theStatusLineSaysWhatIsBeingWaitedFor() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    window.show();
    const auto says = [&](const QString& text) {
      for (const QLabel* label : window.statusBar()->findChildren<QLabel*>())
        if (label->text().startsWith(text)) return true;
      return false;
    };
    window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(says("Building the model... "));
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->isLive(), kWaitMs);
    QTRY_VERIFY(says("step 0, paused"));
    window.runControl()->runUntil(3);
    QTRY_VERIFY_WITH_TIMEOUT(says("step 3, paused"), kWaitMs);
  }

  void aPausedRunThatHasNotBegunLetsTheWindowRest() {
    OpenWindow w;
    auto* heartbeat = w.window.findChild<Heartbeat*>();
    QTRY_VERIFY(!heartbeat->findChild<QTimer*>("beats")->isActive());
  }

  void aComparisonPresetStopsAtTheEndOfItsSchedule() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    QLineEdit* until = nullptr;
    for (QLineEdit* line : window.findChild<RunBar*>()->findChildren<QLineEdit*>())
      if (line->placeholderText() == "no end") until = line;
    QVERIFY(until);
    const auto start = [&](const char* preset) {
      QSignalSpy opened(window.session(), &RunSession::opened);
      window.runControl()->startAll(all_runs(load_preset(preset)), RunControl::Start::paused);
      return opened.wait(kWaitMs);
    };
    QVERIFY(start("convergence-check"));
    QCOMPARE(until->text(), QString("1500"));
    QVERIFY(start("nano"));  // the end of one is not that of another
    QCOMPARE(until->text(), QString());
    window.runControl()->setUntil(7);
    QVERIFY(start("nano"));
    QCOMPARE(until->text(), QString("7"));  // a person's own
    QVERIFY(start("convergence-check"));
    QCOMPARE(until->text(), QString("1500"));
    until->setText("20");  // in place of the preset's
    QVERIFY(QMetaObject::invokeMethod(until, "editingFinished"));
    QVERIFY(start("convergence-check"));
    QCOMPARE(until->text(), QString("20"));
    QVERIFY(start("nano"));
    QCOMPARE(until->text(), QString("20"));
  }
};

QTEST_MAIN(MainWindowTest)
#include "qt_main_window.moc"
