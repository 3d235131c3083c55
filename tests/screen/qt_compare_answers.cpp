// The answers of the panels of Compare: for random runs of one shape, the numbers in each sentence are read back and
// compared with figures that are computed here from the frames of the runs.
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <ranges>
#include <vector>

#include "core/numerics/statistics.h"
#include "tests/support/controls.h"
#include "tests/support/random_run.h"
#include "tests/support/screen_test.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/panel/measured_experts.h"

using namespace moescope;

namespace {

constexpr int kSeeds = 16;

// Runs A, B and C of one shape, and in every second comparison a noise twin N.
struct Comparison {
  explicit Comparison(int seed) : has_twin(seed % 2 == 0) {
    for (int run = 0; run < (has_twin ? 4 : 3); ++run)
      runs.emplace_back(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(100 * seed + run));
    std::vector<std::shared_ptr<const History>> histories;
    for (const RandomRun& run : runs) histories.push_back(run.history());
    selection.setHistories(histories);
    std::vector<ComparedRun> settings(runs.size());
    if (has_twin) {
      settings.back().noise_twin = true;
      selection.setNoiseTwins({false, false, false, true});
    }
    compared.set(settings);
  }
  const TelemetryFrame& frame(std::size_t run) const { return runs[run].frame_at(selection.step()); }
  const History& a() const { return *runs[0].history(); }
  QString letter(std::size_t run) const {
    return run == 3 ? QString("N") : QString(QChar('A' + static_cast<int>(run)));
  }
  std::size_t named(const QString& sentence) const {  // the run with whose letter the sentence begins
    for (std::size_t run = 0; run < runs.size(); ++run)
      if (sentence.startsWith(letter(run) + QLatin1Char(':'))) return run;
    return runs.size();
  }

  bool has_twin;
  std::vector<RandomRun> runs;
  Selection selection;
  ComparedRuns compared;
};

// Calls `check` for each comparison at its newest step and in the middle.
void forAll(const std::function<void(Comparison&)>& check) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Comparison comparison(seed);
    check(comparison);
    comparison.selection.setStep(comparison.a().steps().last / 2);
    check(comparison);
  }
}

double number(const QString& text) {
  return numbersIn(text).front().value;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Half the width of Student's 95 % interval of a mean.
double intervalOf(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += std::pow(value - mean(values), 2);
  const double n = static_cast<double>(values.size());
  return student_95(n - 1) * std::sqrt(squares / (n - 1) / n);
}

double meanFlips(const std::vector<FlipFrame>& layers, float FlipFrame::*figure) {
  std::vector<double> values;
  for (const FlipFrame& layer : layers) values.push_back(static_cast<double>(layer.*figure));
  return mean(values);
}

// Mean over layers and experts of the difference of an expert's load, in fair shares.
double loadsApart(const TelemetryFrame& a, const TelemetryFrame& b) {
  std::vector<double> differences;
  for (std::size_t layer = 0; layer < a.routers.size(); ++layer) {
    const auto &loads_a = a.routers[layer].tokens_per_expert, &loads_b = b.routers[layer].tokens_per_expert;
    const double all_a = std::accumulate(loads_a.begin(), loads_a.end(), 0.0);
    const double all_b = std::accumulate(loads_b.begin(), loads_b.end(), 0.0);
    for (std::size_t e = 0; e < loads_a.size(); ++e)
      differences.push_back(static_cast<double>(loads_a.size()) * std::abs(loads_a[e] / all_a - loads_b[e] / all_b));
  }
  return mean(differences);
}

// Two checkpoints that were run on the same texts; returns the values of each batch.
struct Checkpoints {
  explicit Checkpoints(int seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    std::normal_distribution<double> normal;
    const int batches = 3 + seed % 9;
    RunInfo info;
    info.kernels = "FP32";
    info.moe_layers = {1};
    info.n_layers = 2;
    info.n_experts = 8;
    info.top_k = 2;
    std::vector<std::shared_ptr<const History>> histories;
    for (int run = 0; run < 2; ++run) {
      const auto history = std::make_shared<History>(info);
      for (int batch = 0; batch < batches; ++batch) history->append(frame(batch, run, normal, random));
      histories.push_back(history);
    }
    selection.setHistories(histories);
    compared.set(std::vector<ComparedRun>(2));
    std::ranges::transform(loss_of_b, loss_of_a, std::back_inserter(gaps), std::minus<>());
  }
  template <class Random>
  std::shared_ptr<const TelemetryFrame> frame(int batch, int run, std::normal_distribution<double>& normal,
                                              Random& random) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = batch;
    frame->ce_loss = static_cast<float>(3 + normal(random));
    (run == 0 ? loss_of_a : loss_of_b).push_back(static_cast<double>(frame->ce_loss));
    if (run == 0) return frame;
    frame->fp32_kl = static_cast<float>(std::abs(normal(random)));
    frame->fp32_ratio_beyond_2 = static_cast<float>(1 / (2 + std::abs(normal(random))));
    frame->fp32_any_layer_flipped = static_cast<float>(1 / (1 + std::abs(normal(random))));
    kl.push_back(static_cast<double>(frame->fp32_kl));
    ratio.push_back(static_cast<double>(frame->fp32_ratio_beyond_2));
    flipped.push_back(static_cast<double>(frame->fp32_any_layer_flipped));
    SpecialisationFrame weights;
    weights.layer = 1;
    weights.experts = 8;
    for (int expert = 0; expert < 8; ++expert)
      weights.weight_sqnr_E.push_back(batch % 2 == 1 || expert % 3 == 0 ? std::numeric_limits<float>::infinity()
                                                                        : static_cast<float>(30 + normal(random)));
    sqnr = weights.weight_sqnr_E;
    frame->specialisation.push_back(weights);
    return frame;
  }
  std::vector<double> loss_of_a, loss_of_b, gaps, kl, ratio, flipped;
  std::vector<float> sqnr;  // of the experts' weights, in the newest frame
  Selection selection;
  ComparedRuns compared;
};

}  // namespace

class CompareAnswersTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  // "B and C are above the band" says where whole intervals are, as in Verdicts; "C is not told apart" all else.
  void answerOfLossGapEqualsItsTable() {
    int undecided = 0;
    forAll([&](Comparison& comparison) {
      JudgedRuns judged(&comparison.selection, &comparison.compared);
      Answering<LossGapPanel> panel(&comparison.selection, &judged);
      const QStringList answers = panel.answers();
      if (answers.isEmpty()) return;
      const StepRange newest_half = judged.conclusion(1).steps;
      std::vector<double> losses;
      for (const std::int64_t step : comparison.a().steps_in(newest_half))
        losses.push_back(static_cast<double>(comparison.runs[0].frame_at(step).ce_loss));
      const double band = 0.0025 * mean(losses);
      for (const int run : {1, 2}) {
        const Conclusion& c = judged.conclusion(run);
        const VerdictWord word = verdict_word(c);
        const double low = c.gap - c.half_width, high = c.gap + c.half_width;
        const bool is_decided = word <= VerdictWord::better;
        undecided += !is_decided;
        QString place = "inside the band";
        if (low > band) place = "above the band";
        if (high < -band) place = "below the band";
        if (!is_decided)
          place = QString::fromLatin1(to_text(word)).toLower();
        else if (c.held_from > 0)
          place += QString(", only since step %1").arg(formatCount(c.held_from));
        const QString run_words = comparison.letter(static_cast<std::size_t>(run)) + "[ ABCand,]* (?:is|are) ";
        QVERIFY2(match(qPrintable(run_words + place + "(?:;|$)"), answers.front()).hasMatch(),
                 qPrintable(answers.front()));
      }
    });
    QVERIFY(undecided > 0);
  }

  void answerOfLossGapOnTextsEqualsItsTable() {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      Checkpoints comparison(seed);
      JudgedRuns judged(&comparison.selection, &comparison.compared);
      Answering<LossGapPanel> panel(&comparison.selection, &judged);
      const QString sentence = panel.answers().value(0);
      const auto parts = match("^B: (\\S+) \u00b1 (\\S+) nats/token, mean over the batches of text$", sentence);
      QVERIFY2(says(parts.captured(1), mean(comparison.gaps)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(2), intervalOf(comparison.gaps)), qPrintable(sentence));
    }
  }

  void answerOfLoadDifferenceEqualsItsTable() {
    forAll([](Comparison& comparison) {
      Answering<LoadDifferencePanel> panel(&comparison.selection);
      const QStringList answers = panel.answers();
      const auto parts = match(
          "^B: an expert's load differs from A's by (\\S+) of a fair share on average"
          "(?:; noise twin N: (\\S+))?$",
          answers.value(0));
      QVERIFY2(says(parts.captured(1), loadsApart(comparison.frame(0), comparison.frame(1))),
               qPrintable(answers.value(0)));
      QCOMPARE(!parts.captured(2).isEmpty(), comparison.has_twin);
      if (comparison.has_twin)
        QVERIFY2(says(parts.captured(2), loadsApart(comparison.frame(0), comparison.frame(3))),
                 qPrintable(answers.value(0)));
      QVERIFY2(compareForms(answers).isEmpty(), qPrintable(compareForms(answers)));
    });
  }

  void answerOfWeightDifferenceEqualsItsTable() {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const Checkpoints comparison(seed);
      Selection selection;
      selection.setHistories(comparison.selection.histories());
      Answering<LoadDifferencePanel> panel(&selection);
      choose(&panel, "Loads", "weights");
      const QString sentence = panel.answers().value(0);
      const auto differing = std::ranges::count_if(comparison.sqnr, [](float db) { return std::isfinite(db); });
      if (differing == 0) {
        QCOMPARE(sentence, QStringLiteral("B: all 8 experts have the weights of A"));
        continue;
      }
      const auto parts = match(
          "^B: (\\d+) of 8 experts (?:has|have) other weights than in A, the largest difference in "
          "layer 1, expert (\\d+): (\\S+) % of the norm$",
          sentence);
      const auto worst = std::ranges::min_element(comparison.sqnr);
      QVERIFY2(says(parts.captured(1), static_cast<double>(differing)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(2), static_cast<double>(worst - comparison.sqnr.begin())), qPrintable(sentence));
      QVERIFY2(says(parts.captured(3), 100 * std::pow(10, -static_cast<double>(*worst) / 20)), qPrintable(sentence));
    }
  }

  // The sentence is about the run with the largest error except the noise twin, and "equal" holds for all such runs.
  void answerOfGradientErrorEqualsItsTable() {
    for (const bool pinned : {false, true})
      forAll([pinned](Comparison& comparison) {
        Answering<GradientErrorPanel> panel(&comparison.selection);
        button(&panel, "experts pinned")->setChecked(pinned);
        const QString sentence = panel.answers().value(0);
        const auto error = [&](std::size_t run, bool with_pinned) {
          const GradientFrame& all = comparison.frame(run).gradients.back();
          return 100 * std::pow(10, -static_cast<double>(with_pinned ? all.pinned_snr_db : all.snr_db) / 20);
        };
        const double largest = std::max({error(0, pinned), error(1, pinned), error(2, pinned)});
        if (largest == 0) {
          QCOMPARE(sentence, pinned ? QString("With the experts pinned, the gradients equal those of FP32 to the bit")
                                    : QString("The gradients equal those of FP32 to the bit"));
          return;
        }
        const auto parts = match(
            "^[ABC]: (\\S+) % of its norm is rounding error(?: with the experts pinned; (\\S+) % "
            "with those that FP32 chooses)?(; above 58 % steps are hardly effective)?$",
            sentence);
        const std::size_t run = comparison.named(sentence);
        QVERIFY2(run < 3 && error(run, pinned) == largest, qPrintable(sentence));
        if (largest >= 0.001) QVERIFY2(says(parts.captured(1), largest), qPrintable(sentence));
        if (pinned) QVERIFY2(says(parts.captured(2), error(run, false)), qPrintable(sentence));
        QCOMPARE(!parts.captured(3).isEmpty(), largest > 100 / std::sqrt(3));
      });
  }

  void answerOfPredictionsEqualsItsTable() {
    forAll([](Comparison& comparison) {
      Answering<GradientErrorPanel> panel(&comparison.selection);
      choose(&panel, "Figure", "KL");
      const QString sentence = panel.answers().value(0);
      double largest = 0;
      for (std::size_t run = 0; run < comparison.runs.size(); ++run)
        largest = std::max(largest, static_cast<double>(comparison.frame(run).fp32_kl));
      if (largest == 0) {
        QCOMPARE(sentence, QString("The predictions equal those of FP32"));
        return;
      }
      const std::size_t run = comparison.named(sentence);
      const auto parts = match(
          "^[ABCN]: KL from FP32 (\\S+) nats, ratio beyond 2 for (\\S+) % of the tokens, other "
          "experts in at least one layer for (\\S+) %$",
          sentence);
      QVERIFY2(run < comparison.runs.size() && says(parts.captured(1), largest), qPrintable(sentence));
      QCOMPARE(static_cast<double>(comparison.frame(run).fp32_kl), largest);
      QVERIFY2(says(parts.captured(2), 100 * static_cast<double>(comparison.frame(run).fp32_ratio_beyond_2)),
               qPrintable(sentence));
      QVERIFY2(says(parts.captured(3), 100 * static_cast<double>(comparison.frame(run).fp32_any_layer_flipped)),
               qPrintable(sentence));
    });
  }

  void answerOfPredictionsOfCheckpointsEqualsItsTable() {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      Checkpoints comparison(seed);
      Answering<GradientErrorPanel> panel(&comparison.selection);
      choose(&panel, "Figure", "KL");
      const QString sentence = panel.answers().value(0);
      const auto parts = match(
          "^B: KL from A (\\S+) \u00b1 (\\S+) nats/token, probability ratio beyond 2 for (\\S+) % of "
          "the tokens, other experts in at least one layer for (\\S+) %$",
          sentence);
      QVERIFY2(says(parts.captured(1), mean(comparison.kl)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(2), intervalOf(comparison.kl)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(3), 100 * mean(comparison.ratio)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(4), 100 * mean(comparison.flipped)), qPrintable(sentence));
    }
  }

  void answerOfFlipsAgainstAEqualsItsTable() {
    forAll([](Comparison& comparison) {
      Answering<RoutingFlipsPanel> panel(&comparison.selection);
      button(&panel, "by rounding")->setChecked(false);
      const QStringList answers = panel.answers();
      const std::size_t run = comparison.named(answers.value(0));
      const auto share = [&](std::size_t i) {
        return 100 * meanFlips(comparison.frame(i).flips, &FlipFrame::flip_rate);
      };
      const double largest = std::max(share(1), share(2));
      QVERIFY2((run == 1 || run == 2) && share(run) == largest, qPrintable(answers.value(0)));
      QVERIFY2(compareForms(answers).isEmpty(), qPrintable(compareForms(answers)));
      if (largest == 0) {
        QVERIFY2(answers.front().contains("every token goes to the same experts as in A"), qPrintable(answers.front()));
        return;
      }
      QVERIFY2(
          says(match(": (\\S+) % of the tokens have other experts than in A", answers.front()).captured(1), largest),
          qPrintable(answers.front()));
      const QString twin = match("; noise twin N: (\\S+) %", answers.front()).captured(1);
      if (!twin.isEmpty()) QVERIFY2(says(twin, share(3)), qPrintable(answers.front()));
      // Each run in which a layer differs is listed with the experts in common and the first such layer.
      const QString listed = answers.front().section(". Experts in common with A: ", 1);
      for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
        const auto& layers = comparison.frame(i).flips;
        const auto first = std::ranges::find_if(layers, [](const FlipFrame& flips) { return flips.flip_rate > 0; });
        const auto parts =
            match(qPrintable(comparison.letter(i) + " (\\S+) % \\(others from layer (\\d+) on\\)"), listed);
        QCOMPARE(parts.hasMatch(), first != layers.end());
        if (first == layers.end()) continue;
        QVERIFY2(says(parts.captured(1), 100 * meanFlips(layers, &FlipFrame::overlap)), qPrintable(listed));
        QVERIFY2(says(parts.captured(2), first->layer), qPrintable(listed));
      }
    });
  }

  void answerOfFlipsByRoundingEqualsItsTable() {
    forAll([](Comparison& comparison) {
      Answering<RoutingFlipsPanel> panel(&comparison.selection);
      button(&panel, "by rounding")->setChecked(true);
      const QStringList answers = panel.answers();
      const auto share = [&](std::size_t i) {
        return 100 * meanFlips(comparison.frame(i).rounding_flips, &FlipFrame::flip_rate);
      };
      const double largest = std::max({share(0), share(1), share(2)});
      const std::size_t run = comparison.named(answers.value(0));
      QVERIFY2(run < 3 && share(run) == largest, qPrintable(answers.value(0)));
      if (largest == 0)
        QVERIFY2(answers.front().contains("rounding sends no token to other experts"), qPrintable(answers.front()));
      else
        QVERIFY2(says(match(": (\\S+) % of the tokens change experts$", answers.front()).captured(1), largest),
                 qPrintable(answers.front()));
    });
  }

  void answerOfRoundingInTheRouterEqualsItsTable() {
    forAll([](Comparison& comparison) {
      Answering<RoutingFlipsPanel> panel(&comparison.selection);
      button(&panel, "in the router")->setChecked(true);
      const QString sentence = panel.answers().value(0);
      const auto& rows = comparison.frame(0).router_roundings;
      const auto row = [&](int layer, RouterRounding rounding) {
        return *std::ranges::find_if(rows, [&](const RouterRoundingFrame& candidate) {
          return candidate.layer == layer && candidate.rounding == rounding;
        });
      };
      const auto meanOf = [&](RouterRounding rounding) {
        std::vector<double> changed;
        for (const RouterRoundingFrame& row : rows)
          if (row.rounding == rounding) changed.push_back(static_cast<double>(row.changed));
        return mean(changed);
      };
      const std::vector<RouterRounding> sources{RouterRounding::operands, RouterRounding::gate_output,
                                                RouterRounding::bias};
      const double largest = std::ranges::max(sources | std::views::transform(meanOf));
      if (largest == 0) {
        QCOMPARE(sentence, QStringLiteral("No rounding in the router of A changes a choice"));
        return;
      }
      const auto parts = match(
          "^A: (operands of the gate|stored logits|stored biases) in BF16 alone send (\\S+) % of the tokens to other "
          "experts; in layer (\\d+) (\\S+) %, MaxVio (\\S+) becomes (\\S+), (\\d+) of (\\d+) different biases left in "
          "BF16$",
          sentence);
      const QStringList names{"operands of the gate", "stored logits", "stored biases"};
      QVERIFY2(parts.hasMatch(), qPrintable(sentence));
      const RouterRounding source = sources[static_cast<std::size_t>(names.indexOf(parts.captured(1)))];
      QCOMPARE(meanOf(source), largest);
      const int layer = static_cast<int>(number(parts.captured(3)));
      const RouterRoundingFrame worst = row(layer, source), none = row(layer, RouterRounding::none);
      for (const RouterRoundingFrame& row_of_layer : rows)
        if (row_of_layer.rounding == source) QVERIFY2(row_of_layer.changed <= worst.changed, qPrintable(sentence));
      QVERIFY2(says(parts.captured(2), 100 * largest), qPrintable(sentence));
      QVERIFY2(says(parts.captured(4), 100 * static_cast<double>(worst.changed)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(5), static_cast<double>(none.max_vio)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(6), static_cast<double>(worst.max_vio)), qPrintable(sentence));
      QVERIFY2(says(parts.captured(7), static_cast<double>(row(layer, RouterRounding::bias).bias_values)),
               qPrintable(sentence));
      QVERIFY2(says(parts.captured(8), static_cast<double>(none.bias_values)), qPrintable(sentence));
    });
  }

  // A recording may lack a kind of rounding.
  void aRouterWithoutSomeRoundingsHasNoAnswerOfThem() {
    const RandomRun run(5);
    TelemetryFrame frame = run.frame_at(INT64_MAX);
    for (const RouterRounding rounding : {RouterRounding::counts, RouterRounding::bias, RouterRounding::none}) {
      auto history = std::make_shared<History>(run.info());
      auto with_one_rounding = std::make_shared<TelemetryFrame>(frame);
      std::erase_if(with_one_rounding->router_roundings,
                    [&](const RouterRoundingFrame& candidate) { return candidate.rounding != rounding; });
      history->append(with_one_rounding);
      Selection selection;
      selection.setHistories({history});
      Answering<RoutingFlipsPanel> panel(&selection);
      button(&panel, "in the router")->setChecked(true);
      QCOMPARE(panel.answers().isEmpty(), rounding != RouterRounding::bias);
    }
  }
};

SCREEN_TEST(CompareAnswersTest)
#include "qt_compare_answers.moc"
