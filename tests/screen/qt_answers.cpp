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
#include <vector>

#include "tests/support/controls.h"
#include "tests/support/random_run.h"
#include "tests/support/shown_panel.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/bytes_by_link_panel.h"
#include "widgets/all_to_all/bytes_per_token_against_k_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/gate_mass_against_load_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

using namespace moescope;

namespace {

constexpr int kRuns = 40;

// A number in a sentence; `slack` is half a unit of its last digit.
struct Told {
  double value = 0, slack = 0;
  bool is(double exact) const { return std::abs(value - exact) <= slack * 1.0001 + 1e-5 * std::abs(exact); }
};

std::vector<Told> numbersIn(const QString& sentence) {
  static const QRegularExpression kNumber(
      QStringLiteral("([\u2212+]?)(\\d[\\d,]*)(?:\\.(\\d+))?(?:e([\u2212+-]?\\d+))?"));
  std::vector<Told> numbers;
  for (auto found = kNumber.globalMatch(sentence); found.hasNext();) {
    const auto match = found.next();
    const QString whole = QString(match.captured(2)).remove(',');
    const int exponent = QString(match.captured(4)).replace(QChar(0x2212), '-').toInt();
    const double size = QString("%1.%2").arg(whole, match.captured(3) + '0').toDouble() * std::pow(10.0, exponent);
    const double sign = match.captured(1) == QString(QChar(0x2212)) ? -1 : 1;
    numbers.push_back({sign * size, 0.5 * std::pow(10.0, exponent - match.captured(3).size())});
  }
  return numbers;
}

// The rows of a table in CSV without its header.
class Rows {
 public:
  explicit Rows(const QString& csv) {
    for (const QString& line : lines(csv).mid(1)) rows_ << line.split(QLatin1Char(','));
  }
  qsizetype size() const { return rows_.size(); }
  double at(qsizetype row, int column) const { return rows_[row].value(column).toDouble(); }
  QString text(qsizetype row, int column) const { return rows_[row].value(column); }
  Rows where(int column, double value) const {
    return where([&](qsizetype row) { return at(row, column) == value; });
  }
  Rows where(int column, const QString& value) const {
    return where([&](qsizetype row) { return text(row, column) == value; });
  }
  std::vector<double> column(int column) const {
    std::vector<double> values;
    for (const QStringList& row : rows_) values.push_back(row.value(column).toDouble());
    return values;
  }
  double sum(int of) const {
    const std::vector<double> values = column(of);
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
  double most(int of) const { return std::ranges::max(column(of)); }

 private:
  Rows() = default;
  Rows where(const std::function<bool(qsizetype)>& holds) const {
    Rows some;
    for (qsizetype row = 0; row < size(); ++row)
      if (holds(row)) some.rows_ << rows_[row];
    return some;
  }
  QList<QStringList> rows_;
};

double uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(0, 1)(random);
}

// Returns the number that formatBytes() writes before a unit such as kB.
double inPrefixes(double bytes) {
  while (bytes >= 999.5) bytes /= 1000;
  return bytes;
}

// True if the line with the answer was painted with the present answer, which is its tool tip.
bool isPainted(const Panel& panel) {
  const QString answer = panel.answerText();
  return answer.isEmpty() || std::ranges::any_of(panel.findChildren<QWidget*>(),
                                                 [&](const QWidget* each) { return each->toolTip() == answer; });
}

// A panel whose answers a test can read.
template <class P>
class Answering : public P {
 public:
  using P::P;
  QStringList answers() {
    this->resize(520, 300);
    this->grab();  // fills the plots, to which the answers belong
    return this->answer().answers;
  }
};

// Returns the numbers that the longest form of an answer has to name, from the panel's table and the numbers told.
using Exact = std::function<std::vector<double>(const Rows&, const std::vector<Told>&)>;

// Says which number of a sentence is wrong; empty if none is.
QString compare(const QString& sentence, const std::vector<double>& exact) {
  const std::vector<Told> told = numbersIn(sentence);
  if (told.size() != exact.size())
    return QString("%1: %2 numbers in place of %3").arg(sentence).arg(told.size()).arg(exact.size());
  for (std::size_t i = 0; i < told.size(); ++i)
    if (!told[i].is(exact[i])) return QString("%1: %2 in place of %3").arg(sentence).arg(told[i].value).arg(exact[i]);
  return {};
}

// Says which number of a shorter form is not in the longest form.
QString compareForms(const QStringList& forms) {
  const std::vector<Told> all = numbersIn(forms.value(0));
  for (const QString& form : forms)
    for (const Told& told : numbersIn(form))
      if (std::ranges::none_of(
              all, [&](const Told& each) { return std::abs(each.value - told.value) <= each.slack + told.slack; }))
        return QString("%1: %2 is not in %3").arg(form).arg(told.value).arg(forms.front());
  return {};
}

}  // namespace

