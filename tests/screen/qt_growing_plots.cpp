// Plots reuse parts of their last picture. After any change they must equal a newly made plot in every pixel.
#include <QApplication>
#include <QScreen>
#include <QTest>

#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/router/expert_load_panel.h"

using namespace moescope;

namespace {

QPalette darkPalette() {
  QPalette palette;
  palette.setColor(QPalette::Base, QColor(0x1c, 0x1d, 0x20));
  palette.setColor(QPalette::Text, Qt::white);
  return palette;
}

// A map of made-up cells. If `held`, only every third column has data.
class MadeUpMap : public TimeHeatMap {
 public:
  static constexpr int kRows = 400;  // more rows than pixels

  MadeUpMap(Selection* selection, bool held) : TimeHeatMap(selection) {
    setHeld(held);
    setFocusPolicy(Qt::NoFocus);  // because a plot with the focus draws a frame
    std::array<std::uint8_t, 256> weights{};
    for (int code = 0; code < 256; ++code) weights[static_cast<std::size_t>(code)] = static_cast<std::uint8_t>(code);
    setWeights(weights);
    fetch = [selection, held](StepRange range, int bins) {
      std::vector<std::uint8_t> codes;
      const std::int64_t stride = range.size() / bins;
      for (std::int64_t step = range.first; step <= range.last; step += stride) {
        const bool missing = held && step / stride % 3 > 0;
        const std::int64_t known = std::min(step + stride - 1, selection->history()->steps().last);
        for (int row = 0; row < kRows; ++row)
          codes.push_back(missing ? kNoDataCode : static_cast<std::uint8_t>(1 + (known * 37 + row * 11) % 255));
      }
      return codes;
    };
    refill = [this] {
      setLegend(utilisationLegend(dark()));
      setSource(source, kRows);
      setVisibleRows(first_row, last_row);
      setRowOrder(order);
    };
  }

  QString source;
  int first_row = 0, last_row = kRows - 1;
  std::vector<int> order;
};

// Renders the widget into a picture.
QImage pictureOf(QWidget& widget) {
  return widget.grab().toImage();
}

// Returns the pixels of the window on the screen, parts of which may have been painted at different times.
QImage onScreen(QWidget& window) {
  QTest::qWait(50);  // longer than the pause between two repaints for the mouse
  return window.screen()->grabWindow(window.winId()).toImage();
}

// Returns where two pictures differ; empty if they are equal.
QByteArray difference(const QImage& one, const QImage& other) {
  if (one.size() != other.size())
    return QStringLiteral("%1x%2, not %3x%4")
        .arg(one.width())
        .arg(one.height())
        .arg(other.width())
        .arg(other.height())
        .toUtf8();
  for (int y = 0; y < one.height(); ++y)
    for (int x = 0; x < one.width(); ++x)
      if (one.pixel(x, y) != other.pixel(x, y)) return QStringLiteral("at %1, %2").arg(x).arg(y).toUtf8();
  return {};
}

void show(QWidget& widget, QSize size, const QPalette& palette) {
  widget.setPalette(palette);
  widget.resize(size);
  widget.show();
  QApplication::processEvents();
}

}  // namespace

class GrowingPlotsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() {
    run_ = std::make_unique<SyntheticRun>(SyntheticShape{.experts = 64, .ranks = 16, .quant_every = 3});
    run_->append(300);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  void aHeatMapOfKeptColumnsEqualsAFreshOne_data() { heldOrNot(); }
  void aHeatMapOfKeptColumnsEqualsAFreshOne() {
    QFETCH(bool, held);
    MadeUpMap grown(selection_.get(), held);
    show(grown, {420, 240}, QPalette());
    const auto compare = [&](const char* what) {
      selection_->refresh();
      QApplication::processEvents();
      MadeUpMap fresh(selection_.get(), held);
      fresh.source = grown.source;
      fresh.first_row = grown.first_row;
      fresh.last_row = grown.last_row;
      fresh.order = grown.order;
      show(fresh, grown.size(), grown.palette());
      const QByteArray place = difference(pictureOf(grown), pictureOf(fresh));
      QVERIFY2(place.isEmpty(), qPrintable(QString("%1: differs %2").arg(what, place.constData())));
    };
    compare("as it was opened");
    for (int i = 0; i < 60; ++i) {
      run_->append(1);
      compare("one more step");
    }
    run_->append(900);
    compare("more steps a column");
    selection_->setRange({100, 300});
    compare("zoomed in");
    selection_->setRange({107, 307});
    compare("moved on by a few columns");
    selection_->setRange({95, 295});
    compare("moved back");
    selection_->setRange({600, 700});
    compare("far away");
    selection_->setFollowing(true);
    for (int i = 0; i < 5; ++i) {
      run_->append(1);
      compare("the range follows the newest step");
    }
    selection_->fitRange();
    compare("all of it");
    grown.resize(500, 170);
    compare("of another size");
    grown.setPalette(darkPalette());
    compare("dark");
    grown.first_row = 30;
    grown.last_row = 77;
    grown.markDirty();
    compare("other rows");
    for (int row = 0; row < MadeUpMap::kRows; ++row) grown.order.push_back(MadeUpMap::kRows - 1 - row);
    grown.markDirty();
    compare("in another order");
    run_->restartAt(1000);
    run_->append(20);
    compare("gone back in training");
    grown.source = QStringLiteral("another layer");
    grown.markDirty();
    compare("another source");
  }

