// Files that are opened, dropped, followed and imported, and the messages if a file cannot be opened.
#include <unistd.h>

#include <QAction>
#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QDropEvent>
#include <QInputDialog>
#include <QLabel>
#include <QMessageBox>
#include <QMimeData>
#include <QPointer>
#include <QProgressDialog>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QTreeWidget>
#include <filesystem>
#include <random>

#include "app/actions/file_actions.h"
#include "app/bars/status_line.h"
#include "app/bars/window_bar.h"
#include "app/program/arguments.h"
#include "app/session/settings.h"
#include "app/setup/open_dialogs.h"
#include "app/setup/setup_form.h"
#include "app/window/commands.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_difference.h"
#include "core/config/setup_link.h"
#include "core/recording/recording.h"
#include "tests/support/event_bytes.h"
#include "tests/support/open_window.h"
#include "tests/support/sample_frames.h"
#include "tests/support/screen_test.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"

using namespace moescope;

namespace {

void drop(QWidget* target, const QMimeData& data) {
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(target, &enter);
  QVERIFY(enter.isAccepted());
  QDropEvent event(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(target, &event);
}

void drop(QWidget* target, const QStringList& paths) {
  QMimeData data;
  QList<QUrl> urls;
  for (const QString& path : paths) urls << QUrl::fromLocalFile(path);
  data.setUrls(urls);
  drop(target, data);
}

}  // namespace

class OpeningTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void aBadConfigIsToldAndWhatRunsStays() {
    OpenWindow w;
    const QString path = home_.filePath("bad.toml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("name = \"bad\"\n[router]\ntop_k = 400\nbias_updaterate = 0.1\n");
    file.close();
    QSignalSpy failed(&w.window, &MainWindow::failed);
    drop(&w.window, {path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    const QString message = failed[0][0].toString();
    QVERIFY2(message.contains("bad.toml:3") && message.contains("bad.toml:4"), qPrintable(message));
    QVERIFY2(message.contains("bias_update_rate"), qPrintable(message));
    QVERIFY(w.complaint());
    QVERIFY(w.window.session()->isLive());
    w.trainTo(1);
  }

  // By default, a file that grows is followed. Otherwise it is a snapshot until the user chooses to follow it.
  void theDialogOffersToFollow() {
    OpenWindow w;
    const QString log = home_.filePath("grows.jsonl");
    const auto append = [&](int step) {
      QFile file(log);
      QVERIFY(file.open(QIODevice::Append));
      file.write(QString("{\"step\": %1, \"loss\": 2.5}\n").arg(step).toUtf8());
    };
    for (int step = 0; step < 3; ++step) append(step);
    w.window.files()->askOpen();
    QPointer<OpenDialog> dialog = w.window.findChild<OpenDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    QVERIFY(dialog->follow()->isVisible() && dialog->follow()->isChecked());
    dialog->follow()->setChecked(false);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    emit dialog->filesSelected({log});
    dialog->close();
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->isSnapshot());
    auto* notice = w.window.findChild<NoticeBar*>();
    QCOMPARE(notice->text(), QString("Snapshot, not following: grows.jsonl"));
    const auto last = [&] { return w.window.session()->histories().front()->steps().last; };
    append(3);
    QTest::qWait(1500);  // no step is read: longer than the program takes to notice new steps
    QCOMPARE(last(), 2);
    notice->findChild<QToolButton*>("notice_action")->click();
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(!w.window.session()->isSnapshot());
    append(4);
    QTRY_COMPARE_WITH_TIMEOUT(last(), 4, kWaitMs);
  }

  // File > Open is the only entry for files of every kind; its dialog opens the shown folder, too.
  void theDialogOpensAFolder() {
    OpenWindow w;
    QDir(home_.path()).mkdir("runs");
    QFile log(home_.filePath("runs/one.jsonl"));
    QVERIFY(log.open(QIODevice::WriteOnly));
    log.write("{\"step\": 1, \"loss\": 2.5}\n");
    log.close();
    w.window.files()->askOpen();
    QPointer<OpenDialog> dialog = w.window.findChild<OpenDialog*>();
    dialog->setDirectory(home_.filePath("runs"));
    QSignalSpy questions(w.window.files(), &FileActions::askedWhichRuns);
    dialog->findChild<QPushButton*>("open_folder")->click();
    QTRY_COMPARE(questions.size(), 1);
    QCOMPARE(QFileInfo(questions[0][0].toString()).fileName(), QString("runs"));
    QTRY_VERIFY(!dialog);
  }

