// The table of verdicts and the verdicts on runs: the texts of the rows; no number is cut.
#include <QApplication>
#include <QSignalSpy>
#include <QTest>

#include "tests/support/made_up_losses.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/compare/verdict_table.h"
#include "widgets/look/tokens.h"
#include "widgets/selection/compared_runs.h"

using namespace moescope;

namespace {

VerdictRow verdictRow(const char* letter, const char* name, std::optional<VerdictWord> word, const char* reason,
                      float gap, float half_width) {
  VerdictRow row;
  row.letter = letter;
  row.name = name;
  row.note = "experts in MXFP8, scales rounded up";
  row.word = word;
  if (word) row.verdict = QLatin1String(to_text(*word));
  row.reasons = {QString(reason), "brief"};
  row.gap = gap;
  row.half_width = half_width;
  const char* const texts[] = {"+0.0172", "16.8", "41.7 %", "3.20 %", "12.9 %", "4,718"};
  for (int column = 0; column < VerdictRow::kColumns; ++column)
    row.figures[static_cast<std::size_t>(column)].text = texts[column];
  row.figures[VerdictRow::kGap].below = QString::fromUtf8("±0.0042");
  return row;
}

std::vector<VerdictRow> fiveRows() {
  std::vector<VerdictRow> rows = {
      verdictRow("A", "bf16", {}, "baseline of the other runs", 0, kNoValue),
      verdictRow("B", "mxfp8_rceil", VerdictWord::good_enough, "less than what matters", 0.0004f, 0.0012f),
      verdictRow("C", "nvfp4", VerdictWord::not_told_apart, "gaps below 0.0031 may be chance", 0.0023f, 0.0031f),
      verdictRow("D", "mxfp4", VerdictWord::worse, "nine times what matters", 0.0172f, 0.0042f),
      verdictRow("N", "seed 2", {}, "effect of chance alone", -0.0003f, 0.0011f)};
  rows.front().baseline = rows.back().noise = true;
  return rows;
}

bool hasDigit(const QString& text) {
  return std::ranges::any_of(text, [](QChar character) { return character.isDigit(); });
}

}  // namespace

class VerdictTableTest : public QObject {
  Q_OBJECT

 private slots:
  // The verdicts may be requested before they are updated after runs were closed.
  void runsThatWereClosedAreNotJudged() {
    SyntheticRun first({.layers = 2, .experts = 8}), second({.layers = 2, .experts = 8});
    first.append(60);
    second.append(60);
    Selection selection;
    const ComparedRuns runs;
    JudgedRuns judged(&selection, &runs);
    selection.setHistories({first.history(), second.history()});
    selection.fitRange();
    QCOMPARE(judged.update(), QString());
    QCOMPARE(judged.candidates(), std::vector<int>{1});
    selection.setHistories({first.history()});
    QVERIFY(judged.candidates().empty());
    QVERIFY(is_missing(judged.matters()));
    selection.setHistories({});
    QVERIFY(judged.candidates().empty());
  }

  // Widths of the workspace in windows of 1024 to 1920 pixels, of narrower panels, and a low panel.
  void noNumberIsCutAtAnySize() {
    VerdictTable table;
    table.setRows(fiveRows(), 0.0019f, "0.25 %");
    qsizetype before = 0;
    for (const QSize size : {QSize(300, 240), QSize(480, 240), QSize(700, 240), QSize(1008, 240), QSize(1264, 240),
                             QSize(1424, 240), QSize(1904, 240), QSize(1264, 120)}) {
      table.resize(size);
      const auto shown = table.shownTexts();
      const auto rows = fiveRows();
      for (std::size_t row = 0; row < rows.size(); ++row) {
        QStringList whole{rows[row].name, rows[row].note};
        whole << rows[row].reasons;
        if (rows[row].word) whole << to_text(*rows[row].word);
        for (const VerdictFigure& figure : rows[row].figures) whole << figure.text << figure.below;
        for (const QString& text : shown[row]) QVERIFY2(!hasDigit(text) || whole.contains(text), qPrintable(text));
        QVERIFY(shown[row].contains("+0.0172"));  // the loss gap is always shown
      }
      if (size.height() < 200) continue;
      QVERIFY2(shown[1].size() >= before, "a wider table shows no less");
      before = shown[1].size();
      QVERIFY(!table.grab().isNull());
    }
    table.resize(1904, 240);
    QVERIFY(table.shownTexts()[3].contains("4,718"));
    QVERIFY(table.shownTexts()[3].contains("nine times what matters"));
    table.resize(700, 240);
    QVERIFY2(!table.shownTexts()[3].contains("4,718"), "the last column goes as a whole");
  }

  void aFigureThatNoRunHasTakesNoRoom() {
    VerdictTable table;
    std::vector<VerdictRow> rows = fiveRows();
    for (VerdictRow& row : rows) row.figures[VerdictRow::kSqnr].text = QString::fromUtf8("–");
    rows[3].figures[VerdictRow::kFlips].text = QString::fromUtf8("–");  // only this run has none
    table.setRows(rows, 0.0019f, "0.25 %");
    table.resize(1264, 240);
    QVERIFY(!table.shownTexts()[1].contains(QString::fromUtf8("–")));
    QVERIFY(table.shownTexts()[3].contains(QString::fromUtf8("–")));
  }

