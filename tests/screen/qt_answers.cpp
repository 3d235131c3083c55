// The answers of the panels against the figures beside them: for random recordings, the numbers in each sentence are
// read back and compared with the panel's table.
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "core/recording/history/router_window.h"
#include "tests/support/controls.h"
#include "tests/support/random_run.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/routing_stability_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

using namespace moescope;

namespace {

constexpr int kRuns = 40;

}  // namespace

class AnswersTest : public QObject {
  Q_OBJECT

 private:
  // Compares the answers of a panel with its table in every run, at the newest step and at an earlier one. Of several
  // experts with the same figure the sentence may name any.
  template <class P>
  void checkRuns(const Exact& exact, const std::function<std::unique_ptr<Answering<P>>(Selection*)>& make) {
    int answered = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      selection_ = std::make_unique<Selection>();
      selection_->setHistories({run.history()});
      selection_->setLayer(run.info().moe_layers.back());
      const auto panel = make(selection_.get());
      for (const bool newest : {true, false}) {
        if (!newest) selection_->setStep(run.history()->steps().last / 2);
        const QStringList answers = panel->answers();
        if (answers.isEmpty()) continue;
        ++answered;
        const QString problem = compare(answers.front(), exact(Rows(panel->csv()), numbersIn(answers.front())));
        QVERIFY2(problem.isEmpty(), qPrintable(QString("run %1: %2").arg(seed).arg(problem)));
        const QString form = compareForms(answers);
        QVERIFY2(form.isEmpty(), qPrintable(QString("run %1: %2").arg(seed).arg(form)));
        QVERIFY(isPainted(*panel));
      }
    }
    QVERIFY2(answered >= kRuns / 2, qPrintable(QString::number(answered)));
  }

  template <class P>
  void checkRuns(const Exact& exact) {
    checkRuns<P>(exact, [](Selection* selection) { return std::make_unique<Answering<P>>(selection); });
  }

  std::unique_ptr<Selection> selection_;

  // Returns the mean utilisation of the experts of a layer over the window of the run's last 50 steps.
  std::vector<double> meanLoad(int layer, StepRange window) const {
    std::vector<double> sum;
    int loads = 0;
    for (const std::int64_t step : selection_->history()->steps_in(window)) {
      const auto frame = selection_->history()->frame_at(step);
      const RouterFrame* router = find_router(frame.get(), layer);
      const auto& counts = router->tokens_per_expert;
      const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
      sum.resize(counts.size());
      for (std::size_t e = 0; e < counts.size(); ++e) sum[e] += counts[e] * static_cast<double>(counts.size()) / total;
      ++loads;
    }
    for (double& mean : sum) mean /= loads;
    return sum;
  }

  // Appends the number of loads in `window`, which a sentence names if not every step of it has one.
  void addLoads(StepRange window, std::vector<double>& exact) const {
    const auto loads = std::ssize(selection_->history()->steps_in(window));
    if (loads < window.size()) exact.push_back(static_cast<double>(loads));
  }

 private slots:
  void initTestCase() { useTestLook(); }

  void numbersAreReadBackAsTheyAreWritten() {
    const std::vector<Told> numbers =
        numbersIn(QStringLiteral("expert 3, 1,234 of \u22120.05 or 1.20 \u00d7 10\u207b\u2075 %"));
    QCOMPARE(numbers.size(), std::size_t{4});
    QVERIFY(numbers[0].is(3) && numbers[1].is(1234) && numbers[2].is(-0.05) && numbers[3].is(1.2e-5));
    QVERIFY(!numbers[2].is(-0.056) && numbers[2].is(-0.054) && !numbers[3].is(1.21e-5));
  }

  // The sentence names its window, and its figures are those of the window.
  void answerOfExpertLoadEqualsItsTable_data() {
    QTest::addColumn<int>("view");
    QTest::addColumn<int>("steps");
    QTest::newRow("over time") << int{ExpertLoadPanel::over_time} << 50;
    QTest::newRow("all layers") << int{ExpertLoadPanel::all_layers} << 50;
    QTest::newRow("one step") << int{ExpertLoadPanel::all_layers} << 1;
  }

  void answerOfExpertLoadEqualsItsTable() {
    QFETCH(const int, view);
    QFETCH(const int, steps);
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      selection_ = std::make_unique<Selection>();
      selection_->setHistories({run.history()});
      Answering<ExpertLoadPanel> panel(selection_.get(), static_cast<ExpertLoadPanel::View>(view));
      control<QComboBox>(&panel, "Steps")->setCurrentIndex(int{steps == 1});  // the last 50 steps, or one step
      const QString sentence = panel.answers().value(0);
      static const QRegularExpression kParts(
          "expert (\\d+) of layer (\\d+) gets the most, ([\\d.]+) times its fair share, (?:over|at) (?:(\\d+) loads?, "
          ")?steps? "
          "([\\d,]+)(?: to ([\\d,]+))?$");
      const auto parts = kParts.match(sentence);
      QVERIFY2(parts.hasMatch(), qPrintable(sentence));
      const auto step = [&](int group) { return parts.captured(group).remove(',').toLongLong(); };
      const StepRange window{step(5), parts.captured(6).isEmpty() ? step(5) : step(6)};
      QCOMPARE(window, window_steps(*run.history(), INT64_MAX, steps));
      std::vector<double> loads;
      addLoads(window, loads);
      QCOMPARE(parts.captured(4), loads.empty() ? QString() : QString::number(loads[0]));
      const std::vector<double> load = meanLoad(parts.captured(2).toInt(), window);
      QVERIFY2(numbersIn(parts.captured(3)).front().is(load[parts.captured(1).toUInt()]), qPrintable(sentence));
      for (const int layer : run.info().moe_layers)
        QVERIFY2(std::ranges::max(meanLoad(layer, window)) <= load[parts.captured(1).toUInt()] * 1.00001,
                 qPrintable(sentence));
    }
  }

  void answerOfLoadOverTimeEqualsItsTable() {
    checkRuns<ExpertLoadPanel>(
        [this](const Rows&, const std::vector<Told>& numbers) {
          const RouterWindow window = router_window(*selection_->history(), selection_->step());
          const LayerWindow& load = *window.find_layer(selection_->layer());
          const auto experts = static_cast<double>(load.utilisation.size());
          // The fewest experts with 90 % of the assignments, else with half: 2 to 8 of them, at most a quarter of all.
          std::vector<double> loads(load.utilisation.begin(), load.utilisation.end()), exact;
          std::ranges::sort(loads, std::greater{});
          for (const double share : {0.5, 0.9}) {
            double busy_experts = 0, busy_load = 0;
            for (const double times : loads)
              if (busy_load < share * experts) {
                ++busy_experts;
                busy_load += times;
              }
            const bool is_named = busy_experts >= 2 && busy_experts <= std::min(8.0, experts / 4);
            if (is_named) exact = {busy_experts, 100 * busy_load / experts, load.max_vio + 1};
          }
          if (exact.empty()) exact = {numbers[0].value, load.max_vio + 1};
          if (load.silent > 0) exact.insert(exact.end(), {static_cast<double>(load.silent), experts});
          addLoads(window.steps, exact);
          exact.push_back(static_cast<double>(window.steps.first));  // "over step 0" if the window has one step
          if (window.steps.last != window.steps.first) exact.push_back(static_cast<double>(window.steps.last));
          return exact;
        },
        [](Selection* selection) {
          return std::make_unique<Answering<ExpertLoadPanel>>(selection, ExpertLoadPanel::one_layer);
        });
  }

  void answerOfBalanceOfAllLayersEqualsItsTable() {
    for (const char* span : {"batch", "window"})
      checkRuns<BalancePanel>(
          [this, span](const Rows& rows, const std::vector<Told>& numbers) {
            const int column = QString(span) == "batch" ? 2 : 3;
            const StepRange steps = window_steps(*selection_->history(), selection_->step(),
                                                 column == 2 ? 1 : selection_->history()->info().window);
            const Rows newest_rows = rows.rows_where(0, static_cast<double>(steps.last));
            std::vector<double> all = newest_rows.column(column);
            std::ranges::sort(all);
            std::vector<double> exact;
            addLoads(steps, exact);
            exact.push_back(static_cast<double>(steps.first));
            if (steps.size() > 1) exact.push_back(static_cast<double>(steps.last));
            const double layer = numbers[exact.size()].value;
            exact.insert(exact.end(), {layer, all.back(), numbers.back().value});
            if (newest_rows.rows_where(1, layer).at(0, column) < all.back()) exact[exact.size() - 3] = -1;
            if (all.size() % 2 == 1) exact.back() = all[all.size() / 2];
            return exact;
          },
          [span](Selection* selection) {
            auto panel = std::make_unique<Answering<BalancePanel>>(selection);
            choose(panel.get(), "View", "by layer");
            choose(panel.get(), "MaxVio of", span);
            return panel;
          });
  }

  void answerOfExpertBiasEqualsItsTable() {
    checkRuns<ExpertBiasOverTimePanel>([this](const Rows& rows, const std::vector<Told>& numbers) {
      qsizetype row = rows.size() - 1;
      while (row > 0 && rows.at(row, 0) > static_cast<double>(selection_->step())) --row;
      std::vector<double> bias;
      for (int e = 0; e < selection_->history()->info().n_experts; ++e) bias.push_back(rows.at(row, 2 + e));
      const auto bias_of = [&](std::size_t number) { return bias[static_cast<std::size_t>(numbers[number].value)]; };
      const auto [smallest, largest] = std::ranges::minmax(bias);
      return std::vector<double>{bias_of(0) == largest ? numbers[0].value : -1, largest,
                                 bias_of(2) == smallest ? numbers[2].value : -1, smallest};
    });
  }

  void answerOfCapacityEqualsItsTable() {
    checkRuns<BalancePanel>(
        [](const Rows& rows, const std::vector<Told>& numbers) {
          const auto layers = static_cast<double>(rows.size());
          return std::vector<double>{rows.at(0, 2), 100 * rows.sum(3) / layers, numbers[2].value,
                                     100 * rows.sum(7) / layers};
        },
        [](Selection* selection) {
          auto panel = std::make_unique<Answering<BalancePanel>>(selection);
          choose(panel.get(), "View", "capacity");
          return panel;
        });
  }

  // Half of the tokens, or more, are in bins that begin below the median, and at most half in those that end below it.
  void answerOfScoresAndMarginsEqualsItsTable() {
    checkRuns<RouterConfidenceAndLossesPanel>(
        [](const Rows& rows, const std::vector<Told>& numbers) {
          double begun = 0, ended = 0;
          const double half_sum = rows.sum(6) / 2, median = numbers[0].value, slack = 0.06 * median;
          for (qsizetype row = 0; row < rows.size(); ++row) {
            if (rows.at(row, 2) < median + slack) begun += rows.at(row, 6);
            if (rows.at(row, 3) < median - slack) ended += rows.at(row, 6);
          }
          return std::vector<double>{begun >= half_sum && ended <= half_sum ? median : -1};
        },
        [](Selection* selection) {
          auto panel = std::make_unique<Answering<RouterConfidenceAndLossesPanel>>(selection);
          panel->showView(1);
          return panel;
        });
  }

  // "In step 9 all wait for rank 3, which receives 1.46 times the mean; DeepEP saves 23.9 % of the network bytes": the
  // rank and the multiple from the table, the share from the copies of the recording.
  void answerOfAllToAllEqualsItsTable() {
    checkRuns<AllToAllPanel>([this](const Rows& rows, const std::vector<Told>& numbers) {
      std::map<double, double> received;
      for (qsizetype row = 0; row < rows.size(); ++row) received[rows.at(row, 3)] += rows.at(row, 4);
      double sum = 0, largest = 0;
      for (const auto& [rank, copies] : received) {
        sum += copies;
        largest = std::max(largest, copies);
      }
      const auto frame = selection_->frame();
      const VolumeFrame& volume = find_router(frame.get(), selection_->layer())->volume;
      const int per_node = volume.ranks_per_node, nodes = (volume.ranks + per_node - 1) / per_node;
      double standard = 0, deep_ep = 0;  // copies to other nodes
      for (int source = 0; source < volume.ranks; ++source) {
        for (int rank = 0; rank < volume.ranks; ++rank)
          if (rank / per_node != source / per_node)
            standard += volume.copies_RR[static_cast<std::size_t>(source * volume.ranks + rank)];
        for (int node = 0; node < nodes; ++node)
          if (node != source / per_node) deep_ep += volume.nodes_RN[static_cast<std::size_t>(source * nodes + node)];
      }
      std::vector<double> exact{largest * static_cast<double>(received.size()) / sum};
      const bool names_rank = numbers.size() == (standard > 0 ? 4u : 3u);
      if (names_rank) exact.insert(exact.begin(), received[numbers[1].value] == largest ? numbers[1].value : -1);
      exact.insert(exact.begin(), static_cast<double>(frame->step));
      if (standard > 0) exact.push_back(100 * (1 - deep_ep / standard));
      return exact;
    });
  }

  // The other half's table has the same share, and its bytes give it.
  void answerOfSavedByDeepEpEqualsItsTable() {
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<AllToAllPanel> panel(&selection);
      const std::vector<Told> numbers = numbersIn(panel.answers().value(0));
      choose(&panel, "View", "what de-duplication saves");
      panel.answers();
      const Rows rows(panel.csv());
      QCOMPARE(rows.size(), 1);
      const double network = rows.at(0, 1);
      QCOMPARE(network > 0, !rows.text(0, 5).isEmpty());
      if (network > 0) QVERIFY(std::abs(rows.at(0, 5) - (1 - rows.at(0, 2) / network)) < 1e-9);
      if (network > 0) QVERIFY(numbers.back().is(100 * rows.at(0, 5)));
    }
  }

  void answerOfExpertPlacementEqualsItsTable() {
    checkRuns<ExpertPlacementPanel>([this](const Rows& rows, const std::vector<Told>& numbers) {
      std::map<double, double> load;
      for (int rank = 0; rank < selection_->history()->info().ranks; ++rank) load[rank] = 0;
      for (qsizetype row = 0; row < rows.size(); ++row) load[rows.at(row, 3)] += rows.at(row, 4);
      double largest = 0;
      for (const auto& [rank, copies] : load) largest = std::max(largest, copies);
      std::vector<double> exact{largest * static_cast<double>(load.size()) / rows.sum(4)};
      if (numbers.size() == 2) exact.insert(exact.begin(), numbers[0].value < numbers[1].value ? numbers[0].value : -1);
      return exact;
    });
  }

  void answerOfQuantizationErrorEqualsItsTable() {
    checkRuns<QuantizationErrorPanel>([](const Rows& rows, const std::vector<Told>& numbers) {
      std::vector<double> db = rows.column(7);
      std::ranges::sort(db);
      const Rows smallest = rows.rows_where(7, db.front());
      std::vector<double> exact;
      for (const Told& number : numbers) exact.push_back(number.value);
      const double most_flushed = rows.largest(10);
      const bool is_of_zeros = numbers[0].is(100 * most_flushed);  // the share stands before the lowest SQNR
      exact[0] = is_of_zeros ? 100 * most_flushed : db[db.size() / 2];
      if (is_of_zeros) exact[1] = rows.rows_where(10, most_flushed).at(0, 1);
      const auto lowest = std::find_if(numbers.begin() + (is_of_zeros ? 2 : 1), numbers.end(),
                                       [&](const Told& number) { return number.is(db.front()); });
      if (lowest == numbers.end()) return std::vector<double>{};
      exact[static_cast<std::size_t>(lowest - numbers.begin()) + 1] = smallest.at(0, 1);
      return exact;
    });
  }

  void answerOfCoactivationEqualsItsTable() {
    checkRuns<CoactivationPanel>([this](const Rows& rows, const std::vector<Told>& numbers) {
      const RunInfo& info = selection_->history()->info();
      const double chance = (info.top_k - 1.0) / (info.n_experts - 1.0);
      double largest = 0, named = 0;
      for (qsizetype row = 0; row < rows.size(); ++row) {
        if (rows.at(row, 2) == rows.at(row, 3)) continue;
        largest = std::max(largest, rows.at(row, 5));
        if (numbers[0].is(rows.at(row, 2)) && numbers[1].is(rows.at(row, 3))) named = rows.at(row, 5);
      }
      return std::vector<double>{named == largest ? numbers[0].value : -1, numbers[1].value, largest / chance};
    });
  }

  void answerOfSpecialisationEqualsItsTable() {
    checkRuns<SpecialisationPanel>([this](const Rows& all, const std::vector<Told>& numbers) {
      const Rows rows = all.rows_where(1, selection_->layer());
      const double largest = rows.largest(7);
      if (numbers.size() == 1) return std::vector<double>{largest};
      for (qsizetype row = 0; row < rows.size(); ++row)
        if (numbers[0].is(rows.at(row, 3)) && rows.at(row, 7) == largest)
          return std::vector<double>{numbers[0].value, 100 * rows.at(row, 5), 100 * rows.at(row, 6), largest};
      return std::vector<double>{-1};
    });
  }

  // Balance and the tiles of Overview have one CV and one entropy.
  void balanceShowsTheWorstLayerOfEachFigure() {
    int compared_tiles = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      BalancePanel panel(&selection);
      panel.resize(700, 400);
      panel.grab();
      const RouterWindow window = router_window(*run.history(), selection.step());
      if (window.layers.empty()) continue;
      const LayerWindow& worst = *window.worst(&LayerWindow::cv);
      const auto tiles = panel.findChildren<ValueTile*>();
      const auto tile = std::ranges::find(tiles, QString("CV"), &ValueTile::text);
      if ((*tile)->isHidden()) continue;  // a log without it
      ++compared_tiles;
      const QString expected = QString("%1, layer %2,").arg(formatValue(worst.cv, 3)).arg(worst.layer);
      QVERIFY2((*tile)->accessibleDescription().startsWith(expected), qPrintable((*tile)->accessibleDescription()));
    }
    QVERIFY(compared_tiles > kRuns / 4);
  }

  void oneTextIsNoComparison() {
    RandomRun run(3);
    RunInfo info = run.info();
    info.domains = {"prose"};
    auto history = std::make_shared<History>(info);
    TelemetryFrame frame = *run.history()->specialisation_frame_at(INT64_MAX);
    for (SpecialisationFrame& table : frame.specialisation) table.domain_DE.resize(table.n_experts());
    history->append(std::make_shared<const TelemetryFrame>(frame));
    Selection selection;
    selection.setHistories({history});
    Answering<SpecialisationPanel> panel(&selection);
    QVERIFY2(panel.answers().isEmpty(), qPrintable(panel.answers().join(" | ")));
    const QString notice = panel.findChild<PlotFrame*>()->notice();
    QVERIFY2(notice.contains("two domains or more") && notice.contains("prose"), qPrintable(notice));
  }

  void answerOfByteAffinityEqualsItsTable() {
    int answered = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<SpecialisationPanel> panel(&selection);
      choose(&panel, "Figure", "use by byte");
      const QString sentence = panel.answers().value(0);
      const auto* view = panel.findChild<ByteAffinityView*>();
      QCOMPARE(view->answers().value(0), sentence);
      QVERIFY(view->frame() && view->frame()->step <= selection.step());
      const auto frame = run.history()->specialisation_frame_at(selection.step());
      const auto table = std::ranges::find(frame->specialisation, selection.layer(), &SpecialisationFrame::layer);
      const std::size_t experts = table->n_experts();
      std::vector<double> class_slots(kNumByteClasses), expert_slots(experts), joint_slots(kNumByteClasses * experts);
      double all = 0;
      for (std::size_t i = 0; i < table->byte_256E.size(); ++i) {
        const auto kind = static_cast<std::size_t>(byte_class(static_cast<std::uint8_t>(i / experts)));
        const double slot_count = table->byte_256E[i];
        class_slots[kind] += slot_count;
        expert_slots[i % experts] += slot_count;
        joint_slots[kind * experts + i % experts] += slot_count;
        all += slot_count;
      }
      double largest = 0;
      for (std::size_t i = 0; i < joint_slots.size(); ++i)
        if (class_slots[i / experts] > 0 && expert_slots[i % experts] > 0)
          largest = std::max(largest, joint_slots[i] / expert_slots[i % experts] / (class_slots[i / experts] / all));
      QVERIFY2(numbersIn(sentence)[1].is(largest), qPrintable(QString("%1: %2").arg(sentence).arg(largest)));
      ++answered;
    }
    QCOMPARE(answered, kRuns);
  }

  void answerOfTokensOfTheProbeEqualsItsTable() {
    checkRuns<TokensAndSamplePanel>(
        [this](const Rows& all, const std::vector<Told>& numbers) {
          const Rows rows = all.rows_where(4, selection_->layer()).rows_where(6, 0.0);
          std::map<double, double> firsts;
          for (qsizetype row = 0; row < rows.size(); ++row) ++firsts[rows.at(row, 7)];
          double largest = 0;
          for (const auto& [expert, tokens] : firsts) largest = std::max(largest, tokens);
          std::vector<double> exact{firsts[numbers[0].value] == largest ? numbers[0].value : -1,
                                    100 * largest / static_cast<double>(rows.size())};
          const double other =
              firsts.begin()->first == numbers[0].value ? firsts.rbegin()->first : firsts.begin()->first;
          if (firsts.size() > 1) exact.push_back(firsts.size() == 2 ? other : static_cast<double>(firsts.size()) - 1);
          return exact;
        },
        [](Selection* selection) {
          return std::make_unique<Answering<TokensAndSamplePanel>>(selection,
                                                                   TokensAndSamplePanel::Shows::probe_and_data);
        });
  }

  // Mean over the layers of the share of the probe's tokens, or of the choices, that are as in the named earlier step.
  void answerOfRoutingStabilityEqualsItsTable() {
    int answered = 0;
    for (int seed = 1; seed <= kRuns; ++seed)
      for (const bool whole_sets : {true, false}) {
        const RandomRun run(static_cast<std::uint64_t>(seed));
        Selection selection;
        selection.setHistories({run.history()});
        Answering<RoutingStabilityPanel> panel(&selection);
        choose(&panel, "Earlier step", "against the first");
        choose(&panel, "Compared figure", whole_sets ? "tokens unchanged" : "choices unchanged");
        const TelemetryFrame& newest = run.tables_at(selection.step());
        if (newest.step == 0) continue;
        ++answered;
        const auto reached = [&] {  // the worker compares some steps at a time
          panel.answers();
          const Rows rows(panel.csv());
          return rows.size() > 0 && rows.at(rows.size() - 1, 0) == static_cast<double>(newest.step);
        };
        QTRY_VERIFY(reached());
        const QString sentence = panel.answers().value(0);
        const TokenFrame &newest_text = newest.texts.front(), &then = run.tables_at(0).texts.front();
        double unchanged = 0, tokens = 0;
        for (std::size_t layer = 0; layer < newest_text.layers.size(); ++layer) {
          const auto k = static_cast<std::size_t>(run.info().top_k);
          for (std::size_t token = 0; token < newest_text.text.size(); ++token) {
            const auto chosen = [&](const TokenFrame& text) {
              const auto first = text.layers[layer].experts_TK.begin() + static_cast<std::ptrdiff_t>(token * k);
              return std::set<int>(first, first + static_cast<std::ptrdiff_t>(k));
            };
            const std::set<int> a = chosen(newest_text), b = chosen(then);
            const auto common = std::ranges::count_if(a, [&](int expert) { return b.contains(expert); });
            unchanged += whole_sets ? a == b : static_cast<double>(common) / static_cast<double>(k);
            ++tokens;
          }
        }
        const double experts = run.info().n_experts, k = run.info().top_k;
        double sets = 1;  // number of sets of k experts
        for (int i = 0; i < run.info().top_k; ++i) sets *= (experts - i) / (i + 1);
        const double chance = whole_sets ? 100 / sets : 100 * k / experts;
        const std::vector<double> exact{100 * unchanged / tokens, 0, static_cast<double>(newest.step),
                                        std::max(0.001, chance)};  // "<0.001 %"
        const QString problem = compare(sentence, exact);
        QVERIFY2(problem.isEmpty(), qPrintable(problem));
      }
    QVERIFY(answered > kRuns / 2);
  }

  // Whatever is chosen in a panel, the painted answer is the one of the present choice.
  void everyChoiceRepaintsTheAnswer() {
    const RandomRun run(11);
    Selection selection;
    selection.setHistories({run.history()});
    std::vector<std::unique_ptr<Panel>> panels;
    panels.push_back(std::make_unique<LossPanel>(&selection));
    panels.push_back(std::make_unique<ExpertLoadPanel>(&selection));
    panels.push_back(std::make_unique<ExpertLoadPanel>(&selection, ExpertLoadPanel::one_layer));
    panels.push_back(std::make_unique<BalancePanel>(&selection));
    panels.push_back(std::make_unique<ExpertBiasOverTimePanel>(&selection));
    panels.push_back(std::make_unique<RouterConfidenceAndLossesPanel>(&selection));
    static_cast<RouterConfidenceAndLossesPanel&>(*panels.back()).showView(1);
    panels.push_back(std::make_unique<AllToAllPanel>(&selection));
    panels.push_back(std::make_unique<ExpertPlacementPanel>(&selection));
    panels.push_back(std::make_unique<QuantizationErrorPanel>(&selection));
    panels.push_back(std::make_unique<CoactivationPanel>(&selection));
    panels.push_back(std::make_unique<SpecialisationPanel>(&selection));
    for (const auto& panel : panels) {
      show(panel.get());
      for (QComboBox* box : panel->findChildren<QComboBox*>())
        for (int i = 0; i < box->count(); ++i) {
          box->setCurrentIndex(i);
          emit box->activated(i);
          QApplication::processEvents();
          QTRY_VERIFY2(isPainted(*panel),
                       qPrintable(QString("%1, %2: %3").arg(panel->title(), box->itemText(i), panel->answerText())));
        }
      panel->hide();
    }
  }
};

SCREEN_TEST(AnswersTest)
#include "qt_answers.moc"
