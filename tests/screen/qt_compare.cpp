// Runs side by side as a person sees them: panels on two real histories, twins made through the window.
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFile>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QRegularExpression>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTabBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "app/actions/compare_actions.h"
#include "app/actions/run_control.h"
#include "app/bars/run_chips.h"
#include "app/bars/window_bar.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/setup/twin_menu.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/comparison/operand_sqnr.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/frame/operand_costs.h"
#include "core/frame/router_stats.h"
#include "tests/support/controls.h"
#include "tests/support/takes_keys.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/compare/verdicts_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/axis.h"

using namespace moescope;

namespace {

constexpr int kWaitMs = 90000;

RunConfig nano() {
  RunConfig config = load_preset("nano").config;
  config.telemetry.flips_every = 2;
  config.telemetry.gradient_every = 5;
  config.telemetry.validation_every = 0;  // by the training loss there is a verdict after 50 steps
  return config;
}

// A shown window with a paused nano run.
struct OpenWindow {
  MainWindow window{false};

  explicit OpenWindow(const RunConfig& config = nano()) {
    window.runControl()->setRecorded(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(config, RunControl::Start::paused);
    if (opened.isEmpty() && !opened.wait(kWaitMs)) qFatal("no run");
    QVERIFY(takesKeys(&window));
  }
  LiveRuns* live() { return window.session()->live(); }
  QToolButton* chip(const QString& run) { return chips()->findChild<QToolButton*>("chip_" + run); }
  RunChips* chips() { return window.findChild<WindowBar*>()->chips(); }
  void trainTo(std::int64_t step) {
    live()->run_until(step);
    waitFor(step);
  }
  void waitFor(std::int64_t step) {
    QTRY_VERIFY_WITH_TIMEOUT(
        !live()->status().running && live()->status().step == step && live()->status().catching_up.empty(), kWaitMs);
    live()->flush();
    window.selection()->refresh();
  }
  void addFormat(const char* format) {
    RunConfig twin = window.session()->config();
    find_field("precision.experts")->set(twin, std::string(format));
    window.findChild<CompareActions*>()->addTwin(twin);
  }
  template <typename T>
  T* panel() {
    return window.workspaces()->compare()->findChild<T*>();
  }
  OperandCostsPanel* raisedCosts() {
    window.workspaces()->bringUp("compare");
    auto* costs = panel<OperandCostsPanel>();
    for (QDockWidget* dock : window.workspaces()->compare()->findChildren<QDockWidget*>())
      if (dock->isAncestorOf(costs)) dock->show();
    return costs;
  }
  template <typename T>
  QString answer() {  // of a panel
    return panel<T>()->answerText();
  }
  // A row of the table of verdicts, as of now.
  VerdictRow row(int place) {
    auto* verdicts = panel<VerdictsPanel>();
    verdicts->table()->refill();
    const auto& rows = verdicts->table()->rows();
    return place < std::ssize(rows) ? rows[static_cast<std::size_t>(place)] : VerdictRow{};
  }
  QString reason(int place) { return row(place).reasons.value(0); }
  VerdictStrip* strip() { return window.workspaces()->compare()->strip(); }
};

QStringList column(const QString& csv, int index) {
  QStringList values;
  const QStringList lines = csv.split('\n', Qt::SkipEmptyParts);
  for (const QString& line : lines.mid(1)) values << line.split(',')[index];
  return values;
}

// The window's menu of the button, without showing it: popups block offscreen tests.
QAction* compareAction(RunChips* chips, const QString& text) {
  QMenu* menu = chips->findChild<QToolButton*>("compare_button")->menu();
  emit menu->aboutToShow();
  for (QAction* action : menu->findChildren<QAction*>())
    if (QString(action->text()).remove('&').startsWith(text)) return action;
  return nullptr;
}

}  // namespace

class CompareTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    qputenv("XDG_DATA_HOME", home_.path().toUtf8());
    qputenv("XDG_CONFIG_HOME", home_.path().toUtf8());
    QCoreApplication::setApplicationName("moescope");
  }

  void aTwinCatchesUpWhilePaused() {
    OpenWindow w;
    w.trainTo(12);
    QAction* noise = compareAction(w.chips(), "Noise twin");
    QVERIFY(noise);
    noise->trigger();
    QCOMPARE(w.window.selection()->histories().size(), 2u);
    QCOMPARE(w.window.workspaces()->current(), static_cast<Workspace*>(w.window.workspaces()->compare()));
    w.waitFor(12);
    const auto& histories = w.window.selection()->histories();
    QCOMPARE(histories[1]->steps().size(), 12);
    QVERIFY(histories[1]->value_at(Metric::ce_loss, kWholeRun, 11) !=
            histories[0]->value_at(Metric::ce_loss, kWholeRun, 11));
    QVERIFY(is_noise_twin(w.window.session()->config(0), w.window.session()->config(1)));
    QTRY_VERIFY(w.chip("N") && w.chip("N")->isVisible());
    QVERIFY(!w.chip("B"));
  }

  void aChipMakesItsRunActiveAndLiveChangesActOnIt() {
    OpenWindow w;
    w.trainTo(2);
    w.addFormat("mxfp8_floor");
    w.waitFor(2);
    QTRY_VERIFY(w.chip("B") && w.chip("B")->isVisible());
    QTest::mouseClick(w.chip("B"), Qt::LeftButton);
    QCOMPARE(w.window.selection()->run(), 1);
    QVERIFY(w.chip("B")->isChecked());
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
    OpenWindow w;
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
    OpenWindow w;
    w.addFormat("mxfp8_rceil");
    w.addFormat("mxfp8_floor");
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
    QVERIFY(compareAction(w.chips(), "Noise twin")->isEnabled());
    w.window.findChild<CompareActions*>()->addTwin(perturbed_twin(w.window.session()->config()));
    QVERIFY(!compareAction(w.chips(), "Noise twin")->isEnabled());
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.addFormat("bf16");
    QCOMPARE(failed.size(), 1);
    QCOMPARE(w.window.selection()->histories().size(), 5u);
  }

  void theDialogMakesATwinOfAnySetting() {
    OpenWindow w;
    w.trainTo(3);
    QTest::keyClick(&w.window, Qt::Key_C);
    auto* dialog = w.window.findChild<CompareDialog*>("compare_dialog");
    QVERIFY(dialog);
    choose(dialog, "Setting", "optimizer.lr");
    auto* ok = dialog->findChild<QPushButton*>();
    for (QPushButton* button : dialog->findChildren<QPushButton*>())
      if (button->text() == "Train the twin") ok = button;
    QVERIFY(!ok->isEnabled());  // still what run A has
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
         {Setting(&OptimizerConfig::lr), Setting(&PrecisionConfig::experts)}) {  // a number, a list
      CompareDialog dialog(RunConfig{}, setting);
      dialog.setAttribute(Qt::WA_DeleteOnClose, false);
      QSignalSpy wanted(&dialog, &CompareDialog::twinRequested);
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
      QCOMPARE(wanted.size(), 1);
    }
  }

  void panelsSayWhatTheComparisonSays() {
    OpenWindow w;
    w.addFormat("mxfp8_floor");
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(60);
    const auto& h = w.window.selection()->histories();
    const StepRange all{0, 59};
    QCOMPARE(w.window.selection()->range(), all);

    const QString gaps = w.panel<LossGapPanel>()->csv();
    const PairedRun twins[] = {{h[2], false}};
    const Conclusion conclusion = conclude(h[0], {h[1]}, twins);
    QCOMPARE(conclusion.steps, (StepRange{10, 59}));
    GapTrack gap(h[0], h[1]);
    gap.update();
    const auto raw = gap.series(slice_edges(all, 60));
    const auto smooth = gap.smoothed(slice_edges(all, 60));
    QCOMPARE(column(gaps, 1).size(), 60);
    for (int step : {0, 1, 30, 59}) {
      QCOMPARE(column(gaps, 1)[step].toFloat(), static_cast<float>(raw[step].mean()));
      QCOMPARE(column(gaps, 2)[step].toFloat(), smooth[step]);
      QCOMPARE(column(gaps, 5)[step], step < 10 ? QString() : QString::number(conclusion.gap, 'g', 9));
      QCOMPARE(column(gaps, 6)[step], step < 10 ? QString() : QString::number(conclusion.half, 'g', 9));
    }
    const VerdictRow b = w.row(1);
    QCOMPARE(*b.word, verdict_word(conclusion));
    QCOMPARE(b.reasons.front().toStdString(), verdict_reasons(conclusion).front());
    QCOMPARE(b.gap, conclusion.gap);
    QCOMPARE(b.half, conclusion.half);
    QCOMPARE(b.note, QStringLiteral("experts in MXFP8, scales rounded down"));
    QVERIFY(!w.row(0).word && !w.row(2).word);
    QCOMPARE(w.row(2).letter, QStringLiteral("N"));
    QCOMPARE(w.row(2).note, QStringLiteral("noise twin: A with another seed"));
    QTRY_VERIFY2(w.strip()->text().startsWith(to_text(verdict_word(conclusion))), qPrintable(w.strip()->text()));

    const RunFigures figures = run_figures(*h[1], last_common_steps(h, VerdictsPanel::kWindow));
    const QString table = w.panel<VerdictsPanel>()->csv();
    QVERIFY2(table.contains(QString::number(figures.mean_loss, 'g', 9)), qPrintable(table));
    const OperandSqnr sqnr = operand_sqnr(h, 59)[1];
    QCOMPARE(sqnr.choice, OperandChoice::differing);
    for (const float figure : {sqnr.worst_db, sqnr.mean_db})
      QVERIFY2(table.contains(QString::number(static_cast<double>(figure), 'g', 9)), qPrintable(table));
    QVERIFY2(table.contains("precision.experts=mxfp8_floor"), qPrintable(table));

    const auto flips = h[1]->flip_frame_at(59);
    QVERIFY(flips);
    button(w.panel<RoutingFlipsPanel>(), "by rounding")->setChecked(false);
    QVERIFY(w.panel<RoutingFlipsPanel>()->csv().contains(QString::number(flips->flips[0].flip_rate, 'g', 9)));
    const auto gradients = h[1]->gradient_frame_at(59);
    QVERIFY(gradients);
    QVERIFY(w.panel<GradientErrorPanel>()->csv().contains(QString::number(gradients->gradients.back().cosine, 'g', 9)));

    const auto difference = load_difference(h[0]->frame_at(59)->routers[0], h[1]->frame_at(59)->routers[0]);
    const QStringList shown = column(w.panel<LoadDifferencePanel>()->csv(), 3);
    for (std::size_t e = 0; e < difference.size(); ++e) QCOMPARE(shown[static_cast<int>(e)].toFloat(), difference[e]);
    const QStringList own = column(w.panel<LoadDifferencePanel>()->csv(), 4);
    for (std::size_t e = 0; e < difference.size(); ++e)
      QCOMPARE(own[static_cast<int>(e)].toFloat(), utilisation(h[1]->frame_at(59)->routers[0].tokens_per_expert, e));
    for (Panel* panel : w.window.workspaces()->compare()->panels()) {
      QVERIFY2(panel->csv().count('\n') > 1, qPrintable(panel->title()));
      QVERIFY2(!panel->explain().isEmpty(), qPrintable(panel->title()));
    }
  }

  // In the step of a change the weights are still the same: what flips there flips by the change.
  void flipsOfTheStepOfAChangeAreItsOwn() {
    RunConfig config = nano();
    config.telemetry.flips_every = 1;
    config.telemetry.gradient_every = 0;
    OpenWindow w(config);
    std::vector<RunConfig> runs = {config, config};
    runs[1].name = "gate";
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->startAll(runs, RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    w.trainTo(20);
    QTRY_VERIFY(w.answer<RoutingFlipsPanel>().contains("the same experts as in A"));
    QCOMPARE(
        w.window.session()->change({.run = 1, .setting = &PrecisionConfig::router_gate, .value = std::string("mxfp4")}),
        QString());
    w.trainTo(21);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("the weights still equal those of A"),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
    w.trainTo(25);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("the weights of the runs differ too"),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
  }

  void theVerdictOffersTheTwinThatItNeeds() {
    OpenWindow w;
    w.addFormat("mxfp4");
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Not told apart: B mxfp4"));
    QCOMPARE(w.reason(1), QStringLiteral("no noise twin to compare with"));
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
    // What the formats cost stands in the same row.
    const auto quantized = h[1]->quant_frame_at(59);
    QVERIFY(quantized);
    for (const auto column : {VerdictRow::kSqnr, VerdictRow::kFlushed, VerdictRow::kFlips, VerdictRow::kGradient})
      QVERIFY(w.row(1).figures[column].text.contains(QRegularExpression("\\d")));
    QVERIFY(w.row(1).figures[VerdictRow::kFlushed].bad);
    // Another twin is another choice of weights, not the same run twice.
    QTest::keyClick(&w.window, Qt::Key_N, Qt::ShiftModifier);
    QCOMPARE(w.window.session()->config(3).perturbation, 2);
    QTest::keyClick(&w.window, Qt::Key_N, Qt::ShiftModifier);
    QCOMPARE(w.window.session()->config(4).perturbation, 3);
    QCOMPARE(w.row(4).letter, QStringLiteral("N3"));
    QTRY_VERIFY(!add->isVisible() || add->text().startsWith("Train to step"));  // five runs are open
    QTest::keyClick(&w.window, Qt::Key_5, Qt::AltModifier);
    QCOMPARE(w.window.selection()->run(), 4);
  }

  // A perturbed run in FP32 stays beside run A for hundreds of steps, where one in MXFP4 drifts at once.
  void noIntervalIsShownBeforeTheTwinsHaveDriftedApart() {
    OpenWindow w;
    w.addFormat("mxfp4");
    w.window.findChild<CompareActions*>()->addTwin(perturbed_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Too early to tell: B mxfp4"));
    QVERIFY2(w.reason(1).startsWith("in about "), qPrintable(w.reason(1)));
    QVERIFY(w.row(1).figures[VerdictRow::kGap].below.isEmpty());
  }

  // The settings choose the loss, so that nobody sees both results before.
  void theValidationLossDecidesWhereItIsMeasured() {
    RunConfig config = nano();
    config.telemetry.validation_every = 5;
    OpenWindow w(config);
    w.addFormat("mxfp4");
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QVERIFY(w.row(1).figures[VerdictRow::kGap].tip.startsWith("validation loss"));
    QCOMPARE(control<QComboBox>(w.panel<VerdictsPanel>(), "Judged loss")->currentText(),
             QStringLiteral("validation loss"));
    QVERIFY(w.panel<LossGapPanel>()->csv().contains("mean validation loss of the judged steps"));
    w.window.workspaces()->compare()->judged()->setLoss(JudgedRuns::Loss::training);
    QVERIFY(w.row(1).figures[VerdictRow::kGap].tip.startsWith("training loss"));
  }

  // What a gap that matters is, the person may set.
  void aLargerGapThatMattersIsSoonExcluded() {
    RunConfig config = nano();
    config.precision.experts = Recipe::mxfp8_rceil;  // so that its twin drifts from it at once
    OpenWindow w(config);
    w.addFormat("mxfp8_floor");
    w.window.findChild<CompareActions*>()->addTwin(perturbed_twin(w.window.session()->config()));
    w.trainTo(60);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    w.panel<VerdictsPanel>()->restoreState({{"matters", 0.5}});
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Good enough: B mxfp8_floor"));
    QCOMPARE(w.reason(1), QStringLiteral("less than what matters"));
    QCOMPARE(control<QComboBox>(w.panel<VerdictsPanel>(), "Gap that matters")->currentText(),
             QStringLiteral("50 % matters"));
  }

  // A change of run A, undone or not, leaves a twin that shows what chance did before it.
  void aLiveChangeOfRunAEndsItsTwins() {
    OpenWindow w;
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(55);
    const auto change = [&](double lr) {
      QVERIFY(w.window.session()->change({.run = 0, .setting = &OptimizerConfig::lr, .value = lr}).isEmpty());
    };
    const double lr = w.window.session()->config().optimizer.lr;
    change(2 * lr);
    w.trainTo(58);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QCOMPARE(w.row(1).letter, QStringLiteral("B"));  // the settings differ: no twin
    change(lr);
    w.trainTo(60);
    w.addFormat("mxfp8_floor");
    w.waitFor(60);
    QCOMPARE(w.row(1).note, QStringLiteral("noise twin: A with another seed, up to step 54"));
  }

  void fourCandidatesAndANoiseTwin() {
    OpenWindow w;
    w.addFormat("mxfp8_rceil");
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
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
    QTRY_COMPARE(w.strip()->text(), QStringLiteral("Too early to tell: B mxfp8_rceil, C mxfp8_floor, D mxfp4"));
    QVERIFY2(w.strip()->settlementText().startsWith("Verdict in 46 steps"), qPrintable(w.strip()->settlementText()));

    // Rows choose the active run.
    auto* table = w.panel<VerdictsPanel>()->table();
    QTest::mouseClick(table, Qt::LeftButton, {}, QPoint(60, table->heightFor(0) - 20 + 2 * 38));
    const int chosen = w.window.selection()->run();
    QVERIFY(chosen > 0);
    QTest::keyClick(table, Qt::Key_Down);
    QCOMPARE(w.window.selection()->run(), chosen + 1);
    QVERIFY2(table->valueText().contains(w.row(chosen + 1).name), qPrintable(table->valueText()));
  }

  void theCostliestOperandIsNamed() {
    OpenWindow w;
    w.addFormat("mxfp4");
    w.trainTo(3);
    OperandCostsPanel* costs = w.raisedCosts();
    auto* table = costs->findChild<QTableView*>();
    const auto frame = w.window.selection()->histories()[1]->quant_frame_at(2);
    QVERIFY(frame);
    QTRY_COMPARE(table->model()->rowCount(), static_cast<int>(frame->quants.size()));  // B's: run A quantizes nothing
    const auto ranked = operand_costs(*frame);
    const auto cell = [&](int row, int column) { return table->model()->index(row, column).data().toString(); };
    QVERIFY2(cell(0, 0).endsWith(tensorName(*ranked.front().operand)), qPrintable(cell(0, 0)));
    QCOMPARE(cell(0, 1), formatValue(ranked.front().operand->sqnr_db, 3));
    QCOMPARE(cell(0, 2), formatPercent(ranked.front().operand->underflow));
    QCOMPARE(cell(0, 3), formatPercent(ranked.front().share));
    QVERIFY(w.answer<OperandCostsPanel>().startsWith(placeName(*ranked.front().operand) + " loses most in B"));
    w.window.selection()->setTensor(*ranked.back().operand);  // as the Overview does when it gets its data
    QCOMPARE(table->verticalScrollBar()->value(), 0);
    table->sortByColumn(1, Qt::AscendingOrder);
    const auto least = std::ranges::min_element(frame->quants, {}, &QuantFrame::sqnr_db);
    QCOMPARE(cell(0, 1), formatValue(least->sqnr_db, 3));
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(table->model()->index(0, 0)).center());
    QCOMPARE(w.window.selection()->tensor(), static_cast<const OperandPlace&>(*least));
    QCOMPARE(costs->csv().count('\n'), static_cast<int>(frame->quants.size()) + 1);
  }

  // A copy of the run rounds one operand after the other; the run trains on.
  void whatEachOperandDoesToTheGradientIsMeasured() {
    OpenWindow w;
    w.addFormat("mxfp4");
    w.trainTo(3);
    OperandCostsPanel* costs = w.raisedCosts();
    auto* table = costs->findChild<QTableView*>();
    QTRY_VERIFY(table->model()->rowCount() > 0);
    button(costs, "Measured")->click();
    QTRY_VERIFY2_WITH_TIMEOUT(w.answer<OperandCostsPanel>().contains("changes the gradient most"),
                              qPrintable(w.answer<OperandCostsPanel>()), kWaitMs);
    const QString said = w.answer<OperandCostsPanel>();
    QVERIFY2(costs->caption().contains("step 2") && costs->caption().contains("B "), qPrintable(costs->caption()));
    const ModelConfig& m = w.window.session()->live()->config(1).model;
    const int rows = table->model()->rowCount();
    QCOMPARE(rows, 6 * (m.n_layers - m.n_dense_layers));  // the routed experts alone are rounded
    const auto cell = [&](int row, int column) { return table->model()->index(row, column).data().toString(); };
    QVERIFY2(said.contains(cell(0, 2)), qPrintable(said + cell(0, 2)));
    QCOMPARE(costs->csv().count('\n'), rows + 1);
    button(costs, "Modelled")->click();
    QTRY_VERIFY(table->model()->rowCount() > rows);
  }

  // One click from any setting's label: the values of its context menu.
  void everySettingOffersTwinsInOneClick() {
    OpenWindow w;
    for (const ConfigField& field : config_fields()) {
      const ConfigValue now = field.get(w.window.session()->config());
      for (const ConfigValue& value : twinValues(field, now)) {
        QVERIFY2(value != now && check_field(field, value).empty(), field.key.c_str());
      }
      if (field.choices.empty()) continue;
      QCOMPARE(twinValues(field, now).size(), field.choices.size() - 1);
    }
    const auto choose = [&](const char* key, const char* text) {
      QMenu menu;
      auto* form = w.window.findChild<SetupForm*>();
      const ConfigField& field = form->editor(key)->field();
      fillTwinMenu(&menu, field,
                   {.now = [&] { return field.get(w.window.session()->config()); },
                    .possible = [] { return true; },
                    .chosen = [&](const ConfigValue& value) { emit form->valueTwinRequested(field, value); },
                    .other = [] {}});
      for (QAction* action : menu.actions())
        if (action->text().trimmed() == text) return action->trigger();
      QFAIL(text);
    };
    choose("precision.router_gate", "mxfp4");
    choose("optimizer.lr", "0.002");
    choose("precision.hadamard", "true");
    QCOMPARE(w.window.session()->histories().size(), 4u);
    QCOMPARE(w.window.session()->config(1).precision.router_gate, Recipe::mxfp4);
    QCOMPARE(w.window.session()->config(2).optimizer.lr, 0.002);
    QVERIFY(w.window.session()->config(3).precision.hadamard);
  }

  // What a stranger would read off the screen.
  void panelsSayInWordsWhatTheirPicturesMean() {
    OpenWindow w;
    w.addFormat("mxfp4");
    w.window.findChild<CompareActions*>()->addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(12);
    w.window.selection()->setRun(1);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    const auto& h = w.window.selection()->histories();

    auto* gradients = w.panel<GradientErrorPanel>();
    for (const auto* option : gradients->findChildren<QToolButton*>())  // options stand in the menu only
      if (option->text() == "by layer" || option->text() == "experts pinned") QVERIFY(!option->isVisible());
    const float snr = h[1]->value_at(Metric::gradient_snr_db, kWholeRun, 10);
    const QString off = "B: " + formatPercent(std::pow(10.0, -snr / 20.0));
    QTRY_VERIFY2(w.answer<GradientErrorPanel>().contains(off), qPrintable(off));

    // Layer by layer, B minus A.
    button(gradients, "by layer")->click();
    button(gradients, "minus A")->click();
    QVERIFY(std::isinf(h[0]->gradient_frame_at(11)->gradients.front().snr_db));  // A is FP32
    const auto cell = [&] { return gradients->findChild<MatrixPlot*>()->describe(0, 0).join(' '); };
    QTRY_VERIFY2(cell().contains("; exact in A"), qPrintable(cell()));
    QVERIFY2(gradients->caption().contains("minus A"), qPrintable(gradients->caption()));

    auto* flips = w.panel<RoutingFlipsPanel>();
    auto* by_rounding = button(flips, "by rounding");
    QVERIFY(by_rounding->isChecked());  // what formats do comes first, where it is known
    const auto compared = h[1]->gradient_frame_at(11);
    QVERIFY(compared);
    double rate = 0;
    for (const FlipFrame& layer : compared->rounding_flips) rate += layer.flip_rate / compared->rounding_flips.size();
    QVERIFY(rate > 0);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("B: " + formatPercent(rate)),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
    by_rounding->click();
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("noise twin N"), qPrintable(w.answer<RoutingFlipsPanel>()));

    auto* loads = w.panel<LoadDifferencePanel>();
    QTRY_VERIFY2(w.answer<LoadDifferencePanel>().contains("noise twin N"), qPrintable(w.answer<LoadDifferencePanel>()));
    for (const auto& [shown, named] : {std::pair{"the run", "B mxfp4"}, {"run A", "A nano"}}) {
      choose(loads, "Loads", shown);
      QTRY_VERIFY(loads->caption().contains(named));
      QVERIFY(!loads->caption().contains("minus"));
    }
  }

  void withoutATwinThePanelsSayHowToGetOne() {
    OpenWindow w;
    w.trainTo(2);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_VERIFY(w.panel<LossGapPanel>()->findChild<GapPlot*>()->notice().contains("Nothing to compare"));
    w.window.workspaces()->compare()->findChild<QDockWidget*>("dock_compare_load_difference")->show();
    QTRY_VERIFY(w.panel<LoadDifferencePanel>()->findChild<MatrixPlot*>()->notice().contains("Nothing to compare"));
  }

  void theButtonSwitchesGradientsOn() {
    RunConfig config = nano();
    config.telemetry.gradient_every = 0;
    OpenWindow w(config);
    w.trainTo(2);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    auto* measure = button(w.panel<GradientErrorPanel>(), "Measure every 20 steps");
    QTRY_VERIFY(measure->isVisible());
    QTest::mouseClick(measure, Qt::LeftButton);
    QCOMPARE(w.window.session()->config().telemetry.gradient_every, 20);
    w.trainTo(21);
    QTRY_VERIFY(!measure->isVisible());
  }

  void resetStartsAllRunsOver() {
    OpenWindow w;
    w.addFormat("mxfp8_floor");
    w.trainTo(2);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    QTest::keyClick(&w.window, Qt::Key_R);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.window.selection()->histories().size(), 2u);
    QCOMPARE(w.live()->status().step, 0);
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

  void droppedTensorsOpenTheLaboratory() {
    OpenWindow w;
    const QString path = home_.filePath("t.safetensors");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QByteArray header = R"({"w":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}})";
    while (header.size() % 8) header += ' ';
    const quint64 size = static_cast<quint64>(header.size());
    file.write(reinterpret_cast<const char*>(&size), 8);
    file.write(header);
    const std::vector<float> values(64, 1.5f);
    file.write(reinterpret_cast<const char*>(values.data()), 256);
    file.close();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(path)});
    QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&w.window, &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent event(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&w.window, &event);
    QTRY_VERIFY(w.window.workspaces()->microscaling()->isVisible());
    auto* browser = w.window.workspaces()->microscaling()->tensorLab()->browser();
    QTRY_VERIFY(browser->csv().contains("w"));
    QVERIFY2(browser->error().isEmpty(), qPrintable(browser->error()));
    QVERIFY(w.window.session()->isLive());  // and the run is still there
  }
};

QTEST_MAIN(CompareTest)
#include "qt_compare.moc"
