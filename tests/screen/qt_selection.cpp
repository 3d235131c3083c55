// Selection: values are clamped, it follows the newest step, and it sends signals only after real changes.
#include <QSignalSpy>
#include <QTest>

#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/selection/selection.h"

using namespace moescope;

namespace {

struct Spies {
  explicit Spies(Selection* selection)
      : data(selection, &Selection::dataChanged),
        time(selection, &Selection::timeChanged),
        focus(selection, &Selection::focusChanged),
        linked(selection, &Selection::hoverStepChanged) {}
  QSignalSpy data, time, focus, linked;
};

}  // namespace

class SelectionTest : public QObject {
  Q_OBJECT

 private slots:
  void emptySelectionAnswersAndIgnores() {
    Selection selection;
    QCOMPARE(selection.history(), nullptr);
    selection.setStep(7);
    selection.setRange({3, 9});
    selection.fitRange();
    selection.setFollowing(false);
    selection.setFollowing(true);
    selection.refresh();
    QCOMPARE(selection.step(), 0);
    QVERIFY(selection.range().empty());
    QCOMPARE(selection.frame(), nullptr);
  }

  void aRunOpensOnItsNewestStepWithAllSteps() {
    SyntheticRun run({});
    run.append(50);
    Selection selection;
    Spies spies(&selection);
    selection.setHistories({run.history()});
    QCOMPARE(selection.step(), 49);
    QCOMPARE(selection.range(), (StepRange{0, 49}));
    QVERIFY(selection.following());
    QCOMPARE(selection.layer(), 1);  // layer 0 is dense
    QCOMPARE(spies.data.count(), 1);
  }

  void otherRunsAreShownAtTheCursorOrAtTheirLastStep() {
    SyntheticRun a({}), b({});
    a.append(50);
    b.append(80);
    Selection selection;
    selection.setHistories({a.history(), b.history()});
    for (const int place : {0, 1}) QCOMPARE(selection.frameOf(place)->step, 49);
    selection.setRun(1);
    QCOMPARE(selection.frameOf(0)->step, 49);
    QCOMPARE(selection.frameOf(1)->step, 79);
    selection.setStep(30);
    for (const int place : {0, 1}) QCOMPARE(selection.frameOf(place)->step, 30);
  }