  // Panels that show one step: at the newest step, at an earlier one, for another layer, in another theme.
  void panelsOfOneStepEqualFreshOnes_data() {
    QTest::addColumn<int>("which");
    QTest::newRow("Expert load") << 0;
    QTest::newRow("All-to-all") << 1;
    QTest::newRow("Quantization error") << 2;
    QTest::newRow("Load of a layer over time") << 3;
    QTest::newRow("Expert load over time") << 4;
  }
  void panelsOfOneStepEqualFreshOnes() {
    QFETCH(int, which);
    const auto grown = panel(which);
    show(*grown, {640, 420}, QPalette());
    const auto compare = [&](const char* what) {
      selection_->refresh();
      QApplication::processEvents();
      const auto fresh = panel(which);
      show(*fresh, grown->size(), grown->palette());
      const QByteArray place = difference(pictureOf(*grown), pictureOf(*fresh));
      QVERIFY2(place.isEmpty(), qPrintable(QString("%1: differs %2").arg(what, place.constData())));
    };
    compare("as it was opened");
    for (int i = 0; i < 8; ++i) {
      run_->append(1);
      compare("one more step");
    }
    selection_->setStep(100);
    compare("an earlier step");
    selection_->setStep(99);
    compare("the step before");
    run_->append(1);
    compare("held there");
    selection_->setFollowing(true);
    compare("the newest step again");
    selection_->setLayer(3);
    selection_->setExpert(5);
    compare("another layer");
    grown->resize(500, 300);
    compare("of another size");
    grown->setPalette(darkPalette());
    compare("dark");
    grown->setPalette(QPalette());
    compare("light");
    run_->restartAt(200);
    run_->append(4);
    compare("gone back in training");
    const SyntheticRun other({.layers = 4, .experts = 32, .ranks = 4});
    selection_->setHistories({other.history()});
    compare("nothing yet");
    selection_->setHistories({run_->history()});
    compare("the run again");
  }

  // A mouse move repaints only the old and the new places of the line at the hovered step and of the readout.
  void partsThatFollowTheMouseAreRepainted_data() {
    QTest::addColumn<bool>("curves");
    QTest::newRow("Loss") << true;
    QTest::newRow("Load of a layer over time") << false;
  }
  void partsThatFollowTheMouseAreRepainted() {
    QFETCH(bool, curves);
    std::unique_ptr<Panel> shown;
    if (curves)
      shown = std::make_unique<LossPanel>(selection_.get());
    else
      shown = std::make_unique<ExpertLoadPanel>(selection_.get(), ExpertLoadPanel::one_layer);
    show(*shown, {640, 420}, QPalette());
    auto* plot = shown->findChild<TimeAxisPlot*>();
    const auto compare = [&](const char* what) {
      const QImage screen = onScreen(*shown);
      const QByteArray place = difference(screen, pictureOf(*shown).convertToFormat(screen.format()));
      QVERIFY2(place.isEmpty(), qPrintable(QString("%1: differs %2").arg(what, place.constData())));
    };
    const QImage before = onScreen(*shown);
    for (const std::int64_t step : {50, 51, 200, 120}) {
      selection_->setHoverStep(step);
      compare("hovered in another plot");
    }
    QVERIFY(!difference(before, onScreen(*shown)).isEmpty());
    selection_->setHoverStep(-1);
    const QImage without = onScreen(*shown);
    selection_->setHoverStep(60);
    selection_->setHoverStep(180);  // before the line at step 60 is painted
    QApplication::processEvents();
    const QImage moving = shown->screen()->grabWindow(shown->winId()).toImage();
    QVERIFY2(!difference(without, moving).isEmpty(), "a moving line is always there");
    compare("the last of several moves");
    run_->append(7);
    selection_->refresh();
    compare("the line moved with the data");
    for (const QPoint at : {QPoint(150, 120), QPoint(153, 118), QPoint(300, 60), QPoint(200, 170)}) {
      QTest::mouseMove(plot, at);
      compare("the mouse inside");
    }
    run_->append(40);
    selection_->refresh();
    compare("news under the mouse");
    QTest::mousePress(plot, Qt::LeftButton, {}, {220, 150});
    QTest::mouseMove(plot, {320, 160});
    compare("a box is drawn");
    QTest::mouseRelease(plot, Qt::LeftButton, {}, {320, 160});
    compare("zoomed in");
    QEvent leave(QEvent::Leave);
    QApplication::sendEvent(plot, &leave);
    compare("the mouse outside");
  }

 private:
  static void heldOrNot() {
    QTest::addColumn<bool>("held");
    QTest::newRow("every column") << false;
    QTest::newRow("held between measured steps") << true;
  }

  std::unique_ptr<Panel> panel(int which) {
    if (which == 0) return std::make_unique<ExpertLoadPanel>(selection_.get());
    if (which == 1) return std::make_unique<AllToAllPanel>(selection_.get());
    if (which == 2) return std::make_unique<QuantizationErrorPanel>(selection_.get());
    if (which == 3) return std::make_unique<ExpertLoadPanel>(selection_.get(), ExpertLoadPanel::one_layer);
    return std::make_unique<ExpertLoadPanel>(selection_.get(), ExpertLoadPanel::over_time);
  }

  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(GrowingPlotsTest)
#include "qt_growing_plots.moc"
