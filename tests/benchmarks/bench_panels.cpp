// CPU time to paint one frame, in ms, for each panel and for the whole Overview, with a synthetic history.
//   bench_panels [steps]              the table
//   bench_panels --pictures DIR       pictures of every panel and of all together, light and dark, for inspection
#include <QApplication>
#include <QDir>
#include <QGridLayout>
#include <QMouseEvent>
#include <QPainter>
#include <ctime>
#include <iostream>

#include "tests/support/controls.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_load_panel.h"

using namespace moescope;

namespace {

double cpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

// All panels of the Overview in one window, in their usual size.
class Overview : public QWidget {
 public:
  explicit Overview(Selection* selection) {
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(4, 4, 4, 4);
    grid->setSpacing(4);
    panels_ = {new LossPanel(selection),
               new ExpertLoadPanel(selection),
               new ExpertLoadPanel(selection, ExpertLoadPanel::one_layer),
               new BalancePanel(selection),
               new AllToAllPanel(selection),
               new QuantizationErrorPanel(selection)};
    timeline_ = new TimelineBar(selection);
    grid->addWidget(panels_[0], 0, 0);
    grid->addWidget(panels_[1], 0, 1);
    grid->addWidget(panels_[2], 0, 2);
    grid->addWidget(panels_[3], 1, 0);
    grid->addWidget(panels_[4], 1, 1);
    grid->addWidget(panels_[5], 2, 0, 1, 3);
    grid->addWidget(timeline_, 3, 0, 1, 3);
    for (int row = 0; row < 3; ++row) grid->setRowStretch(row, 1);
    for (int column = 0; column < 3; ++column) grid->setColumnStretch(column, 1);
    setAutoFillBackground(true);
  }
  const std::vector<Panel*>& panels() const { return panels_; }
  TimelineBar* timeline() const { return timeline_; }

 private:
  std::vector<Panel*> panels_;
  TimelineBar* timeline_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const SyntheticShape& shape, std::int64_t steps, QSize size) {
  SyntheticRun run(shape);
  run.append(steps);
  Selection selection;
  Overview overview(&selection);
  overview.resize(size);
  selection.setHistories({run.history()});
  overview.show();
  QApplication::processEvents();
  QApplication::processEvents();

  constexpr int kFrames = 31;
  std::vector<double> frames, hovers;
  std::vector<std::vector<double>> panel_times(overview.panels().size() + 1);
  for (int i = 0; i < kFrames; ++i) {
    run.append(1);
    const double before = cpuMs();
    selection.refresh();
    QApplication::processEvents();
    frames.push_back(cpuMs() - before);
    for (std::size_t p = 0; p < panel_times.size(); ++p) {
      const double painting = cpuMs();
      p < overview.panels().size() ? overview.panels()[p]->repaint() : overview.timeline()->track()->repaint();
      panel_times[p].push_back(cpuMs() - painting);
    }
  }
  for (int i = 0; i < kFrames; ++i) {
    const double before = cpuMs();
    selection.setHoverStep(steps / 2 + i);
    QApplication::processEvents();
    hovers.push_back(cpuMs() - before);
  }
  std::printf("%d layers x %d experts, %lld steps, window %dx%d: median of %d frames\n", shape.layers - 1,
              shape.experts, static_cast<long long>(steps), size.width(), size.height(), kFrames);
  std::printf("  %-24s %6.2f ms CPU (budget 5)\n", "all, one new step", median(frames));
  std::printf("  %-24s %6.2f ms CPU\n", "all, crosshair moved", median(hovers));
  for (std::size_t p = 0; p < panel_times.size(); ++p) {
    const QString name = p < overview.panels().size() ? overview.panels()[p]->title() : QStringLiteral("Timeline");
    std::printf("  %-24s %6.2f ms\n", qPrintable(name), median(panel_times[p]));
  }
}

QPalette darkPalette() {
  QPalette palette;
  palette.setColor(QPalette::Window, QColor(0x2a, 0x2b, 0x2e));
  palette.setColor(QPalette::Base, QColor(0x1c, 0x1d, 0x20));
  palette.setColor(QPalette::AlternateBase, QColor(0x24, 0x25, 0x28));
  palette.setColor(QPalette::Button, QColor(0x35, 0x36, 0x3a));
  palette.setColor(QPalette::Highlight, QColor(0x3d, 0x7e, 0xc9));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText})
    palette.setColor(role, QColor(0xe6, 0xe6, 0xe6));
  palette.setColor(QPalette::HighlightedText, Qt::white);
  palette.setColor(QPalette::ToolTipBase, QColor(0x35, 0x36, 0x3a));
  return palette;
}

