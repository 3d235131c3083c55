// CPU time of the panels of Router and Text at the size of DeepSeek-V3, in ms per frame, with a synthetic history of 61
// layers (60 with experts) x 256 experts x 10,000 steps: for a new step, for another layer, when the cursor jumps
// through the whole run, and when the mouse moves. The limit of each is 16 ms. Also measures the scan for findings,
// which the program runs in a separate thread.
//   bench_router [steps] [layers] [experts] [steps between texts and tables]
//   bench_router --recording FILE     writes a run of this size with few steps as a recording, for inspection
#include <QApplication>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>

#include "core/findings/findings.h"
#include "core/recording/recording.h"
#include "tests/support/controls.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/routing_stability_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

using namespace moescope;

namespace {

constexpr double kLimitMs = 16;
constexpr int kFrames = 21;

double cpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

struct Named {
  QString name;
  std::unique_ptr<QWidget> widget;
};

template <class Made>
Named made(Selection* selection, const QString& name, const char* box, const char* choice) {
  auto panel = std::make_unique<Made>(selection);
  choose(panel.get(), box, choice);
  return {name, std::move(panel)};
}

template <class Made>
Named made(Selection* selection, const QString& name) {
  return {name, std::make_unique<Made>(selection)};
}

std::vector<Named> panels(Selection* s) {
  std::vector<Named> all;
  all.push_back(made<ExpertLoadPanel>(s, "Expert load, by id"));
  all.push_back(made<ExpertLoadPanel>(s, "Expert load, by co-activation", "Order of experts", "by co-activation"));
  for (const char* summary : {"mean", "extreme"}) {
    auto load = std::make_unique<ExpertLoadPanel>(s, ExpertLoadPanel::one_layer);
    choose(load.get(), "Steps that share a pixel", summary);
    all.push_back({QString("Load of a layer over time, %1").arg(summary), std::move(load)});
  }
  all.push_back(made<BalancePanel>(s, "Balance, over time"));
  all.push_back(made<BalancePanel>(s, "Balance, all layers", "View", "all layers"));
  all.push_back(made<BalancePanel>(s, "Balance, by layer", "View", "by layer"));
  all.push_back(made<ExpertBiasOverTimePanel>(s, "Bias, all experts"));
  all.push_back(made<ExpertBiasOverTimePanel>(s, "Bias, curves", "View", "curves"));
  auto scores = std::make_unique<RouterConfidenceAndLossesPanel>(s);
  scores->showView(1);
  all.push_back({"Scores and margins", std::move(scores)});
  all.push_back(made<RouterConfidenceAndLossesPanel>(s, "Confidence and losses"));
  all.push_back(made<BalancePanel>(s, "Balance, capacity", "View", "capacity"));
  all.push_back(made<ExpertPanel>(s, "Expert card"));
  all.push_back(
      {"Tokens, one layer", std::make_unique<TokensAndSamplePanel>(s, TokensAndSamplePanel::Shows::probe_and_data)});
  all.push_back(
      {"Tokens, all layers", std::make_unique<TokensAndSamplePanel>(s, TokensAndSamplePanel::Shows::probe_and_data)});
  button(all.back().widget.get(), "all layers")->click();
  all.push_back(made<SpecialisationPanel>(s, "Specialisation"));
  all.push_back(made<CoactivationPanel>(s, "Co-activation"));
  all.push_back(made<SpecialisationPanel>(s, "Byte affinity", "Figure", "use by byte"));
  for (const auto& [view, name] : {std::pair{"over steps", "Stability over steps"},
                                   {"by layer", "Stability by layer"},
                                   {"at the step", "Stability at the step"}}) {
    all.push_back(made<RoutingStabilityPanel>(s, name, "View", view));
    choose(all.back().widget.get(), "Earlier step to compare with", "first");
  }
  all.push_back({"Timeline", std::make_unique<TimelineBar>(s)});
  return all;
}

struct Times {
  double median = 0, worst = 0;
};

Times timesOf(
    const std::function<void(int)>& change, const std::function<void()>& prepare = [] {}) {
  std::vector<double> frame_times;
  for (int i = 0; i < kFrames; ++i) {
    prepare();
    const double before = cpuMs();
    change(i);
    QApplication::processEvents();
    frame_times.push_back(cpuMs() - before);
  }
  std::ranges::sort(frame_times);
  return {frame_times[frame_times.size() / 2], frame_times.back()};
}

void hover(QWidget* widget, int i) {
  for (PlotFrame* plot : widget->findChildren<PlotFrame*>()) {
    if (!plot->isVisible()) continue;
    const QPointF at(plot->width() * (0.3 + 0.01 * i), plot->height() * 0.4);
    QMouseEvent mouse_move(QEvent::MouseMove, at, plot->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QApplication::sendEvent(plot, &mouse_move);
    return;
  }
}

// Waits until a panel of routing stability, which compares texts in a separate thread, has all its values.
void settle(QWidget* widget) {
  const auto* stability = qobject_cast<RoutingStabilityPanel*>(widget);
  if (!stability) return;
  QElapsedTimer timer;
  timer.start();
  do {
    QApplication::processEvents();
  } while (stability->property("busy").toBool());
  std::printf("  (routings of the probe compared in %lld ms beside the screen)\n",
              static_cast<long long>(timer.elapsed()));
}

void measureFindings(SyntheticRun& run, std::int64_t steps) {
  const double before = cpuMs();
  FindingsScan scan(run.history());
  scan.advance(INT64_MAX);
  const std::size_t found = scan.findings().size();
  const double whole = cpuMs() - before;
  std::vector<double> blocks;
  for (int i = 0; i < kFrames; ++i) {
    run.append(FindingsScan::kBlock);
    const double start = cpuMs();
    scan.advance(INT64_MAX);
    (void)scan.findings();
    blocks.push_back(cpuMs() - start);
  }
  std::ranges::sort(blocks);
  std::printf(
      "Findings: all %lld steps read in %.0f ms (%.3f ms a step, %zu findings); %lld new ones in %.2f ms (%.2f)\n",
      static_cast<long long>(steps), whole, whole / static_cast<double>(steps), found,
      static_cast<long long>(FindingsScan::kBlock), blocks[blocks.size() / 2], blocks.back());
}

int measure(const SyntheticShape& shape, std::int64_t steps) {
  SyntheticRun run(shape);
  const double before = cpuMs();
  run.append(steps);
  std::printf("%d MoE layers x %d experts x %lld steps, made in %.0f s; arrays %.0f MB, 1 of %d frames kept\n",
              shape.layers - 1, shape.experts, static_cast<long long>(steps), (cpuMs() - before) / 1e3,
              static_cast<double>(run.history()->array_bytes()) / 1e6, run.history()->kept_every());
  std::printf("CPU ms of a frame, median (worst) of %d; limit %.0f\n", kFrames, kLimitMs);
  std::printf("  %-26s %-15s %-15s %-15s %-15s\n", "", "new step", "layer", "scrub", "hover");
  Selection selection;
  selection.setHistories({run.history()});
  selection.setExpert(100 % shape.experts);
  int over_limit = 0;
  for (const Named& panel : panels(&selection)) {
    panel.widget->resize(620, 460);
    panel.widget->show();
    for (int i = 0; i < 3; ++i) QApplication::processEvents();
    settle(panel.widget.get());
    const Times all[] = {
        timesOf([&](int) { selection.refresh(); }, [&] { run.append(1); }),
        timesOf([&](int i) { selection.setLayer(1 + (i * 7) % (shape.layers - 1)); }),
        timesOf([&](int i) { selection.setStep((i * 6113) % steps); }),
        timesOf([&](int i) { hover(panel.widget.get(), i); }),
    };
    selection.setFollowing(true);
    std::printf("  %-26s", qPrintable(panel.name));
    for (const Times& times : all) {
      std::printf(" %6.2f (%6.2f)", times.median, times.worst);
      over_limit += times.median > kLimitMs;
    }
    std::printf("\n");
    panel.widget->hide();
  }
  std::printf("%d of them over the limit\n", over_limit);
  measureFindings(run, steps);
  return over_limit > 0;
}

void record(const std::string& path) {
  SyntheticRun run({.layers = 62,
                    .experts = 256,
                    .top_k = 8,
                    .ranks = 32,
                    .tokens = 8192,
                    .quant_every = 0,
                    .specialise_every = 50});
  RecordingWriter writer(path);
  writer.add_run(run.history()->info());
  for (int step = 0; step < 300; ++step) {
    const std::shared_ptr<const TelemetryFrame> frame = run.next();
    writer.write({&frame, 1});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  useTestLook();
  if (argc == 3 && std::string(argv[1]) == "--recording") {
    record(argv[2]);
    return 0;
  }
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  return measure({.layers = number(2, 61),
                  .experts = number(3, 256),
                  .top_k = 8,
                  .ranks = 0,
                  .tokens = 8192,
                  .quant_every = 0,
                  .specialise_every = number(4, 200)},
                 number(1, 10'000));
}
