// A folder of transformers' checkpoint in the window: which texts to run is asked, and their batches open as a run.
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPointer>
#include <QPushButton>
#include <QTest>
#include <filesystem>

#include "app/actions/file_actions.h"
#include "app/session/checkpoint_dialog.h"
#include "core/checkpoints/export_model.h"
#include "core/training/trainer.h"
#include "tests/support/open_window.h"

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
    w.window.files()->open({folder_});
    QPointer<CheckpointDialog> dialog = w.window.findChild<CheckpointDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(facts(*dialog).contains("1,000 tokens (measured"), kWaitMs);
    QVERIFY2(facts(*dialog).startsWith("deepseek_v3: "), qPrintable(facts(*dialog)));
    auto* run = dialog->findChild<QPushButton*>("checkpoint_run");
    QVERIFY(!run->isEnabled());  // there is no text yet
    dialog->addFiles({textFile("words.txt", "Who takes these words? "), textFile("digits.txt", "31 + 11 = 42; ")});
    dialog->findChild<QPlainTextEdit*>("checkpoint_prompt")->setPlainText("A text of its own.");
    QVERIFY(run->isEnabled());
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    run->click();
    QVERIFY(opened.wait(kWaitMs));
    const History& history = *w.window.session()->histories().front();
    QCOMPARE(history.info().domains, (std::vector<std::string>{"words", "digits", "prompt"}));
    QCOMPARE(history.info().n_experts, nano().model.n_experts);
    QCOMPARE(history.steps().last, std::int64_t{5});  // three whole pieces, and the rests of three texts
    QVERIFY(!w.window.session()->isLive());
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
