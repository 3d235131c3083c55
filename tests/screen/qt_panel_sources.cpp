// Where a panel says that its values come from, and what it says if it has none.
#include <QApplication>
#include <QSignalSpy>
#include <QTest>

#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/explain_card.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_load_panel.h"

using namespace moescope;

namespace {

std::vector<std::unique_ptr<Panel>> allPanels(Selection* selection) {
  std::vector<std::unique_ptr<Panel>> panels;
  panels.push_back(std::make_unique<LossPanel>(selection));
  panels.push_back(std::make_unique<ExpertLoadPanel>(selection));
  panels.push_back(std::make_unique<ExpertLoadPanel>(selection, ExpertLoadPanel::one_layer));
  panels.push_back(std::make_unique<BalancePanel>(selection));
  panels.push_back(std::make_unique<AllToAllPanel>(selection));
  panels.push_back(std::make_unique<BlockScalesPanel>(selection));
  panels.push_back(std::make_unique<QuantizationErrorPanel>(selection));
  return panels;
}

}  // namespace

class PanelSourcesTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() {
    run_ = std::make_unique<SyntheticRun>(SyntheticShape{});
    run_->append(20);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  void withoutAStepNothingWasMeasured() {
    Selection none, not_yet;
    not_yet.setHistories({SyntheticRun({}).history()});
    for (Selection* selection : {&none, &not_yet})
      for (const auto& panel : allPanels(selection))
        QVERIFY2(!panel->caption().contains(QStringLiteral("measured")), qPrintable(panel->caption()));
  }

  void anImportedRunWasMeasuredElsewhere() {
    const LossPanel loss(selection_.get());
    const AllToAllPanel bytes(selection_.get());
    const auto kind = [](const Panel& panel) { return panel.caption().section(QLatin1Char(','), 0, 0); };
    QCOMPARE(kind(loss), QStringLiteral("measured here"));
    RunInfo info = run_->history()->info();
    info.config_toml.clear();  // like logs of other programs
    info.kernels.clear();
    const auto imported = std::make_shared<History>(info);
    imported->append(run_->next());
    selection_->setHistories({imported});
    QCOMPARE(kind(loss), QStringLiteral("from the log"));
    QCOMPARE(kind(bytes), QStringLiteral("counted"));
    FigureTarget target{.key = "ce_loss"};
    target.step = imported->steps().last;
    QVERIFY(figureCard(explain_figure(*imported, target)).contains("from the log"));
  }

  void aCheckpointsRunWasMeasuredHere() {
    const LossPanel loss(selection_.get());
    RunInfo info = run_->history()->info();
    info.config_toml.clear();  // not trained here, but computed by this program's kernels
    info.kernels = "Haswell";
    const auto texts = std::make_shared<History>(info);
    texts->append(run_->next());
    selection_->setHistories({texts});
    QCOMPARE(loss.caption().section(QLatin1Char(','), 0, 0), QStringLiteral("measured here"));
    QVERIFY2(!loss.answerText().contains("learning"), qPrintable(loss.answerText()));
  }

  // Every panel says what is missing: a run, a step, the arrays of a log, the quantization of a run.
  void panelsSayWhatIsMissing() {
    Selection none;
    SyntheticRun empty({}), scalars({.scalars_only = true}), plain({.quant_every = 0});
    scalars.append(20);
    plain.append(20);
    Selection not_yet, bare, unquantized;
    not_yet.setHistories({empty.history()});
    bare.setHistories({scalars.history()});
    unquantized.setHistories({plain.history()});
    for (Selection* selection : {&none, &not_yet, &bare, &unquantized}) {
      int with_notice = 0;
      for (const auto& panel : allPanels(selection)) {
        show(panel.get(), {400, 220});
        for (const PlotFrame* plot : panel->findChildren<PlotFrame*>())
          if (plot->isVisible() && !plot->notice().isEmpty()) {
            ++with_notice;
            break;
          }
        QVERIFY(panel->csv().contains(QLatin1Char('\n')));
        for (PlotFrame* plot : panel->findChildren<PlotFrame*>()) {
          QTest::mouseClick(plot, Qt::LeftButton, {}, plot->rect().center());
          move(plot, plot->rect().center() + QPoint(2, 2));
          wheel(plot, plot->rect().center(), 1);
          QTest::keyClick(plot, Qt::Key_Left);
        }
      }
      int expected = 7;
      if (selection == &unquantized) expected = 2;
      if (selection == &bare) expected = 6;
      QCOMPARE(with_notice, expected);
    }
    QuantizationErrorPanel panel(&unquantized);
    show(&panel);
    QVERIFY(panel.findChild<MatrixPlot*>()->notice().contains(QStringLiteral("MXFP8")));
  }

  void aNoticeOfWhatALogLacksLeadsToWhatWasRead() {
    for (const bool is_log : {true, false}) {
      RunInfo info = run_->history()->info();
      if (is_log) {
        info.config_toml.clear();
        info.kernels.clear();
      }
      const auto without_loads = std::make_shared<History>(info);
      auto frame = std::make_shared<TelemetryFrame>();
      frame->ce_loss = 2;
      without_loads->append(frame);
      selection_->setHistories({without_loads});
      ExpertLoadPanel panel(selection_.get());
      show(&panel);
      QSignalSpy account_requests(&panel, &Panel::accountRequested);
      for (PlotFrame* plot : panel.findChildren<PlotFrame*>()) {
        if (!plot->isVisible()) continue;
        QVERIFY2(plot->notice().startsWith("Not in "), qPrintable(plot->notice()));
        QTest::mouseClick(plot, Qt::LeftButton);
        QTest::keyClick(plot, Qt::Key_Return);
      }
      QCOMPARE(account_requests.size(), is_log ? 2 : 0);
    }
  }

  void whatIsNotHereYetSaysHowLongItTakes() {
    QCOMPARE(noDataYetNotice(*selection_), QString("First step: not finished yet"));
    selection_->setFirstStepSeconds(4.2);
    QCOMPARE(noDataYetNotice(*selection_), QString("First step: about 4 s"));
    selection_->setFirstStepSeconds({});
  }

  void whatALogLacksSaysWhereItComesFrom() {
    RunInfo log;
    log.source = "/data/run.jsonl";
    log.moe_layers = {1};
    QCOMPARE(
        notInLogNotice(log, "quantization statistics"),
        QString("Not in run.jsonl: quantization statistics\nCall log_blocks() of moescope_log.py in the training, or "
                "log TransformerEngine's debug statistics"));
    QCOMPARE(notInLogNotice(log, "margins of flipped choices"),
             QString("Not in run.jsonl: margins of flipped choices"));
    log.config_toml = "name = \"A\"\n";  // trained here
    QCOMPARE(notInLogNotice(log, "quantization statistics"), QString("Not in run.jsonl: quantization statistics"));
  }

  void everyPanelExplainsItselfAndHasAName() {
    for (const auto& panel : allPanels(selection_.get())) {
      QVERIFY(!panel->accessibleName().isEmpty());
      QVERIFY(panel->explain().contains(QStringLiteral("Source:")));
      QVERIFY(panel->focusPolicy() & Qt::TabFocus || !panel->findChildren<PlotFrame*>().isEmpty());
      for (const PlotFrame* plot : panel->findChildren<PlotFrame*>()) QVERIFY(!plot->accessibleName().isEmpty());
    }
  }

 private:
  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(PanelSourcesTest)
#include "qt_panel_sources.moc"