class AnswersTest : public QObject {
  Q_OBJECT

 private:
  // Compares the answers of a panel with its table in every run, at the newest step and at an earlier one. Of several
  // experts with the same figure the sentence may name any.
  template <class P>
  void checkRuns(const Exact& exact, const std::function<std::unique_ptr<Answering<P>>(Selection*)>& make) {
    int told = 0;
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
        ++told;
        const QString problem = compare(answers.front(), exact(Rows(panel->csv()), numbersIn(answers.front())));
        QVERIFY2(problem.isEmpty(), qPrintable(QString("run %1: %2").arg(seed).arg(problem)));
        const QString form = compareForms(answers);
        QVERIFY2(form.isEmpty(), qPrintable(QString("run %1: %2").arg(seed).arg(form)));
        QVERIFY(isPainted(*panel));
      }
    }
    QVERIFY2(told >= kRuns / 2, qPrintable(QString::number(told)));
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
    for (double& each : sum) each /= loads;
    return sum;
  }

 private slots:
  void initTestCase() { useTestLook(); }

  void numbersAreReadBackAsTheyAreWritten() {
    const std::vector<Told> told = numbersIn(QStringLiteral("expert 3, 1,234 of \u22120.05 or 1.20e\u221205 %"));
    QCOMPARE(told.size(), std::size_t{4});
    QVERIFY(told[0].is(3) && told[1].is(1234) && told[2].is(-0.05) && told[3].is(1.2e-5));
    QVERIFY(!told[2].is(-0.056) && told[2].is(-0.054) && !told[3].is(1.21e-5));
  }

  void loss() {
    checkRuns<LossPanel>([this](const Rows& rows, const std::vector<Told>& told) {
      // The loss "now" is the median of the newest 10 up to the cursor. The change and the number of steps of the trend
      // have a test of their own (LossTrend).
      std::vector<double> exact;
      for (const Told& each : told) exact.push_back(each.value);
      if (told.size() != 3) return exact;
      std::vector<double> newest;
      for (qsizetype row = rows.size() - 1; row >= 0 && newest.size() < 10; --row) {
        const bool is_shown = rows.at(row, 0) <= static_cast<double>(selection_->step());
        const bool has_loss = is_shown && !rows.text(row, 1).isEmpty() && std::isfinite(rows.at(row, 1));
        if (has_loss) newest.push_back(rows.at(row, 1));
      }
      std::ranges::sort(newest);
      exact[0] = newest[newest.size() / 2];
      return exact;
    });
  }

  void expertLoadAtAStep() {
    checkRuns<ExpertLoadPanel>(
        [](const Rows& rows, const std::vector<Told>& told) {
          std::map<double, double> fullest;  // by layer
          for (qsizetype row = 0; row < rows.size(); ++row)
            fullest[rows.at(row, 1)] = std::max(fullest[rows.at(row, 1)], rows.at(row, 4));
          const auto uneven = std::ranges::count_if(fullest, [](const auto& each) { return each.second >= 2; });
          const auto silent = std::ranges::count(rows.column(3), 0.0);
          const double layer = told[1].value, expert = told[0].value;
          std::vector<double> exact{expert, layer, rows.where(1, layer).where(2, expert).at(0, 4)};
          if (exact[2] < rows.most(4)) exact[2] = rows.most(4);
          if (fullest.size() > 1 && uneven > 0)
            exact.insert(exact.end(), {static_cast<double>(uneven), static_cast<double>(fullest.size())});
          if (silent > 0) exact.insert(exact.end(), {static_cast<double>(silent), static_cast<double>(rows.size())});
          return exact;
        },
        [](Selection* selection) {
          return std::make_unique<Answering<ExpertLoadPanel>>(selection, ExpertLoadPanel::at_a_step);
        });
  }

  // The sentence names its window, and its figures are those of the window.
  void expertLoadOverTime() {
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      selection_ = std::make_unique<Selection>();
      selection_->setHistories({run.history()});
      Answering<ExpertLoadPanel> panel(selection_.get(), ExpertLoadPanel::over_time);
      const QString sentence = panel.answers().value(0);
      static const QRegularExpression kParts(
          "expert (\\d+) of layer (\\d+) gets the most, ([\\d.]+) times its fair share, over steps? ([\\d,]+)(?: to "
          "([\\d,]+))?$");
      const auto parts = kParts.match(sentence);
      QVERIFY2(parts.hasMatch(), qPrintable(sentence));
      const auto step = [&](int group) { return parts.captured(group).remove(',').toLongLong(); };
      const StepRange window{step(4), parts.captured(5).isEmpty() ? step(4) : step(5)};
      QCOMPARE(window, run.history()->last_steps(50));
      const std::vector<double> load = meanLoad(parts.captured(2).toInt(), window);
      QVERIFY2(numbersIn(parts.captured(3)).front().is(load[parts.captured(1).toUInt()]), qPrintable(sentence));
      for (const int layer : run.info().moe_layers)
        QVERIFY2(std::ranges::max(meanLoad(layer, window)) <= load[parts.captured(1).toUInt()] * 1.00001,
                 qPrintable(sentence));
    }
  }

  void loadOverTime() {
    checkRuns<ExpertLoadPanel>(
        [this](const Rows&, const std::vector<Told>& told) {
          const auto frame = selection_->frame();
          const RouterFrame* router = find_router(frame.get(), selection_->layer());
          const auto& counts = router->tokens_per_expert;
          const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
          const double fair = total / static_cast<double>(counts.size());
          double much = 0, taken = 0;
          for (const std::uint32_t n : counts)
            if (n >= 4 * fair) ++much, taken += n;
          std::vector<double> exact{told[0].value, std::ranges::max(counts) / fair};
          if (much > 1) exact = {much, 100 * taken / total};
          if (const auto none = std::ranges::count(counts, 0u); none > 0)
            exact.insert(exact.end(), {static_cast<double>(none), static_cast<double>(counts.size())});
          return exact;
        },
        [](Selection* selection) {
          return std::make_unique<Answering<ExpertLoadPanel>>(selection, ExpertLoadPanel::one_layer);
        });
  }

  void balanceOfAllLayers() {
    for (const char* span : {"batch", "window"})
      checkRuns<BalancePanel>(
          [this, span](const Rows& rows, const std::vector<Told>& told) {
            const int column = QString(span) == "batch" ? 2 : 3;
            const StepRange steps = selection_->history()->last_steps(
                column == 2 ? 1 : selection_->history()->info().window, selection_->step());
            const Rows now = rows.where(0, static_cast<double>(steps.last));
            std::vector<double> all = now.column(column);
            std::ranges::sort(all);
            std::vector<double> exact{static_cast<double>(steps.first)};
            if (steps.size() > 1) exact.push_back(static_cast<double>(steps.last));
            const double layer = told[exact.size()].value;
            exact.insert(exact.end(), {layer, all.back(), told.back().value});
            if (now.where(1, layer).at(0, column) < all.back()) exact[exact.size() - 3] = -1;
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

  void gateMassAgainstLoad() {
    checkRuns<GateMassAgainstLoadPanel>([this](const Rows& all, const std::vector<Told>& told) {
      const Rows rows = all.where(1, selection_->layer());
      const auto experts = static_cast<double>(rows.size());
      double farthest = 0;
      for (qsizetype row = 0; row < rows.size(); ++row)
        farthest = std::max(farthest, std::abs(rows.at(row, 4) / experts - rows.at(row, 5)));
      const Rows named = rows.where(2, told[0].value);
      const double load = named.at(0, 4) / experts, mass = named.at(0, 5);
      const bool is_farthest = std::abs(std::abs(load - mass) - farthest) < 1e-6;
      return std::vector<double>{is_farthest ? told[0].value : -1, 100 * load, 100 * mass};
    });
  }

  void expertBias() {
    checkRuns<ExpertBiasOverTimePanel>([this](const Rows& rows, const std::vector<Told>& told) {
      qsizetype row = rows.size() - 1;
      while (row > 0 && rows.at(row, 0) > static_cast<double>(selection_->step())) --row;
      std::vector<double> bias;
      for (int e = 0; e < selection_->history()->info().n_experts; ++e) bias.push_back(rows.at(row, 2 + e));
      const auto of = [&](std::size_t number) { return bias[static_cast<std::size_t>(told[number].value)]; };
      const auto [least, most] = std::ranges::minmax(bias);
      return std::vector<double>{of(0) == most ? told[0].value : -1, most, of(2) == least ? told[2].value : -1, least};
    });
  }

  void capacity() {
    checkRuns<BalancePanel>(
        [](const Rows& rows, const std::vector<Told>& told) {
          const auto layers = static_cast<double>(rows.size());
          return std::vector<double>{rows.at(0, 2), 100 * rows.sum(3) / layers, told[2].value,
                                     100 * rows.sum(7) / layers};
        },
        [](Selection* selection) {
          auto panel = std::make_unique<Answering<BalancePanel>>(selection);
          choose(panel.get(), "View", "capacity");
          return panel;
        });
  }

  // Half of the tokens, or more, have a margin below the named edge, and less than half below the edge before.
  void scoresAndMargins() {
    checkRuns<RouterConfidenceAndLossesPanel>(
        [](const Rows& rows, const std::vector<Told>& told) {
          double below = 0, before = 0;
          const double half = rows.sum(6) / 2, edge = told[0].value, slack = 0.06 * edge;
          for (qsizetype row = 0; row < rows.size(); ++row) {
            if (rows.at(row, 3) <= edge + slack) below += rows.at(row, 6);
            if (rows.at(row, 3) < edge - slack) before += rows.at(row, 6);
          }
          return std::vector<double>{below >= half && before < half ? edge : -1};
        },
        [](Selection* selection) {
          auto panel = std::make_unique<Answering<RouterConfidenceAndLossesPanel>>(selection);
          panel->showView(1);
          return panel;
        });
  }

  void allToAll() {
    checkRuns<AllToAllPanel>([](const Rows& rows, const std::vector<Told>& told) {
      std::map<double, double> received;
      for (qsizetype row = 0; row < rows.size(); ++row) received[rows.at(row, 3)] += rows.at(row, 4);
      double sum = 0, most = 0;
      for (const auto& [rank, copies] : received) sum += copies, most = std::max(most, copies);
      const double times = most * static_cast<double>(received.size()) / sum;
      if (told.size() == 1) return std::vector<double>{times};
      return std::vector<double>{received[told[0].value] == most ? told[0].value : -1, times};
    });
  }

  void bytesByLink() {
    checkRuns<BytesByLinkPanel>([](const Rows& rows, const std::vector<Told>&) {
      const Rows bf16 = rows.where(2, rows.text(0, 2));  // standard, DeepEP
      const auto all = [&](qsizetype row) { return bf16.at(row, 3) + bf16.at(row, 4); };
      const double network = bf16.at(0, 3);
      std::vector<double> exact;
      if (network == 0) return exact;
      if (std::abs(network / all(0) - 0.5) >= 0.02) exact.push_back(100 * network / all(0));
      for (const double change : {bf16.at(1, 3) / network - 1, all(1) / all(0) - 1})
        if (change != 0) exact.push_back(100 * std::abs(change));
      return exact;
    });
  }

  void bytesPerTokenAgainstK() {
    checkRuns<BytesPerTokenAgainstKPanel>([](const Rows& rows, const std::vector<Told>&) {
      const auto bytes = [&](qsizetype row) { return rows.at(row, 2) + rows.at(row, 3); };
      for (qsizetype row = 0; row + 1 < rows.size(); row += 2) {
        if (bytes(row + 1) >= bytes(row)) continue;
        return std::vector<double>{rows.at(row, 0), inPrefixes(bytes(row + 1)), inPrefixes(bytes(row))};
      }
      return std::vector<double>{rows.at(rows.size() - 1, 0)};
    });
  }

  void expertPlacement() {
    checkRuns<ExpertPlacementPanel>([this](const Rows& rows, const std::vector<Told>& told) {
      std::map<double, double> load;
      for (int rank = 0; rank < selection_->history()->info().ranks; ++rank) load[rank] = 0;
      for (qsizetype row = 0; row < rows.size(); ++row) load[rows.at(row, 3)] += rows.at(row, 4);
      double most = 0;
      for (const auto& [rank, copies] : load) most = std::max(most, copies);
      std::vector<double> exact{most * static_cast<double>(load.size()) / rows.sum(4)};
      if (told.size() == 2) exact.insert(exact.begin(), told[0].value < told[1].value ? told[0].value : -1);
      return exact;
    });
  }

  void quantizationError() {
    checkRuns<QuantizationErrorPanel>([](const Rows& rows, const std::vector<Told>& told) {
      std::vector<double> db = rows.column(7);
      std::ranges::sort(db);
      const Rows least = rows.where(7, db.front());
      std::vector<double> exact;
      for (const Told& each : told) exact.push_back(each.value);
      exact[0] = std::round(db[db.size() / 2]);
      exact[1] = db.front();
      exact[2] = least.at(0, 1);
      return exact;
    });
  }

  void blockScaleHistogram() {
    int told = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<QuantizationErrorPanel> panel(&selection);
      panel.showView(1);
      const QString sentence = panel.answers().value(0);
      const auto frame = selection.quantFrame();
      const QuantFrame* quant = findTensor(frame.get(), selection.tensor());
      if (sentence.isEmpty() || !quant) continue;
      const auto& blocks = quant->e8m0_blocks;
      const double most = *std::ranges::max_element(blocks), all = std::accumulate(blocks.begin(), blocks.end(), 0.0);
      if (most == all) continue;
      QVERIFY2(numbersIn(sentence).front().is(100 * most / all), qPrintable(sentence));
      ++told;
    }
    QVERIFY(told > kRuns / 4);
  }

  void coactivation() {
    checkRuns<CoactivationPanel>([this](const Rows& rows, const std::vector<Told>& told) {
      const RunInfo& info = selection_->history()->info();
      const double chance = (info.top_k - 1.0) / (info.n_experts - 1.0);
      double most = 0, named = 0;
      for (qsizetype row = 0; row < rows.size(); ++row) {
        if (rows.at(row, 2) == rows.at(row, 3)) continue;
        most = std::max(most, rows.at(row, 5));
        const auto [i, j] = std::minmax({rows.at(row, 2), rows.at(row, 3)});
        if (told[0].is(i) && told[1].is(j)) named = std::max(named, rows.at(row, 5));
      }
      return std::vector<double>{named == most ? told[0].value : -1, told[1].value, most / chance};
    });
  }

  void specialisation() {
    checkRuns<SpecialisationPanel>([this](const Rows& all, const std::vector<Told>& told) {
      const Rows rows = all.where(1, selection_->layer());
      const double most = rows.most(7);
      if (told.size() == 1) return std::vector<double>{most};
      double named = 0;
      for (qsizetype row = 0; row < rows.size(); ++row)
        if (told[0].is(rows.at(row, 3))) named = std::max(named, rows.at(row, 7));
      return std::vector<double>{named == most ? told[0].value : -1, most};
    });
  }

  void oneTextIsNoComparison() {
    RandomRun run(3);
    RunInfo info = run.info();
    info.domains = {"prose"};
    auto history = std::make_shared<History>(info);
    TelemetryFrame frame = *run.history()->specialisation_frame_at(INT64_MAX);
    for (SpecialisationFrame& each : frame.specialisation) each.domain_DE.resize(each.n_experts());
    history->append(std::make_shared<const TelemetryFrame>(frame));
    Selection selection;
    selection.setHistories({history});
    Answering<SpecialisationPanel> panel(&selection);
    QVERIFY2(panel.answers().isEmpty(), qPrintable(panel.answers().join(" | ")));
    const QString notice = panel.findChild<PlotFrame*>()->notice();
    QVERIFY2(notice.contains("two domains or more") && notice.contains("prose"), qPrintable(notice));
  }

  void byteAffinity() {
    int told = 0;
    for (int seed = 1; seed <= kRuns; ++seed) {
      const RandomRun run(static_cast<std::uint64_t>(seed));
      Selection selection;
      selection.setHistories({run.history()});
      Answering<SpecialisationPanel> panel(&selection);
      choose(&panel, "Figure", "lift by byte");
      const QString sentence = panel.answers().value(0);
      const auto frame = run.history()->specialisation_frame_at(selection.step());
      const auto table = std::ranges::find(frame->specialisation, selection.layer(), &SpecialisationFrame::layer);
      const std::size_t experts = table->n_experts();
      std::vector<double> of_class(kNumByteClasses), of_expert(experts), of_both(kNumByteClasses * experts);
      double all = 0;
      for (std::size_t i = 0; i < table->byte_256E.size(); ++i) {
        const auto kind = static_cast<std::size_t>(byte_class(static_cast<std::uint8_t>(i / experts)));
        const double slot_count = table->byte_256E[i];
        of_class[kind] += slot_count, of_expert[i % experts] += slot_count,
            of_both[kind * experts + i % experts] += slot_count;
        all += slot_count;
      }
      double most = 0;
      for (std::size_t i = 0; i < of_both.size(); ++i)
        if (of_class[i / experts] > 0 && of_expert[i % experts] > 0)
          most = std::max(most, of_both[i] / of_expert[i % experts] / (of_class[i / experts] / all));
      QVERIFY2(numbersIn(sentence)[1].is(most), qPrintable(QString("%1: %2").arg(sentence).arg(most)));
      ++told;
    }
    QCOMPARE(told, kRuns);
  }

  void tokensOfTheProbe() {
    checkRuns<TokensAndSamplePanel>(
        [this](const Rows& all, const std::vector<Told>& told) {
          const Rows rows = all.where(4, selection_->layer()).where(6, 0.0);
          std::map<double, double> firsts;
          for (qsizetype row = 0; row < rows.size(); ++row) ++firsts[rows.at(row, 7)];
          double most = 0;
          for (const auto& [expert, tokens] : firsts) most = std::max(most, tokens);
          std::vector<double> exact{firsts[told[0].value] == most ? told[0].value : -1,
                                    100 * most / static_cast<double>(rows.size())};
          const double other = firsts.begin()->first == told[0].value ? firsts.rbegin()->first : firsts.begin()->first;
          if (firsts.size() > 1) exact.push_back(firsts.size() == 2 ? other : static_cast<double>(firsts.size()) - 1);
          return exact;
        },
        [](Selection* selection) {
          return std::make_unique<Answering<TokensAndSamplePanel>>(selection,
                                                                   TokensAndSamplePanel::Shows::probe_and_data);
        });
  }

  // The gains and losses are differences of the table's SQNR at the chosen block size, rule and axis.
  void whatIf() {
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
      const Rows formats = rows.where(0, panel.tree()->axis() == BlockAxis::row ? "row" : "column")
                               .where(1, QString::number(chosen.block))
                               .where(3, QString::fromLatin1(scale_rule_name(chosen.rule)));
      const double now = formats.where(2, QString::fromLatin1(traits(chosen.element).name)).at(0, 4);
      const std::vector<double> all = formats.column(4);
      static const QRegularExpression kHigher("would be ([\\d.]+) dB higher"), kLower(", ([\\d.]+) dB lower");
      const QString higher = kHigher.match(answers.front()).captured(1),
                    lower = kLower.match(answers.front()).captured(1);
      QVERIFY2(!higher.isEmpty() && !lower.isEmpty(), qPrintable(answers.front()));
      QVERIFY2(numbersIn(higher).front().is(std::ranges::max(all) - now), qPrintable(answers.front()));
      QVERIFY2(numbersIn(lower).front().is(now - std::ranges::min(all)), qPrintable(answers.front()));
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
    panels.push_back(std::make_unique<GateMassAgainstLoadPanel>(&selection));
    panels.push_back(std::make_unique<ExpertBiasOverTimePanel>(&selection));
    panels.push_back(std::make_unique<RouterConfidenceAndLossesPanel>(&selection));
    static_cast<RouterConfidenceAndLossesPanel&>(*panels.back()).showView(1);
    panels.push_back(std::make_unique<AllToAllPanel>(&selection));
    panels.push_back(std::make_unique<BytesByLinkPanel>(&selection));
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
          QTest::qWait(1);
          QVERIFY2(isPainted(*panel),
                   qPrintable(QString("%1, %2: %3").arg(panel->title(), box->itemText(i), panel->answerText())));
        }
      panel->hide();
    }
  }
};

QTEST_MAIN(AnswersTest)
#include "qt_answers.moc"