  void aFileOfTooManyRunsIsAskedAbout() {
    OpenWindow w;
    const QString folder = home_.filePath("tb");
    for (const char* name : {"a", "b", "c", "d", "e", "f"})
      write_bytes((folder + '/' + name + "/events.out.tfevents.1").toStdString(),
                  tb_summary(0, 1, tb_scalar("loss", 3)) + tb_summary(1, 2, tb_scalar("loss", 2)));
    w.window.files()->open({folder});
    QPointer<QInputDialog> dialog;
    QTRY_VERIFY_WITH_TIMEOUT(dialog = w.window.findChild<QInputDialog*>("which_run"), kWaitMs);
    QCOMPARE(dialog->comboBoxItems(), (QStringList{"a", "b", "c", "d", "e", "f"}));
    dialog->setTextValue("d");
    QTest::keyClick(dialog, Qt::Key_Return);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->paths(), QStringList{folder}, kWaitMs);
    QCOMPARE(w.window.session()->histories().size(), 1u);
    QCOMPARE(w.window.session()->histories()[0]->info().name, std::string("d"));
    QVERIFY(!w.complaint());
  }

  void aFolderOfRunsIsAskedAbout() {
    OpenWindow w;
    const QString folder = home_.filePath("two_runs");
    QVERIFY(QDir().mkpath(folder));
    for (const char* name : {"old.jsonl", "new.jsonl"}) {
      QFile file(folder + '/' + name);
      QVERIFY(file.open(QIODevice::WriteOnly));
      for (int step = 0; step < 3; ++step)
        file.write(
            QString(R"({"step":%1,"loss":2.5,"routers":[{"layer":1,"tokens_per_expert":[3,5]}]})").arg(step).toUtf8() +
            '\n');
      QVERIFY(file.setFileTime(QDateTime::currentDateTime().addSecs(*name == 'o' ? -90 : 0),
                               QFileDevice::FileModificationTime));
    }
    drop(&w.window, {folder});
    QPointer<QDialog> dialog;
    QTRY_VERIFY_WITH_TIMEOUT(dialog = w.window.findChild<QDialog*>("folder_runs_dialog"), kWaitMs);
    auto* table = dialog->findChild<QTreeWidget*>("folder_runs");
    QCOMPARE(table->topLevelItemCount(), 2);
    QCOMPARE(table->topLevelItem(0)->text(0), QString("new.jsonl"));
    QCOMPARE(table->topLevelItem(0)->checkState(0), Qt::Checked);
    table->topLevelItem(1)->setCheckState(0, Qt::Checked);
    QPushButton* open = nullptr;
    for (QPushButton* button : dialog->findChildren<QPushButton*>())
      if (button->text() == "&Open 2 side by side") open = button;
    QVERIFY(open && open->isEnabled());
    QVERIFY(open->isDefault());
    QTest::keyClick(dialog, Qt::Key_Return);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->paths().size(), 2, kWaitMs);
    QCOMPARE(w.window.session()->paths().front(), folder + "/new.jsonl");
    QTRY_VERIFY(!dialog);

