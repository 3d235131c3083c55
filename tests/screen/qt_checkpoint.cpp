// A folder of transformers' checkpoint in the window: which texts to run is asked, and their batches open as a run.
#include <QAbstractItemView>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPointer>
#include <QPushButton>
#include <QTabBar>
#include <QTest>
#include <filesystem>

#include "app/actions/file_actions.h"
#include "app/session/checkpoint_dialog.h"
#include "app/setup/setup_form.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/router_workspace.h"
#include "app/workspaces/text_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/checkpoints/export_model.h"
#include "core/training/trainer.h"
#include "tests/support/controls.h"
#include "tests/support/open_window.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/overview/health_banner.h"
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
    QCOMPARE(history.steps().last, std::int64_t{5});  // three whole pieces, and the rests of three texts
    QVERIFY(!w.window.session()->isLive());
  }

  // Which experts take a domain, whether the router is healthy on one domain alone, and which operand suffers most in
  // MXFP4: each in at most four clicks, which are all that this test does with the window.
  void threeAnswersInFourClicksEach() {
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
    QVERIFY2(special->answerText().contains("digits goes most to experts "), qPrintable(special->answerText()));

    clickTab(tabs->router());
    auto* banner = tabs->router()->findChild<HealthBanner*>();
    QTRY_VERIFY_WITH_TIMEOUT(banner->text().contains("All texts: "), kWaitMs);
    auto* texts = banner->findChild<QComboBox*>("health_texts");
    QVERIFY(texts->isVisible());
    QTest::mouseClick(texts, Qt::LeftButton);
    QAbstractItemView* list = texts->view();
    QTRY_VERIFY(list->isVisible());
    QTest::qWait(QApplication::doubleClickInterval() + 50);  // an earlier release belongs to the click that opened it
    const QModelIndex digits = list->model()->index(texts->findText("digits"), 0);
    QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(digits).center());
    QVERIFY2(banner->text().contains("digits: "), qPrintable(banner->text()));

    clickTab(tabs->microscaling());
    auto* costs = tabs->microscaling()->findChild<OperandCostsPanel*>();
    QVERIFY(costs->isVisible() && !costs->visibleRegion().isEmpty());
    QAbstractButton* measure = button(costs, "Measure mxfp4");
    QTest::mouseClick(measure, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(costs->answerText().contains(" suffers most: divergence "), kWaitMs);
    QVERIFY(costs->caption().startsWith("measured here, mxfp4"));
    QVERIFY(costs->csv().contains("\nmxfp4,all,all,all,"));
    QVERIFY(!measure->isVisible());
    choose(costs, "Number format", "bf16");
    QVERIFY(measure->isVisible());
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

QTEST_MAIN(CheckpointTest)
#include "qt_checkpoint.moc"
