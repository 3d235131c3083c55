// Twins of a run that are added and removed in the window.
#include <QApplication>
#include <QComboBox>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "core/config/config_difference.h"
#include "core/findings/comparison/comparison.h"
#include "tests/support/compare_window.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/plots/color_scale.h"

using namespace moescope;

namespace {

// Returns the entry `text` of the button's menu without showing the menu, because popups block offscreen tests.
QAction* compareAction(RunChips* chips, const QString& text) {
  QMenu* menu = chips->findChild<QToolButton*>("compare_button")->menu();
  emit menu->aboutToShow();
  for (QAction* action : menu->findChildren<QAction*>())
    if (QString(action->text()).remove('&').startsWith(text)) return action;
  return nullptr;
}

}  // namespace

class TwinsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void aTwinCatchesUpWhilePaused() {
    CompareWindow w;
    w.trainTo(12);
    QAction* noise = compareAction(w.chips(), "Noise twin");
    QVERIFY(noise);
    noise->trigger();
    QCOMPARE(w.window.selection()->histories().size(), 2u);
    QCOMPARE(w.window.workspaces()->current(), static_cast<Workspace*>(w.window.workspaces()->compare()));
    w.waitFor(12);
    const auto& histories = w.window.selection()->histories();
    QCOMPARE(histories[1]->steps().size(), 12);
    // The loss may still be equal: the weights differ by one unit in the last place.
    QCOMPARE(w.window.session()->config(1).seed, w.window.session()->config(0).seed);
    QVERIFY(w.window.session()->config(1).perturbation != w.window.session()->config(0).perturbation);
    QVERIFY(is_noise_twin(w.window.session()->config(0), w.window.session()->config(1)));
    QTRY_VERIFY(w.chip("N") && w.chip("N")->isVisible());
    QVERIFY(!w.chip("B"));
  }

  void aChipMakesItsRunActiveAndLiveChangesActOnIt() {
    CompareWindow w;
    w.trainTo(2);
    w.addFormat("mxfp8_floor");
    w.waitFor(2);
    QTRY_VERIFY(w.chip("B") && w.chip("B")->isVisible());
    QTest::mouseClick(w.chip("B"), Qt::LeftButton);
    QCOMPARE(w.window.selection()->run(), 1);
    QVERIFY(w.chip("B")->isChecked());
    // The timeline has the loss of B, in the colour of B.
    QWidget* track = w.window.workspaces()->timeline()->track();
    const auto draws = [track](int run) {
      const QImage picture = track->grab().toImage();
      const QRgb color = seriesColor(run, isDark(track->palette())).rgb();
      for (int y = 0; y < picture.height(); ++y)
        for (int x = 0; x < picture.width(); ++x)
          if (picture.pixel(x, y) == color) return true;
      return false;
    };
    QTRY_VERIFY(draws(1) && !draws(0));
    const double rate_of_a = w.window.session()->config(0).optimizer.lr;
    auto* line = w.window.findChild<SetupForm*>()->editor("optimizer.lr")->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, "0.0005");
    QTest::keyClick(line, Qt::Key_Return);
    QCOMPARE(w.window.session()->config(1).optimizer.lr, 0.0005);
    QCOMPARE(w.window.session()->config(0).optimizer.lr, rate_of_a);
    QTest::keyClick(&w.window, Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(w.window.session()->config(1).optimizer.lr, rate_of_a);
  }

  void aRunIsRemoved() {
    CompareWindow w;
    w.addFormat("mxfp8_rceil");
    w.addFormat("mxfp8_floor");
    QCOMPARE(w.window.selection()->histories().size(), 3u);
    QAction* remove = compareAction(w.chips(), "Remove run B");
    QVERIFY(remove);
    remove->trigger();
    QCOMPARE(w.window.selection()->histories().size(), 2u);
    QCOMPARE(to_string(find_field("precision.experts")->get(w.window.session()->config(1))),
             std::string("mxfp8_floor"));
    w.trainTo(2);
    QCOMPARE(w.window.selection()->histories()[1]->steps().size(), 2);
  }

  void aSixthRunIsRefused() {
    CompareWindow w;
    w.addFormat("mxfp8_rceil");
    w.addFormat("mxfp8_floor");
    w.addTwin(noise_twin(w.window.session()->config()));
    QVERIFY(compareAction(w.chips(), "Noise twin")->isEnabled());
    w.addTwin(perturbed_twin(w.window.session()->config()));
    QVERIFY(!compareAction(w.chips(), "Noise twin")->isEnabled());
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.addFormat("bf16");
    QCOMPARE(failed.size(), 1);
    QCOMPARE(w.window.selection()->histories().size(), 5u);
  }

  void theDialogMakesATwinOfAnySetting() {
    CompareWindow w;
    w.trainTo(3);
    QTest::keyClick(&w.window, Qt::Key_C);
    auto* dialog = w.window.findChild<CompareDialog*>("compare_dialog");
    QVERIFY(dialog);
    choose(dialog, "Setting", "optimizer.lr");
    auto* ok = dialog->findChild<QPushButton*>();
    for (QPushButton* button : dialog->findChildren<QPushButton*>())
      if (button->text() == "Train the twin") ok = button;
    QVERIFY(!ok->isEnabled());  // the value is still that of run A
    auto* line = dialog->findChild<FieldEditor*>()->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, "0.001");
    QVERIFY(ok->isEnabled());
    QTest::mouseClick(ok, Qt::LeftButton);
    QCOMPARE(w.window.session()->histories().size(), 2u);
    QCOMPARE(w.window.session()->config(1).optimizer.lr, 0.001);
    w.waitFor(3);
  }

  void theDialogIsFinishedWithTabAndReturn() {
    for (const Setting setting :
         {Setting(&OptimizerConfig::lr), Setting(&PrecisionConfig::experts)}) {  // a number, a choice
      CompareDialog dialog(RunConfig{}, setting);
      dialog.setAttribute(Qt::WA_DeleteOnClose, false);
      QSignalSpy twin_requests(&dialog, &CompareDialog::twinRequested);
      dialog.show();
      QVERIFY(QTest::qWaitForWindowActive(&dialog));
      auto* editor = dialog.findChild<FieldEditor*>()->focusProxy();
      dialog.findChild<QComboBox*>()->setFocus();
      QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
      QCOMPARE(QApplication::focusWidget(), editor);
      if (auto* line = qobject_cast<QLineEdit*>(editor)) {
        line->selectAll();
        QTest::keyClicks(line, "0.001");
      } else {
        QTest::keyClick(editor, Qt::Key_Down);
      }
      QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
      auto* ok = qobject_cast<QPushButton*>(QApplication::focusWidget());
      QVERIFY2(ok && ok->text() == "Train the twin", setting.key().c_str());
      editor->setFocus();
      QTest::keyClick(editor, Qt::Key_Return);
      QCOMPARE(twin_requests.size(), 1);
    }
  }

  // The context menu of a setting's label offers values, each of which adds a twin with one click.
  void everySettingOffersTwinsInOneClick() {
    CompareWindow w;
    for (const ConfigField& field : config_fields()) {
      const ConfigValue value_now = field.get(w.window.session()->config());
      for (const ConfigValue& value : twinValues(field, value_now)) {
        QVERIFY2(value != value_now && check_field(field, value).empty(), field.key.c_str());
      }
      if (field.choices.empty()) continue;
      QCOMPARE(twinValues(field, value_now).size(), field.choices.size() - 1);
    }
    const auto choose = [&](const char* key, const char* text) {
      QMenu menu;
      auto* form = w.window.findChild<SetupForm*>();
      const ConfigField& field = form->editor(key)->field();
      fillTwinMenu(&menu, field,
                   {.present = [&] { return field.get(w.window.session()->config()); },
                    .possible = [] { return true; },
                    .chosen = [&](const ConfigValue& value) { emit form->valueTwinRequested(field, value); },
                    .other = [] {}});
      for (QAction* action : menu.actions())
        if (action->text().trimmed() == text) return action->trigger();
      QFAIL(text);
    };
    choose("precision.router_gate", "MXFP4");
    choose("optimizer.lr", "0.002");
    choose("precision.hadamard", "true");
    QCOMPARE(w.window.session()->histories().size(), 4u);
    QCOMPARE(w.window.session()->config(1).precision.router_gate, Recipe::mxfp4);
    QCOMPARE(w.window.session()->config(2).optimizer.lr, 0.002);
    QVERIFY(w.window.session()->config(3).precision.hadamard);
  }

  void severalSeedsAreAddedInOneClick() {
    CompareWindow w;
    QMenu menu;
    emit w.chips()->menuWanted(&menu);
    const auto actions = menu.actions();
    const auto seeds = std::ranges::find_if(
        actions, [](const QAction* action) { return action->text() == "Other &seeds: run A 3 times more"; });
    QVERIFY(seeds != actions.end());
    (*seeds)->trigger();
    QCOMPARE(w.window.session()->histories().size(), 4u);
    for (int place = 1; place < 4; ++place) {
      QCOMPARE(w.window.session()->config(place).seed, w.window.session()->config().seed + place);
      QCOMPARE(run_letter(w.window.selection()->noiseTwins(), place).front(), 'N');
    }
    emit w.chips()->menuWanted(&menu);  // there is room for one more run
    QCOMPARE(std::ranges::count_if(menu.actions(),
                                   [](const QAction* action) { return action->text().contains("run A once more"); }),
             1);
  }

  void aChipOffersItsRunAsTheBaseline() {
    CompareWindow w;
    w.addFormat("mxfp8_rceil");
    w.addFormat("mxfp4");
    emit w.chips()->chipMenuWanted(1, QPoint(0, 0));
    auto* menu = w.chips()->findChild<QMenu*>(QString(), Qt::FindDirectChildrenOnly);
    QVERIFY(menu);
    QCOMPARE(menu->actions().front()->text(), QString("Compare the others with &B"));
    menu->actions().front()->trigger();
    menu->close();
    QCOMPARE(w.window.workspaces()->compare()->judged()->baseline(), 1);
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
  }

  void resetStartsAllRunsOver() {
    CompareWindow w;
    w.addFormat("mxfp8_floor");
    w.trainTo(2);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    QTest::keyClick(&w.window, Qt::Key_R, Qt::ControlModifier);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.window.selection()->histories().size(), 2u);
    QCOMPARE(w.live()->status().step, 0);
  }
};

SCREEN_TEST(TwinsTest)
#include "qt_twins.moc"