  void theCursorStandsOnALoggedStep() {
    const auto log = std::make_shared<History>(RunInfo{});
    for (const std::int64_t step : {0, 20, 40, 100}) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      log->append(std::move(frame));
    }
    Selection selection;
    selection.setHistories({log});
    for (const auto& [step, nearest] : {std::pair{22, 20}, {31, 40}, {30, 20}, {69, 40}, {71, 100}, {-5, 0}, {7, 0}}) {
      selection.setStep(step);
      QCOMPARE(selection.step(), nearest);
      QCOMPARE(selection.following(), nearest == 100);
    }
    for (const auto& [steps, reached] : {std::pair{1, 20}, {1, 40}, {1, 100}, {1, 100}, {-1, 40}, {-15, 20}, {-1, 0}}) {
      selection.moveStep(steps);
      QCOMPARE(selection.step(), reached);
    }
  }

  void newStepsAreFollowedWithOneSignal() {
    SyntheticRun run({});
    run.append(50);
    Selection selection;
    selection.setHistories({run.history()});
    Spies spies(&selection);
    selection.refresh();
    QCOMPARE(spies.data.count() + spies.time.count(), 0);
    run.append(5);
    selection.refresh();
    QCOMPARE(spies.data.count(), 1);
    QCOMPARE(spies.time.count(), 1);
    QCOMPARE(selection.step(), 54);
    QCOMPARE(selection.range(), (StepRange{0, 54}));
    QCOMPARE(selection.frame()->step, 54);
  }

  void scrubbingBackLeavesFollowModeAndTheNewestStepDoesNot() {
    SyntheticRun run({});
    run.append(50);
    Selection selection;
    selection.setHistories({run.history()});
    Spies spies(&selection);
    selection.setStep(20);
    QVERIFY(!selection.following());
    QCOMPARE(spies.time.count(), 1);
    selection.setStep(20);
    QCOMPARE(spies.time.count(), 1);
    QCOMPARE(selection.frame()->step, 20);
    run.append(5);
    selection.refresh();
    QCOMPARE(selection.step(), 20);                   // the cursor stays
    QCOMPARE(selection.range(), (StepRange{0, 54}));  // the range still covers the whole run
    selection.setStep(1000);
    QCOMPARE(selection.step(), 54);
    QVERIFY(selection.following());
  }

  void zoomedRangeSlidesWhileFollowingAndStaysOtherwise() {
    SyntheticRun run({});
    run.append(100);
    Selection selection;
    selection.setHistories({run.history()});
    selection.setRange({60, 99});
    QVERIFY(selection.following());
    run.append(10);
    selection.refresh();
    QCOMPARE(selection.range(), (StepRange{70, 109}));
    selection.setRange({10, 30});
    QVERIFY(!selection.following());
    run.append(10);
    selection.refresh();
    QCOMPARE(selection.range(), (StepRange{10, 30}));
    selection.setFollowing(true);
    QCOMPARE(selection.range(), (StepRange{99, 119}));
    QCOMPARE(selection.step(), 119);
    selection.fitRange();
    QCOMPARE(selection.range(), (StepRange{0, 119}));
  }

  void valuesOutsideTheirRangeAreClamped() {
    SyntheticRun run({});
    run.append(10);
    Selection selection;
    selection.setHistories({run.history()});
    selection.setRange({-100, 5});
    QCOMPARE(selection.range(), (StepRange{0, 5}));
    selection.setRange({8, 2});
    QCOMPARE(selection.range(), (StepRange{8, 8}));
    selection.setLayer(0);
    QCOMPARE(selection.layer(), 1);
    selection.setLayer(99);
    QCOMPARE(selection.layer(), 4);
    selection.setExpert(99);
    QCOMPARE(selection.expert(), 15);
    selection.setExpert(-9);
    QCOMPARE(selection.expert(), -1);
    selection.setStep(-3);
    QCOMPARE(selection.step(), 0);
  }

  void focusAndHoverSignalOnlyRealChanges() {
    SyntheticRun run({});
    run.append(10);
    Selection selection;
    selection.setHistories({run.history()});
    Spies spies(&selection);
    selection.setLayer(selection.layer());
    selection.setExpert(-1);
    selection.setTensor(selection.tensor());
    selection.setHoverStep(-1);
    QCOMPARE(spies.focus.count() + spies.linked.count(), 0);
    selection.setLayer(3);
    selection.setExpert(4);
    selection.setTensor({3, Gemm::expert_w2, OperandRole::dy, Direction::wgrad});
    selection.setHoverStep(4);
    QCOMPARE(spies.focus.count(), 3);
    QCOMPARE(spies.linked.count(), 1);
  }

  void aResetRunPullsCursorAndRangeBack() {
    SyntheticRun run({});
    run.append(100);
    Selection selection;
    selection.setHistories({run.history()});
    selection.setRange({50, 80});
    selection.setStep(70);
    run.restartAt(0);
    run.append(5);
    selection.refresh();
    QVERIFY(selection.step() <= 4);
    QVERIFY(selection.range().last <= 4);
    QVERIFY(selection.frame()->step <= 4);
  }

  void anotherRunKeepsWhatItCan() {
    SyntheticRun small({.layers = 3, .experts = 8});
    SyntheticRun large({});
    small.append(10);
    large.append(30);
    Selection selection;
    selection.setHistories({large.history(), small.history()});
    selection.setLayer(4);
    selection.setExpert(12);
    selection.setRun(1);
    QCOMPARE(selection.layer(), 2);
    QCOMPARE(selection.expert(), -1);
    QCOMPARE(selection.step(), 9);
    selection.setRun(7);
    QCOMPARE(selection.run(), 1);
    selection.setHistories({});
    QCOMPARE(selection.history(), nullptr);
    QVERIFY(selection.range().empty());
  }
};

SCREEN_TEST(SelectionTest)
#include "qt_selection.moc"
