// The panels of Cluster and All-to-all: they show the numbers that core/ computes.
#include <QDoubleSpinBox>
#include <QSpinBox>
#include <QTest>
#include <cmath>
#include <set>

#include "core/cluster/live_cost.h"
#include "core/frame/volume_stats.h"
#include "core/parallel/routing_patterns.h"
#include "tests/support/controls.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/bytes_by_link_panel.h"
#include "widgets/all_to_all/bytes_per_token_against_k_panel.h"
#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"
#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/node_health_panel.h"
#include "widgets/cluster/published_and_modelled_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"

using namespace moescope;

namespace {

constexpr int kWaitMs = 60000;

}  // namespace

class ClusterPanelsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() {
    run_ = std::make_unique<SyntheticRun>(SyntheticShape{});
    run_->append(20);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  void publishedBarsStandBesideTheModels() {
    PublishedAndModelledPanel panel(selection_.get());
    show(&panel, {640, 360});
    std::vector<BarComparison> expected;
    for (const Hypothesis hypothesis : {Hypothesis::h1, Hypothesis::h2}) {
      choose(&panel, "Reading of the published runs",
             hypothesis == Hypothesis::h1 ? "H1: tokens split over TP" : "H2: tokens twice over TP");
      expected = compare_with_published(hypothesis);
      const QStringList rows = lines(panel.csv());
      QCOMPARE(rows.size(), static_cast<int>(expected.size()) + 1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const QString row = rows[static_cast<int>(i) + 1];
        const QString modelled = QStringLiteral(",%1,").arg(expected[i].modelled, 0, 'f', 2);
        QVERIFY2(row.contains(QString::fromStdString(expected[i].name)) && row.contains(modelled), qPrintable(row));
      }
    }
    std::vector<double> published;
    int outlined = 0, hatched = 0, dotted = 0;
    for (const BandBars::Row& row : panel.findChild<BandBars*>()->rows()) {
      if (row.parts.empty()) continue;
      if (row.parts[0].fill == BandBars::Fill::solid) {
        published.push_back(row.parts[0].value);
        QVERIFY(std::isnan(row.low));
      }
      outlined += row.parts[0].fill == BandBars::Fill::outlined;
      hatched += row.parts[0].fill == BandBars::Fill::hatched;
      dotted += row.parts[0].fill == BandBars::Fill::dotted;
    }
    QCOMPARE(published, (std::vector<double>{651, 859, 918, 346, 579}));
    QCOMPARE(hatched, 3);
    QCOMPARE(outlined, 1);
    QCOMPARE(dotted, 2);
    const QStringList csv = lines(panel.csv());
    QCOMPARE(csv.size(), 7);
    QVERIFY(csv[0].endsWith(QStringLiteral("error (share),in the band,verdict")));
    // The row, the answer and the CSV show the error of each check and whether it is within the band.
    const QString answer = panel.answerText();
    int checks = 0;
    for (const BarComparison& bar : expected) {
      if (std::string_view(bar.standing) != "check, not fitted") continue;
      ++checks;
      const QString verdict = QString::fromStdString(bar.verdict());
      QVERIFY2(answer.contains(verdict), qPrintable(answer));
      QVERIFY(csv.filter(verdict).size() == 1);
      const QString error = verdict.left(verdict.indexOf(QLatin1Char('%')) + 1);
      bool in_row = false;
      for (const BandBars::Row& row : panel.findChild<BandBars*>()->rows()) in_row |= row.figure.contains(error);
      QVERIFY2(in_row, qPrintable(error));
    }
    QCOMPARE(checks, 2);
    QVERIFY2(answer.contains(QStringLiteral("the pair speaks against H1")), qPrintable(answer));
  }

