// Arrangement of the panels in the window: at every size, at twice the scale, in the projector view, in a lesson.
#include <QDockWidget>
#include <QHeaderView>
#include <QScrollArea>
#include <QScrollBar>
#include <QTabBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <cmath>

#include "app/actions/file_actions.h"
#include "app/lessons/lesson_actions.h"
#include "app/look/theme.h"
#include "app/setup/setup_drawer.h"
#include "app/window/projector_view.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "tests/support/laid_out.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/look/tokens.h"

using namespace moescope;

namespace {

// True for the panels of Overview that only a comparison with forced balance shows.
bool isGap(const QDockWidget* dock) {
  return dock->objectName() == "dock_overview_gap" || dock->objectName() == "dock_overview_gradient";
}

// Drags the line between two docks. The events are sent to `window`, because such lines are no widgets.
void dragLine(QWidget* window, QPoint from, QPoint by) {
  QTest::mousePress(window, Qt::LeftButton, {}, from);
  for (int i = 1; i <= 4; ++i) {
    const QPoint at = from + by * i / 4;
    QMouseEvent move(QEvent::MouseMove, at, window->mapToGlobal(at), Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(window, &move);
    QVERIFY(isLaidOut(window));
  }
  QTest::mouseRelease(window, Qt::LeftButton, {}, from + by);
  QVERIFY(isLaidOut(window));
}

// Returns the size of each visible panel divided by the size of the workspace.
QMap<QString, QSizeF> sharesOf(const Workspace& workspace) {
  QMap<QString, QSizeF> shares;
  for (const Panel* panel : workspace.panels())
    if (!panel->visibleRegion().isEmpty())
      shares[panel->title()] = {1.0 * panel->width() / workspace.width(), 1.0 * panel->height() / workspace.height()};
  return shares;
}

// Expects nearly equal shares. Heights may differ more, because bars of fixed height take more of a small window.
void compareShares(const QMap<QString, QSizeF>& shares, const QMap<QString, QSizeF>& before, QSize window) {
  QCOMPARE(shares.keys(), before.keys());
  for (auto share_before = before.begin(); share_before != before.end(); ++share_before) {
    const QSizeF share = shares[share_before.key()];
    const bool alike = std::abs(share.width() - share_before->width()) < 0.015 &&
                       std::abs(share.height() - share_before->height()) < 0.05;
    QVERIFY2(alike, qPrintable(QString("%1 at %2 x %3: %4 x %5 of the room, before %6 x %7")
                                   .arg(share_before.key())
                                   .arg(window.width())
                                   .arg(window.height())
                                   .arg(share.width())
                                   .arg(share.height())
                                   .arg(share_before->width())
                                   .arg(share_before->height())));
  }
}

// Counts requests for a layout and for a paint of any widget.
class LayoutsAndPaints : public QObject {
 public:
  LayoutsAndPaints() { qApp->installEventFilter(this); }
  int countFor(int milliseconds) {
    count_ = 0;
    QTest::qWait(milliseconds);
    return count_;
  }

 protected:
  bool eventFilter(QObject*, QEvent* event) override {
    count_ += event->type() == QEvent::LayoutRequest || event->type() == QEvent::UpdateRequest;
    return false;
  }

 private:
  int count_ = 0;
};

}  // namespace

class WindowLayoutTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    useFolderOfTest(home_);
    applyTheme(Theme::light);  // sets the program's font, too
  }
  void init() { useSettingsOfTest(home_); }

  void noEmptyTabBarStaysInAWorkspace() {
    OpenWindow t;
    t.window.resize(1900, 1000);
    for (const char* name : {"router", "text"}) {
      QVERIFY(t.window.workspaces()->bringUp(QString(name)));
      QVERIFY(isLaidOut(&t.window));
      int with_tabs = 0;
      for (const QTabBar* bar : t.window.findChildren<QTabBar*>()) {
        if (!bar->isVisible()) continue;
        QVERIFY2(bar->count() > 0, name);
        with_tabs += qobject_cast<const Workspace*>(bar->parentWidget()) != nullptr;
      }
      QVERIFY2(with_tabs > 0, name);
    }
  }

  void windowWithoutTrainingTakesNoProcessorTime() {
    OpenWindow t;
    LayoutsAndPaints events;
    for (Workspace* workspace : t.window.workspaces()->all()) {
      t.window.workspaces()->bringUp(workspace);
      QVERIFY2(QTest::qWaitFor([&] { return events.countFor(300) == 0; }, kWaitMs), qPrintable(workspace->name()));
    }
  }

  void layoutSurvivesARestartAndDefaultComesBack() {
    {
      OpenWindow w;
      w.window.findChild<QDockWidget*>("dock_all_to_all")->close();
      w.window.findChild<QDockWidget*>("dock_loss")->setFloating(true);
      w.window.close();
    }
    OpenWindow w;
    auto* balance = w.window.findChild<QDockWidget*>("dock_all_to_all");
    auto* loss = w.window.findChild<QDockWidget*>("dock_loss");
    QVERIFY(balance->isHidden());
    QVERIFY(loss->isFloating());
    menuAction(w.window, "Restore the default layout")->trigger();
    QVERIFY(!balance->isHidden());
    QVERIFY(!loss->isFloating());
    for (const QDockWidget* dock : w.window.workspaces()->overview()->docks())
      QVERIFY2(dock->isHidden() == isGap(dock), qPrintable(dock->objectName()));
  }

  void everyPanelHasItsShareOfTheWindow_data() {
    QTest::addColumn<QSize>("size");
    QTest::newRow("small") << QSize(1280, 800);
    QTest::newRow("large") << QSize(1920, 1080);
  }

  void everyPanelHasItsShareOfTheWindow() {
    QFETCH(QSize, size);
    MainWindow window(false);
    window.resize(size);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QVERIFY(isLaidOut(&window));
    QCOMPARE(window.size(), size);
    for (const Panel* panel : window.workspaces()->overview()->panels()) {
      if (panel->title() == "Loss gap" || panel->title() == "Gradient error") continue;
      QVERIFY2(!panel->visibleRegion().isEmpty(), qPrintable(panel->title()));
      QVERIFY2(panel->width() > size.width() / 5,
               qPrintable(QString("%1: %2").arg(panel->title()).arg(panel->width())));
      QVERIFY2(panel->height() > size.height() / 8, qPrintable(panel->title()));
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
    QVERIFY(isLaidOut(&window));
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
      QVERIFY(isLaidOut(&window));
      QCOMPARE(window.size(), size);
      compareShares(sharesOf(*overview), shares, size);
    }
    // The shares are kept if the window is resized while another workspace is shown.
    window.workspaces()->bringUp("router");
    window.resize(1024, 700);
    QVERIFY(isLaidOut(&window));
    window.resize(1760, 1000);
    window.workspaces()->bringUp("overview");
    QVERIFY(isLaidOut(&window));
    compareShares(sharesOf(*overview), shares, window.size());
    // Restoring a saved arrangement restores the shares.
    const QVariantMap remembered = overview->remembered();
    overview->arrangeAnew();
    overview->applySizes();
    QVERIFY(overview->restore(remembered));
    QVERIFY(isLaidOut(&window));
    compareShares(sharesOf(*overview), shares, window.size());
  }

  void docksKeepTheirSharesOfAnotherSize() {
    QMainWindow window;
    QList<QDockWidget*> docks;
    for (const char* name : {"left", "right"}) {
      auto* dock = new QDockWidget(name, &window);
      dock->setObjectName(name);
      dock->setWidget(new QWidget);
      window.addDockWidget(Qt::TopDockWidgetArea, dock);
      docks << dock;
    }
    window.resize(800, 400);
    window.show();
    window.resizeDocks(docks, {600, 200}, Qt::Horizontal);
    QVERIFY(isLaidOut(&window));
    DockShares shares;
    QVERIFY(shares.empty());
    shares.learn(window, docks);
    QVERIFY(std::abs(shares.remembered()["left"].toSizeF().width() - 0.75) < 0.01);
    window.resize(400, 400);
    window.resizeDocks(docks, {100, 300}, Qt::Horizontal);
    shares.apply(&window, docks);
    QVERIFY(isLaidOut(&window));
    QVERIFY2(std::abs(docks[0]->width() - 300) < 10, qPrintable(QString::number(docks[0]->width())));

    DockShares restored;
    restored.restore({{"left", QSizeF(0.5, 0.25)}, {"too wide", QSizeF(1.5, 0.5)}, {"no size", "text"}});
    QCOMPARE(restored.remembered().keys(), QStringList{"left"});
    restored.forget();
    QVERIFY(restored.empty());
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
      QVERIFY(isLaidOut(&window));
      const QSize size = window.size();
      QVERIFY2(size.width() <= 960 && size.height() <= 540 - 30,  // 30 for the window's title bar
               qPrintable(QString("%1: %2 x %3").arg(workspace->name()).arg(size.width()).arg(size.height())));
      for (const QDockWidget* dock : workspace->docks()) {  // docks in front, to which the workspace can scroll
        const bool is_shown = dock->isVisible() && dock->geometry().bottom() >= 0;
        if (is_shown && qobject_cast<const Panel*>(dock->widget()))
          QVERIFY2(dock->height() > 130, qPrintable(dock->windowTitle() + QString(": %1").arg(dock->height())));
      }
    }
    auto* overview = window.workspaces()->overview();
    window.workspaces()->bringUp(overview);
    auto* scroll = qobject_cast<QScrollArea*>(overview->parentWidget()->parentWidget());
    auto* lowest = *std::ranges::max_element(
        overview->docks(), {}, [](QDockWidget* dock) { return dock->isVisible() ? dock->geometry().bottom() : 0; });
    const auto is_in_view = [&] {
      const QRect place(lowest->mapTo(scroll->viewport(), QPoint(0, 0)), lowest->size());
      return scroll->viewport()->rect().contains(place);
    };
    scroll->verticalScrollBar()->setValue(0);
    QVERIFY(!is_in_view());
    overview->bringIntoView(lowest);
    QVERIFY(is_in_view());
  }

  void theSetUpLiesOverThePanels() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QVERIFY(takesKeys(&window));
    QVERIFY(isLaidOut(&window));
    auto* drawer = window.findChild<SetupDrawer*>();
    QVERIFY(!drawer->isVisible());
    const QRect panels = window.workspaces()->geometry();
    QTest::keyClick(&window, Qt::Key_F2);
    QVERIFY(drawer->isVisible());
    QCOMPARE(window.workspaces()->geometry(), panels);
    QCOMPARE(drawer->width(), kDrawerWidth);
    const auto at_the_right = [&] {
      return drawer->geometry().right() == window.width() - 1 && drawer->y() == window.centralWidget()->y() &&
             drawer->geometry().bottom() == window.centralWidget()->geometry().bottom();
    };
    QVERIFY(at_the_right());
    window.resize(1024, 700);
    QVERIFY(isLaidOut(&window));
    QVERIFY(at_the_right());
    QTest::keyClick(window.focusWidget(), Qt::Key_Escape);
    QVERIFY(!drawer->isVisible());
    QTest::keyClick(&window, Qt::Key_F2);
    window.lessons()->start("1", LessonActions::Ask::never);
    QTRY_VERIFY(window.lessons()->active());
    QVERIFY(!drawer->isVisible());
    window.lessons()->leave();
  }

  void aLogFitsIntoASmallWindow() {
    OpenWindow w;
    w.window.resize(1600, 900);
    w.window.files()->open({QStringLiteral(MOESCOPE_TEST_DATA "/../assets/samples/unbalanced_bf16.jsonl")});
    QTRY_VERIFY_WITH_TIMEOUT(!w.window.session()->isLive() && !w.window.session()->histories().empty(), kWaitMs);
    QVERIFY(isLaidOut(&w.window, 150));
    w.window.resize(1024, 700);
    QVERIFY(isLaidOut(&w.window, 150));
    QString widths;
    for (const QWidget* child : w.window.findChildren<QWidget*>())
      if (child->isVisible() && child->minimumSizeHint().width() > 900)
        widths += QString("%1 %2: %3; ")
                      .arg(child->metaObject()->className(), child->objectName())
                      .arg(child->minimumSizeHint().width());
    QVERIFY2(w.window.width() == 1024, qPrintable(QString("%1: %2").arg(w.window.width()).arg(widths)));
  }

  void projectorViewEnlargesTypeAndBringsAllBack_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<bool>("dragged");
    QTest::newRow("small") << QSize(1280, 800) << false;
    QTest::newRow("large, as a person dragged it") << QSize(1920, 1080) << true;
  }

  void projectorViewEnlargesTypeAndBringsAllBack() {
    QFETCH(QSize, size);
    QFETCH(bool, dragged);
    MainWindow window(false);
    window.resize(size);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    SyntheticRun run(SyntheticShape{.specialise_every = 1});
    run.append(20);
    window.selection()->setHistories({run.history()});
    QVERIFY(isLaidOut(&window, 150));
    Workspace* overview = window.workspaces()->overview();
    if (dragged) {
      const QRect loss = overview->findChild<QDockWidget*>("dock_loss")->geometry();
      dragLine(overview, {loss.right() + 2, loss.center().y()}, {140, 0});
      window.findChild<QDockWidget*>("dock_all_to_all")->close();
    }
    QVERIFY(isLaidOut(&window, 150));
    const auto shapes = [&] {
      QMap<QString, QRect> rects;
      for (const Workspace* workspace : window.workspaces()->all())
        for (const QDockWidget* dock : workspace->docks())
          if (!dock->visibleRegion().isEmpty() && workspace == window.workspaces()->current())
            rects[dock->objectName()] = dock->geometry();
      return rects;
    };
    QMap<QString, QMap<QString, QRect>> before;
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&window, 150));
      before[workspace->name()] = shapes();
    }
    window.workspaces()->bringUp(overview);
    const auto* plot = overview->findChild<PlotFrame*>();
    const int line = plot->fontMetrics().height();
    const auto* rows =
        window.findChild<QDockWidget*>("dock_micro_operand_costs")->findChild<QTableView*>()->verticalHeader();
    const int row = rows->defaultSectionSize();
    const QFont usual = QApplication::font();
    QTest::keyClick(&window, Qt::Key_F5);
    QVERIFY(isLaidOut(&window, 150));
    QVERIFY(plot->fontMetrics().height() >= 1.35 * line);
    QVERIFY2(rows->defaultSectionSize() >= row + plot->fontMetrics().height() - line,
             qPrintable(QString("%1, then %2").arg(row).arg(rows->defaultSectionSize())));
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&window, 150));
      QCOMPARE(window.size(), size);
      int shown = 0;
      for (const Panel* panel : workspace->panels()) shown += panel->isVisible() && !panel->visibleRegion().isEmpty();
      QVERIFY2(shown >= 1 && shown <= 4, qPrintable(QString("%1: %2").arg(workspace->name()).arg(shown)));
    }
    window.workspaces()->bringUp(overview);
    QTest::keyClick(&window, Qt::Key_F5);
    QVERIFY(isLaidOut(&window, 150));
    QCOMPARE(QApplication::font(), usual);
    QCOMPARE(plot->fontMetrics().height(), line);
    QCOMPARE(window.size(), size);
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&window, 150));
      const auto after = shapes();
      QCOMPARE(after.keys(), before[workspace->name()].keys());
      for (auto dock = after.begin(); dock != after.end(); ++dock) {
        const QRect place_before = before[workspace->name()][dock.key()], is = dock.value();
        const int off =
            std::max({std::abs(place_before.left() - is.left()), std::abs(place_before.top() - is.top()),
                      std::abs(place_before.width() - is.width()), std::abs(place_before.height() - is.height())});
        QVERIFY2(off <= size.width() / 80, qPrintable(QString("%1: off by %2").arg(dock.key()).arg(off)));
      }
    }
  }

  void aLessonKeepsItsPanelsInTheProjectorView() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QVERIFY(isLaidOut(&window));
    auto* balance = window.findChild<QDockWidget*>("dock_all_to_all");
    const QFont usual = QApplication::font();
    window.lessons()->start("1", LessonActions::Ask::never);
    QTRY_VERIFY(window.lessons()->active());
    QVERIFY(isLaidOut(&window));
    const auto shown = [&] {
      QStringList names;
      for (const QDockWidget* dock : window.workspaces()->current()->docks())
        if (!dock->isHidden()) names << dock->objectName();
      return names;
    };
    const QStringList lesson_docks = shown();
    window.projector()->action()->trigger();
    QVERIFY(isLaidOut(&window));
    QCOMPARE(shown(), lesson_docks);
    window.lessons()->leave();  // the projector view stays
    QVERIFY(isLaidOut(&window));
    window.workspaces()->bringUp("overview");
    QVERIFY(QApplication::font().pointSizeF() > 1.3 * usual.pointSizeF());
    QVERIFY(window.findChild<QDockWidget*>("dock_all_to_all")->isHidden());
    window.lessons()->start("1", LessonActions::Ask::never);
    QVERIFY(isLaidOut(&window));
    window.projector()->action()->trigger();  // ends the projector view during the lesson
    QVERIFY(isLaidOut(&window));
    QCOMPARE(QApplication::font(), usual);
    window.lessons()->leave();
    QVERIFY(isLaidOut(&window));
    window.workspaces()->bringUp("overview");
    for (const QDockWidget* dock : window.workspaces()->overview()->docks())
      QVERIFY2(dock->isHidden() == isGap(dock), qPrintable(dock->objectName()));
    QVERIFY(!balance->isHidden());
  }

  void theExpertPanelIsThereOnceAnExpertIsChosen() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    window.workspaces()->bringUp("router");
    QVERIFY(isLaidOut(&window));
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
};

SCREEN_TEST(WindowLayoutTest)
#include "qt_window_layout.moc"