    w.window.files()->open({folder});
    QTRY_VERIFY_WITH_TIMEOUT(dialog = w.window.findChild<QDialog*>("folder_runs_dialog"), kWaitMs);
    for (QPushButton* button : dialog->findChildren<QPushButton*>())
      if (button->text() == "&Train on its text") button->click();
    QTRY_VERIFY_WITH_TIMEOUT(w.window.session()->isLive(), kWaitMs);
    QCOMPARE(QString::fromStdString(w.window.session()->config().data.path), folder);
  }

  void anUnknownTextIsAskedAbout() {
    OpenWindow w;
    const QString path = home_.filePath("unknown.log");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    for (int i = 0; i < 2000; ++i) file.write("Once upon a time there was a text without a step.\n");
    file.close();
    QPointer<QMessageBox> box;
    drop(&w.window, {path});
    QTRY_VERIFY_WITH_TIMEOUT(box = w.window.findChild<QMessageBox*>("unknown_text"), kWaitMs);
    QVERIFY2(box->text().contains("no log that MoEScope knows. Train on it as text?"), qPrintable(box->text()));
    QTest::keyClick(box, Qt::Key_Return);  // Cancel is the default
    QTRY_VERIFY(!box);
    QVERIFY(!w.window.session()->isLive() || w.window.session()->config().data.path != path.toStdString());
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(box = w.window.findChild<QMessageBox*>("unknown_text"), kWaitMs);
    box->findChild<QPushButton*>("train_on_text")->click();
    QTRY_VERIFY_WITH_TIMEOUT(
        w.window.session()->isLive() && w.window.session()->config().data.path == path.toStdString(), kWaitMs);
  }

  // A single response with a flat array of experts can have several shapes.
  void aRoutingOfUnknownShapeIsAskedAbout() {
    OpenWindow w;
    const QString path = home_.filePath("responses.jsonl");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QByteArray ids;
    for (int token = 0; token < 6; ++token)
      for (const int expert : {token % 4, 4 + token % 2, token % 3, 7})
        ids.append(QByteArray(1, char(expert)) + QByteArray(3, 0));
    file.write(R"({"meta_info":{"routed_experts":")" + ids.toBase64() +
               R"(","prompt_tokens":3,"completion_tokens":4}})" + "\n");
    file.close();
    drop(&w.window, {path});
    QDialog* dialog = nullptr;
    QTRY_VERIFY_WITH_TIMEOUT(dialog = w.window.findChild<QDialog*>("account_window"), kWaitMs);
    const QString summary = dialog->findChild<QLabel*>("account_summary")->text();
    QVERIFY2(summary.startsWith("No run: ") && summary.contains("layers"), qPrintable(summary));
    dialog->findChild<QSpinBox*>("stated_layers")->setValue(2);
    dialog->findChild<QSpinBox*>("stated_top_k")->setValue(2);
    dialog->findChild<QPushButton*>("apply_meaning")->click();
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->paths(), QStringList{path}, kWaitMs);
    const RunInfo& info = w.window.session()->histories().front()->info();
    QCOMPARE(info.moe_layers, (std::vector<int>{0, 1}));
    QCOMPARE(info.n_experts, 8);
  }

  // A .npy file does not distinguish the types E4M3 and E5M2 of ml_dtypes.
  void valuesWithoutATypeAreAskedAbout() {
    OpenWindow w;
    const QString tensor_path = QStringLiteral(MOESCOPE_TEST_DATA "/data/tensors/ml_float8_e4m3fn.npy");
    TensorLab* lab = w.window.workspaces()->microscaling()->tensorLab();
    const auto answer = [&](const char* type) {
      QPointer<QInputDialog> dialog;
      QTRY_VERIFY_WITH_TIMEOUT(dialog = w.window.findChild<QInputDialog*>("type_of_values"), kWaitMs);
      QCOMPARE(dialog->comboBoxItems(), (QStringList{"F8_E4M3", "F8_E5M2", "F8_E8M0"}));
      dialog->setTextValue(type);
      QTest::keyClick(dialog, Qt::Key_Return);
      QTRY_VERIFY(!dialog);
      QCOMPARE(lab->browser()->model().entries().size(), std::size_t{1});
      QCOMPARE(lab->browser()->model().entries()[0].source.dtype(), QString(type));
      QVERIFY(lab->browser()->error().isEmpty());
    };
    drop(&w.window, {tensor_path});
    answer("F8_E4M3");
    w.window.files()->askOpen();  // Ctrl+O
    QPointer<OpenDialog> open = w.window.findChild<OpenDialog*>();
    emit open->filesSelected({tensor_path});
    open->close();
    answer("F8_E5M2");
    drop(&w.window, {tensor_path});
    answer("F8_E8M0");
    QVERIFY(!w.complaint());
  }

  void aFileThatIsNoRecordingIsTold() {
    OpenWindow w;
    const QString path = home_.filePath("no.moescope");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("this is no recording");
    file.close();
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    QVERIFY2(failed[0][0].toString().contains("no.moescope"), qPrintable(failed[0][0].toString()));
    w.trainTo(1);
  }

  void missingDataIsToldAndWhatRunsStays() {
    OpenWindow w;
    RunConfig config = nano();
    config.data.path = "/nowhere/at/all";
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.window.runControl()->start(config);
    if (failed.isEmpty()) QVERIFY(failed.wait(kWaitMs));
    QVERIFY2(failed[0][0].toString().contains("/nowhere/at/all"), qPrintable(failed[0][0].toString()));
    w.trainTo(1);
  }

  void aRecordingShowsTheFiguresOfItsRun() {
    std::map<QString, QString> live;
    QString path;
    {
      OpenWindow w(nanoInMxfp8(), true);
      w.trainTo(20);
      w.window.session()->live()->flush();
      w.window.selection()->refresh();
      for (const Panel* panel : w.window.workspaces()->overview()->panels()) live[panel->title()] = panel->csv();
      path = w.window.session()->path();
      QVERIFY(!path.isEmpty());
    }
    MainWindow window;
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QVERIFY(window.session()->showsLog());
    QCOMPARE(window.selection()->history()->steps().size(), 20);
    for (const Panel* panel : window.workspaces()->overview()->panels()) {
      if (panel->title() == "Findings") continue;  // computed in a separate thread; qt_findings.cpp tests it
      if (panel->title() == "Loss gap" || panel->title() == "Gradient error") continue;  // not in this run
      QVERIFY2(live[panel->title()].count('\n') > 1, qPrintable(panel->title()));
      QTRY_VERIFY2_WITH_TIMEOUT(  // curves may be read after the run was opened
          panel->csv() == live[panel->title()],
          qPrintable(panel->title() + "\n" + live[panel->title()].left(400) + "\n--\n" + panel->csv().left(400)),
          kWaitMs);
    }
    window.selection()->setStep(7);
    QCOMPARE(window.selection()->step(), 7);
    QCOMPARE(window.findChild<WindowBar*>()->runAction()->text(), QString("Play"));
  }

  void aRecordingWithoutItsLogSaysSo() {
    QTemporaryDir folder;
    const std::string whole = folder.filePath("whole.moescope").toStdString();
    const std::string copied_alone = folder.filePath("alone.moescope").toStdString();
    RecordingWriter writer(whole);
    writer.add_run(sample_info({}));
    std::mt19937 rng(1);
    writer.write(std::vector{std::make_shared<const TelemetryFrame>(sample_frame(0, {}, rng))});
    std::filesystem::copy_file(whole, copied_alone);  // like the file of a killed program
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({QString::fromStdString(copied_alone)});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QVERIFY(w.window.findChild<NoticeBar*>()->isVisible());
    QVERIFY2(w.window.findChild<NoticeBar*>()->text().contains(
                 "alone.moescope-wal, is not here. The recording ends with step 0"),
             qPrintable(w.window.findChild<NoticeBar*>()->text()));
  }

  void droppedLogsAreRunsSideBySide() {
    OpenWindow w;
    QTemporaryDir folder;
    const QString bad = folder.filePath("bad.jsonl");
    QFile file(bad);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,3]]}\nnot json\n{\"step\":1,\"loss\":2}\n");
    file.close();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    const QString samples = QString(MOESCOPE_TEST_DATA) + "/../assets/samples/";
    drop(&w.window, {samples + "unbalanced_bf16.jsonl", samples + "domain_shift.jsonl", bad});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.window.session()->histories().size(), std::size_t{3});
    QVERIFY(!w.window.session()->isLive());
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
    QTRY_VERIFY(w.window.findChild<QMessageBox*>("skipped_lines"));
    auto* message = w.window.findChild<QMessageBox*>("skipped_lines");
    QVERIFY2(message->text().contains("bad.jsonl: 1 line could not be read"), qPrintable(message->text()));
    QVERIFY2(message->detailedText().contains("line 2: not JSON"), qPrintable(message->detailedText()));
    message->close();
    QCOMPARE(w.window.findChild<SetupForm*>()->findChild<QLabel*>("setup_purpose")->text(),
             QString("settings for a new run"));
    drop(&w.window, {bad, "/usr/share/common-licenses"});  // a log and texts cannot be opened together
    QTRY_VERIFY(w.complaint());
    QVERIFY2(w.complaint()->text().contains("no log that MoEScope knows"), qPrintable(w.complaint()->text()));
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
    drop(&w.window, {path});
    QTRY_VERIFY(w.window.workspaces()->microscaling()->isVisible());
    auto* browser = w.window.workspaces()->microscaling()->tensorLab()->browser();
    QTRY_VERIFY(browser->csv().contains("w"));
    QVERIFY2(browser->error().isEmpty(), qPrintable(browser->error()));
    QVERIFY(w.window.session()->isLive());  // the run stays open
  }

  void aLogIsFollowedWhileItGrows() {
    QTemporaryDir folder;
    const QString path = folder.filePath("run.jsonl");
    MainWindow window(false);
    window.show();
    window.session()->follow({path});
    QVERIFY(window.session()->isFollowing());
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->followingText().contains("waiting for run.jsonl"), kWaitMs);
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    for (int step = 0; step < 30; ++step)
      file.write(QString("{\"step\":%1,\"loss\":%2,\"tokens_per_expert\":[[1,3,4,2],[2,3,4,1]]}\n")
                     .arg(step)
                     .arg(5 - 0.1 * step)
                     .toUtf8());
    QTRY_COMPARE_WITH_TIMEOUT(window.selection()->step(), 29, kWaitMs);
    QVERIFY(window.selection()->following());
    file.write("half a line");
    file.write(" that is no JSON\n");
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->skipped().size(), std::size_t{1}, kWaitMs);
    QVERIFY(window.session()->followingText().contains("1 could not be read"));
    QVERIFY(file.resize(0));  // the training started again
    QVERIFY(file.seek(0));
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->followingText().contains("truncated or replaced"), kWaitMs);
    file.write("{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,3]]}\n");
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->histories().front()->steps().last, 0, kWaitMs);
  }

  void aPipeIsFollowedUntilItEnds() {
    int ends[2], input = dup(STDIN_FILENO);
    QCOMPARE(pipe(ends), 0);
    dup2(ends[0], STDIN_FILENO);
    const auto write = [&](const QByteArray& text) {
      QCOMPARE(::write(ends[1], text.constData(), static_cast<std::size_t>(text.size())), text.size());
    };
    MainWindow window(false);
    window.show();
    window.session()->follow({"-"});
    QVERIFY(window.session()->isFollowing());
    for (int step = 0; step < 3; ++step) {
      write("{\"step\":" + QByteArray::number(step) + ",\"loss\":2}\n");
      QTRY_COMPARE_WITH_TIMEOUT(window.selection()->step(), step, kWaitMs);
    }
    QVERIFY(!window.session()->followingText().contains("ended"));
    write("{\"step\":3,\"loss\":2}");  // the last line has no newline
    close(ends[1]);
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->followingText().endsWith(", ended"), kWaitMs);
    QTRY_COMPARE_WITH_TIMEOUT(window.selection()->step(), 3, kWaitMs);
    QVERIFY(!recentFiles().contains(window.session()->path()));  // the copy goes when other runs are opened
    dup2(input, STDIN_FILENO);
    close(input);
    close(ends[0]);
  }

  void anImportTellsHowFarItIsAndCanBeCancelled() {
    OpenWindow w;
    QTemporaryDir folder;
    const QString path = folder.filePath("large.jsonl");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QByteArray layer = "[1";
    for (int expert = 1; expert < 256; ++expert) layer += ",100";
    layer += "]";
    QByteArray layers = layer;
    for (int i = 1; i < 20; ++i) layers += "," + layer;
    for (int step = 0; step < 1000; ++step)
      file.write("{\"step\":" + QByteArray::number(step) + ",\"tokens_per_expert\":[" + layers + "]}\n");
    file.close();
    QSignalSpy progress(w.window.session(), &RunSession::openingProgress);
    QSignalSpy failed(w.window.session(), &RunSession::failed);
    connect(w.window.session(), &RunSession::openingProgress, &w.window, [&](double share) {
      if (share > 0.2) emit w.window.findChild<QProgressDialog*>()->canceled();  // like a click on its button
    });
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!failed.isEmpty(), kWaitMs);
    QVERIFY(failed[0][0].toString().isEmpty());
    QVERIFY(progress.size() > 1);
    QVERIFY2(progress.last()[0].toDouble() < 1, "it did not read to the end");
    QVERIFY(w.window.session()->isLive());  // the open run stays
    QVERIFY(!w.complaint());
  }

  // The button says "Following" only while new steps arrive.
  void anOpenedFileThatGrowsIsFollowed_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("head");
    QTest::addColumn<QString>("line");
    QTest::addColumn<bool>("from_palette");  // opened as a recent file; otherwise dropped
    const QString line = R"({"step":%1,"loss":2.5,"routers":[{"layer":1,"tokens_per_expert":[3,5]}]})";
    QTest::newRow("JSON lines") << "grows.jsonl" << QByteArray() << line << false;
    QTest::newRow("a table") << "grows.csv" << QByteArray("step,layer,expert,count\n") << "%1,1,0,3\n%1,1,1,5" << false;
    QTest::newRow("a recent file, by the palette") << "recent.jsonl" << QByteArray() << line << true;
  }

  void anOpenedFileThatGrowsIsFollowed() {
    QFETCH(QString, name);
    QFETCH(QByteArray, head);
    QFETCH(QString, line);
    QFETCH(bool, from_palette);
    OpenWindow w;
    QFile file(home_.filePath(name));
    const auto write = [&](int first, int last) {
      QVERIFY(file.open(QIODevice::Append));
      for (int step = first; step <= last; ++step) file.write(line.arg(step).toUtf8() + '\n');
      file.close();
    };
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(head);
    file.close();
    write(0, 4);
    if (from_palette) {
      rememberRecentFile(file.fileName());
      for (const PaletteCommand& command : commandsOf(&w.window))
        if (command.title == "Open " + name) command.run();
    } else {
      drop(&w.window, {file.fileName()});
    }
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), 4, kWaitMs);
    const auto label = [&] {
      for (const QToolButton* button : w.window.findChildren<QToolButton*>())
        if (button->isVisible() && (button->text().startsWith("Follow") || button->text() == "Last step"))
          return button->text();
      return QString();
    };
    w.window.workspaces()->bringUp(w.window.workspaces()->overview());
    QTRY_COMPARE(label(), QString("Last step"));
    QTest::qWait(1500);  // no step is written, so the label stays
    QVERIFY(!w.window.session()->isFollowing());
    w.window.selection()->setStep(2);
    write(5, 9);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->history()->steps().last, 9, kWaitMs);
    QCOMPARE(w.window.selection()->step(), 2);  // the cursor stays at the user's step
    QTRY_COMPARE(label(), QString("Follow"));
    w.window.selection()->fitRange();
    QTRY_COMPARE(label(), QString("Following"));
    write(10, 12);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), 12, kWaitMs);
    w.window.selection()->setRange({8, 12});
    write(13, 14);
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), 14, kWaitMs);
    QCOMPARE(w.window.selection()->range().last, 14);
    QCOMPARE(w.window.selection()->range().size(), 5);  // the zoomed range keeps its size
  }

  // Each request comes while the one before is still being opened.
  void theNewestRequestIsWhatOpens() {
    OpenWindow w;
    for (const char* name : {"first.jsonl", "second.jsonl"}) {
      QFile file(home_.filePath(name));
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(R"({"step":0,"loss":2.5,"routers":[{"layer":1,"tokens_per_expert":[3,5]}]})");
    }
    QSignalSpy opened(w.window.session(), &RunSession::opened), failed(w.window.session(), &RunSession::failed);
    w.window.runControl()->start(nano());
    w.window.files()->open({home_.filePath("first.jsonl")});
    w.window.files()->open({home_.filePath("second.jsonl")});
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 1, kWaitMs);
    QCOMPARE(w.window.session()->path(), home_.filePath("second.jsonl"));
    w.window.files()->open({home_.filePath("first.jsonl")});
    w.window.session()->follow({home_.filePath("second.jsonl")});
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 2, kWaitMs);
    QVERIFY(w.window.session()->isFollowing());
    w.window.files()->open({home_.filePath("first.jsonl")});
    w.window.runControl()->start(nano(), RunControl::Start::paused);
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 3, kWaitMs);
    QVERIFY(w.window.session()->isLive());
    QTRY_VERIFY(!w.window.findChild<QProgressDialog*>());
    w.window.files()->open({home_.filePath("first.jsonl")});
    w.window.runControl()->start(nano());
    w.window.session()->cancelOpening();  // cancels both requests
    QTRY_COMPARE_WITH_TIMEOUT(failed.size(), 1, kWaitMs);
    QVERIFY(failed[0][0].toString().isEmpty());
    QCOMPARE(opened.size(), 3);
  }

  // A set-up that is copied in one window and pasted in another opens the same runs, step, workspace, layer and expert.
  void aCopiedSetupOpensTheSameRuns() {
    RunConfig config = nanoInMxfp8();
    config.seed = 7;
    OpenWindow w(config);
    QCOMPARE(w.window.session()->addRun(noise_twin(config)), QString());
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->histories().size(), std::size_t{2}, kWaitMs);
    w.trainTo(12);
    w.window.selection()->refresh();
    w.window.workspaces()->bringUp("router");
    w.window.selection()->setRun(1);
    w.window.selection()->setLayer(2);
    w.window.selection()->setExpert(5);
    w.window.selection()->setStep(8);
    w.key(Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
    const QString link = QApplication::clipboard()->text();
    QVERIFY2(link.startsWith("moescope:setup?workspace=router&run=1&layer=2&expert=5&step=8&config="),
             qPrintable(link));

    OpenWindow other;
    QSignalSpy opened(other.window.session(), &RunSession::opened);
    other.key(Qt::Key_V, Qt::ControlModifier | Qt::ShiftModifier);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(!other.live()->status().running && other.step() == 9, kWaitMs);
    QCOMPARE(other.window.session()->histories().size(), std::size_t{2});
    QVERIFY(difference(other.window.session()->config(0), w.window.session()->config(0)).empty());
    QVERIFY(difference(other.window.session()->config(1), w.window.session()->config(1)).empty());
    QCOMPARE(other.window.workspaces()->current()->name(), QString("Router"));
    QCOMPARE(other.window.selection()->run(), 1);
    QCOMPARE(other.window.selection()->layer(), 2);
    QCOMPARE(other.window.selection()->expert(), 5);
    const auto loss = [](OpenWindow& opened) {
      return opened.window.session()->histories()[1]->value_at(Metric::ce_loss, kWholeRun, 8);
    };
    other.live()->flush();
    QCOMPARE(loss(other), loss(w));  // bit by bit
  }

  void aDroppedSetupOpensAndADamagedOneIsTold() {
    SharedSetup setup;
    setup.configs = {nano()};
    setup.configs.front().name = "dropped";
    const QString link = QString::fromStdString(setup_link(setup));
    OpenWindow w;
    QSignalSpy failed(&w.window, &MainWindow::failed);
    w.window.files()->open({link.chopped(30)});
    QCOMPARE(failed.size(), 1);
    QCOMPARE(failed[0][0].toString(),
             QString("The set-up cannot be opened: its settings are damaged or cut off; copy the whole text."));
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    QMimeData data;
    data.setText(link);
    drop(&w.window, data);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.window.session()->histories().front()->info().name, std::string("dropped"));
  }

  void windowSaysThatALinkIsDamaged() {
    const QString damaged = "moescope:setup?config=eJx";
    const Arguments clicked = parseArguments({"moescope", damaged});  // a link that was clicked on the desktop
    QVERIFY2(clicked.problems.isEmpty(), qPrintable(clicked.problems.join('\n')));
    QCOMPARE(clicked.setup, damaged);
    QVERIFY(parseArguments({"moescope", "--setup", damaged}).problems.value(0).startsWith("--setup: The set-up"));
    QCOMPARE(parseArguments({"moescope", "--follow", ""}).problems,
             QStringList("the argument behind --follow is empty"));
  }

  void droppedTextBecomesTheData() {
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    drop(&w.window, {"/usr/share/common-licenses"});
    QPointer<QMessageBox> box;
    QTRY_VERIFY_WITH_TIMEOUT(box = w.window.findChild<QMessageBox*>("unknown_text"), kWaitMs);
    QVERIFY2(box->text().contains("This folder holds no log"), qPrintable(box->text()));
    box->findChild<QPushButton*>("train_on_text")->click();
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QCOMPARE(w.live()->config(0).data.path, std::string("/usr/share/common-licenses"));
    w.window.session()->live()->pause();
  }

  void onlyTheNewestRecordingsAreKept() {
    const QDir folder(recordingsFolder());
    folder.mkpath(".");
    for (int i = 0; i < kKeptRecordings + 5; ++i) {
      QFile file(folder.filePath(QString("old-%1.moescope").arg(i)));
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.setFileTime(QDateTime::currentDateTime().addDays(-100 - i), QFileDevice::FileModificationTime);
    }
    const QString fresh = newRecordingPath("x");
    QCOMPARE(folder.entryList({"*.moescope"}).size(), kKeptRecordings - 1);
    QVERIFY(!QFile::exists(fresh));
    QVERIFY(!folder.exists(QString("old-%1.moescope").arg(kKeptRecordings + 4)));
  }
};

SCREEN_TEST(OpeningTest)
#include "qt_opening.moc"
