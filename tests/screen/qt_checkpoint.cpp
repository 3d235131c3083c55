// A checkpoint of transformers in the window: a dialog asks for texts, runs them through the model, and opens their
// batches as a run.
#include <QAbstractItemView>
#include <QComboBox>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPointer>
#include <QPushButton>
#include <QRegularExpression>
#include <QTabBar>
#include <QTest>
#include <QToolButton>
#include <QTreeWidget>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "app/actions/file_actions.h"
#include "app/actions/scan_actions.h"
#include "app/bars/status_line.h"
#include "app/setup/open_dialogs.h"
#include "app/setup/setup_form.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/checkpoints/export_model.h"
#include "core/files/tensors/safetensors.h"
#include "core/findings/explain/explain.h"
#include "core/training/trainer.h"
#include "tests/support/controls.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/expert_panel.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/specialisation_panel.h"

using namespace moescope;

class CheckpointTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;
  QString folder_;

  QString textFile(const char* name, const char* text) {
    QFile file(home_.filePath(name));
    if (file.open(QIODevice::WriteOnly)) file.write(QByteArray(text).repeated(60));
    return file.fileName();
  }
  // Multiplies the down projection of expert 2 in layer 1 by 10,000.
  static void changeExpert(const QString& folder) {
    const std::string path = (folder + "/model.safetensors").toStdString();
    SafetensorsWriter writer;
    {
      const SafetensorsFile file(path);
      for (const TensorView& tensor : file.tensors()) {
        std::vector<float> values = tensor.floats();
        if (tensor.name == "model.layers.1.mlp.experts.2.down_proj.weight")
          for (float& value : values) value *= 10000;
        writer.add(tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(values)));
      }
    }
    writer.write(path);
  }
  static QString facts(const CheckpointDialog& dialog) { return dialog.findChild<QLabel*>("checkpoint_facts")->text(); }

  // Runs two files and a typed text through the model.
  void runTexts(OpenWindow& w) {
    w.window.files()->open({folder_});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(facts(*dialog).contains("1,000 tokens (estimated"), kWaitMs);
    QVERIFY2(facts(*dialog).startsWith("deepseek_v3: "), qPrintable(facts(*dialog)));
    auto* run = dialog->findChild<QPushButton*>("checkpoint_run");
    QVERIFY(!run->isEnabled());  // there is no text yet
    dialog->addFiles({textFile("words.txt", "Who takes these words? "), textFile("digits.txt", "31 + 11 = 42; ")});
    dialog->findChild<QPlainTextEdit*>("checkpoint_prompt")->setPlainText("A text of its own.");
    QVERIFY(run->isEnabled());
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    run->click();
    QVERIFY(opened.wait(kWaitMs));
  }

 private slots:
  void initTestCase() {
    useFolderOfTest(home_);
    const QString saved = home_.filePath("nano.ckpt");
    Trainer(nano()).save(saved.toStdString());
    folder_ = home_.filePath("nano_model");
    export_for_transformers(saved.toStdString(), folder_.toStdString());
  }
  void init() { useSettingsOfTest(home_); }

  void textsOfAFolderBecomeARun() {
    OpenWindow w;
    runTexts(w);
    const History& history = *w.window.session()->histories().front();
    QCOMPARE(history.info().domains, (std::vector<std::string>{"words", "digits", "prompt"}));
    QCOMPARE(history.info().n_experts, nano().model.n_experts);
    const auto choices = w.window.findChildren<QComboBox*>();
    QVERIFY(std::ranges::any_of(choices, [](const QComboBox* box) { return box->findText("one batch") >= 0; }));
    QVERIFY(std::ranges::none_of(choices, [](const QComboBox* box) { return box->findText("one step") >= 0; }));
    QCOMPARE(history.steps().last, std::int64_t{5});  // three whole pieces, and the last pieces of three texts
    QVERIFY(!w.window.session()->isLive());
    const QString losses = w.window.workspaces()->overview()->findChild<LossPanel*>()->csv();
    QVERIFY2(losses.contains("training") && !losses.contains("mean of"), qPrintable(losses));
  }

  // At most four clicks each show which experts take a domain, whether the router is healthy on one domain alone, and
  // which operand is most sensitive to MXFP4. The test uses the window by these clicks only.
  // The window goes to the result and offers what can be asked next.
  void theResultSaysWhatCanBeAskedNext() {
    OpenWindow w;
    w.window.workspaces()->bringUp(w.window.workspaces()->microscaling());
    runTexts(w);
    QCOMPARE(w.window.workspaces()->current(), w.window.workspaces()->overview());
    auto* notice = w.window.findChild<NoticeBar*>();
    QVERIFY(notice->isVisible());
    QStringList offers;
    for (const QToolButton* button : notice->findChildren<QToolButton*>("notice_action")) offers << button->text();
    QCOMPARE(offers, (QStringList{"Experts of each token", "Experts that can be removed", "Costs of number formats"}));
    notice->findChildren<QToolButton*>("notice_action")[1]->click();
    QCOMPARE(w.window.workspaces()->current(), w.window.workspaces()->text());
    QTRY_VERIFY(w.window.workspaces()->text()->findChild<SpecialisationPanel*>()->isVisible());
    QVERIFY(!notice->isVisible());
  }

  void threeAnswersTakeFourClicksEach() {
    OpenWindow w;
    runTexts(w);
    WorkspaceTabs* tabs = w.window.workspaces();
    const auto clickTab = [&](Workspace* workspace) {
      const int place = static_cast<int>(tabs->all().indexOf(workspace));
      QTest::mouseClick(tabs->tabs(), Qt::LeftButton, {}, tabs->tabs()->tabRect(place).center());
    };

    clickTab(tabs->text());
    auto* special = tabs->text()->findChild<SpecialisationPanel*>();
    QVERIFY(special->isVisible() && !special->visibleRegion().isEmpty());
    auto* cells = special->findChild<MatrixPlot*>();
    cells->grab();
    const QRectF cell = cells->cellRect(1, 0);
    QTest::mouseClick(cells, Qt::LeftButton, {}, cell.center().toPoint());
    cells->grab();
    QVERIFY2(special->answerText().contains(" of digits and "), qPrintable(special->answerText()));

    clickTab(tabs->router());
    auto* banner = tabs->router()->findChild<HealthBanner*>();
    QTRY_VERIFY_WITH_TIMEOUT(banner->text().contains("All texts: "), kWaitMs);
    auto* texts = banner->findChild<QComboBox*>("health_texts");
    QVERIFY(texts->isVisible());
    QTest::mouseClick(texts, Qt::LeftButton);
    QAbstractItemView* list = texts->view();
    QTRY_VERIFY(list->isVisible());
    list->setCurrentIndex(list->model()->index(texts->findText("digits"), 0));
    QTest::keyClick(list, Qt::Key_Return);
    QVERIFY2(banner->text().contains("digits: "), qPrintable(banner->text()));

    clickTab(tabs->microscaling());
    auto* costs = tabs->microscaling()->findChild<OperandCostsPanel*>();
    QVERIFY(costs->isVisible() && !costs->visibleRegion().isEmpty());
    QAbstractButton* measure = button(costs, "Measure mxfp4");
    QTest::mouseClick(measure, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(costs->answerText().contains(" is the most sensitive: divergence "), kWaitMs);
    QVERIFY(costs->caption().startsWith("measured here, mxfp4"));
    QVERIFY(costs->csv().contains("\nmxfp4,all,all,all,"));
    QVERIFY(!measure->isVisible());
    QVERIFY2(costs->csv().contains("\nmxfp8_nvidia,,,,"), qPrintable(costs->csv()));
    choose(costs, "Number format", "bf16");
    QVERIFY(measure->isVisible());

    // The recording stores the ranking of the operands.
    const QString recording = w.window.session()->path();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({recording});
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY2(costs->answerText().contains(" is the most sensitive: divergence "), qPrintable(costs->answerText()));
  }

  void aScanMeasuresTheTextsThatTheRecordingNames() {
    OpenWindow w;
    runTexts(w);
    const History& run = *w.window.session()->histories().front();
    std::size_t texts = 0;
    CheckpointScan scan(run, [&](CheckpointModel&, const std::vector<LabelledText>& read, const ComparedTexts&,
                                 const CheckpointScan::Progress& progress) {
      texts = read.size();
      progress(3, 4);
    });
    QTRY_VERIFY_WITH_TIMEOUT(scan.hasEnded(), kWaitMs);
    QCOMPARE(scan.error(), std::string());
    QVERIFY(texts > 0);
    QCOMPARE(scan.measured(), 1);
    QCOMPARE(scan.passes_done(), 3);
    QCOMPARE(scan.passes(), 4);
    CheckpointScan failed(run, [](CheckpointModel&, const std::vector<LabelledText>&, const ComparedTexts&,
                                  const CheckpointScan::Progress&) { throw std::runtime_error("no memory"); });
    QTRY_VERIFY_WITH_TIMEOUT(failed.hasEnded(), kWaitMs);
    QCOMPARE(failed.error(), std::string("no memory"));
    QCOMPARE(failed.measured(), 0);
  }

  // Measures the loss without each expert, by domain, and without several; the panel of one expert shows the loss.
  void expertsThatCanBeRemovedAreRanked() {
    OpenWindow w;
    runTexts(w);
    WorkspaceTabs* tabs = w.window.workspaces();
    tabs->bringUp(tabs->text());
    auto* special = tabs->text()->findChild<SpecialisationPanel*>();
    choose(special, "Figure", "loss without it");
    QAbstractButton* measure = button(special, "Measure");
    QVERIFY(measure && measure->isVisible());
    QTest::mouseClick(measure, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(special->answerText().contains("nats/token without it"), 4 * kWaitMs);
    QVERIFY(!measure->isVisible());
    auto* cells = special->findChild<MatrixPlot*>();
    cells->grab();
    QCOMPARE(cells->rows(), 4);  // all text and three domains
    QCOMPARE(cells->columns(), nano().model.n_experts);
    QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(0, 3).center().toPoint());
    QCOMPARE(w.window.selection()->expert(), 3);
    tabs->bringUp(tabs->router());
    auto* expert = tabs->router()->findChild<ExpertPanel*>();
    QStringList names;
    for (const ValueTile* tile : expert->findChildren<ValueTile*>())
      if (!tile->isHidden()) names << tile->accessibleName();
    QVERIFY2(names.join(' ').contains("Loss without it"), qPrintable(names.join(' ')));
    choose(special, "Figure", "pruned models");
    QVERIFY2(special->answerText().contains("experts of every layer: loss "), qPrintable(special->answerText()));
    QVERIFY(special->csv().startsWith("step,experts removed from every layer,"));
  }

  // The recording stores the similarity of outputs, and the panel of one expert names the most similar expert.
  void expertsWithSimilarOutputsAreFound() {
    OpenWindow w;
    runTexts(w);
    WorkspaceTabs* tabs = w.window.workspaces();
    tabs->bringUp(tabs->text());
    auto* together = tabs->text()->findChild<CoactivationPanel*>();
    QTest::mouseClick(button(together, "Similarity"), Qt::LeftButton);
    QAbstractButton* measure = button(together, "Measure");
    QVERIFY(measure && measure->isVisible());
    QTest::mouseClick(measure, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(together->answerText().contains(": cosine "), kWaitMs);
    QVERIFY(!measure->isVisible());
    auto* cells = together->findChild<MatrixPlot*>();
    cells->grab();
    QCOMPARE(cells->rows(), nano().model.n_experts);
    QVERIFY(together->csv().startsWith("step,layer,expert i,expert j,cosine of the outputs,interval\n"));
    const std::optional<FigureTarget> target = cells->figure(0, 1);
    QVERIFY(target);
    const History& history = *w.window.session()->histories().front();
    QVERIFY(!explain_figure(history, *target).expression.empty());
    QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(0, 1).center().toPoint());
    tabs->bringUp(tabs->router());
    auto* expert = tabs->router()->findChild<ExpertPanel*>();
    const auto tiles = expert->findChildren<ValueTile*>();
    QVERIFY(std::ranges::any_of(tiles, [](const ValueTile* tile) {
      return !tile->isHidden() && tile->accessibleName().contains("Most similar expert");
    }));

    const QString recording = w.window.session()->path();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({recording});
    QVERIFY(opened.wait(kWaitMs));
    tabs->bringUp(tabs->text());
    QVERIFY2(together->answerText().contains(": cosine "), qPrintable(together->answerText()));
  }

  // Measures a run in training: a copy with the weights of the step at the cursor, on the run's held-out text.
  void expertsOfARunThatCanBeRemovedAreRanked() {
    OpenWindow w;
    RunSession* session = w.window.session();
    session->live()->run_until(4);
    QTRY_VERIFY_WITH_TIMEOUT(session->live()->status().step == 4 && !session->live()->status().running, kWaitMs);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), std::int64_t{3}, kWaitMs);
    WorkspaceTabs* tabs = w.window.workspaces();
    tabs->bringUp(tabs->text());
    auto* special = tabs->text()->findChild<SpecialisationPanel*>();
    choose(special, "Figure", "pruned models");
    QTest::mouseClick(button(special, "Measure"), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(special->answerText().contains("experts of every layer: loss "), 4 * kWaitMs);
    QVERIFY2(special->caption().contains("weights before step 3"), qPrintable(special->caption()));
    // One copy measures every step. Its values at the last step equal those of the copy that measured only this step.
    const auto rows_of_last = [&] { return special->csv().split('\n').filter(QRegularExpression("^3,")); };
    const QStringList last_step_rows = rows_of_last();
    QVERIFY(!last_step_rows.isEmpty());
    QTest::mouseClick(button(special, "Measure over training"), Qt::LeftButton);
    for (const char* step : {"\n0,1,", "\n1,1,", "\n2,1,", "\n3,1,"})
      QTRY_VERIFY_WITH_TIMEOUT(special->csv().contains(step), 4 * kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(button(special, "Measure over training")->isVisible(), kWaitMs);
    QCOMPARE(rows_of_last(), last_step_rows);
    w.window.selection()->setStep(1);
    QVERIFY2(special->caption().contains("weights before step 1"), qPrintable(special->caption()));
    // A rewind deletes the measured values of later steps.
    session->live()->rewind(0);
    QTRY_VERIFY(!special->csv().contains("\n1,1,"));
    QVERIFY2(special->csv().contains("\n0,1,"), qPrintable(special->csv()));
  }

  // Opens two checkpoints together. The first is run A; the weights of one expert differ in the second.
  void twoCheckpointsAreComparedOnTheirTexts() {
    const QString changed = home_.filePath("changed_model");
    std::filesystem::copy(folder_.toStdString(), changed.toStdString());
    changeExpert(changed);
    OpenWindow w;
    w.window.files()->open({folder_, changed});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog);
    QTRY_VERIFY_WITH_TIMEOUT(facts(*dialog).contains("1,000 tokens (estimated"), kWaitMs);
    QVERIFY(dialog->findChild<QComboBox*>("checkpoint_reference")->currentText().contains("nano_model"));
    dialog->addFiles({textFile("words.txt", "Who takes these words? "), textFile("digits.txt", "31 + 11 = 42; ")});
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    dialog->findChild<QPushButton*>("checkpoint_run")->click();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{2});
    auto* compare = w.window.workspaces()->compare();
    QCOMPARE(w.window.workspaces()->current(), compare);
    auto* loads = compare->findChild<LoadDifferencePanel*>();
    QTRY_VERIFY(loads->isVisible());
    QVERIFY2(loads->answerText().contains("in layer 1, expert 2: "), qPrintable(loads->answerText()));
    QVERIFY2(loads->answerText().contains("B: 1 of "), qPrintable(loads->answerText()));
    auto* predictions = compare->findChild<GradientErrorPanel*>();
    QTRY_VERIFY(predictions->isVisible());
    QVERIFY2(predictions->answerText().startsWith("B: KL from A "), qPrintable(predictions->answerText()));
    // In a batch with tokens of the changed expert, these tokens choose other experts in the next layer.
    const History& b = *w.window.session()->histories()[1];
    std::int64_t step = b.steps().last;
    while (step > 0 && !(b.value_at(Metric::flip_rate, 2, step) > 0)) --step;
    QVERIFY(b.value_at(Metric::flip_rate, 2, step) > 0);
    w.window.selection()->setStep(step);
    auto* flips = compare->findChild<RoutingFlipsPanel*>();
    QVERIFY2(flips->answerText().contains("other experts than in A"), qPrintable(flips->answerText()));
    auto* strip = compare->findChild<VerdictStrip*>();
    QVERIFY2(!strip->text().contains("Too early"), qPrintable(strip->text()));
    auto* gaps = compare->findChild<GapPlot*>();
    QTRY_VERIFY2(gaps->valueText().startsWith("batch "), qPrintable(gaps->valueText()));
    const QString gap = gaps->valueText();
    QVERIFY2(gap.contains(": gap "), qPrintable(gap));
    QVERIFY2(!gap.contains("smoothed") && !gap.contains("0.0000"), qPrintable(gap));

    // The dialog offers the open checkpoint with its texts as the reference, after which only Run must be clicked.
    QTRY_VERIFY(!dialog);  // the first dialog is deleted when it closes
    w.window.files()->open({changed});
    dialog = w.window.findChild<CheckpointDialog*>();
    auto* reference = dialog->findChild<QComboBox*>("checkpoint_reference");
    reference->setCurrentIndex(1);
    emit reference->activated(1);
    QVERIFY2(reference->currentText().contains("nano_model (open, run A)"), qPrintable(reference->currentText()));
    QCOMPARE(dialog->findChild<QListWidget*>("checkpoint_files")->count(), 2);
    dialog->reject();
  }

  void aModelAndItsCopyHaveNoGap() {
    const QString copy = home_.filePath("copied_model");
    std::filesystem::copy(folder_.toStdString(), copy.toStdString());
    OpenWindow w;
    w.window.files()->open({folder_, copy});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QTRY_VERIFY_WITH_TIMEOUT(facts(*dialog).contains("1,000 tokens (estimated"), kWaitMs);
    dialog->addFiles({textFile("words.txt", "Who takes these words? ")});
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    dialog->findChild<QPushButton*>("checkpoint_run")->click();
    QVERIFY(opened.wait(kWaitMs));
    auto* gaps = w.window.workspaces()->compare()->findChild<GapPlot*>();
    QTRY_VERIFY2(gaps->valueText().endsWith(": gap 0"), qPrintable(gaps->valueText()));
  }

  void aFolderAboveCheckpointsListsThem() {
    const QString above = home_.filePath("hub");
    for (const char* name : {"one", "deeper/two"}) {
      std::filesystem::create_directories((above + "/" + name).toStdString());
      std::filesystem::copy(folder_.toStdString(), (above + "/" + name).toStdString());
    }
    OpenWindow w;
    w.window.files()->open({above});
    QPointer<FolderRunsDialog> runs = w.window.findChild<FolderRunsDialog*>();
    QVERIFY(runs);
    QCOMPARE(runs->windowTitle(), QString("Models in hub"));
    auto* table = runs->findChild<QTreeWidget*>("folder_runs");
    QCOMPARE(table->topLevelItemCount(), 2);
    QCOMPARE(table->topLevelItem(0)->text(0), QString("deeper/two"));
    QCOMPARE(table->topLevelItem(0)->text(1), QString("model"));
    for (int row : {0, 1}) table->topLevelItem(row)->setCheckState(0, Qt::Checked);
    QVERIFY(runs->findChild<QLabel*>("folder_runs_note")->text().contains("the first as run A"));
    QAbstractButton* both = button(runs, "&Open 2 side by side");
    QVERIFY(both && both->isEnabled());
    both->click();
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog);
    QVERIFY(dialog->findChild<QComboBox*>("checkpoint_reference")->currentText().endsWith("two"));
    dialog->reject();
  }

  void theSetUpOfATrainingFromItIsFilledIn() {
    OpenWindow w;
    w.window.files()->open({folder_});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog);
    dialog->findChild<QPushButton*>("checkpoint_train")->click();
    auto* form = w.window.findChild<SetupForm*>();
    QTRY_VERIFY_WITH_TIMEOUT(form->isVisible(), kWaitMs);
    QCOMPARE(QString::fromStdString(form->draft().model.initial_weights), folder_);
    QCOMPARE(form->draft().model.n_experts, nano().model.n_experts);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    emit form->startRequested(form->draft());
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->isLive());
    QCOMPARE(QString::fromStdString(w.window.session()->config().name), QString("nano_model"));
  }

  void aFolderWithoutTokenizerSaysSo() {
    const QString folder = home_.filePath("no_tokenizer");
    std::filesystem::copy(folder_.toStdString(), folder.toStdString());
    QVERIFY(QFile::remove(folder + "/tokenizer.json"));
    OpenWindow w;
    w.window.files()->open({folder + "/config.json"});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog);
    QTRY_VERIFY_WITH_TIMEOUT(facts(*dialog).contains("tokenizer.json"), kWaitMs);
    dialog->findChild<QPlainTextEdit*>("checkpoint_prompt")->setPlainText("A text.");
    QVERIFY(!dialog->findChild<QPushButton*>("checkpoint_run")->isEnabled());
    dialog->reject();
    QVERIFY(w.window.session()->isLive());
  }
};

SCREEN_TEST(CheckpointTest)
#include "qt_checkpoint.moc"
