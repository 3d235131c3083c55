// Verdicts on trained runs: the loss that they judge, what they need, and the noise twins that show what chance does.
#include <QComboBox>
#include <QPushButton>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/file_actions.h"
#include "app/export/export_actions.h"
#include "app/export/report.h"
#include "core/config/config_difference.h"
#include "tests/support/compare_window.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/loss_gap_panel.h"

using namespace moescope;

class VerdictsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

  // The strip, the row of B and the answer of Loss gap.
  QStringList verdictTexts(CompareWindow& w, bool goes_on) {
    w.window.workspaces()->bringUp("compare");
    w.panel<VerdictsPanel>()->restoreState({{"matters", 0.5}});
    const QString word = goes_on ? "So far: good enough" : "Good enough";
    [&] { QTRY_COMPARE_WITH_TIMEOUT(w.strip()->text(), word + ": B MXFP8, scales rounded down", kWaitMs); }();
    const auto& h = w.window.selection()->histories();
    const PairedRun twins[] = {{h[2]}};
    const Conclusion by_losses = conclude(h[0], {h[1]}, twins, {.matters = 0.5});
    [&] { QCOMPARE(QString::fromStdString(verdict_name(by_losses)), word); }();
    [&] { QTRY_VERIFY(!w.answer<LossGapPanel>().isEmpty()); }();
    const VerdictRow row = w.row(1);
    return QStringList{w.strip()->text(), row.verdict, row.figures[VerdictRow::kGap].text,
                       row.figures[VerdictRow::kGap].below, w.answer<LossGapPanel>()} +
           row.reasons;
  }

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void theVerdictOffersTheTwinThatItNeeds() {
    CompareWindow w;
    w.addFormat("mxfp4");
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Not judged: B MXFP4"));
    QCOMPARE(w.reason(1), QStringLiteral("no noise twin to compare with"));
    // The gap is shown without an interval, and no sentence on the band is without the reason.
    QVERIFY(w.row(1).figures[VerdictRow::kGap].text.contains(QRegularExpression("\\d")));
    QCOMPARE(w.row(1).figures[VerdictRow::kGap].below, QStringLiteral("unknown"));
    const QString band = w.answer<LossGapPanel>();
    QVERIFY2(!band.contains("out") || band.contains("(not judged: no noise twin"), qPrintable(band));
    auto* add = w.strip()->findChild<QPushButton*>();
    QTRY_VERIFY(add->isVisible());
    QCOMPARE(add->text(), QStringLiteral("+ Noise twin"));
    QVERIFY2(w.strip()->settlementText().startsWith("A noise twin of A"), qPrintable(w.strip()->settlementText()));
    QTest::mouseClick(add, Qt::LeftButton);
    QCOMPARE(w.window.selection()->histories().size(), 3u);
    QCOMPARE(w.window.session()->config(2).perturbation, 1);
    QCOMPARE(w.window.session()->config(2).seed, w.window.session()->config(0).seed);
    w.waitFor(60);
    const auto& h = w.window.selection()->histories();
    const PairedRun twins[] = {{h[2]}};
    const Conclusion found = conclude(h[0], {h[1]}, twins);
    QCOMPARE(found.twins, 1);
    QCOMPARE(*w.row(1).word, verdict_word(found));
    QCOMPARE(w.row(2).note, QStringLiteral("noise twin: A, weights perturbed"));
    // The row also has the costs of the number formats.
    const auto quantized = h[1]->quant_frame_at(59);
    QVERIFY(quantized);
    for (const auto column : {VerdictRow::kSqnr, VerdictRow::kFlushed, VerdictRow::kFlips, VerdictRow::kGradient})
      QVERIFY(w.row(1).figures[column].text.contains(QRegularExpression("\\d")));
    QVERIFY(w.row(1).figures[VerdictRow::kFlushed].bad);
    // A second noise twin starts from other perturbed weights, not from the same.
    QTest::keyClick(&w.window, Qt::Key_N, Qt::ControlModifier | Qt::ShiftModifier);
    QCOMPARE(w.window.session()->config(3).perturbation, 2);
    QTest::keyClick(&w.window, Qt::Key_N, Qt::ControlModifier | Qt::ShiftModifier);
    QCOMPARE(w.window.session()->config(4).perturbation, 3);
    QCOMPARE(w.row(4).letter, QStringLiteral("N3"));
    QTRY_VERIFY(!add->isVisible() || add->text().startsWith("Train to step"));  // five runs are open
    QTest::keyClick(&w.window, Qt::Key_5, Qt::AltModifier);
    QCOMPARE(w.window.selection()->run(), 4);
  }

  // All cells of a row, and the line above, are those of the step of the cursor.
  void aRowIsOfTheStepOfTheCursor() {
    CompareWindow w;
    w.addFormat("mxfp4");
    w.addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(90);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    const auto& h = w.window.selection()->histories();
    const PairedRun twins[] = {{.run = h[2], .same_start = false}};
    w.window.selection()->setStep(60);
    const Conclusion earlier = conclude(h[0], {h[1]}, twins, {.last_step = 60});
    QTRY_COMPARE(w.row(1).gap, earlier.gap);
    QCOMPARE(earlier.steps.last, 60);
    QCOMPARE(*w.row(1).word, verdict_word(earlier));
    QCOMPARE(w.row(1).figures[VerdictRow::kFlushed].text, formatPercent(format_costs(*h[1], 60).flushed));
    QVERIFY2(w.strip()->settlementText().contains("step 60"), qPrintable(w.strip()->settlementText()));
    w.window.selection()->setFollowing(true);
    QTRY_VERIFY(w.row(1).gap != earlier.gap);
    QVERIFY(!w.strip()->settlementText().contains("step 60"));
  }

  // A perturbed run in FP32 stays close to run A for hundreds of steps, while a run in MXFP4 drifts immediately.
  void noIntervalIsShownBeforeTheTwinsHaveDriftedApart() {
    CompareWindow w;
    w.addFormat("mxfp4");
    w.addTwin(perturbed_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Too early to tell: B MXFP4"));
    QVERIFY2(w.reason(1).startsWith("in about "), qPrintable(w.reason(1)));
    QCOMPARE(w.row(1).figures[VerdictRow::kGap].below, QStringLiteral("unknown"));
  }

  // The settings determine the loss, so that nobody chooses it after having seen both results.
  void theValidationLossDecidesWhereItIsMeasured() {
    RunConfig config = comparedNano();
    config.telemetry.validation_every = 5;
    CompareWindow w(config);
    w.addFormat("mxfp4");
    w.addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QVERIFY(w.row(1).figures[VerdictRow::kGap].tip.startsWith("validation loss"));
    QCOMPARE(control<QComboBox>(w.panel<VerdictsPanel>(), "Judged loss")->currentText(),
             QStringLiteral("validation loss"));
    QVERIFY(w.panel<LossGapPanel>()->csv().contains("mean validation loss of the judged steps"));
    w.window.workspaces()->compare()->judged()->setLoss(JudgedRuns::Loss::training);
    QVERIFY(w.row(1).figures[VerdictRow::kGap].tip.startsWith("training loss"));
  }

  // The user may set the gap that matters.
  void aLargerGapThatMattersIsSoonExcluded() {
    RunConfig config = comparedNano();
    config.precision.experts = Recipe::mxfp8_rceil;  // so that its noise twin drifts immediately
    CompareWindow w(config);
    w.addFormat("mxfp8_floor");
    w.addTwin(perturbed_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    w.panel<VerdictsPanel>()->restoreState({{"matters", 0.5}});
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("So far: good enough: B MXFP8, scales rounded down"));
    QCOMPARE(w.reason(1), QStringLiteral("inside the band"));
    QCOMPARE(control<QComboBox>(w.panel<VerdictsPanel>(), "Gap that matters")->currentText(),
             QStringLiteral("50 % matters"));
  }

  // Before the end of the schedule, at the end, and after further steps, a recording has the verdicts that its training
  // had, in the same words; so has a judgement that knows the losses alone, as that of the command line.
  void aRecordingHasTheVerdictsOfItsTraining() {
    RunConfig config = comparedNano();
    config.precision.experts = Recipe::mxfp8_rceil;
    config.optimizer.total_steps = 70;
    for (const std::int64_t last_step : {60, 70, 80}) {
      QStringList trained;
      QString recording;
      {
        CompareWindow w;
        w.window.runControl()->setRecorded(true);
        QSignalSpy opened(w.window.session(), &RunSession::opened);
        w.window.runControl()->start(config, RunControl::Start::paused);
        QVERIFY(opened.wait(kWaitMs));
        w.addFormat("mxfp8_floor");
        w.addTwin(perturbed_twin(config));
        w.trainTo(last_step);
        trained = verdictTexts(w, last_step < 70);
        recording = w.window.session()->path();
      }
      CompareWindow w;
      QSignalSpy opened(w.window.session(), &RunSession::opened);
      w.window.files()->open({recording});
      QVERIFY(opened.wait(kWaitMs));
      QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->histories().size(), 3u, kWaitMs);
      QCOMPARE(verdictTexts(w, last_step < 70), trained);
    }
  }

  // One click trains the same runs with three more seeds, and the line then has the verdicts on the mean gaps.
  void severalSeedsAreOneClick() {
    RunConfig config = comparedNano();
    config.precision.experts = Recipe::mxfp8_rceil;
    config.router.force_balance = true;
    config.optimizer.total_steps = 70;
    CompareWindow w;
    w.window.runControl()->setRecorded(true);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->start(config, RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    w.addFormat("mxfp4");
    w.addTwin(perturbed_twin(w.window.session()->config()));
    w.trainTo(70);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    auto* more = w.strip()->findChild<QPushButton*>();
    QTRY_COMPARE(more->text(), QStringLiteral("Train 3 more seeds"));
    JudgedRuns* judged = w.window.workspaces()->compare()->judged();
    const float gap = judged->conclusion(1).gap;
    QTest::mouseClick(more, Qt::LeftButton);
    // While a seed trains, the line and the rows have the verdicts of the seeds before.
    QTRY_VERIFY_WITH_TIMEOUT(w.strip()->settlementText().startsWith("Verdicts of "), kWaitMs);
    QVERIFY2(w.row(1).reasons.value(0).contains(" before: "), qPrintable(w.row(1).reasons.value(0)));
    QTRY_COMPARE_WITH_TIMEOUT(judged->seeds().size(), 3u, 4 * kWaitMs);
    w.waitFor(70);
    QTRY_VERIFY2(w.strip()->settlementText().contains("4 seeds"), qPrintable(w.strip()->settlementText()));
    QVERIFY2(w.strip()->settlementText().contains("70 steps each"), qPrintable(w.strip()->settlementText()));
    QCOMPARE(w.window.session()->config(2).seed, config.seed + 3);
    QCOMPARE(judged->seeds().front().front().gap, gap);
    QVERIFY(judged->seeds()[1].front().gap != judged->seeds()[0].front().gap);
    // All parts of the page, and the report, have the mean over the seeds; further steps of the last seed do not count.
    float sum = 0;
    for (const auto& seed : judged->seeds()) sum += seed.front().gap;
    const float mean = (sum + w.window.workspaces()->compare()->judged()->openSeed().front().gap) / 4;
    const auto agrees = [&](const char* when) {
      QVERIFY2(std::abs(w.row(1).gap - mean) < 1e-6f, when);
      const QString text = gapText(judged->conclusion(1)), seeds = "4 seeds";
      QVERIFY2(w.answer<LossGapPanel>().contains(text), qPrintable(w.answer<LossGapPanel>()));
      for (const QString& page : {w.panel<VerdictsPanel>()->csv(), w.panel<LossGapPanel>()->csv(),
                                  QString::fromUtf8(report(w.window.exports()->reportSource()))})
        QVERIFY2(page.contains(seeds, Qt::CaseInsensitive), when);
      QVERIFY2(report(w.window.exports()->reportSource()).contains(text.toHtmlEscaped().toUtf8()), when);
    };
    agrees("at the end");
    QCOMPARE(report(w.window.exports()->reportSource()).count("How to read \"Quantization error\""), 1);
    judged->setGoal(80);  // as while the steps train
    QVERIFY(judged->update().isEmpty() && judged->isOverSeeds());
    w.trainTo(80);
    QTRY_VERIFY(judged->isOverSeeds());
    agrees("after further steps");
    const QString recording = w.window.session()->path();
    w.window.session()->live()->flush();
    CompareWindow reopened;
    QSignalSpy is_open(reopened.window.session(), &RunSession::opened);
    reopened.window.files()->open({recording});
    QVERIFY(is_open.wait(kWaitMs));
    QVERIFY(reopened.window.workspaces()->bringUp("compare"));
    QTRY_VERIFY(reopened.window.workspaces()->compare()->judged()->isOverSeeds());
    QVERIFY(std::abs(reopened.row(1).gap - mean) < 1e-6f);
    // Other runs have no earlier seeds.
    w.addFormat("mxfp8_floor");
    QTRY_VERIFY(judged->seeds().empty());
  }

  // After a live change of run A, even if it is undone, a noise twin counts up to the step before the change only.
  void aLiveChangeOfRunAEndsItsTwins() {
    CompareWindow w;
    w.addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(55);
    const auto change = [&](double lr) {
      QVERIFY(w.window.session()->change({.run = 0, .setting = &OptimizerConfig::lr, .value = lr}).isEmpty());
    };
    const double lr = w.window.session()->config().optimizer.lr;
    change(2 * lr);
    w.trainTo(58);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QCOMPARE(w.row(1).letter, QStringLiteral("B"));  // its settings differ, so it is no noise twin
    QVERIFY2(w.row(0).note.endsWith(" from step 55"), qPrintable(w.row(0).note));
    change(lr);
    w.trainTo(60);
    w.addFormat("mxfp8_floor");
    w.waitFor(60);
    QCOMPARE(w.row(1).note, QStringLiteral("noise twin: A with another seed, up to step 54"));
    QVERIFY2(w.row(0).note.endsWith("2 live changes"), qPrintable(w.row(0).note));
  }

  void fourCandidatesAndANoiseTwinAreJudged() {
    CompareWindow w;
    w.addFormat("mxfp8_rceil");
    w.addTwin(noise_twin(w.window.session()->config()));
    w.addFormat("mxfp8_floor");
    w.addFormat("mxfp4");
    w.trainTo(4);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QStringList letters;
    for (int place = 0; place < 5; ++place) letters << w.row(place).letter;
    QCOMPARE(letters, QStringList({"A", "B", "N", "C", "D"}));
    QCOMPARE(w.row(2).color, kNoiseSeries);
    QCOMPARE(w.row(3).color, 2);
    for (const QString& letter : letters) QVERIFY(w.chip(letter) && w.chip(letter)->isVisible());
    QTRY_COMPARE(
        w.strip()->text(),
        QStringLiteral("Too early to tell: B MXFP8, scales rounded up, C MXFP8, scales rounded down, D MXFP4"));
    QVERIFY2(w.strip()->settlementText().startsWith("Verdict in 46 steps"), qPrintable(w.strip()->settlementText()));

    // A click on a row chooses the active run.
    auto* table = w.panel<VerdictsPanel>()->verdictTable();
    QTest::mouseClick(table, Qt::LeftButton, {}, QPoint(100, table->heightFor(0) - 20 + 2 * 38));
    const int chosen = w.window.selection()->run();
    QVERIFY(chosen > 0);
    QTest::keyClick(table, Qt::Key_Down);
    QCOMPARE(w.window.selection()->run(), chosen + 1);
    QVERIFY2(table->valueText().contains(w.row(chosen + 1).name), qPrintable(table->valueText()));

    // Return makes it the baseline; then run A has a verdict, too.
    QTest::keyClick(table, Qt::Key_Down);
    QTest::keyClick(table, Qt::Key_Return);
    const int baseline = w.window.workspaces()->compare()->judged()->baseline();
    QCOMPARE(baseline, chosen + 2);
    QVERIFY(w.row(baseline).baseline && !w.row(baseline).word);
    QVERIFY(w.row(0).word);
    QTRY_VERIFY2(w.strip()->text().contains("A nano"), qPrintable(w.strip()->text()));
    QVERIFY(w.panel<LossGapPanel>()->csv().contains("A nano minus " + w.row(baseline).letter));
    auto* gaps = w.panel<LossGapPanel>()->findChild<GapPlot*>();
    gaps->grab();
    QVERIFY2(gaps->valueText().contains(QStringLiteral("N \u2212 A")), qPrintable(gaps->valueText()));
  }
};

SCREEN_TEST(VerdictsTest)
#include "qt_verdicts.moc"
