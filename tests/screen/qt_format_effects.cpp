// The panels Routing flips (roundings in the router, one at a time) and Gradient error (pinned experts, predictions)
// show the numbers of the frame.
#include <QTest>
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/model/text/dataset.h"
#include "core/training/trainer.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/small_run.h"
#include "tests/support/test_look.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/axis.h"

using namespace moescope;

namespace {

constexpr QSize kWide{1100, 360};

// Trains a small run for six steps. Every fifth step is compared with an FP32 pass.
std::shared_ptr<History> trained(RunConfig config) {
  config.telemetry.gradient_every = 5;
  const auto data = open_dataset(config.data, config.seed);
  Trainer trainer(config);
  auto history = std::make_shared<History>(run_info(config, 0));
  for (int i = 0; i < 6; ++i) history->append(std::make_shared<const TelemetryFrame>(trainer.step(data->batch(i))));
  return history;
}

const RouterRoundingFrame& row_of(const TelemetryFrame& frame, RouterRounding rounding, int layer) {
  return *std::ranges::find_if(frame.router_roundings, [&](const RouterRoundingFrame& row) {
    return row.rounding == rounding && row.layer == layer;
  });
}

}  // namespace

class FormatEffectsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void routerRoundingsAreThoseOfTheFrame() {
    RunConfig config = small_run();
    config.router.initial_bias = "1:0=7.001, 1:1=7.013, 1:2=6.997, 1:3=7.02, 1:4=7.004, 1:5=7.009";
    config.router.bias_centring = false;
    Selection selection;
    selection.setHistories({trained(config)});
    RoutingFlipsPanel panel(&selection);
    show(&panel, kWide);
    const auto frame = selection.history()->gradient_frame_at(5);
    QVERIFY(frame);
    const RouterRoundingFrame& bias = row_of(*frame, RouterRounding::bias, 1);
    QVERIFY(bias.changed > 0);
    QVERIFY(bias.bias_values < row_of(*frame, RouterRounding::none, 1).bias_values);

    button(&panel, "in the router")->click();
    QVERIFY(!button(&panel, "by rounding")->isChecked());
    const QString answer = panel.answerText();
    QVERIFY2(answer.contains("stored biases in BF16 alone send"), qPrintable(answer));
    QVERIFY2(answer.contains(QString("in layer 1 %1").arg(formatPercent(bias.changed))), qPrintable(answer));
    QVERIFY2(answer.contains(QString("%1 of ").arg(bias.bias_values, 0, 'f', 0)), qPrintable(answer));
    QVERIFY(panel.csv().contains(QString(",1,bias,%1,").arg(exactText(bias.changed))));

    button(&panel, "by layer")->click();
    const auto* view = panel.findChild<RouterRoundingView*>();
    auto* matrix = view->findChild<MatrixPlot*>();
    QTRY_COMPARE(matrix->columns(), 4);
    QCOMPARE(matrix->rows(), 2);
    const QString cell = matrix->describe(0, 2).join(' ');
    QVERIFY2(cell.contains(formatPercent(bias.changed) + " of the tokens"), qPrintable(cell));
    QVERIFY2(matrix->describe(1, 3).join(' ').contains("biases move"), qPrintable(matrix->describe(1, 3).join(' ')));

    button(&panel, "by rounding")->click();
    QVERIFY(!button(&panel, "in the router")->isChecked());
    QVERIFY(!panel.csv().contains(",bias,"));
  }

  void aRunWhoseRoutersDoNotChooseSaysSo() {
    RunConfig config = small_run();
    config.router.force_balance = true;
    Selection selection;
    selection.setHistories({trained(config)});
    RoutingFlipsPanel panel(&selection);
    show(&panel, kWide);
    button(&panel, "in the router")->click();
    const auto* lines = panel.findChild<RouterRoundingView*>()->findChild<LinePlot*>();
    QTRY_VERIFY2(lines->notice().contains("balance is forced"), qPrintable(lines->notice()));
  }

  void pinnedExpertsLeaveTheErrorOfTheArithmetic() {
    RunConfig config = small_run();
    config.precision.router_gate = Recipe::mxfp4;
    Selection selection;
    selection.setHistories({trained(config)});
    GradientErrorPanel panel(&selection);
    show(&panel, kWide);
    const History& history = *selection.history();
    const auto error = [&](Metric metric) {
      return formatPercent(std::pow(10.0, -static_cast<double>(history.value_at(metric, kWholeRun, 5)) / 20));
    };
    const QString free = error(Metric::gradient_snr_db), pinned = error(Metric::pinned_gradient_snr_db);
    QVERIFY2(free != pinned, qPrintable(free));
    QVERIFY2(panel.answerText().contains("A: " + free), qPrintable(panel.answerText()));
    button(&panel, "experts pinned")->click();
    QVERIFY2(panel.answerText().contains("A: " + pinned), qPrintable(panel.answerText()));
    QVERIFY2(panel.answerText().contains(free + " with those that FP32 chooses"), qPrintable(panel.answerText()));
    button(&panel, "by layer")->click();
    auto* matrix = panel.findChild<MatrixPlot*>();
    QTRY_COMPARE(matrix->rows(), 4);  // three layers and the whole model
    const GradientFrame& first = history.gradient_frame_at(5)->gradients.front();
    QVERIFY2(matrix->describe(0, 0).join(' ').contains(
                 QString("experts pinned: SNR %1 dB").arg(formatValue(first.pinned_snr_db, 3))),
             qPrintable(matrix->describe(0, 0).join(' ')));
  }

  void predictionsAreThoseOfTheFrame() {
    RunConfig config = small_run();
    config.precision.experts = Recipe::mxfp4;
    Selection selection;
    selection.setHistories({trained(config)});
    GradientErrorPanel panel(&selection);
    show(&panel, kWide);
    choose(&panel, "Figure", "KL");
    const auto frame = selection.history()->gradient_frame_at(5);
    QVERIFY(frame->fp32_kl > 0);
    const QString answer = panel.answerText();
    QVERIFY2(answer.contains(formatValue(frame->fp32_kl, 3) + " nats"), qPrintable(answer));
    QVERIFY2(answer.contains("in at least one layer for " + formatPercent(frame->fp32_any_layer_flipped)),
             qPrintable(answer));
    QVERIFY(panel.csv().contains(exactText(frame->fp32_k3)));
    button(&panel, "by layer")->click();
    QVERIFY2(panel.findChild<LinePlot*>()->isVisible(), "predictions have no layers");
  }
};

SCREEN_TEST(FormatEffectsTest)
#include "qt_format_effects.moc"
