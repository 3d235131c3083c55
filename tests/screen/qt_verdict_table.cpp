// The table of verdicts and the verdicts on runs: the texts of the rows; no number is cut.
#include <QApplication>
#include <QSignalSpy>
#include <QTest>

#include "tests/support/synthetic_run.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/compare/verdict_table.h"
#include "widgets/selection/compared_runs.h"

using namespace moescope;

namespace {

VerdictRow verdictRow(const char* letter, const char* name, std::optional<VerdictWord> word, const char* reason,
                      float gap, float half) {
  VerdictRow row;
  row.letter = letter;
  row.name = name;
  row.note = "experts in MXFP8, scales rounded up";
  row.word = word;
  row.reasons = {QString(reason), "brief"};
  row.gap = gap;
  row.half = half;
  const char* const texts[] = {"+0.0172", "16.8", "41.7 %", "3.20 %", "12.9 %", "4,718"};
  for (int column = 0; column < VerdictRow::kColumns; ++column)
    row.figures[static_cast<std::size_t>(column)].text = texts[column];
  row.figures[VerdictRow::kGap].below = QString::fromUtf8("±0.0042");
  return row;
}

std::vector<VerdictRow> fiveRows() {
  return {verdictRow("A", "bf16", {}, "baseline of the other runs", 0, kNoValue),
          verdictRow("B", "mxfp8_rceil", VerdictWord::good_enough, "less than what matters", 0.0004f, 0.0012f),
          verdictRow("C", "nvfp4", VerdictWord::not_told_apart, "gaps below 0.0031 may be chance", 0.0023f, 0.0031f),
          verdictRow("D", "mxfp4", VerdictWord::worse, "nine times what matters", 0.0172f, 0.0042f),
          verdictRow("N", "seed 2", {}, "effect of chance alone", -0.0003f, 0.0011f)};
}

bool hasDigit(const QString& text) {
  return std::ranges::any_of(text, [](QChar each) { return each.isDigit(); });
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
                             "Speed tokens/s: 4,718"})
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
};

QTEST_MAIN(VerdictTableTest)
#include "qt_verdict_table.moc"
