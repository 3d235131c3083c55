// Actions of the window on a run in training: experts, router, mixture of domains, checkpoints.
#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QSettings>
#include <QSignalSpy>
#include <QSlider>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/checkpoint_actions.h"
#include "app/actions/compare_actions.h"
#include "app/actions/live_settings.h"
#include "app/actions/run_control.h"
#include "app/docks/side_docks.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "tests/support/takes_keys.h"
#include "widgets/overview/timeline_bar.h"

using namespace moescope;

namespace {

// A shown window with a nano run that has taken 12 steps, with a checkpoint every 5 steps.
struct Trained {
  MainWindow window{false};

  Trained() {
    window.runControl()->setRecorded(false);
    window.show();
    if (!QTest::qWaitForWindowExposed(&window)) qFatal("no window");
    RunConfig config = load_preset("nano").config;
    config.telemetry.checkpoint_every = 5;
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(config, RunControl::Start::paused);
    if (opened.isEmpty() && !opened.wait(kWaitMs)) qFatal("no run");
    if (!takesKeys(&window)) qFatal("no keys");
    trainTo(12);
  }
  LiveRuns* live() { return window.session()->live(); }
  void trainTo(std::int64_t step) {
    live()->run_until(step);
    QTRY_VERIFY_WITH_TIMEOUT(!live()->status().running && live()->status().step == step, kWaitMs);
    live()->flush();
    window.selection()->refresh();
  }
  RouterConfig router() { return live()->config(0).router; }
  void key(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) { QTest::keyClick(&window, key, modifiers); }
};

}  // namespace

class ActionsTest : public QObject {
  Q_OBJECT

