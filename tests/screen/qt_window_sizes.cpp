// Every workspace, panel, plot and saved layout at every size, also where nothing fits: it is painted, and ends.
#include <QDockWidget>
#include <QScrollArea>
#include <QScrollBar>
#include <QTemporaryDir>
#include <QTest>

#include "app/look/theme.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/laid_out.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/plots/plot_frame.h"

using namespace moescope;

namespace {

// Sizes from a single pixel on, low and narrow ones, the least size of the window, and a large one.
const QList<QSize> kSizes{{1, 1}, {40, 40}, {1200, 1}, {1, 900}, {49, 700}, {300, 60}, {736, 316}, {1920, 1080}};

constexpr int kMinPanelHeight = 110;  // pixels: a title, an answer and a plot of some lines

SyntheticRun madeUpRun() {
  SyntheticRun run(SyntheticShape{.specialise_every = 1});
  run.append(60);
  return run;
}

// A window that may be smaller than its contents need.
struct SmallWindow {
  MainWindow window;
  SyntheticRun run = madeUpRun();

  explicit SmallWindow(bool remembers) : window(remembers) {
    window.setMinimumSize(1, 1);
    window.selection()->setHistories({run.history()});
    window.selection()->setExpert(3);
  }
  void show() {
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
  }
  void showEveryWorkspace() {
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&window));
      window.grab();
    }
  }
};

}  // namespace

class WindowSizesTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    useFolderOfTest(home_);
    applyTheme(Theme::light);
  }
  void init() { useSettingsOfTest(home_); }

  void everyWorkspaceIsPaintedAtEverySize() {
    SmallWindow small(false);
    small.show();
    for (const QSize size : kSizes) {
      small.window.resize(size);
      small.showEveryWorkspace();
      QCOMPARE(small.window.size(), size);
    }
  }

  void everyPanelAndPlotIsPaintedAtEverySize() {
    SmallWindow small(false);
    small.show();
    int plots = 0;
    for (Workspace* workspace : small.window.workspaces()->all()) {
      small.window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&small.window));
      for (Panel* panel : workspace->panels())
        for (const QSize size : kSizes) {
          panel->resize(size);
          panel->grab();
          for (PlotFrame* plot : panel->findChildren<PlotFrame*>()) {
            plot->resize(size);
            plot->markDirty();
            plot->grab();
            plot->valueText();  // asks for the readouts of the whole plot
            ++plots;
          }
        }
    }
    QVERIFY(plots > 40 * kSizes.size());
  }

  // Nothing has to be scrolled on a small screen, but for the long answers of Cluster.
  void everyWorkspaceFitsOnASmallScreen() {
    for (const QSize size : {QSize(1024, 700), QSize(1152, 720), QSize(1280, 800)}) {
      SmallWindow small(false);
      small.window.resize(size);
      small.show();
      for (Workspace* workspace : small.window.workspaces()->all()) {
        if (workspace->name() == "Cluster") continue;
        small.window.workspaces()->bringUp(workspace);
        QVERIFY(isLaidOut(&small.window));
        small.window.grab();
        const auto* scroll = qobject_cast<QScrollArea*>(workspace->parentWidget()->parentWidget());
        QVERIFY2(scroll->verticalScrollBar()->maximum() == 0,
                 qPrintable(QString("%1 x %2, %3: %4 pixels more")
                                .arg(size.width())
                                .arg(size.height())
                                .arg(workspace->name())
                                .arg(scroll->verticalScrollBar()->maximum())));
      }
    }
  }

  // A layout that was saved by a narrow window, with all panels below one another, is no layout for a wide one.
  void everyPanelIsHighEnoughInALayoutOfAnotherWidth() {
    const QList<QSize> sizes{{736, 900}, {736, 316}, {1920, 1080}};
    for (const QSize saved_at : sizes) {
      {
        SmallWindow small(true);
        small.window.resize(saved_at);
        small.show();
        small.showEveryWorkspace();
        small.window.close();
      }
      for (const QSize opened_at : sizes) {
        if (opened_at == saved_at) continue;
        SmallWindow second(true);  // is not closed, so that it does not save its own layout
        second.window.resize(opened_at);
        second.show();
        second.window.resize(opened_at);  // after the size that was saved
        for (Workspace* workspace : second.window.workspaces()->all()) {
          second.window.workspaces()->bringUp(workspace);
          QVERIFY(isLaidOut(&second.window));
          second.window.grab();
          for (const QDockWidget* dock : workspace->docks()) {
            const bool is_shown = dock->isVisible() && !dock->isFloating() && dock->geometry().bottom() >= 0;
            const auto* panel = qobject_cast<Panel*>(dock->widget());
            if (!is_shown || !panel) continue;
            QTRY_VERIFY2(panel->height() >= kMinPanelHeight,
                         qPrintable(QString("%1: %2 pixels, saved at %3 x %4, opened at %5 x %6")
                                        .arg(panel->title())
                                        .arg(panel->height())
                                        .arg(saved_at.width())
                                        .arg(saved_at.height())
                                        .arg(opened_at.width())
                                        .arg(opened_at.height())));
          }
        }
      }
    }
  }

  void everySavedLayoutOpensAtEverySize_data() {
    QTest::addColumn<QSize>("saved_at");
    for (const QSize size : kSizes)
      QTest::newRow(qPrintable(QString("%1 x %2").arg(size.width()).arg(size.height()))) << size;
  }
  void everySavedLayoutOpensAtEverySize() {
    QFETCH(QSize, saved_at);
    {
      SmallWindow small(true);
      small.window.resize(saved_at);
      small.show();
      small.showEveryWorkspace();
      for (Workspace* workspace : small.window.workspaces()->all()) {
        const QList<QDockWidget*> docks = workspace->docks();
        workspace->resizeDocks(docks, QList<int>(docks.size(), 1), Qt::Vertical);
        workspace->resizeDocks(docks, QList<int>(docks.size(), 1), Qt::Horizontal);
      }
      QVERIFY(isLaidOut(&small.window));
      small.window.close();
    }
    SmallWindow second(true);
    second.show();
    second.showEveryWorkspace();
    for (const QSize size : {QSize(1280, 800), QSize(40, 40)}) {
      second.window.resize(size);
      second.showEveryWorkspace();
    }
  }
};

SCREEN_TEST(WindowSizesTest)
#include "qt_window_sizes.moc"
