// Expert placement, what MPI sent, the timeline of a layer, and recordings that grow.
#include <QFile>
#include <QMessageBox>
#include <QMouseEvent>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QUndoStack>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/export/export_actions.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/cluster/ranks/volumes.h"
#include "core/config/config_toml.h"
#include "core/recording/recording.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/cluster/layer_lanes.h"
#include "widgets/cluster/time_of_a_step_panel.h"

using namespace moescope;

namespace {

RunConfig nanoOnFourRanks() {
  RunConfig config = load_preset("nano").config;
  config.parallel.ranks = 4;
  config.parallel.ranks_per_node = 2;
  return config;
}

// Returns a place of the strip whose readout contains `words`; ends the program if there is none.
QPoint placeOf(PlacementStrip* strip, const QString& words) {
  QSignalSpy readout(strip, &PlotFrame::readoutChanged);
  for (int y = 0; y < strip->height(); y += 3)
    for (int x = 0; x < strip->width(); x += 3) {
      move(strip, {x, y});
      if (readout.last()[0].toString().contains(words)) return {x, y};
    }
  qFatal("%s: nowhere", qPrintable(words));
}

void dragExpert(PlacementStrip* strip, int expert, int rank) {
  const QPoint from = placeOf(strip, QStringLiteral("expert %1 on").arg(expert));
  const QPoint to = placeOf(strip, QStringLiteral("on rank %1:").arg(rank));
  QTest::mousePress(strip, Qt::LeftButton, Qt::NoModifier, from);
  QTest::mouseMove(strip, (from + to) / 2);
  QTest::mouseMove(strip, to);
  QTest::mouseRelease(strip, Qt::LeftButton, Qt::NoModifier, to);
}

// Returns a frame of a run over two processes. Its sent bytes equal the count from its routing.
TelemetryFrame spreadFrame(int step, int dim) {
  TelemetryFrame frame;
  frame.step = step;
  frame.ce_loss = 2;
  RouterFrame router;
  router.layer = 1;
  router.tokens_per_expert = {5, 3, 2, 6};
  router.volume = {2, 2, {4, 4, 4, 4}, {3, 4, 2, 4}, {4, 4}};
  frame.wire.ranks = 2;
  frame.wire.sent_RR = wire_bytes(router.volume, false, wire_row_bytes("fp32", dim));
  frame.wire.all_to_all_ms_R = {1.5f, 2.5f};
  frame.routers.push_back(std::move(router));
  return frame;
}

RunInfo spreadInfo() {
  RunInfo info;
  info.name = "spread";
  info.n_layers = 2;
  info.moe_layers = {1};
  info.n_experts = 4;
  info.top_k = 2;
  info.tokens_per_step = 8;
  info.ranks = info.ranks_per_node = 2;
  info.dim = 16;
  return info;
}

struct AllToAllWindow {
  MainWindow window{false};
  AllToAllWindow() {
    window.runControl()->setRecorded(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    window.workspaces()->bringUp("all-to-all");
  }
  void start(const RunConfig& config, int steps) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(config, RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    train(steps);
  }
  void train(int steps) {
    LiveRuns* live = window.session()->live();
    live->run_until(steps);
    QTRY_VERIFY_WITH_TIMEOUT(live->status().step == steps && !live->status().running, kWaitMs);
    live->flush();
    window.selection()->refresh();
  }
  ExpertPlacementPanel* placement() {
    auto* panel = window.workspaces()->allToAll()->placement();
    panel->parentWidget()->raise();
    return panel;
  }
};

}  // namespace

class ParallelTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QCoreApplication::setOrganizationName("moescope-test");
    QCoreApplication::setApplicationName("moescope-test-parallel");
  }

  void anExpertIsDraggedAndTheVolumesFollow() {
    AllToAllWindow open;
    open.start(nanoOnFourRanks(), 1);
    ExpertPlacementPanel* panel = open.placement();
    QTRY_VERIFY_WITH_TIMEOUT(panel->findChild<PlacementStrip*>()->isVisible() &&
                                 panel->findChild<PlacementStrip*>()->placement().n_experts() == 8,
                             kWaitMs);
    const int layer = open.window.selection()->layer();
    dragExpert(panel->findChild<PlacementStrip*>(), 0, 3);
    const std::string placed = open.window.session()->config().parallel.placement;
    QCOMPARE(placed, std::to_string(layer) + ":3,0,1,1,2,2,3,3");
    open.train(2);
    const auto frame = open.window.selection()->frame();
    const RouterFrame& router = frame->routers.front();
    const auto received = received_tokens(router.volume, AllToAll::standard);
    const auto& load = router.tokens_per_expert;
    QCOMPARE(received[0], std::uint64_t{load[1]});
    QCOMPARE(received[3], std::uint64_t{load[0]} + load[6] + load[7]);
    open.window.findChild<QUndoStack*>()->undo();
    QCOMPARE(open.window.session()->config().parallel.placement, std::string("contiguous"));
    open.train(3);
    const auto after = open.window.selection()->frame();
    const auto& restored = after->routers.front();
    QCOMPARE(received_tokens(restored.volume, AllToAll::standard)[0],
             std::uint64_t{restored.tokens_per_expert[0]} + restored.tokens_per_expert[1]);
    open.window.findChild<QUndoStack*>()->redo();
    QCOMPARE(open.window.session()->config().parallel.placement, placed);
  }

  void placementsAreChosenByButtonAndKey() {
    AllToAllWindow open;
    open.start(nanoOnFourRanks(), 1);
    ExpertPlacementPanel* panel = open.placement();
    QTRY_VERIFY_WITH_TIMEOUT(panel->findChild<PlacementStrip*>()->placement().n_experts() == 8, kWaitMs);
    const auto overload = [&](const char* placement) {  // load of the fullest rank / mean, on the button
      return button(panel, placement)->text().section(QStringLiteral(": "), 1).toDouble();
    };
    const double in_order = overload("in order");
    QVERIFY2(panel->answerText().contains(button(panel, "in order")->text().section(": ", 1)),
             qPrintable(panel->answerText()));
    for (const char* name : {"random", "balanced, replicas"}) {
      QTest::mouseClick(button(panel, name), Qt::LeftButton);
      QCOMPARE(open.window.session()->config().parallel.placement, QString(name).section(',', 0, 0).toStdString());
    }
    QTRY_VERIFY_WITH_TIMEOUT(panel->findChild<PlacementStrip*>()->placement().replicated(), kWaitMs);
    QVERIFY(button(panel, "balanced, replicas")->isChecked());
    QVERIFY(overload("balanced, replicas") <= in_order);
    open.train(2);
    const auto frame = open.window.selection()->frame();
    const auto& router = frame->routers.front();
    const auto received = received_tokens(router.volume, AllToAll::standard);
    const double mean = std::accumulate(received.begin(), received.end(), 0.0) / 4;
    QTRY_VERIFY_WITH_TIMEOUT(
        std::abs(*std::ranges::max_element(received) / mean - overload("balanced, replicas")) < 0.05, kWaitMs);
    QTest::mouseClick(button(panel, "in order"), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!panel->findChild<PlacementStrip*>()->placement().replicated(), kWaitMs);
    open.window.selection()->setExpert(7);
    QTRY_COMPARE_WITH_TIMEOUT(open.window.selection()->expert(), 7, kWaitMs);
    panel->grab();  // brings the strip up to date
    QTest::keyClick(panel->findChild<PlacementStrip*>(), Qt::Key_Left, Qt::ShiftModifier);
    QVERIFY(open.window.session()->config().parallel.placement.ends_with(":0,0,1,1,2,2,3,2"));
  }

  // The panel derives from the recorded loads the same replicas as the training used.
  void replicasArePlannedEveryTenSteps() {
    AllToAllWindow open;
    RunConfig config = nanoOnFourRanks();
    config.router.bias_update_rate = 0;
    open.start(config, 1);
    ExpertPlacementPanel* panel = open.placement();
    auto* strip = panel->findChild<PlacementStrip*>();
    QTRY_VERIFY_WITH_TIMEOUT(strip->placement().n_experts() == 8, kWaitMs);
    QComboBox* planned = nullptr;
    for (QComboBox* box : panel->findChildren<QComboBox*>())
      if (box->accessibleName().startsWith(QStringLiteral("Load for the balanced placement"))) planned = box;
    planned->setCurrentIndex(1);
    emit planned->activated(1);
    QCOMPARE(open.window.session()->config().parallel.placement, std::string("balanced:10"));
    open.train(14);
    const auto frame = open.window.selection()->frame();
    const auto& router = frame->routers[static_cast<std::size_t>(open.window.selection()->layer() - 1)];
    QTRY_VERIFY_WITH_TIMEOUT(strip->placement().replicated(), kWaitMs);
    const std::vector<std::uint64_t> load(router.tokens_per_expert.begin(), router.tokens_per_expert.end());
    const auto expected = rank_loads(strip->placement(), load);
    const auto received = received_tokens(router.volume, AllToAll::standard);
    for (std::size_t r = 0; r < expected.size(); ++r)
      QVERIFY(std::abs(static_cast<double>(received[r]) - expected[r]) <= 2);
    QStringList notes;
    for (const QLabel* label : panel->findChildren<QLabel*>()) notes << label->text();
    QVERIFY(notes.join(u'\n').contains(QStringLiteral("the plan of step 10 moved the weights of")));
  }

  void theWireIsComparedWithTheCounts() {
    auto history = std::make_shared<History>(spreadInfo());
    for (int step = 0; step < 5; ++step) history->append(std::make_shared<const TelemetryFrame>(spreadFrame(step, 16)));
    // Each rank sends 4 all-to-alls x 4 copies x 16 values x 4 bytes.
    TelemetryFrame frame = *history->frame_at(4);
    QCOMPARE(wireForms(frame, *history).value(0),
             QString("MPI sent 2.05 kB in this step, as counted; the slowest rank took 2.50 ms (measured)"));
    frame.wire.sent_RR[1] += 100;
    QVERIFY(wireForms(frame, *history).value(0).contains("sent 2.15 kB in this step, counted: 2.05 kB"));
    frame.routers.clear();
    QVERIFY(wireForms(frame, *history).value(0).contains("not counted"));
    frame.wire = {};
    QVERIFY(wireForms(frame, *history).isEmpty());
    Selection selection;
    selection.setHistories({history});
    AllToAllPanel panel(&selection);
    show(&panel, {1200, 400});
    QVERIFY(panel.table().row(1).back() == table_value(std::uint64_t{1024}));
    QStringList notes;
    for (const FittedLabel* label : panel.findChildren<FittedLabel*>()) notes << label->text();
    QCOMPARE(notes.filter("MPI sent ").size(), 1);
  }

  void theTimelineIsSavedAsATrace() {
    AllToAllWindow open;
    open.window.workspaces()->bringUp("cluster");
    TimeOfAStepPanel* panel = open.window.workspaces()->cluster()->stepTime();
    const LayerLanes* lanes = panel->lanes();
    QTRY_VERIFY_WITH_TIMEOUT(lanes->hasTimeline(), kWaitMs);
    QCOMPARE(lanes->timeline().ranks, 32);
    choose(panel, "View", "a layer on every rank");
    QVERIFY2(panel->answerText().startsWith("How long do ranks wait? "), qPrintable(panel->answerText()));
    QCOMPARE(static_cast<std::size_t>(panel->csv().count('\n')), lanes->timeline().intervals.size() + 1);
    QTemporaryDir folder;
    const QString path = folder.filePath("timeline.json");
    open.window.exports()->saveTimeline(path);
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const auto trace = nlohmann::json::parse(file.readAll().toStdString());
    std::size_t bars = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      ++bars;
      QVERIFY(event["dur"].get<double>() > 0 && event["ts"].get<double>() >= 0);
      QVERIFY(event["args"]["kind"] == "modelled");
    }
    QCOMPARE(bars, lanes->timeline().intervals.size());
    QCOMPARE(bars, lanes->intervals().size());
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, open.window.exports()->saveTimeline("/nowhere/at/all.json"));
  }

  void aRecordingIsFollowedWhileItGrows() {
    QTemporaryDir folder;
    const QString path = folder.filePath("grows.moescope");
    RecordingWriter writer(path.toStdString());
    writer.add_run(spreadInfo());
    const auto write = [&](int step) {
      writer.write(std::vector{std::make_shared<const TelemetryFrame>(spreadFrame(step, 16))});
    };
    write(0);
    AllToAllWindow open;
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.window.files()->open({path});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    Selection* selection = open.window.selection();
    QCOMPARE(selection->history()->steps().last, 0);
    for (int step = 1; step < 4; ++step) {
      write(step);
      QTRY_COMPARE_WITH_TIMEOUT(selection->step(), step, kWaitMs);  // the cursor follows the newest step
    }
    QCOMPARE(selection->frame()->wire.ranks, 2);
    open.start(nanoOnFourRanks(), 1);  // ends following the recording
    write(4);
    QTest::qWait(500);  // no step is read: longer than the program takes to notice new steps
    QCOMPARE(selection->history()->steps().last, 0);
  }
};

SCREEN_TEST(ParallelTest)
#include "qt_parallel.moc"