 private slots:
  void expertIsKilledAndRevivedByKeyAndUndone() {
    Trained t;
    t.window.selection()->setLayer(2);
    t.window.selection()->setExpert(3);
    t.key(Qt::Key_K);  // no letter alone changes a training
    QCOMPARE(t.router().killed_experts, std::string());
    t.key(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
    QCOMPARE(t.router().killed_experts, std::string("2:3"));
    t.trainTo(14);
    const auto frame = t.window.session()->histories()[0]->frame_at(13);
    for (const RouterFrame& router : frame->routers)
      if (router.layer == 2) QCOMPARE(router.tokens_per_expert[3], 0u);
    t.key(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
    QCOMPARE(t.router().killed_experts, std::string());
    t.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(t.router().killed_experts, std::string("2:3"));
    t.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(t.router().killed_experts, std::string());
  }

  // One undo takes back all settings of a published recipe, also settings that are valid only together.
  void aPublishedRecipeIsOneChange() {
    Trained t;
    const auto precision = [&] { return t.live()->config(0).precision; };
    auto* form = t.window.findChild<SetupForm*>();
    const auto choose = [&](const char* recipe) {
      emit form->liveChangeRequested(*find_field("precision.published_recipe"), std::string(recipe));
    };
    choose("nvfp4_4over6");
    QCOMPARE(published_recipe_of(precision()), std::string("nvfp4_4over6"));
    choose("mxfp8_nvidia");
    QCOMPARE(published_recipe_of(precision()), std::string("mxfp8_nvidia"));
    QCOMPARE(form->editor("precision.attention")->value(), ConfigValue(std::string("mxfp8_rceil")));
    t.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(published_recipe_of(precision()), std::string("nvfp4_4over6"));
    t.key(Qt::Key_Z, Qt::ControlModifier);
    QVERIFY(precision() == load_preset("nano").config.precision);
    choose("own");
    QVERIFY(precision() == load_preset("nano").config.precision);
    t.trainTo(14);
  }

  void expertMenuOffersWhatFits() {
    Trained t;
    RouterActions* actions = t.window.findChild<RouterActions*>();
    actions->pin(1, 2, 0.5);
    actions->kill(1, 2);
    QMenu menu;
    actions->addActionsTo(&menu, 1, 2);
    QStringList texts;
    for (QAction* action : menu.actions()) texts << action->text();
    QCOMPARE(texts, (QStringList{"&Revive expert 2 of layer 1", "&Pin the bias of expert 2 of layer 1...",
                                 "Re&lease the bias (pinned at 0.5)"}));
    menu.actions()[2]->trigger();
    menu.actions()[0]->trigger();
    QCOMPARE(t.router().pinned_bias, std::string());
    QCOMPARE(t.router().killed_experts, std::string());
    QMenu nothing;
    actions->addActionsTo(&nothing, 0, 2);  // a dense layer
    QVERIFY(!nothing.actions()[0]->isEnabled());
  }

  void tooManyKilledAreRefusedWithTheReason() {
    Trained t;
    const int experts = t.live()->config(0).model.n_experts;
    for (int e = 0; e < experts; ++e) t.window.findChild<RouterActions*>()->kill(2, e);
    const RunConfig config = t.live()->config(0);
    QVERIFY(validate(config).empty());
    QVERIFY(!config.router.killed_experts.empty());
  }

  void routerFreezesByKeyAndFieldsOfTheDockChangeTheRun() {
    Trained t;
    t.key(Qt::Key_F3);
    QVERIFY(t.window.findChild<ActionsDock*>()->isVisible());
    t.key(Qt::Key_F, Qt::ControlModifier | Qt::ShiftModifier);
    QVERIFY(t.router().frozen);
    auto* line = t.window.findChild<ActionsDock*>()->editor(&RouterConfig::gate_noise)->findChild<QLineEdit*>();
    line->setFocus();
    line->selectAll();
    QTest::keyClicks(line, "0.25");
    QTest::keyClick(line, Qt::Key_Return);
    QCOMPARE(t.router().gate_noise, 0.25);
  }

  void sliderSetsTheMixtureOfAllRuns() {
    Trained t;
    t.window.findChild<CompareActions*>()->addTwin(noise_twin(t.live()->config(0)));
    MixtureEditor* mixture = t.window.findChild<MixtureEditor*>();
    const auto& domains = t.window.session()->histories()[0]->info().domains;
    QVERIFY(domains.size() > 3);
    mixture->findChild<QSlider*>()->setValue(0);
    const std::string text = t.live()->config(0).data.mixture;
    QVERIFY(!text.empty());
    QVERIFY(text.find(domains[0] + "=") == std::string::npos);
    QCOMPARE(t.live()->config(1).data.mixture, text);
    t.key(Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(t.live()->config(1).data.mixture, std::string());
    const auto sliders = mixture->findChildren<QSlider*>();
    QCOMPARE(sliders[0]->value(), sliders[1]->value());
  }

  void cursorsCheckpointIsRewoundToByKey() {
    Trained t;
    t.window.selection()->setStep(8);
    t.key(Qt::Key_Backspace, Qt::ControlModifier);
    t.live()->flush();
    QCOMPARE(t.live()->status().step, std::int64_t{5});
    QCOMPARE(t.window.session()->histories()[0]->steps().last, std::int64_t{4});
    QVERIFY(!t.window.findChild<QUndoStack*>()->canUndo());
    t.trainTo(7);
  }

  void theMenuOfAStepRewindsToTheNearestCheckpoint() {
    Trained t;
    auto* actions = t.window.findChild<CheckpointActions*>();
    QMenu menu;
    actions->addActionsTo(&menu, 6);
    QAction* rewind = menu.actions().value(0);
    QCOMPARE(rewind->text().remove('&'), QString("Rewind to step 5 (deletes 7 steps)"));
    QSignalSpy went_back(actions, &CheckpointActions::wentBack);
    rewind->trigger();
    QCOMPARE(went_back.size(), 1);
    t.live()->flush();
    QCOMPARE(t.live()->status().step, std::int64_t{5});
  }

  void branchTrainsATwinFromTheCheckpoint() {
    Trained t;
    t.window.selection()->setStep(8);
    t.key(Qt::Key_B, Qt::ControlModifier);
    auto* dialog = t.window.findChild<CompareDialog*>("compare_dialog");
    QVERIFY(dialog);
    QCOMPARE(dialog->windowTitle(), QString("Branch off from step 5"));
    choose(dialog, "Setting", "router.force_balance");
    auto* box = dialog->findChild<FieldEditor*>()->findChild<QCheckBox*>();
    QVERIFY(box);
    QTest::keyClick(box, Qt::Key_Space);
    for (QPushButton* button : dialog->findChildren<QPushButton*>())
      if (button->text() == "Train the twin") button->click();
    QTRY_COMPARE_WITH_TIMEOUT(t.window.session()->histories().size(), std::size_t{2}, kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(t.live()->status().catching_up.empty(), kWaitMs);
    t.live()->flush();
    QCOMPARE(t.window.session()->histories()[1]->steps(), (StepRange{5, 11}));
    QVERIFY(t.live()->config(1).router.force_balance);
  }

  void timelineAsksForTheMenuByMouseAndKey() {
    Trained t;
    auto* track = t.window.findChild<TimelineTrack*>();
    track->setCheckpoints({0, 5, 10});
    track->grab();
    disconnect(track, &TimelineTrack::menuRequested, nullptr, nullptr);
    QSignalSpy menu_requests(track, &TimelineTrack::menuRequested);
    const QPoint at(track->xOf(5), 8);
    QContextMenuEvent mouse(QContextMenuEvent::Mouse, at, track->mapToGlobal(at));
    QCoreApplication::sendEvent(track, &mouse);
    QContextMenuEvent key(QContextMenuEvent::Keyboard, QPoint(), track->mapToGlobal(QPoint()));
    QCoreApplication::sendEvent(track, &key);
    QCOMPARE(menu_requests.size(), 2);
    QCOMPARE(menu_requests[0][1].toLongLong(), 5);
    QCOMPARE(menu_requests[1][1].toLongLong(), t.window.selection()->step());
  }
};

SCREEN_TEST(ActionsTest)
#include "qt_actions.moc"
