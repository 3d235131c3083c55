// Names and values for screen readers, use by keyboard alone, and names of panels that must be unique.
#include <QAbstractButton>
#include <QAbstractSpinBox>
#include <QAccessible>
#include <QButtonGroup>
#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QMenu>
#include <QRegularExpression>
#include <QSlider>
#include <QStatusBar>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <algorithm>

#include "app/look/theme.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/laid_out.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/plot_frame.h"

using namespace moescope;

namespace {

QString describeControl(const QWidget* control) {
  return QString("%1 \"%2\" in %3")
      .arg(control->metaObject()->className(),
           control->accessibleName().isEmpty() ? control->objectName() : control->accessibleName(),
           control->parentWidget()->metaObject()->className());
}

// True if the widget is an enabled and visible control that is not a part of another control. Items of the status line
// that cannot have the focus are no controls, because they only show text.
bool isControl(const QWidget* widget) {
  const bool acts = qobject_cast<const QAbstractButton*>(widget) || qobject_cast<const QComboBox*>(widget) ||
                    qobject_cast<const QLineEdit*>(widget) || qobject_cast<const QAbstractSpinBox*>(widget) ||
                    qobject_cast<const QSlider*>(widget) || qobject_cast<const PlotFrame*>(widget);
  const QWidget* parent = widget->parentWidget();
  const bool part = qobject_cast<const QLineEdit*>(parent) || qobject_cast<const QComboBox*>(parent) ||
                    qobject_cast<const QAbstractSpinBox*>(parent) || qobject_cast<const QTabBar*>(parent);
  const bool tells = widget->focusPolicy() == Qt::NoFocus && qobject_cast<const QStatusBar*>(parent->parentWidget());
  return acts && !part && !tells && widget->isEnabled() && !widget->visibleRegion().isEmpty();
}

// True if Tab reaches a button of the control's exclusive group. The arrow keys reach the other buttons of the group.
bool groupIsReached(const QWidget* control, const QSet<const QObject*>& reached) {
  const auto* button = qobject_cast<const QAbstractButton*>(control);
  if (!button || !button->group() || !button->group()->exclusive()) return false;
  const QList<QAbstractButton*> buttons = button->group()->buttons();
  return std::ranges::any_of(buttons, [&](const QAbstractButton* member) { return reached.contains(member); });
}

}  // namespace

class AccessibilityTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

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
          if (!plot->isVisibleTo(panel)) continue;  // hidden by another page of the panel
          const QByteArray place = (panel->title() + ", " + plot->metaObject()->className()).toUtf8();
          QAccessibleInterface* description = QAccessible::queryAccessibleInterface(plot);
          QVERIFY2(description && description->role() == QAccessible::Chart, place);
          QVERIFY2(!description->text(QAccessible::Name).isEmpty(), place);
          QVERIFY2(!description->text(QAccessible::Value).isEmpty(), place);
          QCOMPARE(description->text(QAccessible::Description), description->text(QAccessible::Value));
          ++plots;
          with_figures += plot->notice().isEmpty();
        }
      }
    }
    QVERIFY2(plots > 35, qPrintable(QString::number(plots)));
    QVERIFY2(with_figures > plots / 2, qPrintable(QString::number(with_figures)));

    // The accessible value describes the cell under the keyboard cursor.
    window.workspaces()->bringUp("router");
    auto* cells = window.findChild<QDockWidget*>("dock_router_load")->findChild<MatrixPlot*>();
    window.selection()->setLayer(2);
    window.selection()->setExpert(4);
    cells->grab();
    QAccessibleInterface* description = QAccessible::queryAccessibleInterface(cells);
    QTest::keyClick(cells, Qt::Key_Right);
    QVERIFY2(description->text(QAccessible::Value).contains("xpert 5"),
             qPrintable(description->text(QAccessible::Value)));
  }

  void aPlotHasTheNameOfItsPanelAndItsReadout() {
    installAccessiblePlots();
    installAccessiblePlots();  // does nothing
    QWidget panel;
    panel.setAccessibleName("Load");
    MatrixPlot plot(&panel);
    plot.setNotice("No data yet");
    QAccessibleInterface* description = QAccessible::queryAccessibleInterface(&plot);
    QCOMPARE(description->role(), QAccessible::Chart);
    QCOMPARE(description->text(QAccessible::Name), QString("Load"));
    QCOMPARE(description->text(QAccessible::Value), QString("No data yet"));
    plot.setAccessibleName("Load of the layers");
    QCOMPARE(description->text(QAccessible::Name), QString("Load of the layers"));
    announceValueOf(&plot);
    QCOMPARE(plot.findChild<QTimer*>("announce") != nullptr,
             QAccessible::isActive());  // without a reader no timer runs
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
    int visible_controls = 0;
    for (Workspace* workspace : window.workspaces()->all()) {
      window.workspaces()->bringUp(workspace);
      QVERIFY(isLaidOut(&window));
      for (QWidget* control : window.findChildren<QWidget*>()) {
        if (!(control->focusPolicy() & Qt::TabFocus) || control->focusProxy() || !control->isEnabled() ||
            control->visibleRegion().isEmpty() || qobject_cast<Panel*>(control))
          continue;
        control->clearFocus();
        const QImage before = control->grab().toImage();
        control->setFocus(Qt::TabFocusReason);
        window.setAttribute(Qt::WA_KeyboardFocusChange);  // a press of Tab sets this, too
        const QImage with_focus = control->grab().toImage();
        if (!control->hasFocus()) continue;
        int changed = 0;
        for (int y = 0; y < before.height(); ++y)
          for (int x = 0; x < before.width(); ++x) changed += before.pixel(x, y) != with_focus.pixel(x, y);
        changed >= 8 ? void(++visible_controls) : void(unseen << describeControl(control));
      }
    }
    unseen.removeDuplicates();
    QVERIFY2(unseen.isEmpty(), qPrintable(unseen.join("; ")));
    QVERIFY2(visible_controls > 40, qPrintable(QString::number(visible_controls)));
  }

  // Tab reaches the bar's menu first, then all other controls.
  void everyControlIsReachedByTab() {
    applyTheme(Theme::light);
    OpenWindow w;
    w.trainTo(30);
    w.window.selection()->refresh();
    w.window.workspaces()->bringUp("overview");
    for (const bool drawer : {false, true}) {
      if (drawer) QTest::keyClick(&w.window, Qt::Key_F2);
      QVERIFY(isLaidOut(&w.window));
      if (!drawer && w.window.focusWidget()) w.window.focusWidget()->clearFocus();
      QSet<const QObject*> reached;
      QStringList order;
      for (int i = 0; i < 400; ++i) {
        QTest::keyClick(&w.window, Qt::Key_Tab);
        const QWidget* focused = w.window.focusWidget();
        if (!focused) continue;
        if (reached.contains(focused)) break;
        reached << focused;
        order << describeControl(focused);
      }
      if (!drawer) QVERIFY2(order.value(0).contains("Menu"), qPrintable(order.join("\n")));
      QStringList missed;
      for (const QWidget* control : w.window.findChildren<QWidget*>())
        if (isControl(control) && !reached.contains(control) && !groupIsReached(control, reached))
          missed << describeControl(control);
      QVERIFY2(missed.isEmpty(), qPrintable(missed.join("\n") + "\nreached:\n" + order.join("\n")));
      QVERIFY2(reached.size() > (drawer ? 40 : 15), qPrintable(QString::number(reached.size())));
    }
  }

  void mnemonicsOfAMenuDiffer() {
    OpenWindow w;
    QStringList doubled;
    for (QMenu* menu : w.window.findChildren<QMenu*>()) {
      emit menu->aboutToShow();
      QMap<QString, QString> texts;
      for (const QAction* action : menu->actions()) {
        const QString key = QKeySequence::mnemonic(action->text()).toString();
        if (key.isEmpty() || !action->isVisible()) continue;
        if (texts.contains(key)) doubled << texts[key] + " | " + action->text();
        texts[key] = action->text();
      }
    }
    QVERIFY2(doubled.isEmpty(), qPrintable(doubled.join('\n')));
  }

  void everyDockHasANameOfItsOwn() {
    MainWindow window;
    QSet<QString> names;
    for (const QDockWidget* dock : window.findChildren<QDockWidget*>()) names << dock->objectName();
    QCOMPARE(names.size(), window.findChildren<QDockWidget*>().size());
    QVERIFY(!names.contains(QString()));
  }

  // The file of a panel and its page in assets/panels can be found by the panel's title.
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
        QVERIFY2(panel->explain().size() > 100, qPrintable(panel->title() + ": no page in assets/panels"));
      }
    }
  }

  // Menus, the command palette and --panel name panels by their titles.
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

  // A further view of a subject belongs to the panel of the subject.
  void theWindowHasAtMostThirtyKindsOfPanels() {
    MainWindow window(false);
    QSet<const QMetaObject*> kinds;
    for (const Workspace* workspace : window.workspaces()->all())
      for (const Panel* panel : workspace->panels()) kinds << panel->metaObject();
    QVERIFY2(kinds.size() <= 30, qPrintable(QString::number(kinds.size())));
  }
};

SCREEN_TEST(AccessibilityTest)
#include "qt_accessibility.moc"
