// The panels of Cluster and All-to-all: they show the numbers that core/ computes.
#include <QTest>
#include <cmath>
#include <set>

#include "core/cluster/published_runs.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/step_model.h"
#include "core/frame/router_stats.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/all_to_all/rank_matrix.h"
#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

using namespace moescope;

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

  // Bars are hatched if and only if they contain a fitted number, which the CSV names.
  void fittedPartsAreHatched() {
    TimeOfAStepPanel panel(selection_.get());
    for (const bool mxfp8 : {false, true}) {
      choose(&panel, "Routing", "forced balance");
      choose(&panel, "All-to-all", mxfp8 ? "DeepEP all-to-all" : "standard all-to-all");
      choose(&panel, "Experts", mxfp8 ? "MXFP8 experts" : "BF16 experts");
      show(&panel, {640, 360});
      const AllToAll all_to_all = mxfp8 ? AllToAll::deep_ep : AllToAll::standard;
      QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.all_to_all == all_to_all, kWaitMs);
      const auto& parts = panel.answered()->time.parts;
      QCOMPARE(panel.table().rows(), parts.size() + 1);
      std::set<std::string> hatched;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool fitted = panel.findChild<BandBars*>()->rows()[i].parts.at(0).fill == BandBars::Fill::hatched;
        if (fitted) hatched.insert(parts[i].name);
        QCOMPARE(fitted, !parts[i].fitted.empty());
        QVERIFY(panel.table().row(i)[4] == table_value(parts[i].fitted));
      }
      const std::set<std::string> expected =
          mxfp8 ? std::set<std::string>{"routed experts", "quantization", "rest", "uneven stages", "pipeline bubble"}
                : std::set<std::string>{"all-to-all", "rest", "uneven stages", "pipeline bubble"};
      QVERIFY(hatched == expected);
    }
  }

  // Each kind of a number has its own word; numbers measured on H200s are not "measured here".
  void everyKindOfNumberHasItsOwnName() {
    const auto kind = [](Panel* panel) { return panel->caption().section(QLatin1Char(','), 0, 0); };
    DeepEPGainPanel layers(selection_.get());
    QCOMPARE(kind(&layers), QStringLiteral("modelled"));  // a whole step
    choose(&layers, "Axes", "by copies per token");
    QCOMPARE(kind(&layers), QStringLiteral("measured elsewhere"));
    AllToAllPanel bytes(selection_.get());
    QCOMPARE(kind(&bytes), QStringLiteral("counted"));
    TimeOfAStepPanel step(selection_.get());
    QCOMPARE(kind(&step), QStringLiteral("modelled"));
    std::set<QString> names;
    for (int k = 0; k < kNumProvenances; ++k) names.insert(provenance_name(static_cast<Provenance>(k)));
    QCOMPARE(static_cast<int>(names.size()), kNumProvenances);
  }

  void aStepsPartsAreTheModels() {
    TimeOfAStepPanel panel(selection_.get());
    choose(&panel, "Routing", "forced balance");
    choose(&panel, "All-to-all", "standard all-to-all");
    choose(&panel, "Experts", "BF16 experts");
    show(&panel, {640, 360});
    QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && panel.answered()->config.all_to_all == AllToAll::standard, kWaitMs);
    const ClusterAnswer& shown = *panel.answered();
    QVERIFY(shown.problem.empty());
    // The model was fitted to this published run.
    QVERIFY(std::abs(shown.time.tokens_per_second - 651) < 0.5);
    QVERIFY2(panel.answerText().contains("651 tokens/s per GPU"), qPrintable(panel.answerText()));
    double sum = 0;
    for (const BandBars::Row& row : panel.findChild<BandBars*>()->rows()) sum += row.parts.at(0).value;
    QVERIFY(std::abs(sum - shown.time.ms_per_token) < 1e-9);
  }

  // The routing is that of the run, until the user has chosen another one; without a run it is forced balance.
  void theRoutingFollowsTheRun() {
    Selection none;
    TimeOfAStepPanel panel(&none);
    const auto routing = [&] { return control<QComboBox>(&panel, "Routing")->currentText(); };
    QCOMPARE(routing(), QString("forced balance"));
    none.setHistories({run_->history()});
    QCOMPARE(routing(), QString("this router"));
    choose(&panel, "Routing", "forced balance");
    none.setHistories({});
    none.setHistories({run_->history()});
    QCOMPARE(routing(), QString("forced balance"));
    TimeOfAStepPanel next(selection_.get());
    next.restoreState(panel.saveState());
    QCOMPARE(control<QComboBox>(&next, "Routing")->currentText(), QString("forced balance"));
  }

  // A table shows each number whole or in its short form, however narrow the panel is.
  void tablesCutNoNumber() {
    ThisImbalancePanel panel(selection_.get());
    panel.setMinimumWidth(1);
    show(&panel, {900, 400});
    auto* table = panel.findChild<FigureTable*>();
    QTRY_VERIFY_WITH_TIMEOUT(table->rowCount() > 0, kWaitMs);
    bool shortened = false;
    QStringList forms_at_width;
    for (const int width : {900, 640, 492, 400, 300}) {
      panel.resize(width, 400);
      QApplication::processEvents();
      forms_at_width.clear();
      for (int row = 0; row < table->rowCount(); ++row)
        for (int column = 0; column < table->columnCount(); ++column) {
          const QString shown = table->shownText(row, column);
          const QStringList forms = table->item(row, column)->data(Qt::UserRole).toStringList();
          QVERIFY2(shown.isEmpty() || forms.contains(shown), qPrintable(shown));
          const int least_width = forms.first().contains(" to ") ? 640 : 492;  // a range has two numbers
          QVERIFY2(!shown.isEmpty() || width < least_width,
                   qPrintable(QString("row %1: %2").arg(row).arg(forms.join(QStringLiteral(" | ")))));
          QVERIFY(QFontMetrics(table->font()).horizontalAdvance(shown) <= table->columnWidth(column));
          shortened |= forms.size() > 1 && shown == forms.last();
          if (forms.size() > 1 && !shown.isEmpty()) forms_at_width << (shown == forms.last() ? "short" : "long");
        }
      forms_at_width.removeDuplicates();
      QVERIFY2(forms_at_width.size() <= 1, qPrintable(QString("%1 pixels: both forms").arg(width)));
    }
    QVERIFY(shortened);
  }

  // Ranks that hold the run's own experts have the load of Expert placement, and the note says so; for other ranks it
  // says that the load has the experts of the model.
  void theFullestRankIsThatOfExpertPlacement() {
    std::vector<std::uint32_t> load;
    for (int e = 0; e < 64; ++e) load.push_back(100 + 7 * (e * e % 31));
    Selection selection;
    selection.setHistories({logOf(load)});
    ExpertPlacementPanel placement(&selection);
    TimeOfAStepPanel panel(&selection);
    connect(&placement, &ExpertPlacementPanel::placementShown, &panel, &TimeOfAStepPanel::setPlacement);
    connect(&panel, &TimeOfAStepPanel::degreeChosen, &placement, &ExpertPlacementPanel::setDegree);
    show(&placement, {900, 400});
    show(&panel, {900, 360});
    const auto note = [&] {
      [&] { QTRY_VERIFY_WITH_TIMEOUT(panel.answered() && !panel.property("busy").toBool(), kWaitMs); }();
      return panel.findChild<FittedLabel*>()->text();
    };
    for (const auto& [ep, setting, name] : {std::tuple("EP 32", "contiguous", "in order"),
                                            {"EP 16", "random", "random"},
                                            {"EP 16", "balanced", "balanced, replicas"}}) {
      choose(&panel, "EP degree", ep);
      placement.setAsked(setting);
      QApplication::processEvents();
      const QString multiple = button(&placement, name)->text().section(QString(": "), 1);
      QVERIFY(multiple.toDouble() > 1);
      QTRY_VERIFY2_WITH_TIMEOUT(
          note().startsWith(QString("Fullest rank %1 \u00d7 the mean as in All-to-all").arg(multiple)),
          qPrintable(note()), kWaitMs);
    }
    choose(&panel, "EP degree", "EP 128");
    QTRY_VERIFY2_WITH_TIMEOUT(note().contains("(64 experts stretched to 256; EP 128 does not divide them)"),
                              qPrintable(note()), kWaitMs);
  }

  void impossibleQuestionsHaveAProblem() {
    ClusterQuestion question;
    question.hardware = "h100";
    question.mxfp8 = true;
    QVERIFY(!answer(question).problem.empty());
    question = {};
    question.routing = AskedRouting::live;
    QVERIFY(!answer(question).problem.empty());
    question.live_load = {5, 1, 1, 1};
    QVERIFY(answer(question).problem.empty());
  }

  // Both panels give the same answer to the same question.
  void oneRouterCostsTheSameInBothPanels() {
    ClusterQuestion question;
    question.live_load = {900, 300, 200, 150, 100, 80, 60, 10};
    question.routing = AskedRouting::live;
    const LiveCase cases[] = {{32, false}};
    const double asked_tokens_s = answer(question).time.tokens_per_second,
                 shown_tokens_s = live_costs(published_b200_config(true, AllToAll::deep_ep), Hypothesis::h2,
                                             load_in_order(question.live_load, 256), cases)
                                      .front()
                                      .tokens_per_second;
    QVERIFY2(std::abs(asked_tokens_s / shown_tokens_s - 1) < 1e-9,
             qPrintable(QStringLiteral("%1, %2").arg(asked_tokens_s).arg(shown_tokens_s)));
  }

  // Replicas are planned for the experts of the run in both panels, as in Expert placement.
  void replicasCostTheSameInBothPanels() {
    ClusterQuestion question;
    for (std::uint32_t e = 0; e < 64; ++e) question.live_load.push_back(100 + 7 * (e * e % 31));
    question.routing = AskedRouting::live;
    question.placement.kind = PlacementChoice::Kind::balanced;
    const LiveCase cases[] = {{.ep = 32, .balanced = true, .run_experts = 64}, {.ep = 32, .balanced = true}};
    const auto costs = live_costs(step_config(question), Hypothesis::h2, load_in_order(question.live_load, 256), cases);
    const double asked_tokens_s = answer(question).time.tokens_per_second;
    QVERIFY2(std::abs(asked_tokens_s / costs[0].tokens_per_second - 1) < 2e-3,  // one plans from sampled tokens
             qPrintable(QStringLiteral("%1, %2").arg(asked_tokens_s).arg(costs[0].tokens_per_second)));
    QVERIFY(costs[0].traffic.expert_rows_max_over_mean >= costs[1].traffic.expert_rows_max_over_mean);
  }

  // The costs and gains are those of the cluster that Time of a step shows.
  void theCostFollowsTheChosenCluster() {
    ThisImbalancePanel panel(selection_.get());
    ClusterQuestion cluster;
    cluster.all_to_all = AllToAll::standard;
    cluster.mxfp8 = false;
    cluster.routing = AskedRouting::live;
    panel.setCluster(cluster);
    show(&panel, {640, 360});
    const auto is_answered = [&] { return !panel.property("busy").toBool() && panel.choices().size() == 5; };
    QTRY_VERIFY_WITH_TIMEOUT(is_answered(), kWaitMs);
    QVERIFY2(panel.caption().contains("256 B200s, standard all-to-all, BF16 experts"), qPrintable(panel.caption()));
    const Rows rows = Rows(panel.csv()).rows_where(2, 32);
    const StepChoices& at_32 = panel.choices()[2];
    QVERIFY(at_32.ep == 32 && std::abs(rows.at(1, 7) / at_32.tokens_per_second[0][0] - 1) < 1e-6);
    QVERIFY(std::abs(at_32.tokens_per_second[1][0] / at_32.tokens_per_second[0][0] / at_32.deep_ep.ratio - 1) < 1e-9);
    QVERIFY(std::abs(at_32.tokens_per_second[0][1] / at_32.tokens_per_second[0][0] / at_32.mxfp8.ratio - 1) < 1e-9);
    for (const StepChoices& step : panel.choices())
      for (const Speedup& gain : {step.deep_ep, step.mxfp8})
        QVERIFY(gain.range.low <= gain.ratio && gain.ratio <= gain.range.high);
    cluster.hardware = "h100";
    cluster.mxfp8 = true;
    panel.setCluster(cluster);
    QTRY_VERIFY_WITH_TIMEOUT(!panel.property("busy").toBool(), kWaitMs);
    QVERIFY(panel.choices().empty() && !panel.findChild<FigureTable*>()->isVisible());
  }

  // Of two runs the table has the gains of both; of one the speeds of all choices, too.
  void deepEpGainHasTheGainsOfEachRun() {
    Selection selection;
    selection.setHistories({logOf({20, 20, 20, 20, 20, 20, 20, 20}), logOf({160, 0, 0, 0, 0, 0, 0, 0})});
    ThisImbalancePanel cost(&selection);
    ClusterQuestion cluster;
    cluster.routing = AskedRouting::live;
    cost.setCluster(cluster);
    show(&cost, {640, 360});
    QTRY_VERIFY_WITH_TIMEOUT(!cost.property("busy").toBool() && cost.choices().size() == 5, kWaitMs);
    const std::vector<RunChoices> runs = cost.choicesOfRuns();
    QVERIFY(runs.size() == 2 && runs[0].letter == "A" && runs[1].letter == "B");
    DeepEPGainPanel gain(&selection);
    gain.setSteps(runs, cluster);
    const auto* table = gain.findChild<FigureTable*>();
    QCOMPARE(table->rowCount(), 8);
    QCOMPARE(table->horizontalHeaderItem(0)->text(), QString("\u00d7"));
    QCOMPARE(table->item(4, 0)->text(), QString("B: gain by DeepEP, \u00d7"));
    QCOMPARE(table->item(4, 3)->text(), QString::number(runs[1].steps[2].deep_ep.ratio, 'f', 2));
    QCOMPARE(Rows(gain.csv()).size(), std::size_t{10});
    gain.setSteps({{{}, runs[0].steps}}, cluster);
    QCOMPARE(table->item(0, 0)->text(), QString("gain by DeepEP, \u00d7"));
    QCOMPARE(table->item(7, 0)->text(), QString("DeepEP, MXFP8"));
  }

  // One choice has one speed in all panels, at every step of the cursor and with every routing.
  void oneChoiceHasOneSpeedInAllPanels() {
    TimeOfAStepPanel time(selection_.get());
    ThisImbalancePanel cost(selection_.get());
    const auto ask = [&] { cost.setCluster(time.question()); };
    connect(&time, &TimeOfAStepPanel::clusterChosen, &cost, ask);
    ask();
    show(&time, {700, 400});
    show(&cost, {640, 360});
    for (const std::int64_t step : {run_->history()->steps().last, run_->history()->steps().first + 3}) {
      selection_->setStep(step);
      for (const char* routing : {"forced balance", "this router"})
        for (const char* placement : {"experts in order", "experts balanced"})
          for (const int ep : {8, 32}) {
            choose(&time, "Routing", routing);
            choose(&time, "Placement", placement);
            choose(&time, "EP degree", QString("EP %1").arg(ep));
            const auto has_one_speed = [&] {
              const auto choices = std::ranges::find(cost.choices(), ep, &StepChoices::ep);
              return time.answered() && !time.property("busy").toBool() && !cost.property("busy").toBool() &&
                     choices != cost.choices().end() &&
                     std::abs(choices->tokens_per_second[1][1] / time.answered()->time.tokens_per_second - 1) < 1e-9;
            };
            QTRY_VERIFY2_WITH_TIMEOUT(has_one_speed(), routing, kWaitMs);
            const double shown = time.answered()->time.tokens_per_second;
            const Rows rows = Rows(cost.csv()).rows_where(2, ep);
            if (routing == QString("this router") && placement == QString("experts in order"))
              QVERIFY2(std::abs(rows.at(1, 7) / shown - 1) < 1e-6, routing);
            QVERIFY2(cost.headline().value(0).startsWith("B200, MXFP8, EP ") &&
                         cost.caption().contains(QString("step %1, ").arg(step)),
                     qPrintable(cost.caption()));
          }
    }
  }

  // GPUs without MXFP8 have BF16 experts, and no panel is empty.
  void gpusWithoutMxfp8HaveAnAnswer() {
    TimeOfAStepPanel time(selection_.get());
    ThisImbalancePanel cost(selection_.get());
    show(&time, {900, 400});
    show(&cost, {640, 360});
    choose(&time, "GPU", "H200 GPUs");
    QCOMPARE(control<QComboBox>(&time, "Experts")->currentText(), QString("BF16 experts"));
    cost.setCluster(time.question());
    QTRY_VERIFY_WITH_TIMEOUT(time.answered() && !cost.property("busy").toBool(), kWaitMs);
    QVERIFY(time.answered()->problem.empty() && cost.choices().size() == 5);
    QVERIFY(std::isnan(cost.choices()[0].mxfp8.ratio) &&
            cost.headline().value(0).contains("; MXFP8 not on this GPU; "));
    QStringList notes;
    for (const FittedLabel* label : time.findChildren<FittedLabel*>()) notes << label->text();
    QCOMPARE(notes.filter("no MXFP8").size(), 1);
  }

  // One expert with a high load fills its rank less than neighbours that all have more than their share.
  void theFullestLayerHasTheFullestRank() {
    TelemetryFrame frame;
    for (const int layer : {3, 4}) {
      RouterFrame& router = frame.routers.emplace_back();
      router.layer = layer;
      router.tokens_per_expert.assign(64, 100);
    }
    frame.routers[0].tokens_per_expert[0] = 400;
    std::fill_n(frame.routers[1].tokens_per_expert.begin(), 8, 200);
    QCOMPARE(layer_loads(frame, 8).fullest(), 4);
    QCOMPARE(layer_loads(frame, 64).fullest(), 3);
  }

  void theLiveRoutersCostIsCores() {
    ThisImbalancePanel panel(selection_.get());
    show(&panel, {640, 360});
    QTRY_VERIFY_WITH_TIMEOUT(panel.findChild<QTableWidget*>()->rowCount() > 0, kWaitMs);
    const StepConfig config = published_b200_config(true, AllToAll::deep_ep);
    const auto cases = live_cases(config, run_->history()->info().n_experts);
    const ValueTable table = panel.table();
    const std::size_t degrees = possible_ep(config).size();
    const Rows rows(panel.csv());
    // An even load, and the load of the fullest layer in all layers, for each degree.
    QCOMPARE(table.rows(), cases.size() + 2 * degrees);
    const auto* shown = panel.findChild<FigureTable*>();
    QCOMPARE(shown->columnCount(), static_cast<int>(degrees) + 1);
    QCOMPARE(shown->horizontalHeaderItem(3)->text(), QString("EP 32"));
    const auto frame = selection_->frame();
    const auto at_32 = std::ranges::find_if(cases, [](const LiveCase& live_case) { return live_case.ep == 32; });
    const auto even = live_costs(config, Hypothesis::h2, {}, {&*at_32, 1}).front();
    std::vector<std::vector<LiveCost>> costs_by_layer;  // a step's time is the mean over the layers
    double fullest = even.tokens_per_second;
    for (const RouterFrame& router : frame->routers) {
      costs_by_layer.push_back(
          live_costs(config, Hypothesis::h2, load_in_order(router.tokens_per_expert, 256), {&*at_32, kLiveVariants}));
      fullest = std::min(fullest, costs_by_layer.back().front().tokens_per_second);
    }
    QVERIFY(costs_by_layer.size() > 1);
    const std::size_t first = 2 * (kLiveVariants + 1);  // row of the even load at EP 32
    QVERIFY(table.row(first)[7] == table_value(even.tokens_per_second));
    double lost = 0;
    for (std::size_t i = 0; i < kLiveVariants; ++i) {
      double seconds = 0;
      for (const auto& costs : costs_by_layer) seconds += 1 / costs[i].tokens_per_second;
      const double speed = static_cast<double>(costs_by_layer.size()) / seconds,
                   shown_speed = rows.at(first + 1 + i, 7);
      QVERIFY2(std::abs(shown_speed / speed - 1) < 1e-6, qPrintable(QString("%1, %2").arg(shown_speed).arg(speed)));
      if (i == 0) lost = 100 * (1 - speed / even.tokens_per_second);
    }
    const QString headline = panel.headline().value(0);
    const QString cost = QString("; imbalance costs %1 % (").arg(std::round(lost));
    QVERIFY2(headline.contains(cost), qPrintable(headline));
    QVERIFY2(panel.about().value(0).contains(QString("mean of %1 layers").arg(costs_by_layer.size())),
             qPrintable(panel.about().value(0)));
    QVERIFY2(shown->item(4, 0)->text().startsWith("all as layer "), qPrintable(shown->item(4, 0)->text()));
    QCOMPARE(shown->item(4, 3)->data(Qt::UserRole).toStringList().last(), formatCount(std::round(fullest)));
  }

  // Runs stand beside each other; costs of other runs are not shown while those of the present ones are computed.
  void costsAreThoseOfTheOpenRuns() {
    SyntheticRun other(SyntheticShape{});
    other.append(2);
    Selection selection;
    selection.setHistories({run_->history()});
    ThisImbalancePanel panel(&selection);
    show(&panel, {900, 400});
    auto* table = panel.findChild<FigureTable*>();
    const auto is_answered = [&] { return !panel.property("busy").toBool() && table->isVisible(); };
    QTRY_VERIFY_WITH_TIMEOUT(is_answered(), kWaitMs);
    const int one_run_rows = table->rowCount();
    panel.resize(430, 400);
    int range_row = 0;
    while (range_row < one_run_rows && !table->shownText(range_row, 0).contains("range")) ++range_row;
    QVERIFY(range_row < one_run_rows);
    for (int column = 1; column < table->columnCount(); ++column) {
      const QString range = table->shownText(range_row, column);  // both ends, or none
      QVERIFY2(range.isEmpty() || range.contains(" to ") || range.contains(QChar(0x2026)), qPrintable(range));
    }
    selection.setHistories({other.history(), run_->history()});
    QCOMPARE(panel.headline().value(0), QString("Computing the cost of this imbalance..."));
    QVERIFY(!table->isVisible() && panel.answerText().isEmpty());
    QTRY_VERIFY_WITH_TIMEOUT(is_answered(), kWaitMs);
    QCOMPARE(table->rowCount(), one_run_rows + 2);  // and its range
    QCOMPARE(table->item(2, 0)->text(), QString("load of A"));
    QCOMPARE(table->item(5, 0)->text(), QString("load of B"));
  }

  // A run with forced balance has no imbalance.
  void forcedBalanceCostsNothing() {
    RunInfo info = run_->history()->info();
    info.config_toml = "[router]\nforce_balance = true\n";
    const auto forced = std::make_shared<History>(info);
    forced->append(selection_->frame());
    Selection selection;
    selection.setHistories({forced});
    ThisImbalancePanel panel(&selection);
    show(&panel, {640, 360});
    // The balanced router and forced balance.
    QTRY_COMPARE_WITH_TIMEOUT(panel.findChild<FigureTable*>()->rowCount(), 2, kWaitMs);
    QVERIFY2(panel.headline().value(0).contains("MXFP8 gains (1.07 \u00d7, 1.06 to 1.19); for DeepEP open a log "),
             qPrintable(panel.headline().value(0)));
    TimeOfAStepPanel time(&selection);
    QCOMPARE(control<QComboBox>(&time, "Routing")->currentText(), QString("forced balance"));
    AllToAllPanel bytes(&selection);
    QVERIFY2(bytes.answerText().startsWith("Balance is forced: "), qPrintable(bytes.answerText()));
  }

  void bytesByLinkAreTheVolumesTimesTheRow() {
    AllToAllPanel panel(selection_.get());
    choose(&panel, "View", "what de-duplication saves");
    const auto frame = selection_->frame();
    const VolumeFrame& volume = find_router(frame.get(), selection_->layer())->volume;
    for (const Payload payload : {Payload::bf16, Payload::fp8, Payload::mxfp8}) {
      control<QComboBox>(&panel, "Token format")->setCurrentIndex(static_cast<int>(payload));
      show(&panel, {640, 360});
      const auto row_bytes = static_cast<double>(bytes_per_token(payload, run_->history()->info().dim));
      const ValueTable table = panel.table();
      const LinkCopies standard = total(copies_by_link(volume, AllToAll::standard));
      const LinkCopies deep_ep = total(copies_by_link(volume, AllToAll::deep_ep));
      const auto bytes = [&](std::uint64_t copies) { return table_value(row_bytes * static_cast<double>(copies)); };
      QVERIFY(table.row(0)[1] == bytes(standard.network_out) && table.row(0)[2] == bytes(deep_ep.network_out));
      QVERIFY(table.row(0)[3] == bytes(standard.nvlink_out) && table.row(0)[4] == bytes(deep_ep.nvlink_out));
    }
  }

  // A wide panel shows both halves, a narrow one the chosen half.
  void aNarrowPanelShowsOneHalf() {
    AllToAllPanel panel(selection_.get());
    const auto shows = [&](int width, const char* view) {
      choose(&panel, "View", view);
      show(&panel, {width, 400});
      return std::pair(panel.findChild<RankMatrix*>()->isVisible(), panel.findChild<SavingView*>()->isVisible());
    };
    QCOMPARE(shows(1200, "matrix and bytes"), std::pair(true, true));
    QCOMPARE(shows(500, "matrix and bytes"), std::pair(true, false));
    QCOMPARE(shows(500, "what de-duplication saves"), std::pair(false, true));
    QCOMPARE(shows(1200, "who sends what to whom"), std::pair(true, false));
  }

  void payloadsChangeTheMatrixBytes() {
    AllToAllPanel panel(selection_.get());
    auto* format = control<QComboBox>(&panel, "Token format");
    format->setCurrentIndex(static_cast<int>(Payload::mxfp8));
    emit format->activated(format->currentIndex());
    show(&panel, {640, 360});
    QVERIFY(control<QComboBox>(&panel, "Token format")->currentText().startsWith("MXFP8, "));
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
    const QString expected =
        QString("What does routing cost? In step %3 all wait for rank %1, which receives %2 times the mean; ")
            .arg(matrix->fullest())
            .arg(overload, 0, 'f', 2)
            .arg(frame->step);
    QVERIFY2(panel.answerText().startsWith(expected), qPrintable(panel.answerText()));
    for (int rank = 0; rank < router->volume.ranks; ++rank)
      QVERIFY(matrix->barRect(rank).height() <= matrix->barRect(matrix->fullest()).height());
  }

  void noRankIsMarkedIfAllReceiveTheSame() {
    RankMatrix matrix;
    matrix.setReceived({0.99, 1.02, 0.99, 1}, 2);
    QCOMPARE(matrix.marked(), -1);
    QCOMPARE(matrix.fullest(), 1);
    matrix.setReceived({0.5, 0.5, 1.5, 1.5}, 2);
    QCOMPARE(matrix.marked(), matrix.fullest());
  }

  // A narrow panel hides the figures; a low panel hides the bars and lists the figures. Nothing is drawn outside of the
  // widget.
  void aSmallMatrixDropsFiguresAndBars() {
    AllToAllPanel panel(selection_.get());
    for (const auto& [width, height, bars, figures] :
         {std::tuple{640, 420, true, true}, std::tuple{300, 420, true, false}, std::tuple{330, 160, false, true}}) {
      panel.setMinimumSize(width, height);
      show(&panel, {width, height});
      const auto* matrix = panel.findChild<RankMatrix*>();
      QCOMPARE(!matrix->barRect(0).isEmpty(), bars);
      QCOMPARE(!matrix->figureRect(0).isEmpty(), figures);
      QVERIFY(matrix->rect().contains(matrix->cellsRect()));
      if (figures) QVERIFY(matrix->rect().contains(matrix->figureRect(2)));
    }
  }

  // A log with loads and without ranks is counted at the EP degrees that divide its experts.
  void aLogWithoutRanksIsCountedAtAnAssumedDegree() {
    Selection selection;
    selection.setHistories({logOf({60, 20, 20, 20, 10, 10, 10, 10})});
    ExpertPlacementPanel panel(&selection);
    show(&panel, {900, 400});
    for (const auto& [name, text] : {std::pair("EP 2", "EP 2: 1.50"), {"EP 4", "EP 4: 2.00"}, {"EP 8", "EP 8: 3.00"}})
      QCOMPARE(button(&panel, name)->text(), QString::fromUtf8(text));
    QVERIFY(!button(&panel, "EP 16")->isVisible());  // EP 16 and more do not divide 8 experts
    button(&panel, "EP 2")->click();
    QTRY_VERIFY2(panel.caption().contains("EP 2 assumed"), qPrintable(panel.caption()));
    QTRY_VERIFY2(panel.csv().contains("1,3,0,0,20"), qPrintable(panel.csv()));  // expert 3 is on rank 0 of 2
    QVERIFY2(panel.csv().contains("1,4,0,1,10"), qPrintable(panel.csv()));
  }

  // Another log is marked on the ranks, and named in the numbers of the choices.
  void twoLogsAreComparedRankByRank() {
    Selection selection;
    selection.setHistories({logOf({20, 20, 20, 20, 20, 20, 20, 20}), logOf({160, 0, 0, 0, 0, 0, 0, 0})});
    ExpertPlacementPanel panel(&selection);
    show(&panel, {900, 400});
    QCOMPARE(button(&panel, "EP 8")->text(), QString("EP 8: A 1.00, B 8.00"));
    auto* strip = panel.findChild<PlacementStrip*>();
    const QImage both = strip->grab().toImage();
    const auto count_of = [](const QImage& image, const QColor& color) {
      int count = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) count += image.pixelColor(x, y) == color;
      return count;
    };
    const QColor color_of_b = seriesColor(runColor(selection, 1), isDark(panel.palette()));
    QVERIFY(count_of(both, color_of_b) > 8 * 50);  // a line on each of the 8 ranks
    selection.setHistories({logOf({20, 20, 20, 20, 20, 20, 20, 20})});
    QTRY_COMPARE(count_of(strip->grab().toImage(), color_of_b), 0);
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

  // The keyboard cursor is in the middle of the plot, whose axes go from 0 to 2.
  void theReadoutNamesTheNearestPoint() {
    XyPlot plot;
    plot.setAtLeastShown({0, 2}, {0, 2});
    plot.setSeries({{.label = "measured", .points = {{0, 0}, {2, 2}, {1.01, 1}}, .names = {"first", "second", "third"}},
                    {.label = "curve", .line = Qt::DashLine, .points = {{0, 0}, {0.97, 1}}}});
    plot.resize(400, 300);
    plot.grab();
    QCOMPARE(plot.valueText(), QString("measured   third   1.010; 1.000"));
  }

  // New steps move only the point of the router on the screen; the curves do not change.
  void theRoutersPointFollowsItsLoad() {
    DeepEPGainPanel panel(selection_.get());
    choose(&panel, "Axes", "by copies per token");
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

 private:
  // A log of one step and one layer with these loads, without ranks.
  static std::shared_ptr<const History> logOf(const std::vector<std::uint32_t>& load) {
    RunInfo info;
    info.source = "run.jsonl";
    info.n_experts = static_cast<int>(load.size());
    info.top_k = 2;
    info.moe_layers = {1};
    info.n_layers = 2;
    const auto log = std::make_shared<History>(info);
    auto frame = std::make_shared<TelemetryFrame>();
    frame->routers.resize(1);
    frame->routers[0].layer = 1;
    frame->routers[0].tokens_per_expert = load;
    frame->routers[0].padding_fraction = 0;  // the load is counts, not shares
    log->append(frame);
    return log;
  }

  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(ClusterPanelsTest)
#include "qt_cluster.moc"