  // Bars are hatched if and only if they contain a fitted number, which the CSV names.
  void fittedPartsAreHatched() {
    TimeOfAStepPanel panel(selection_.get());
    for (const bool mxfp8 : {false, true}) {
      choose(&panel, "All-to-all", mxfp8 ? "DeepEP" : "standard");
      choose(&panel, "Experts", mxfp8 ? "MXFP8 experts" : "BF16 experts");
      show(&panel, {640, 360});
      const AllToAll way = mxfp8 ? AllToAll::deep_ep : AllToAll::standard;
      QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.all_to_all == way, kWaitMs);
      const auto& parts = panel.answered()->time.parts;
      const QStringList csv = lines(panel.csv());
      QCOMPARE(csv.size(), static_cast<int>(parts.size()) + 2);
      std::set<std::string> hatched;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool fitted = panel.findChild<BandBars*>()->rows()[i].parts.at(0).fill == BandBars::Fill::hatched;
        if (fitted) hatched.insert(parts[i].name);
        QCOMPARE(fitted, !parts[i].fitted.empty());
        const QString field = QStringLiteral(",\"%1\",").arg(QString::fromStdString(parts[i].fitted));
        QVERIFY2(csv[static_cast<int>(i) + 1].contains(field), qPrintable(csv[static_cast<int>(i) + 1]));
      }
      const std::set<std::string> expected =
          mxfp8 ? std::set<std::string>{"routed experts", "quantization", "rest", "uneven stages", "pipeline bubble"}
                : std::set<std::string>{"all-to-all", "rest", "uneven stages", "pipeline bubble"};
      QVERIFY(hatched == expected);
    }
  }

  // Each kind of a number has its own word; numbers measured on H200s are not "measured here".
  void kindsAreNamedForOneThingEach() {
    const auto kind = [](Panel* panel) { return panel->caption().section(QLatin1Char(','), 0, 0); };
    DeepEPGainPanel layers(selection_.get());
    QCOMPARE(kind(&layers), QStringLiteral("measured elsewhere"));
    BytesByLinkPanel bytes(selection_.get());
    QCOMPARE(kind(&bytes), QStringLiteral("counted"));
    RanksATokenGoesToPanel spread(selection_.get());
    QCOMPARE(kind(&spread), QStringLiteral("counted"));
    TimeOfAStepPanel step(selection_.get());
    QCOMPARE(kind(&step), QStringLiteral("modelled"));
    std::set<QString> names;
    for (int k = 0; k < kNumProvenances; ++k) names.insert(provenance_name(static_cast<Provenance>(k)));
    QCOMPARE(static_cast<int>(names.size()), kNumProvenances);
  }

  void aStepsPartsAreTheModels() {
    TimeOfAStepPanel panel(selection_.get());
    choose(&panel, "All-to-all", "standard");
    choose(&panel, "Experts", "BF16 experts");
    show(&panel, {640, 360});
    QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.all_to_all == AllToAll::standard, kWaitMs);
    const ClusterAnswer& shown = *panel.answered();
    QVERIFY(shown.problem.empty());
    // The model was fitted to this published run.
    QVERIFY(std::abs(shown.time.tokens_per_second - 651) < 0.5);
    QVERIFY2(panel.answerText().contains("651 tokens/s a GPU"), qPrintable(panel.answerText()));
    double sum = 0;
    for (const BandBars::Row& row : panel.findChild<BandBars*>()->rows()) sum += row.parts.at(0).value;
    QVERIFY(std::abs(sum - shown.time.ms_per_token) < 1e-9);
  }

  // The verdict compares the same question with both kinds of all-to-all, whichever is chosen.
  void theVerdictComparesBothKindsOfAllToAll() {
    ClusterQuestion question;
    question.way = AllToAll::standard;
    const double standard = answer(question).time.ms_per_token;
    question.way = AllToAll::deep_ep;
    const double shorter = 1 - answer(question).time.ms_per_token / standard;
    TimeOfAStepPanel panel(selection_.get());
    for (const char* way : {"DeepEP", "standard"}) {
      choose(&panel, "All-to-all", way);
      show(&panel, {640, 360});
      const AllToAll shown = way == std::string("DeepEP") ? AllToAll::deep_ep : AllToAll::standard;
      QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.all_to_all == shown, kWaitMs);
      QCOMPARE(panel.verdict(),
               QStringLiteral("DeepEP shortens the step by %1 (modelled)").arg(formatPercent(shorter)));
    }
  }

  // A table shows each number whole or in its short form, however narrow the panel is.
  void tablesCutNoNumber() {
    ThisImbalancePanel panel(selection_.get());
    panel.setMinimumWidth(1);
    show(&panel, {900, 400});
    auto* table = panel.findChild<FigureTable*>();
    QTRY_VERIFY_WITH_TIMEOUT(table->rowCount() > 0, kWaitMs);
    bool shortened = false;
    for (const int width : {900, 640, 492, 400, 300}) {
      panel.resize(width, 400);
      QApplication::processEvents();
      for (int row = 0; row < table->rowCount(); ++row)
        for (int column = 0; column < table->columnCount(); ++column) {
          const QString shown = table->shownText(row, column);
          const QStringList forms = table->item(row, column)->data(Qt::UserRole).toStringList();
          QVERIFY2(shown.isEmpty() || forms.contains(shown), qPrintable(shown));
          QVERIFY(!shown.isEmpty() || width < 400);
          QVERIFY(QFontMetrics(table->font()).horizontalAdvance(shown) <= table->columnWidth(column));
          shortened |= forms.size() > 1 && shown == forms.last();
        }
    }
    QVERIFY(shortened);
  }

  // A field is shown only if it has an effect: the Zipf exponent only with Zipf routing.
  void fieldsThatCannotMatterAreAway() {
    TimeOfAStepPanel panel(selection_.get());
    show(&panel, {640, 360});
    QVERIFY(!control<QDoubleSpinBox>(&panel, "Zipf exponent")->isVisible());
    choose(&panel, "Routing", "Zipf routing");
    QVERIFY(control<QDoubleSpinBox>(&panel, "Zipf exponent")->isVisible());
    // A note names the settings of the menu that differ from the default.
    choose(&panel, "Routing", "forced routing");
    choose(&panel, "Overlap", "50 % overlap");
    QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.overlap == 0.5, kWaitMs);
    QVERIFY(panel.findChild<FittedLabel*>()->text().startsWith("With 50 % overlap. Network "));
    NodeHealthPanel health(selection_.get());
    show(&health, {640, 360});
    QVERIFY(control<QSpinBox>(&health, "at step")->isVisible());
    choose(&health, "Fault", "no fault");
    QVERIFY(!control<QSpinBox>(&health, "at step")->isVisible());
  }

  void whatCannotBeIsSaid() {
    ClusterQuestion question;
    question.hardware = "h100";
    question.mxfp8 = true;
    QVERIFY(!answer(question).problem.empty());
    question = {};
    question.routing = AskedRouting::live;
    QVERIFY(!answer(question).problem.empty());
    question.live_load = {5, 1, 1, 1};
    QVERIFY(answer(question).problem.empty());
    question.model = "16B";
    question.routing = AskedRouting::live_limited;
    QVERIFY2(answer(question).problem.find("no limited groups") != std::string::npos, answer(question).problem.c_str());
  }

  // Both panels give the same answer to the same question, with and without limited groups.
  void oneRouterCostsTheSameInBothPanels() {
    ClusterQuestion question;
    question.live_load = {900, 300, 200, 150, 100, 80, 60, 10};
    const LiveCase cases[] = {{32, false}, {32, true}};
    const auto costs =
        live_costs(published_b200_config(true, AllToAll::deep_ep), Hypothesis::h2, question.live_load, cases);
    for (const bool limited : {false, true}) {
      question.routing = limited ? AskedRouting::live_limited : AskedRouting::live;
      const double here = answer(question).time.tokens_per_second, there = costs[limited].tokens_per_second;
      QVERIFY2(std::abs(here / there - 1) < 1e-9, qPrintable(QStringLiteral("%1, %2").arg(here).arg(there)));
    }
  }

  void theLiveRoutersCostIsCores() {
    ThisImbalancePanel panel(selection_.get());
    show(&panel, {640, 360});
    QTRY_VERIFY_WITH_TIMEOUT(panel.findChild<QTableWidget*>()->rowCount() > 0, kWaitMs);
    const StepConfig config = published_b200_config(true, AllToAll::deep_ep);
    const auto cases = live_cases(config);
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), static_cast<int>(cases.size()) + 1);
    QCOMPARE(panel.findChild<QTableWidget*>()->rowCount(), static_cast<int>(possible_ep(config).size()));
    const auto frame = selection_->frame();
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    const auto expected = live_costs(config, Hypothesis::h2, router->tokens_per_expert, {cases.data(), 5});
    for (std::size_t i = 0; i < expected.size(); ++i)
      QCOMPARE(rows[static_cast<int>(i) + 1].section(QLatin1Char(','), 6, 6),
               QString::number(expected[i].tokens_per_second, 'f', 2));
    QVERIFY(panel.findChild<QTableWidget*>()->item(0, 2)->text().startsWith(
        formatCount(std::round(expected[0].tokens_per_second))));
    const auto now = std::ranges::find_if(cases, [](const LiveCase& each) { return each.ep == 32; });
    const auto at_32 = live_costs(config, Hypothesis::h2, router->tokens_per_expert, {&*now, 1}).front();
    const double lost = 1 - at_32.tokens_per_second / at_32.forced_tokens_per_second;
    QVERIFY2(panel.answerText().contains(formatPercent(lost) + " of the throughput at EP 32"),
             qPrintable(panel.answerText()));
  }

  // The panels name the kernels that the recording names, not those of this machine. For logs of other programs they
  // name none.
  void costsOfTheLoadNameWhatMultipliedTheRun() {
    const auto of = [this](const std::string& kernels) {
      RunInfo info = run_->history()->info();
      info.kernels = kernels;
      auto history = std::make_shared<History>(info);
      history->append(selection_->frame());
      Selection selection;
      selection.setHistories({history});
      ThisImbalancePanel imbalance(&selection);
      TimeOfAStepPanel time(&selection);
      choose(&time, "Routing", "this router");
      QString all;
      for (Panel* panel : {static_cast<Panel*>(&imbalance), static_cast<Panel*>(&time)}) {
        show(panel, {640, 360});
        const auto said = [panel] {
          QString text;
          for (const FittedLabel* label : panel->findChildren<FittedLabel*>()) text += label->text() + '\n';
          return text;
        };
        if (!QTest::qWaitFor([&] { return said().contains("fitted"); }, kWaitMs))
          return QString("no answer: " + said());
        all += said();
      }
      return all;
    };
    const QString known = of("OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx");
    QCOMPARE(known.count("the run's GEMMs: AMX for BF16 and quantized operands, OpenBLAS 0.3.21 (SkylakeX)"), 2);
    const QString foreign = of("");
    QVERIFY2(foreign.contains("fitted") && !foreign.contains("GEMMs:"), qPrintable(foreign));
  }

  void bytesByLinkAreTheVolumesTimesTheRow() {
    BytesByLinkPanel panel(selection_.get());
    show(&panel, {640, 360});
    const auto frame = selection_->frame();
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), 1 + 6);
    int row = 0;
    for (const AllToAll way : {AllToAll::standard, AllToAll::deep_ep}) {
      const LinkCopies copies = total(copies_by_link(router->volume, way));
      for (const Payload payload : {Payload::bf16, Payload::fp8, Payload::mxfp8}) {
        const auto each = static_cast<double>(bytes_per_token(payload, run_->history()->info().dim));
        const QStringList cells = rows[++row].split(QLatin1Char(','));
        QCOMPARE(cells[2], QString::fromUtf8(payload_name(payload)).toUpper());
        QCOMPARE(cells[3].toDouble(), each * static_cast<double>(copies.network_out));
        QCOMPARE(cells[4].toDouble(), each * static_cast<double>(copies.nvlink_out));
      }
    }
  }

  // The answer of each panel follows from the numbers of its CSV.
  void theAllToAllPanelsAnswerFromTheirNumbers() {
    BytesByLinkPanel links(selection_.get());
    BytesPerTokenAgainstKPanel sweep(selection_.get());
    RanksATokenGoesToPanel spread(selection_.get());
    for (Panel* panel : {static_cast<Panel*>(&links), static_cast<Panel*>(&sweep), static_cast<Panel*>(&spread)})
      show(panel, {640, 360});
    const QStringList standard = lines(links.csv())[1].split(QLatin1Char(','));
    const double network = standard[3].toDouble(), nvlink = standard[4].toDouble();
    const QString share = std::abs(network / (network + nvlink) - 0.5) < 0.02
                              ? QStringLiteral("Half")
                              : formatPercent(network / (network + nvlink));
    QVERIFY2(links.answerText().contains(share + QStringLiteral(" of the bytes cross nodes")),
             qPrintable(links.answerText()));
    // The change between nodes and the change on all links are two quantities with two names.
    const QStringList lean = lines(links.csv())[4].split(QLatin1Char(','));
    const double lean_network = lean[3].toDouble(), on_all = lean_network + lean[4].toDouble();
    const auto change = [](double now, double before) {
      return formatPercent(std::abs(now / before - 1)) + (now < before ? " fewer bytes " : " more bytes ");
    };
    QVERIFY2(links.answerText().contains(change(lean_network, network) + "between nodes"),
             qPrintable(links.answerText()));
    QVERIFY2(links.answerText().contains(change(on_all, network + nvlink) + "on all links"),
             qPrintable(links.answerText()));
    int first = 0;  // row of the smallest K with which DeepEP sends less
    const QStringList rows = lines(sweep.csv());
    const auto sum = [&](int row) {
      return rows[row].section(QLatin1Char(','), 2, 2).toDouble() +
             rows[row].section(QLatin1Char(','), 3, 3).toDouble();
    };
    for (int row = 1; row + 1 < rows.size() && !first; row += 2)
      if (sum(row + 1) < sum(row)) first = row;
    QVERIFY(first > 0);
    const QString k = rows[first].section(QLatin1Char(','), 0, 0);
    QVERIFY2(sweep.answerText().contains(QStringLiteral("From K = %1 on: ").arg(k)), qPrintable(sweep.answerText()));
    const float ranks = run_->history()->value_at(Metric::ranks_per_token, kWholeRun, selection_->step());
    QVERIFY2(spread.answerText().contains(QStringLiteral("To %1 of").arg(formatValue(ranks, 3))),
             qPrintable(spread.answerText()));
  }

  void moreExpertsATokenSaturateDeepEpOnly() {
    BytesPerTokenAgainstKPanel panel(selection_.get());
    show(&panel, {640, 360});
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), 1 + 10);  // K = 1, 2, 4, 8, 16
    const auto network = [&](int row) { return rows[1 + row].section(QLatin1Char(','), 2, 2).toDouble(); };
    const auto sum = [&](int row) { return network(row) + rows[1 + row].section(QLatin1Char(','), 3, 3).toDouble(); };
    QCOMPARE(network(0), network(1));  // K = 1: nothing to merge
    QVERIFY(std::abs(sum(8) / sum(0) - 16) < 0.5);
    // With K = E every token is sent to each of 8 ranks in 2 nodes: one copy crosses to the other node.
    const double row = 2.0 * run_->history()->info().dim;
    QCOMPARE(network(9), row);
  }

  void payloadsChangeTheMatrixBytes() {
    AllToAllPanel panel(selection_.get());
    choose(&panel, "Token format", "MXFP8");
    show(&panel, {640, 360});
    const auto frame = selection_->frame();
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    const QString second = lines(panel.csv()).at(2);  // from rank 0 to rank 1
    const auto bytes = router->volume.copies_RR[1] * bytes_per_token(Payload::mxfp8, run_->history()->info().dim);
    QVERIFY2(second.contains(QLatin1Char(',') + QString::number(bytes) + QLatin1Char(',')), qPrintable(second));
  }

  // The answer has the overload of the rank with the longest bar.
  void theStepWaitsForTheFullestRank() {
    AllToAllPanel panel(selection_.get());
    show(&panel, {640, 360});
    const auto frame = selection_->frame();
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    const double overload = dispatch_totals(router->volume, false).max_over_mean;
    const auto* matrix = panel.findChild<RankMatrix*>();
    const QString expected = QString::fromUtf8("What does routing cost? The step waits for rank %1: %2 \u00d7 the mean")
                                 .arg(matrix->fullest())
                                 .arg(overload, 0, 'f', 2);
    QCOMPARE(panel.answerText(), expected);
    for (int rank = 0; rank < router->volume.ranks; ++rank)
      QVERIFY(matrix->barRect(rank).width() <= matrix->barRect(matrix->fullest()).width());
  }

  // A narrow panel hides the figures first, then the bars. Nothing is drawn outside of the widget.
  void aNarrowMatrixDropsFiguresThenBars() {
    AllToAllPanel panel(selection_.get());
    for (const auto& [width, bars, figures] :
         {std::tuple{640, true, true}, std::tuple{300, true, false}, std::tuple{190, false, false}}) {
      panel.setMinimumSize(width, 200);
      show(&panel, {width, 200});
      const auto* matrix = panel.findChild<RankMatrix*>();
      QCOMPARE(!matrix->barRect(0).isEmpty(), bars);
      QCOMPARE(!matrix->figureRect(0).isEmpty(), figures);
      QVERIFY(matrix->rect().contains(matrix->cellsRect()));
      if (figures) QVERIFY(matrix->rect().contains(matrix->figureRect(2)));
    }
  }

  void measuredLayersKeepTheirMeasuredGain() {
    const LayerGains gains = layer_gains("671B");
    QVERIFY(gains.measured.size() >= 6);
    const LayerGain& forced = gains.measured.front();
    QVERIFY(std::abs(forced.measured - 1.25) < 0.01);  // assets/calibration/README.md
    QVERIFY(std::abs(forced.copies - 1) < 1e-6);
    const LayerGain live = layer_gain_of_load("671B", {40, 10, 10, 4});
    QVERIFY(live.rank_max_over_mean > 1.05 && std::isfinite(live.modelled));
    // The model's curve ends at the outermost measured points: one copy, and the copies of uniform routing.
    QVERIFY(std::abs(gains.by_groups.front().copies - 1) < 1e-6);
    QVERIFY(std::abs(gains.by_groups.back().copies - 5.3) < 0.05);
  }

  // New steps move only the point of the router on the screen; the curves do not change.
  void theRoutersPointFollowsItsLoad() {
    DeepEPGainPanel panel(selection_.get());
    show(&panel, {640, 360});
    const auto answered = [&] { return !panel.property("busy").toBool() && panel.csv().contains("this router"); };
    QTRY_VERIFY_WITH_TIMEOUT(answered(), kWaitMs);
    const QStringList before = lines(panel.csv());
    run_->append(3);
    selection_->refresh();
    const auto after = [&] { return lines(panel.csv()); };
    QTRY_VERIFY_WITH_TIMEOUT(answered() && after().last() != before.last(), kWaitMs);
    QCOMPARE(after().mid(0, before.size() - 1), before.mid(0, before.size() - 1));
    choose(&panel, "Shape of the layer", "16B");
    QTRY_VERIFY_WITH_TIMEOUT(answered() && after().at(1) != before.at(1), kWaitMs);
    QVERIFY(after().last() != before.last());
  }

  void nodeHealthIsTheSimulations() {
    NodeHealthPanel panel(selection_.get());
    const auto says = [&](const QString& words) { return (panel.answerText() + panel.caption()).contains(words); };
    control<QSpinBox>(&panel, "MTBF")->setValue(0);
    choose(&panel, "Fault", "no fault");
    show(&panel, {640, 480});
    QVERIFY(says("faults: 0,"));
    choose(&panel, "Fault", QStringLiteral("fault: ") + QString::fromUtf8(fault_name(FaultKind::lost_node)));
    control<QSpinBox>(&panel, "at step")->setValue(300);
    NodeHealthConfig config;
    config.mtbf_hours = 0;
    config.checkpoint_every = control<QSpinBox>(&panel, "checkpoint every")->value();
    config.faults = {{.kind = FaultKind::lost_node, .node = 0, .step = 300}};
    const HealthOutcome expected = simulate_node_health(config);
    QVERIFY(expected.restarts == 1 && expected.goodput < 1);
    QVERIFY(says(QStringLiteral("Goodput %1").arg(formatPercent(expected.goodput))));
    QVERIFY(says(QStringLiteral("the run of %1 steps repeats %2")
                     .arg(formatCount(static_cast<double>(config.steps)),
                          formatCount(static_cast<double>(expected.lost_steps)))));
    QVERIFY(says("restarts: 1"));
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), static_cast<int>(expected.points.size()) + 1);
    QCOMPARE(rows.last().section(QLatin1Char(','), 3), QString::number(expected.points.back().goodput, 'g', 7));
  }

  void everyPanelExplainsItself() {
    std::vector<std::unique_ptr<Panel>> panels;
    panels.push_back(std::make_unique<PublishedAndModelledPanel>(selection_.get()));
    panels.push_back(std::make_unique<TimeOfAStepPanel>(selection_.get()));
    panels.push_back(std::make_unique<ThisImbalancePanel>(selection_.get()));
    panels.push_back(std::make_unique<DeepEPGainPanel>(selection_.get()));
    panels.push_back(std::make_unique<NodeHealthPanel>(selection_.get()));
    panels.push_back(std::make_unique<BytesByLinkPanel>(selection_.get()));
    panels.push_back(std::make_unique<BytesPerTokenAgainstKPanel>(selection_.get()));
    panels.push_back(std::make_unique<RanksATokenGoesToPanel>(selection_.get()));
    for (const auto& panel : panels) {
      show(panel.get(), {640, 360});
      QVERIFY(panel->explain().size() > 200);
      QVERIFY(panel->csv().contains(QLatin1Char(',')));
    }
  }

 private:
  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

QTEST_MAIN(ClusterPanelsTest)
#include "qt_cluster.moc"