  void aRowIsReadAloudWithItsUnits() {
    const QString text = fiveRows()[3].spoken().join('\n');
    for (const char* part : {"D mxfp4", "Worse, nine times what matters", "+0.0172 ±0.0042", "Lowest SQNR dB: 16.8",
                             "Speed here tokens/s: 4,718"})
      QVERIFY2(text.contains(QString::fromUtf8(part)), qPrintable(text));
  }

  void clicksAndKeysChooseRows() {
    VerdictTable table;
    table.setRows(fiveRows(), 0.0019f, "0.25 %");
    table.resize(1264, table.heightFor(5));
    table.setActive(0);
    QSignalSpy chosen(&table, &VerdictTable::rowChosen);
    QTest::mouseClick(&table, Qt::LeftButton, {}, QPoint(100, table.height() / 2));
    QCOMPARE(chosen.size(), 1);
    QCOMPARE(chosen[0][0].toInt(), 2);
    QTest::keyClick(&table, Qt::Key_Down);
    QCOMPARE(chosen[1][0].toInt(), 3);
    QTest::keyClick(&table, Qt::Key_Down);
    QCOMPARE(chosen[2][0].toInt(), 4);
    QTest::keyClick(&table, Qt::Key_Down);
    QCOMPARE(chosen.size(), 3);
    QTest::keyClick(&table, Qt::Key_Up);
    QCOMPARE(chosen[3][0].toInt(), 3);
  }

  void theCircleBeforeARunAndReturnMakeItTheBaseline() {
    VerdictTable table;
    table.setRows(fiveRows(), 0.0019f, "0.25 %");
    table.resize(1264, table.heightFor(5));
    QSignalSpy baseline(&table, &VerdictTable::baselineChosen), row(&table, &VerdictTable::rowChosen);
    const int line = table.heightFor(6) - table.heightFor(5), first = table.height() / 2 - 2 * line;
    QTest::mouseClick(&table, Qt::LeftButton, {}, QPoint(10, first + 2 * line));
    QCOMPARE(baseline.size(), 1);
    QCOMPARE(baseline[0][0].toInt(), 2);
    QCOMPARE(row.size(), 0);
    QTest::mouseClick(&table, Qt::LeftButton, {}, QPoint(10, first + 4 * line));
    QCOMPARE(baseline.size(), 1);  // a noise twin has no circle
    table.setActive(3);
    QTest::keyClick(&table, Qt::Key_Return);
    QCOMPARE(baseline.size(), 2);
    QCOMPARE(baseline[1][0].toInt(), 3);
    // A single run has no circle.
    const QPoint first_circle(10, table.heightFor(0) - (table.heightFor(0) - 2 * kSpace8) / 3 + line / 2 - kSpace8);
    for (const std::size_t count : {2u, 1u}) {
      std::vector<VerdictRow> rows = fiveRows();
      rows.resize(count);
      table.setRows(rows, 0.0019f, "0.25 %");
      table.resize(1264, table.heightFor(static_cast<int>(count)));
      QTest::mouseClick(&table, Qt::LeftButton, {}, first_circle);
      QCOMPARE(baseline.size(), 3);
    }
  }

  // Two candidates are compared with each other; the places of the others stay.
  void anyRunCanBeTheBaseline() {
    std::vector<HistoryPtr> histories;
    for (const double gap : {0.0, 0.01, 0.02, 0.0001}) {
      std::vector<double> losses(200, 2 + gap);
      const std::size_t stride = histories.size() + 3;
      for (std::size_t step = 0; step < losses.size(); ++step)
        losses[step] += 1e-5 * static_cast<double>(step * stride % 7);
      histories.push_back(with_losses("run", losses));
    }
    Selection selection;
    selection.setHistories(histories);
    selection.setNoiseTwins({false, false, false, true});
    selection.fitRange();
    ComparedRuns runs;
    const auto setting = [](const char* key, const char* value) { return SettingDifference{key, "a", value}; };
    ComparedRun b, c, twin;
    b.settings = {setting("precision.experts", "mxfp8_rceil")};
    c.settings = {setting("precision.experts", "mxfp4")};
    twin.noise_twin = true;
    runs.set({{}, b, c, twin});
    JudgedRuns judged(&selection, &runs);
    judged.setBaseline(1);
    QCOMPARE(judged.update(), QString());
    QCOMPARE(judged.baselineLetter(), QStringLiteral("B"));
    QCOMPARE(judged.candidates(), (std::vector<int>{0, 2}));
    QVERIFY(std::abs(judged.conclusion(0).gap + 0.01f) < 1e-3f);
    QVERIFY(std::abs(judged.conclusion(2).gap - 0.01f) < 1e-3f);
    QVERIFY(std::abs(judged.conclusion(3).gap) < 1e-3f);  // a noise twin is compared with its own run
    QCOMPARE(judged.conclusion(2).verdict, Verdict::worse);
    // The twin shows nothing about two runs that share a difference from run A.
    b.settings = {setting("router.top_k", "4")};
    c.settings = {setting("precision.experts", "mxfp4"), setting("router.top_k", "4")};
    runs.set({{}, b, c, twin});
    QCOMPARE(judged.update(), QString());
    QCOMPARE(judged.conclusion(2).verdict, Verdict::no_twin);
    QCOMPARE(judged.conclusion(0).verdict, Verdict::better);
    judged.setBaseline(3);
    QCOMPARE(judged.baselineLetter(), QStringLiteral("B"));
    selection.setHistories({histories[0]});
    QVERIFY(judged.candidates().empty());
  }
};

SCREEN_TEST(VerdictTableTest)
#include "qt_verdict_table.moc"