// Takes two pictures of the Overview: of a large model with the mouse over a cell, and of `small` zoomed in, with
// experts sorted by load, a logarithmic loss and the mouse over the loss.
void takeCloseUps(const QString& folder, const QString& theme, const SyntheticRun& small) {
  static SyntheticRun large({.layers = 62, .experts = 256, .top_k = 8, .ranks = 32, .tokens = 8192, .quant_every = 10});
  if (large.history()->steps().empty()) large.append(400);
  Selection selection;
  Overview overview(&selection);
  selection.setHistories({large.history()});
  selection.setLayer(30);
  selection.setExpert(100);
  overview.resize(1600, 1000);
  overview.show();
  for (int i = 0; i < 3; ++i) QApplication::processEvents();
  auto* load = static_cast<ExpertLoadPanel*>(overview.panels()[1]);
  QMouseEvent mouse_move(QEvent::MouseMove, QPointF(200, 100), QPointF(200, 100), Qt::NoButton, Qt::NoButton,
                         Qt::NoModifier);
  QApplication::sendEvent(load->findChild<MatrixPlot*>(), &mouse_move);
  QApplication::processEvents();
  overview.grab().save(QStringLiteral("%1/large_%2.png").arg(folder, theme));

  selection.setHistories({small.history()});
  selection.setRange({560, 640});
  choose(load, "Order of experts", "by load");
  button(overview.panels()[3], "All")->click();
  choose(overview.panels()[4], "Kind of all-to-all", "DeepEP");
  auto* loss = static_cast<LossPanel*>(overview.panels()[0]);
  loss->findChild<LinePlot*>()->setLogValues(true);
  QApplication::sendEvent(loss->findChild<LinePlot*>(), &mouse_move);
  for (int i = 0; i < 3; ++i) QApplication::processEvents();
  overview.grab().save(QStringLiteral("%1/zoomed_%2.png").arg(folder, theme));
}

void takePictures(const QString& folder) {
  QDir().mkpath(folder);
  const QPalette light = QApplication::palette();
  SyntheticRun run({});
  run.append(1500);
  run.history()->append(Marker{0, 600, "change", "router.bias_update_rate 0.001 -> 0.01"});
  for (const bool dark : {false, true}) {
    QApplication::setPalette(dark ? darkPalette() : light);
    const QString theme = dark ? QStringLiteral("dark") : QStringLiteral("light");
    Selection selection;
    Overview overview(&selection);
    selection.setHistories({run.history()});
    selection.setExpert(5);
    selection.setLayer(2);
    overview.show();
    for (const QSize size : {QSize(1280, 800), QSize(1920, 1080)}) {
      overview.resize(size);
      for (int i = 0; i < 3; ++i) QApplication::processEvents();
      overview.grab().save(QStringLiteral("%1/all_%2_%3.png").arg(folder, theme).arg(size.width()));
    }
    takeCloseUps(folder, theme, run);
    overview.hide();
    for (Panel* panel : overview.panels()) {
      panel->setParent(nullptr);
      for (const QSize size : {QSize(400, 220), QSize(900, 500)}) {
        panel->resize(size);
        panel->show();
        for (int i = 0; i < 3; ++i) QApplication::processEvents();
        const QString name = panel->title().toLower().replace(QLatin1Char(' '), QLatin1Char('_'));
        panel->grab().save(QStringLiteral("%1/%2_%3_%4.png").arg(folder, name, theme).arg(size.width()));
      }
      delete panel;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  useTestLook();
  const QStringList arguments = QApplication::arguments();
  if (arguments.size() == 3 && arguments[1] == QStringLiteral("--pictures")) {
    takePictures(arguments[2]);
    return 0;
  }
  const std::int64_t steps = arguments.size() > 1 ? arguments[1].toLongLong() : 10000;
  measure({.layers = 17, .experts = 64, .top_k = 6, .quant_every = 10}, steps, {1600, 1000});
  measure(
      {.layers = 62, .experts = 256, .top_k = 8, .ranks = 32, .ranks_per_node = 8, .tokens = 8192, .quant_every = 50},
      steps, {1600, 1000});
  return 0;
}
