// The window "What was read": a log with invented names is opened, what is assumed is shown, and the user states the
// meaning of a name by mouse and keeps it beside the log.
#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QMessageBox>
#include <QPointer>
#include <QPushButton>
#include <QRadioButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QTreeWidget>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "app/actions/account_window.h"
#include "app/actions/file_actions.h"
#include "app/actions/source_status.h"
#include "app/session/run_session.h"
#include "core/logs/tag_map.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "widgets/look/tokens.h"
#include "widgets/router/expert_load_panel.h"

using namespace moescope;

class AccountTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

  // Shares of two layers with four experts, and a loss in bits, under names that no program has.
  QString putInventedNames(const QString& folder) const {
    const QString path = home_.filePath(folder) + "/run.jsonl";
    std::filesystem::create_directories(home_.filePath(folder).toStdString());
    std::ofstream log(path.toStdString());
    for (int step = 0; step < 60; ++step) {
      log << "{\"step\":" << step << ",\"nll_bits\":" << 3.0 - 0.01 * step;
      for (int layer = 0; layer < 2; ++layer)
        for (int expert = 0; expert < 4; ++expert)
          log << ",\"blk" << layer << ".e" << expert << ".frac\":" << (expert == 1 ? "0.4" : "0.2");
      log << "}\n";
    }
    return path;
  }

  static QTreeWidgetItem* rowOf(QTreeWidget* table, const QString& name) {
    for (int i = 0; i < table->topLevelItemCount(); ++i)
      if (table->topLevelItem(i)->text(0) == name) return table->topLevelItem(i);
    return nullptr;
  }
  static void click(QWidget* window, const char* button) {
    auto* found = window->findChild<QPushButton*>(button);
    QVERIFY(found);
    QTest::mouseClick(found, Qt::LeftButton);
  }
  static std::size_t runsWithLoss(RunSession* session) {
    std::size_t with = 0;
    for (const auto& history : session->histories())
      with += !std::isnan(history->value_at(Metric::ce_loss, -1, INT64_MAX));
    return with;
  }

 private slots:
  void initTestCase() { qputenv("XDG_CONFIG_HOME", home_.filePath("config").toUtf8()); }

  void theReasonHasRoomBesideLongTexts() {
    AccountTable table;
    AccountRow row;
    row.name = std::string(80, 'n');
    row.example = std::string(60, 'e');
    row.unit = std::string(60, 'u');
    row.reason = "not a known name";
    ImportAccount account;
    account.rows = {row};
    table.showAccount(account);
    table.resize(900, 200);
    table.show();
    QVERIFY(QTest::qWaitForWindowExposed(&table));
    const int reason_width = table.columnWidth(table.columnCount() - 1);
    QVERIFY(reason_width > table.fontMetrics().horizontalAdvance(QString::fromStdString(row.reason)) + kSpace16);
  }

  void aNameIsGivenAMeaningByMouseAndKept() {
    const QString path = putInventedNames("mouse");
    OpenWindow w;
    w.window.files()->open({path});
    QPointer<AccountWindow> account;
    QTRY_VERIFY_WITH_TIMEOUT(account = w.window.findChild<AccountWindow*>(), kWaitMs);
    QTRY_VERIFY(account->isVisible());
    auto* table = account->findChild<QTreeWidget*>("account_table");
    QTreeWidgetItem* load = rowOf(table, "blk{layer}.e{expert}.frac");
    QVERIFY(load);
    QVERIFY2(load->text(6).contains("confirm"), qPrintable(load->text(6)));
    QCOMPARE(table->currentItem(), load);  // the first question is chosen
    QVERIFY(account->findChild<ExpertLoadPanel*>()->isVisible());
    auto* apply = account->findChild<QPushButton*>("apply_meaning");
    QCOMPARE(apply->text(), QString("Apply 2 changes"));  // what is proposed
    QTreeWidgetItem* loss = rowOf(table, "nll_bits");
    QVERIFY(loss);
    QCOMPARE(loss->text(4), QString("Cross-entropy loss"));
    QCOMPARE(loss->text(5), QString("bits"));
    QCOMPARE(load->text(5), QString("shares of a step"));
    table->scrollToItem(loss);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(loss).center());
    auto* meaning = account->findChild<QComboBox*>("meaning");
    QCOMPARE(meaning->currentText(), QString("Cross-entropy loss"));
    QVERIFY(account->findChild<QRadioButton*>("unit_1")->isChecked());  // bits, as the name says
    meaning->setCurrentText("Left out");
    QCOMPARE(loss->text(4), QString("left out"));
    QCOMPARE(apply->text(), QString("Apply"));
    click(account, "apply_meaning");
    const auto confirmed = [&] {
      QTreeWidgetItem* row = rowOf(table, "blk{layer}.e{expert}.frac");
      return row && row->text(6).contains("stated");
    };
    QTRY_VERIFY_WITH_TIMEOUT(confirmed(), kWaitMs);
    QVERIFY(!apply->isEnabled());  // what was rejected is not proposed again

    loss = rowOf(table, "nll_bits");
    QVERIFY(loss);
    table->scrollToItem(loss);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(loss).center());
    QCOMPARE(account->findChild<QLabel*>("meaning_name")->text(), QString("nll_bits"));
    QCOMPARE(meaning->currentText(), QString("Left out"));
    meaning->setCurrentText("Cross-entropy loss");
    QVERIFY(apply->isEnabled());
    QVERIFY(account->findChild<QRadioButton*>("unit_1")->isChecked());                // bits, as the name says
    for (QTreeWidgetItem* row : {rowOf(table, "blk{layer}.e{expert}.frac"), loss}) {  // the choice is kept
      table->scrollToItem(row);
      QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualItemRect(row).center());
      QVERIFY(apply->isEnabled());
    }
    click(account, "apply_meaning");
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(w.window.session()), std::size_t{1}, kWaitMs);
    const auto& history = *w.window.session()->histories().front();
    QVERIFY(std::abs(history.value_at(Metric::ce_loss, -1, 0) - 3.0F * 0.693147F) < 1e-4F);
    QCOMPARE(history.info().n_experts, 4);
    QTRY_COMPARE(meaning->currentText(), QString("Cross-entropy loss"));
    QCOMPARE(account->findChild<QLabel*>("meaning_name")->text(), QString("nll_bits"));  // the row stays selected
    QVERIFY(!apply->isEnabled());

    click(account, "keep_beside");
    QVERIFY(std::filesystem::exists(tag_file_beside(path.toStdString())));
    OpenWindow second;
    second.window.files()->open({path});
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(second.window.session()), std::size_t{1}, kWaitMs);
    QCOMPARE(second.window.session()->histories().front()->info().n_experts, 4);
    QVERIFY(!second.window.findChild<AccountWindow*>());  // nothing is to be confirmed
    second.window.findChild<AccountActions*>()->showAccount();
    auto* shown_account = second.window.findChild<AccountWindow*>();
    QVERIFY(shown_account && shown_account->isVisible());
    QVERIFY(rowOf(shown_account->findChild<QTreeWidget*>("account_table"), "nll_bits")->text(6).contains("stated"));
  }

  void aNameIsLeftOut() {
    const QString path = putInventedNames("left_out");
    OpenWindow w;
    w.window.files()->open({path});
    QPointer<AccountWindow> account;
    QTRY_VERIFY_WITH_TIMEOUT(account = w.window.findChild<AccountWindow*>(), kWaitMs);
    click(account, "leave_out");
    click(account, "apply_meaning");
    auto* table = account->findChild<QTreeWidget*>("account_table");
    const auto left_out = [&] {
      QTreeWidgetItem* row = rowOf(table, "blk{layer}.e{expert}.frac");
      return row && row->text(4) == "left out";
    };
    QTRY_VERIFY_WITH_TIMEOUT(left_out(), kWaitMs);
  }

  // A log without a known step, opened beside a training. The training goes on until the user agrees to close it.
  void sharesTakeThePlaceOfATraining() {
    const QString path = home_.filePath("ticks.jsonl");
    {
      std::ofstream log(path.toStdString());
      for (int line = 0; line < 60; ++line) {
        log << "{\"tick\":" << 10 * line << ",\"nll_bits\":2.5";
        for (int expert = 0; expert < 4; ++expert)
          log << ",\"blk0.e" << expert << ".frac\":" << (expert == line % 4 ? "0.4" : "0.2");
        log << "}\n";
      }
    }
    OpenWindow w;
    w.trainTo(2);
    const auto agree = [&] {
      auto* question = w.window.findChild<QMessageBox*>("close_question");
      QVERIFY(question && w.window.session()->isLive());
      QVERIFY2(question->text().startsWith("The log closes what is open: "), qPrintable(question->text()));
      click(question, "close_open_runs");
    };
    w.window.files()->open({path});
    agree();
    QPointer<AccountWindow> account;
    QTRY_VERIFY_WITH_TIMEOUT(account = w.window.findChild<AccountWindow*>(), kWaitMs);
    QVERIFY(!account->findChild<ExpertLoadPanel*>()->isVisible());  // it would show the training
    auto* table = account->findChild<QTreeWidget*>("account_table");
    QCOMPARE(rowOf(table, "tick")->text(4), QString("Step"));
    QCOMPARE(rowOf(table, "tick")->text(2), QString("60"));  // the first line is counted
    QCOMPARE(rowOf(table, "blk{layer}.e{expert}.frac")->text(5), QString("shares of a step"));
    QCOMPARE(account->findChild<QPushButton*>("apply_meaning")->text(), QString("Apply 3 changes"));
    auto* top_k = account->findChild<QSpinBox*>("stated_top_k");
    top_k->setValue(2);
    QCOMPARE(account->findChild<QPushButton*>("apply_meaning")->text(), QString("Apply 4 changes"));
    QTest::keyClick(top_k, Qt::Key_Return);  // applies; the user agreed to close the training
    QTRY_VERIFY_WITH_TIMEOUT(w.window.session()->showsLog(), kWaitMs);
    QVERIFY(w.window.session()->skipped().empty());
    QVERIFY(account->findChild<ExpertLoadPanel*>()->isVisible());
    QVERIFY(!account->findChild<QPushButton*>("apply_meaning")->isEnabled());
    const QString loads = account->findChild<ExpertLoadPanel*>()->csv();
    QVERIFY2(loads.contains("share"), qPrintable(loads.left(300)));  // the log has no tokens
  }

  // Two logs with a figure that is not among the offered meanings. The correction of a name of log B leaves log A as it
  // was read.
  void aCorrectionIsForTheSelectedLog() {
    const QStringList paths{home_.filePath("first.jsonl"), home_.filePath("second.jsonl")};
    const auto add_steps = [](const QString& path, int first, int end) {
      std::ofstream log(path.toStdString(), std::ios::app);
      for (int step = first; step < end; ++step)
        log << "{\"step\":" << step
            << ",\"loss\":2.5,\"margin\":0.1,\"gap\":3,\"tokens_per_expert\":[[10,20,30,40],[25,25,20,30]]}\n";
    };
    for (const QString& path : paths) add_steps(path, 0, 20);
    OpenWindow w;
    w.window.files()->open(paths);
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(w.window.session()), std::size_t{2}, kWaitMs);
    w.window.findChild<QToolButton*>("account_badge")->click();
    auto* account = w.window.findChild<AccountWindow*>();
    account->findChild<QComboBox*>("account_logs")->setCurrentIndex(1);
    QCOMPARE(w.window.selection()->run(), 1);
    auto* table = account->findChild<QTreeWidget*>("account_table");
    auto* meaning = account->findChild<QComboBox*>("meaning");
    auto* apply = account->findChild<QPushButton*>("apply_meaning");
    table->setCurrentItem(rowOf(table, "margin"));
    QCOMPARE(meaning->currentText(), "as read: " + rowOf(table, "margin")->text(4));
    QVERIFY(!apply->isEnabled());
    table->setCurrentItem(rowOf(table, "gap"));
    QCOMPARE(meaning->currentText(), QString("Left out"));
    meaning->setCurrentText("MaxVio (batch)");
    click(account, "apply_meaning");
    const auto has_vio = [&](std::size_t run) {
      const auto accounts = w.window.session()->accounts();
      const auto& rows = accounts[run].rows;
      return std::ranges::find(rows, "gap", &AccountRow::name)->is_shown;
    };
    QTRY_VERIFY_WITH_TIMEOUT(has_vio(1), kWaitMs);
    QVERIFY(!has_vio(0));
    QCOMPARE(table->currentItem(), rowOf(table, "gap"));
    add_steps(paths[1], 20, 22);  // the log is followed as it was stated
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories()[1]->steps().last, 21, kWaitMs);
    QVERIFY(has_vio(1) && !has_vio(0));
    w.window.selection()->setRun(0);
    QCOMPARE(account->findChild<QComboBox*>("account_logs")->currentIndex(), 0);
    click(account, "keep_beside");
    QTRY_VERIFY(w.complaint());
    QCOMPARE(w.complaint()->parentWidget(), account);
    w.complaint()->close();
  }

  void aNumberIsStatedWithoutAName() {  // the last of the five loads is the sum of the others
    const QString path = home_.filePath("sums.jsonl");
    {
      std::ofstream log(path.toStdString());
      for (int step = 0; step < 20; ++step)
        log << "{\"step\":" << step << ",\"loss\":2.5,\"tokens_per_expert\":[[10,20,30,40,100],[25,25,20,30,100]]}\n";
    }
    OpenWindow w;
    w.window.files()->open({path});
    QPointer<AccountWindow> account;
    QTRY_VERIFY_WITH_TIMEOUT(account = w.window.findChild<AccountWindow*>(), kWaitMs);
    QCOMPARE(w.window.session()->histories().front()->info().n_experts, 5);
    account->findChild<QSpinBox*>("stated_experts")->setValue(4);
    click(account, "apply_meaning");
    const auto experts = [&] {
      const auto histories = w.window.session()->histories();
      return histories.empty() ? 0 : histories.front()->info().n_experts;
    };
    QTRY_COMPARE_WITH_TIMEOUT(experts(), 4, kWaitMs);
  }

  void theStatusLineOpensIt() {
    const QString path = home_.filePath("known.jsonl");
    {
      std::ofstream log(path.toStdString());
      for (int step = 0; step < 20; ++step) log << "{\"step\":" << step << ",\"loss\":2.5,\"gpu_mem\":70}\n";
    }
    OpenWindow w;
    w.window.files()->open({path});
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(w.window.session()), std::size_t{1}, kWaitMs);
    QVERIFY(!w.window.findChild<AccountWindow*>());
    auto* badge = w.window.findChild<QToolButton*>("account_badge");
    QTRY_COMPARE(badge->accessibleName(), QString("1 name not read"));
    badge->click();
    auto* account = w.window.findChild<AccountWindow*>();
    QVERIFY(account && account->isVisible());
    auto* table = account->findChild<QTreeWidget*>("account_table");
    QVERIFY(rowOf(table, "loss") && rowOf(table, "gpu_mem"));
    account->resize(1550, 800);                                       // the screen of this test is smaller
    QCOMPARE(table->header()->length(), table->viewport()->width());  // no column is cut off
    QVERIFY(!account->findChild<ExpertLoadPanel*>()->isVisible());    // the log has no loads
  }

  // A click on the names that were not read shows a log that has some.
  void theStatusLineOpensTheLogWithNamesNotRead() {
    const QStringList paths{home_.filePath("all_read.jsonl"), home_.filePath("not_all_read.jsonl")};
    for (const QString& path : paths) {
      std::ofstream log(path.toStdString());
      const char* more = path == paths[0] ? "" : ",\"gpu_mem\":70";
      for (int step = 0; step < 20; ++step) log << "{\"step\":" << step << ",\"loss\":2.5" << more << "}\n";
    }
    OpenWindow w;
    w.window.files()->open(paths);
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(w.window.session()), std::size_t{2}, kWaitMs);
    auto* badge = w.window.findChild<QToolButton*>("account_badge");
    QTRY_VERIFY(badge->accessibleName().startsWith("1 name not read"));
    badge->click();
    QCOMPARE(w.window.selection()->run(), 1);
    QCOMPARE(w.window.findChild<AccountWindow*>()->findChild<QComboBox*>("account_logs")->currentIndex(), 1);
  }

  void aLogWithoutKnownNamesIsExplained() {
    const QString path = home_.filePath("unknown.jsonl");
    {
      std::ofstream log(path.toStdString());
      for (int step = 0; step < 20; ++step) log << "{\"step\":" << step << ",\"nll_bits\":2.5}\n";
    }
    OpenWindow w;
    w.window.files()->open({path});
    QPointer<AccountWindow> account;
    QTRY_VERIFY_WITH_TIMEOUT(account = w.window.findChild<AccountWindow*>(), kWaitMs);
    QVERIFY(account->findChild<QLabel*>("account_summary")->text().startsWith("No run: "));
    account->findChild<QComboBox*>("meaning")->setCurrentText("Cross-entropy loss");
    click(account, "apply_meaning");
    QTRY_COMPARE_WITH_TIMEOUT(runsWithLoss(w.window.session()), std::size_t{1}, kWaitMs);
  }
};

SCREEN_TEST(AccountTest)
#include "qt_account.moc"
