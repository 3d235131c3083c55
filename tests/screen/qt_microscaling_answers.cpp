// The answers of the panels of Microscaling about tensors: the numbers in each sentence are read back and compared with
// figures of random tensors that are computed here.
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "tests/support/random_run.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/tensor_text.h"

using namespace moescope;

namespace {

constexpr int kMicroscalingRuns = 40;

double uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(0, 1)(random);
}

// The scale of a block by the rule "floor" for E4M3.
double scaleOf(std::span<const float> block) {
  float amax = 0;
  for (const float value : block) amax = std::max(amax, std::abs(value));
  return std::exp2(std::ilogb(amax) - 8);
}

}  // namespace

class MicroscalingAnswersTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void answerOfBlockScaleHistogramEqualsItsTable() {
    int compared_sentences = 0;
    for (int seed = 1; seed <= kMicroscalingRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<BlockScalesPanel> panel(&selection);
      const QString sentence = panel.answers().value(0);
      const auto frame = selection.quantFrame();
      const QuantFrame* quant = findTensor(frame.get(), selection.tensor());
      if (sentence.isEmpty() || !quant) continue;
      const auto& blocks = quant->e8m0_blocks;
      const double most_frequent = *std::ranges::max_element(blocks),
                   all = std::accumulate(blocks.begin(), blocks.end(), 0.0);
      if (most_frequent == all) continue;
      const auto is_share = [&](const Told& number) { return number.is(100 * most_frequent / all); };
      QVERIFY2(std::ranges::any_of(numbersIn(sentence), is_share), qPrintable(sentence));
      ++compared_sentences;
    }
    QVERIFY(compared_sentences > kMicroscalingRuns / 4);
  }

  // Scales of blocks of 32 values along rows by the rule "floor": 2^(floor(log2 amax) - 8) for E4M3.
  void answerOfBlockScaleMapEqualsItsBlocks() {
    std::mt19937_64 random(21);
    for (int trial = 0; trial < 12; ++trial) {
      const bool is_large = trial % 3 == 2;  // more blocks than the panel compares
      const std::size_t rows = is_large ? 9000 : 40, cols = is_large ? 512 : 256;
      std::vector<float> values(rows * cols);
      for (float& value : values) value = static_cast<float>(1 + (trial % 2 == 0 ? 0 : 200 * uniform(random)));
      const std::size_t outlier = trial % 4 == 3 ? 5 : 0;  // 0: none
      for (std::size_t row = 0; row < rows && outlier > 0; ++row) values[row * cols + outlier * 32] = 40000;
      if (is_large) values.back() = 1e6f;
      Selection selection;
      Answering<BlockScaleMapPanel> panel(&selection);
      panel.setFormat(mx_format(ElementFormat::e4m3, ScaleRule::floor), BlockAxis::row);
      panel.setSource(TensorSource("t", rows, cols, values));
      const QString sentence = panel.answers().value(0);
      int low = INT_MAX, high = INT_MIN;
      for (std::size_t i = 0; i < values.size(); i += 32) {
        const int k = std::ilogb(scaleOf(std::span(values).subspan(i, 32)));
        low = std::min(low, k);
        high = std::max(high, k);
      }
      // A map that compares some of the blocks says so.
      QCOMPARE(sentence.contains("in a sample: "), is_large);
      if (is_large) continue;
      const QString low_text = formatPowerOfTwo(low), high_text = formatPowerOfTwo(high);
      QString expected = QString("No outlier channels; scales from %1 to %2").arg(low_text, high_text);
      if (low == high) expected = QString("All blocks with values have the scale %1").arg(low_text);
      if (outlier > 0) expected = QString("Outlier channels in blocks %1").arg(outlier);
      QCOMPARE(sentence, expected);
    }
  }

  // The gains and losses are differences of the table's SQNR as shown, at the chosen block size, rule and axis.
  void answerOfWhatIfEqualsItsTable() {
    std::mt19937_64 random(7);
    for (int run = 0; run < 8; ++run) {
      std::vector<float> values(64 * 256);
      for (float& value : values)
        value = static_cast<float>(std::normal_distribution<double>()(random) * std::exp(run * 0.3 * uniform(random)));
      Selection selection;
      Answering<WhatIfPanel> panel(&selection);
      panel.setSource(TensorSource("t", 64, 256, values), 0);
      QTRY_VERIFY(!panel.tree()->rows().empty());
      const QStringList answers = panel.answers();
      const Rows rows(panel.csv());
      const OperandFormat& chosen = panel.tree()->choice();
      const Rows formats = rows.rows_where(0, panel.tree()->axis() == BlockAxis::row ? "row" : "column")
                               .rows_where(1, QString::number(chosen.block))
                               .rows_where(3, QString::fromLatin1(scale_rule_name(chosen.rule)));
      const double chosen_db = formats.rows_where(2, QString::fromLatin1(traits(chosen.element).name)).at(0, 4);
      const std::vector<double> all = formats.column(4);
      static const QRegularExpression kOwn("^SQNR ([\\d.]+) dB"), kHigher("; ([\\d.]+) dB higher"),
          kLower(", ([\\d.]+) dB lower");
      const QString higher = kHigher.match(answers.front()).captured(1),
                    lower = kLower.match(answers.front()).captured(1);
      QVERIFY2(!higher.isEmpty() && !lower.isEmpty(), qPrintable(answers.front()));
      QVERIFY2(numbersIn(kOwn.match(answers.front()).captured(1)).front().is(chosen_db), qPrintable(answers.front()));
      const auto shown = [](double decibels) { return std::round(10 * decibels) / 10; };
      QVERIFY2(numbersIn(higher).front().is(shown(std::ranges::max(all)) - shown(chosen_db)),
               qPrintable(answers.front()));
      QVERIFY2(numbersIn(lower).front().is(shown(chosen_db) - shown(std::ranges::min(all))),
               qPrintable(answers.front()));
    }
  }

  // A choice in the table changes the answer at once.
  void theAnswerOfWhatIfFollowsTheTable() {
    std::vector<float> values(64 * 256);
    std::mt19937_64 random(7);
    for (float& value : values) value = static_cast<float>(std::normal_distribution<double>()(random));
    Selection selection;
    WhatIfPanel panel(&selection);
    show(&panel);
    panel.setSource(TensorSource("t", 64, 256, values), 0);
    QTRY_VERIFY(!panel.tree()->rows().empty() && isPainted(panel));
    for (const int key : {Qt::Key_Down, Qt::Key_Up, Qt::Key_Down, Qt::Key_Right}) {
      const QString before = panel.answerText();
      QTest::keyClick(panel.findChild<WhatIfTable*>(), Qt::Key(key));
      QApplication::processEvents();
      QVERIFY2(panel.answerText() != before || key == Qt::Key_Right, qPrintable(before));
      QVERIFY2(isPainted(panel), qPrintable(panel.answerText()));
    }
  }
};

SCREEN_TEST(MicroscalingAnswersTest)
#include "qt_microscaling_answers.moc"
