// Up to sixteen candidates: the list of the Compare dialog, the groups in which they train, the table of outcomes.
#include <QApplication>
#include <QComboBox>
#include <QDirIterator>
#include <QLabel>
#include <QListWidget>
#include <QMenu>
#include <QPushButton>
#include <QSpinBox>
#include <QTableView>
#include <algorithm>

#include "app/actions/file_actions.h"
#include "app/actions/queue_actions.h"
#include "app/bars/status_line.h"
#include "app/docks/outcomes_view.h"
#include "app/setup/compare_dialog.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/recording/recording.h"
#include "core/training/engine/retrain.h"
#include "core/training/engine/run_queue.h"
#include "tests/support/controls.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/verdicts_panel.h"

using namespace moescope;

namespace {

// Returns a config so small that many runs train in a second.
RunConfig quick(const char* name) {
  RunConfig config = nano();
  config.telemetry.flips_every = 2;
  config.telemetry.gradient_every = 5;
  config.name = name;
  config.data.batch = 2;
  config.data.seq = 32;
  return config;
}

QPushButton* pushButton(const QWidget* parent, const QString& text) {
  for (QPushButton* candidate : parent->findChildren<QPushButton*>())
    if (candidate->text().remove('&').startsWith(text)) return candidate;
  return nullptr;
}

bool showsWords(const QWidget* in, const QString& words) {
  return std::ranges::any_of(in->findChildren<QLabel*>(),
                             [&](const QLabel* label) { return label->isVisible() && label->text().contains(words); });
}

// Returns the texts of a column in the order of the rows on the screen.
QStringList shownColumn(const QTableView* table, int column) {
  QStringList cells;
  for (int row = 0; row < table->model()->rowCount(); ++row)
    cells << table->model()->index(row, column).data().toString();
  return cells;
}

// Triggers the entry `text` of the menu "Add more" of the dialog.
void addMore(const QDialog& dialog, const QString& text) {
  for (QAction* action : dialog.findChildren<QAction*>())
    if (action->text().remove(QLatin1Char('&')) == text) return action->trigger();
  qFatal("no entry says %s", qPrintable(text));
}

// Opens the Compare dialog of the window and adds `values` learning rates to its list.
CompareDialog* dialogWith(OpenWindow& w, int values) {
  QTest::keyClick(&w.window, Qt::Key_C);
  auto* dialog = w.window.findChild<CompareDialog*>("compare_dialog");
  if (!dialog) qFatal("no dialog");
  choose(dialog, "Setting", "optimizer.lr");
  for (int i = 1; i <= values; ++i) {
    auto* line = dialog->findChild<FieldEditor*>()->findChild<QLineEdit*>();
    line->selectAll();
    QTest::keyClicks(line, QString::number(0.002 + 0.0001 * i));
    QTest::mouseClick(pushButton(dialog, "Add to list"), Qt::LeftButton);
  }
  return dialog;
}

}  // namespace

class CandidatesTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void theListTakesSixteenCandidatesAndRefusesMore() {
    CompareDialog dialog(nano(), &OptimizerConfig::lr);
    dialog.setAttribute(Qt::WA_DeleteOnClose, false);
    QSignalSpy groups(&dialog, &CompareDialog::groupsRequested);
    dialog.show();
    auto* line = dialog.findChild<FieldEditor*>()->findChild<QLineEdit*>();
    const auto add = [&](int i) {
      line->selectAll();
      QTest::keyClicks(line, QString::number(0.002 + 0.0001 * i));
      QTest::mouseClick(pushButton(&dialog, "Add to list"), Qt::LeftButton);
    };
    auto* list = dialog.findChild<QListWidget*>("candidates");
    QVERIFY(!list->isVisible());  // no list before a candidate is added
    add(0);
    add(0);
    QCOMPARE(list->count(), 1);
    QVERIFY(showsWords(&dialog, "on the list already"));
    QVERIFY(!dialog.findChild<QSpinBox*>("group_steps")->isVisible());  // a single twin trains with the open run A
    for (int i = 1; i < 16; ++i) add(i);
    QCOMPARE(list->count(), 16);
    add(16);
    QCOMPARE(list->count(), 16);
    QVERIFY(showsWords(&dialog, "16 candidates are on the list, more cannot be compared"));
    QVERIFY(showsWords(&dialog, "in 6 groups"));
    const auto* steps = dialog.findChild<QSpinBox*>("group_steps");
    QVERIFY(list->mapTo(&dialog, list->rect().bottomLeft()).y() < steps->mapTo(&dialog, QPoint()).y());
    QVERIFY(dialog.frameGeometry().bottom() <= dialog.screen()->availableGeometry().bottom());
    QVERIFY(QTest::qWaitForWindowActive(&dialog));
    list->setFocus();
    list->setCurrentRow(3);
    QTest::keyClick(list, Qt::Key_Delete);
    QCOMPARE(list->count(), 15);
    addMore(dialog, "Noise twin");
    QCOMPARE(list->count(), 16);
    list->setFocus();
    list->setCurrentRow(15);
    QTest::keyClick(list, Qt::Key_Delete);
    list->setCurrentRow(14);
    QTest::keyClick(list, Qt::Key_Delete);
    addMore(dialog, "Dense twins");
    QCOMPARE(list->count(), 16);
    QVERIFY2(list->item(15)->text().contains("model.n_dense_layers = "), qPrintable(list->item(15)->text()));
    list->setCurrentRow(0);  // a candidate with two changed settings
    choose(&dialog, "Setting", "router.top_k");
    line = dialog.findChild<FieldEditor*>()->findChild<QLineEdit*>();
    line->selectAll();
    QTest::keyClicks(line, "1");
    addMore(dialog, "This setting in the chosen candidate, too");
    QCOMPARE(list->item(0)->text(), QString("router.top_k = 1, optimizer.lr = 0.002"));
    dialog.findChild<QSpinBox*>("group_steps")->setValue(123);
    QTest::mouseClick(pushButton(&dialog, "Train 16 candidates"), Qt::LeftButton);
    QCOMPARE(groups.size(), 1);
    QCOMPARE(groups[0][1].toLongLong(), 123);
    QCOMPARE(groups[0][0].value<std::vector<RunConfig>>().size(), 17u);  // run A and 16 candidates
  }

  void aGridPutsItsCombinationsOnTheList() {
    RunConfig first = nano();
    first.router.top_k = 2;
    CompareDialog dialog(first, &OptimizerConfig::lr);
    dialog.setAttribute(Qt::WA_DeleteOnClose, false);
    dialog.show();
    auto* grid = dialog.findChild<QLineEdit*>("grid");
    QVERIFY(!grid->isVisible());  // shown by its entry of the menu only
    addMore(dialog, "Grid of settings...");
    QVERIFY(grid->isVisible());
    auto* list = dialog.findChild<QListWidget*>("candidates");
    const auto add = [&](const QString& text, int seeds) {
      grid->setText(text);
      control<QSpinBox>(&dialog, "Seeds of each point of the grid")->setValue(seeds);
      QTest::mouseClick(pushButton(&dialog, "Add grid"), Qt::LeftButton);
    };
    add("router.top_k=1,2; router.bias_update_rate=0,0.01", 1);
    QCOMPARE(list->count(), 4);
    QVERIFY2(list->item(3)->text().contains("router.bias_update_rate = 0.01"), qPrintable(list->item(3)->text()));
    add("router.top_k=1,2", 6);  // 2 values x 6 seeds - run A; top_k=1 with run A's seed is not on the list yet
    QCOMPARE(list->count(), 4 + 11);
    add("router.top_k=1,4,8", 1);
    QCOMPARE(list->count(), 15);
    QVERIFY(showsWords(&dialog, "With this grid 18 candidates would be on the list; at most 16 are allowed"));
    add("router.topk=1,2", 1);
    QVERIFY(showsWords(&dialog, "did you mean router.top_k?"));
    add("router.top_k=1,one", 1);
    QVERIFY(showsWords(&dialog, "router.top_k"));
    QCOMPARE(list->count(), 15);
  }

  void candidatesTrainInGroupsIntoOneTable() {
    RunConfig config = quick("tiny");
    OpenWindow w(config);
    CompareDialog* dialog = dialogWith(w, 4);
    addMore(*dialog, "Noise twin");
    QVERIFY(showsWords(dialog, "7 runs of"));
    dialog->findChild<QSpinBox*>("group_steps")->setValue(60);
    QTest::mouseClick(pushButton(dialog, "Train 5 candidates"), Qt::LeftButton);
    auto* dock = w.window.findChild<OutcomesView*>();
    QVERIFY(dock->isVisible());
    const auto* table = dock->findChild<QTableView*>("outcomes_table");
    QCOMPARE(table->model()->rowCount(), 6);
    QVERIFY(shownColumn(table, 6).contains("waiting"));
    QVERIFY(!w.live()->status().running);
    auto* panel = w.window.findChild<VerdictsPanel*>();
    QTRY_VERIFY_WITH_TIMEOUT(!dock->training() && panel->csv().count("waiting") == 0, kWaitMs);
    QTRY_VERIFY(showsWords(dock, "All 2 groups are done"));

    // The outcomes computed from the recordings.
    std::vector<JudgedRun> runs;
    QTRY_COMPARE(recordedGroups().size(), 2);
    for (int group = 1; group <= 2; ++group) {
      const RecordingReader recording(recordedGroups()[group - 1].toStdString());
      for (const RunInfo& info : recording.runs())
        if (group == 1 || info.run > 0) runs.push_back({recorded_config(info), recording.load(info.run), group});
    }
    const std::vector<Outcome> expected = outcomes(runs);
    QCOMPARE(dock->outcomes().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {  // the table is updated a moment later
      QTRY_COMPARE(dock->outcomes()[i].name, expected[i].name);
      QCOMPARE(dock->outcomes()[i].group, expected[i].group);
      // As text, because a gap that is not known yet is NaN, for which QTRY_COMPARE would wait until its time is over.
      if (i > 0)
        QTRY_COMPARE(std::to_string(dock->outcomes()[i].conclusion.gap), std::to_string(expected[i].conclusion.gap));
      QTRY_COMPARE(verdict_words(dock->outcomes()[i]), verdict_words(expected[i]));
      if (i > 0 && !expected[i].noise_twin) QTRY_COMPARE(dock->outcomes()[i].conclusion.candidates, 4);
    }
    QCOMPARE(shownColumn(table, 0).front(), QString("tiny"));  // run A first
    QVERIFY(shownColumn(table, 6).contains("noise twin"));

    sortingAndOpening(w, dock);
  }

  void aFileWithManyTwinsTrainsInGroups() {
    OpenWindow w;
    ParsedConfig parsed;
    parsed.config = quick("file");
    parsed.config.optimizer.warmup_steps = 1;
    parsed.config.optimizer.total_steps = 3;
    for (int i = 1; i <= 4; ++i) {
      parsed.twins.push_back(parsed.config);
      parsed.twins.back().name = "lr" + std::to_string(i);
      parsed.twins.back().optimizer.lr = 0.001 * i + 0.0001;
    }
    parsed.twins.push_back(perturbed_twin(parsed.config));
    parsed.twins.back().name = "by-chance";
    w.window.findChild<RunControl*>()->startAll(all_runs(parsed), RunControl::Start::running);
    auto* dock = w.window.findChild<OutcomesView*>();
    QVERIFY(dock->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(showsWords(dock, "All 2 groups are done"), kWaitMs);
    auto* panel = w.window.findChild<VerdictsPanel*>();
    QTRY_COMPARE(panel->csv().count("waiting"), 0);
    const auto has_all_steps = [](const Outcome& outcome) { return outcome.figures.steps == 3; };
    QTRY_VERIFY_WITH_TIMEOUT(std::ranges::all_of(dock->outcomes(), has_all_steps), kWaitMs);
    for (const Outcome& outcome : dock->outcomes())
      if (outcome.noise_twin) QCOMPARE(outcome.group, 1);  // so that a candidate is judged when it ends
  }

  void cancellingKeepsFinishedGroups() {
    OpenWindow w(quick("cancelled"));
    std::vector<RunConfig> runs(8, quick("cancelled"));
    for (std::size_t i = 1; i < runs.size(); ++i) {
      runs[i].name = "candidate " + std::to_string(i);
      runs[i].optimizer.lr = 0.002 + 0.0001 * static_cast<double>(i);
    }
    w.window.findChild<QueueActions*>()->start(runs, 50);
    auto* dock = w.window.findChild<OutcomesView*>();
    auto* stop = dock->findChild<QPushButton*>("queue_stop");
    QCOMPARE(stop->text(), QString("Cancel"));
    const auto* words = dock->findChild<QLabel*>("queue_progress");
    QTRY_VERIFY_WITH_TIMEOUT(words->text().startsWith("Group 2 of 3"), kWaitMs);
    QTest::mouseClick(stop, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(words->text().startsWith("Cancelled: 1 of 3 groups are done"), kWaitMs);
    auto* panel = w.window.findChild<VerdictsPanel*>();
    QTRY_COMPARE(panel->csv().count("waiting"), 4);
    QCOMPARE(stop->text(), QString("Continue"));
    QTest::mouseClick(stop, Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(words->text().startsWith("All 3 groups are done"), kWaitMs);
    QTRY_COMPARE(panel->csv().count("waiting"), 0);
  }

  void anotherWindowTakesUpWhatOneLeftUnfinished() {
    leaveInSecondGroup("left");
    const QString queue = filesNamed("*left-groups.queue").value(0), first = filesNamed("*left-groups-1*").value(0);
    QVERIFY(!queue.isEmpty() && !first.isEmpty());
    const QDateTime trained = QFileInfo(first).lastModified();

    OpenWindow w(quick("later"));
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({first});
    QVERIFY(opened.wait(kWaitMs));
    auto* notice = w.window.findChild<NoticeBar*>();
    QVERIFY(notice->isVisible());
    QVERIFY2(notice->text().contains("7 candidates, trained in turn; so far: 1 of 3 groups"),
             qPrintable(notice->text()));
    QTest::mouseClick(notice->findChild<QToolButton*>("notice_action"), Qt::LeftButton);
    QVERIFY(!notice->isVisible());
    auto* dock = w.window.findChild<OutcomesView*>();
    QTRY_VERIFY_WITH_TIMEOUT(showsWords(dock, "All 3 groups are done"), kWaitMs);
    auto* panel = w.window.findChild<VerdictsPanel*>();
    QTRY_COMPARE(panel->csv().count("waiting"), 0);
    // The panel reads the last steps of a run after the queue has reported the end of the run.
    QTRY_VERIFY(
        std::ranges::all_of(dock->outcomes(), [](const Outcome& outcome) { return outcome.figures.steps == 50; }));
    QCOMPARE(QFileInfo(first).lastModified(), trained);

    auto* menu = dock->findChild<QPushButton*>("queue_take_up")->menu();
    emit menu->aboutToShow();
    QVERIFY(std::ranges::any_of(menu->actions(), [](const QAction* action) {
      return action->text().contains("left-groups: 3 of 3 groups done, 7 candidates, 50 steps");
    }));
  }

  void aQueueOfOtherSettingsIsRefusedInWords() {
    leaveInSecondGroup("other");
    const QString path = filesNamed("*other-groups.queue").value(0);
    QueueState state = load_queue(path.toStdString());
    state.runs[1].optimizer.lr = 0.5;
    save_queue(path.toStdString(), state);
    OpenWindow w(quick("later"));
    w.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(w.complaint(), kWaitMs);
    const QString message = w.complaint()->text();
    QVERIFY2(message.contains("cannot be opened"), qPrintable(message));
    QVERIFY2(message.contains("other-groups-1.moescope belongs to another comparison"), qPrintable(message));
    QVERIFY2(message.contains("optimizer.lr is 0.0021, not 0.5"), qPrintable(message));
    QVERIFY(!w.window.findChild<OutcomesView*>()->training());
    w.complaint()->close();
  }

  void theViewHasRoomAndTheOpenRunsComeBack() {
    OpenWindow w(quick("first"));
    QTest::keyClick(&w.window, Qt::Key_F8);
    auto* view = w.window.findChild<OutcomesView*>();
    QTRY_VERIFY(view->isVisible());
    QTRY_VERIFY2(view->height() >= view->sizeHint().height() / 2, qPrintable(QString::number(view->height())));
    w.window.findChild<VerdictsPanel*>()->showView(0);
    QTRY_VERIFY(!view->isVisible());
  }

 private:
  void leaveInSecondGroup(const char* name) {
    OpenWindow w(quick(name));
    CompareDialog* dialog = dialogWith(w, 7);
    dialog->findChild<QSpinBox*>("group_steps")->setValue(50);
    QTest::mouseClick(pushButton(dialog, "Train 7 candidates"), Qt::LeftButton);
    const auto* words = w.window.findChild<OutcomesView*>()->findChild<QLabel*>("queue_progress");
    QTRY_VERIFY_WITH_TIMEOUT(words->text().startsWith("Group 2 of 3"), kWaitMs);
  }

  QStringList recordedGroups() const { return filesNamed("*tiny-groups-*.moescope"); }
  QStringList filesNamed(const QString& pattern) const {
    QStringList paths;
    QDirIterator files(home_.path(), {pattern}, QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext()) paths << files.next();
    paths.sort();
    return paths;
  }

  // Chooses a row, then sorts the table and opens a recording, with the keyboard only.
  void sortingAndOpening(OpenWindow& w, OutcomesView* dock) {
    auto* table = dock->findChild<OutcomesTable*>();
    QCOMPARE(table->outcomes().size(), 6u);
    QCOMPARE(table->notMeasured(), QString());
    QVERIFY(table->heightFor(6) > table->heightFor(5));
    QString chosen;
    connect(table, &OutcomesTable::chosen, this,
            [&](const Outcome& outcome) { chosen = QString::fromStdString(outcome.name); });
    emit table->clicked(table->model()->index(2, 0));
    QCOMPARE(chosen, shownColumn(table, 0)[2]);
    table->disconnect(this);
    table->setFocus();
    table->setCurrentIndex(table->model()->index(0, 1));  // the column of the settings that differ
    const auto sorted = [&] {
      QStringList shown = shownColumn(table, 1).mid(1);
      QStringList expected = shown;
      expected.sort();
      if (shown == expected) return 1;
      std::ranges::reverse(expected);
      return shown == expected ? -1 : 0;
    };
    QTest::keyClick(table, Qt::Key_S);
    QCOMPARE(sorted(), 1);
    QTest::keyClick(table, Qt::Key_S);
    QCOMPARE(sorted(), -1);
    QCOMPARE(shownColumn(table, 0).front(), QString("tiny"));
    QCOMPARE(w.window.workspaces()->compare()->verdicts()->csv().count('\n'), 7);  // what is copied

    QSignalSpy opened(w.window.session(), &RunSession::opened);
    const QString name = shownColumn(table, 0)[3], group = shownColumn(table, 2)[3];
    table->setCurrentIndex(table->model()->index(3, 0));
    QTest::keyClick(table, Qt::Key_Return);
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->path().endsWith("-" + group + ".moescope"));
    QTRY_COMPARE(runName(w, w.window.selection()->run()), name);
  }
  QString runName(OpenWindow& w, int place) {
    return QString::fromStdString(w.window.selection()->histories()[static_cast<std::size_t>(place)]->info().name);
  }
};

SCREEN_TEST(CandidatesTest)
#include "qt_candidates.moc"
