// The answers of the panels of Cluster: for random recordings and random choices, the numbers in each sentence are read
// back and compared with the panel's table and with published figures.
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "tests/support/controls.h"
#include "tests/support/random_run.h"
#include "tests/support/screen_test.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"

using namespace moescope;

namespace {

// Chooses a random item of each list of choices of a panel.
void chooseAtRandom(QWidget* panel, std::mt19937_64& random) {
  for (QComboBox* box : panel->findChildren<QComboBox*>()) {
    box->setCurrentIndex(std::uniform_int_distribution<int>(0, box->count() - 1)(random));
    emit box->activated(box->currentIndex());
  }
}

}  // namespace

class ClusterAnswersTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  // The speed is the inverse of the time, the time is the sum of the parts, and both are those of the table.
  void answersOfTimeOfAStepEqualTheirTables() {
    std::mt19937_64 random(3);
    const RandomRun run(4);
    Selection selection;
    selection.setHistories({run.history()});
    Answering<TimeOfAStepPanel> panel(&selection);
    show(&panel, {700, 400});
    int answered_trials = 0;
    for (int trial = 0; trial < 40; ++trial) {
      chooseAtRandom(&panel, random);
      choose(&panel, "View", "parts of the step");
      panel.answers();
      QTRY_VERIFY_WITH_TIMEOUT(!panel.property("busy").toBool(), kWaitMs);
      const QString sentence = panel.answers().value(0);
      if (!panel.answered()->problem.empty()) continue;
      ++answered_trials;
      const auto parts = match(
          "^(\\S+) s for (\\S+) M tokens on 256 GPUs: ([\\d,.]+k?) tokens/s per GPU, between ([\\d,.]+k?) and "
          "([\\d,.]+k?)(?:, (?:mean of (?:\\d+ of )?\\d+ layers|layer \\d+))?$",
          sentence);
      const Rows rows(panel.csv());
      const Rows total = rows.rows_where(0, QStringLiteral("step"));
      const double ms = rows.sum(1) - total.at(0, 1);
      const double step_s = numbersIn(parts.captured(2)).front().value * 1e6 * ms / 1000 / 256;
      QVERIFY2(std::abs(numbersIn(parts.captured(1)).front().value / step_s - 1) < 0.01, qPrintable(sentence));
      QVERIFY2(says(parts.captured(3), 1000 / ms), qPrintable(sentence));
      QVERIFY(std::abs(total.at(0, 1) / ms - 1) < 1e-9);
      const Band& band = panel.answered()->band;
      QVERIFY2(says(parts.captured(4), band.low) && says(parts.captured(5), band.high), qPrintable(sentence));
      QVERIFY2(band.low <= 1000 / ms * 1.00001 && 1000 / ms <= band.high * 1.00001, qPrintable(sentence));
      choose(&panel, "View", "a layer on every rank");  // asks about the selected layer
      panel.answers();
      QTRY_VERIFY_WITH_TIMEOUT(!panel.property("busy").toBool(), kWaitMs);
      checkLayer(panel);
      if (QTest::currentTestFailed()) return;
    }
    QVERIFY2(answered_trials > 5, qPrintable(QString::number(answered_trials)));
  }

  void headlineOfThisImbalanceEqualsItsTable() {
    for (int seed = 1; seed <= 12; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<ThisImbalancePanel> panel(&selection);
      ClusterQuestion cluster;
      cluster.routing = AskedRouting::live;
      panel.setCluster(cluster);
      show(&panel, {700, 400});
      QTRY_VERIFY_WITH_TIMEOUT(panel.findChild<FigureTable*>()->rowCount() > 0, kWaitMs);
      const QString sentence = panel.headline().front();
      const Rows rows = Rows(panel.csv()).rows_where(2, 32);  // EP 32: an even load, no remedy, ..., all remedies
      const double lost = 1 - rows.at(1, 7) / rows.at(0, 7);
      const auto parts = match(
          "^B200, MXFP8, EP (\\d+): DeepEP (gains|loses|undecided) \\((\\S+) \u00d7, (\\S+) to (\\S+)\\); MXFP8 .*; "
          "imbalance costs (?:almost nothing|(\\S+) %) \\((\\S+) to (\\S+) %\\); ",
          sentence);
      QVERIFY2(says(parts.captured(1), 32), qPrintable(sentence));
      QCOMPARE(parts.captured(6).isEmpty(), lost < 0.01);
      if (lost >= 0.01) QVERIFY2(says(parts.captured(6), 100 * lost), qPrintable(sentence));
      QVERIFY2(numbersIn(parts.captured(7)).front().value <= 100 * lost + 0.5 &&
                   100 * lost <= numbersIn(parts.captured(8)).front().value + 0.5,
               qPrintable(sentence));
      checkFastest(panel);
      if (QTest::currentTestFailed()) return;
      const Speedup& gain = panel.choices()[2].deep_ep;
      QVERIFY2(says(parts.captured(3), gain.ratio), qPrintable(sentence));
      QVERIFY2(says(parts.captured(4), gain.range.low) && says(parts.captured(5), gain.range.high),
               qPrintable(sentence));
      QCOMPARE(parts.captured(2) == "gains", gain.range.low > 1);
      QCOMPARE(parts.captured(2) == "loses", gain.range.high < 1);
    }
  }

  void answerOfDeepEpGainEqualsItsTable() {
    for (int seed = 1; seed <= 8; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<DeepEPGainPanel> panel(&selection);
      choose(&panel, "Axes", "by copies per token");
      show(&panel, {700, 400});
      choose(&panel, "Shape of the layer", seed % 2 == 0 ? "16B" : "671B");
      const auto is_ready = [&] { return !panel.answers().isEmpty() && !panel.property("busy").toBool(); };
      QTRY_VERIFY_WITH_TIMEOUT(is_ready(), kWaitMs);
      const QString sentence = panel.answers().front();
      const auto parts =
          match("^Measured layer, EP 8 in one node: (\\S+) to (\\S+) \u00d7; modelled with this router: (\\S+) \u00d7$",
                sentence);
      const Rows rows(panel.csv());
      const auto measured = rows.rows_where(0, QStringLiteral("measured elsewhere")).column(4);
      QVERIFY2(!measured.empty() && says(parts.captured(1), std::ranges::min(measured)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(2), std::ranges::max(measured)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(3), rows.at(rows.size() - 1, 5)), qPrintable(sentence));
      choose(&panel, "Axes", "time by imbalance");  // beside times the answer has times
      const QString times = panel.answers().front();
      const auto ms =
          match("^Measured layer, EP 8 in one node: (\\S+) to (\\S+) ms; modelled with this router: (\\S+) ms$", times);
      const auto measured_ms = rows.rows_where(0, QStringLiteral("measured elsewhere")).column(6);
      QVERIFY2(says(ms.captured(1), std::ranges::min(measured_ms)), qPrintable(times));
      QVERIFY2(says(ms.captured(2), std::ranges::max(measured_ms)), qPrintable(times));
      QVERIFY2(says(ms.captured(3), rows.at(rows.size() - 1, 7)), qPrintable(times));
    }
  }

 private:
  // The headline names the fastest EP degree and all-to-all of all choices with the chosen experts.
  void checkFastest(const ThisImbalancePanel& panel) {
    const auto mxfp8_speed = [](const StepChoices& step) {
      return std::max(step.tokens_per_second[0][1], step.tokens_per_second[1][1]);
    };
    const StepChoices& best = *std::ranges::max_element(panel.choices(), {}, mxfp8_speed);
    const QString sentence = panel.headline().front();
    const auto parts = match(
        "; (?:no other EP is faster|EP (\\d+) (with|without) DeepEP (\\S+) \u00d7 as fast \\((\\S+) to (\\S+)\\)(, if "
        "it "
        "fits \\(memory is not modelled\\))?)$",
        sentence);
    const double speed = mxfp8_speed(best), chosen = panel.choices()[2].tokens_per_second[1][1];
    QCOMPARE(parts.captured(1).isEmpty(), speed == chosen);
    if (speed == chosen) return;
    QVERIFY2(says(parts.captured(1), best.ep) && says(parts.captured(3), speed / chosen), qPrintable(sentence));
    QCOMPARE(!parts.captured(6).isEmpty(), best.ep < 32);
    QCOMPARE(parts.captured(2) == "with", speed == best.tokens_per_second[1][1]);
  }

  // The share of waiting, and the rank that has nobody to wait for at the ends of the exchanges, are those of the
  // table of intervals.
  void checkLayer(Answering<TimeOfAStepPanel>& panel) {
    const QString sentence = panel.answers().value(0);
    const Rows rows(panel.csv());
    double waiting = 0, all = 0, end = 0;
    std::map<double, double> waited_until;                   // time of all ranks that wait until then
    std::map<double, std::map<double, bool>> waiting_ranks;  // by the time until which they wait
    std::map<double, bool> ranks;
    for (qsizetype row = 0; row < rows.size(); ++row) {
      const double us = rows.at(row, 4) - rows.at(row, 3);
      all += us;
      end = std::max(end, rows.at(row, 4));
      ranks[rows.at(row, 0)] = true;
      if (rows.text(row, 1) != "waiting") continue;
      waiting += us;
      waited_until[rows.at(row, 4)] += us;
      waiting_ranks[rows.at(row, 4)][rows.at(row, 0)] = true;
    }
    if (waiting / all < 0.004) {
      QVERIFY2(sentence.startsWith("Almost no time"), qPrintable(sentence));
      return;
    }
    if (waiting / all < 0.006) return;
    std::map<double, double> waited_for;
    for (const auto& [until, us] : waited_until)
      for (const auto& [rank, is_there] : ranks)
        if (!waiting_ranks[until].contains(rank)) waited_for[rank] += us;
    const auto parts = match("^Ranks wait (\\S+) % of the time, most for rank (\\d+); (\\S+) ms per layer$", sentence);
    QVERIFY2(says(parts.captured(1), 100 * waiting / all), qPrintable(sentence));
    QVERIFY2(says(parts.captured(3), end / 1000), qPrintable(sentence));
    double longest_us = 0;
    for (const auto& [rank, us] : waited_for) longest_us = std::max(longest_us, us);
    QVERIFY2(waited_for[parts.captured(2).toDouble()] >= 0.999 * longest_us, qPrintable(sentence));
  }
};

SCREEN_TEST(ClusterAnswersTest)
#include "qt_cluster_answers.moc"
