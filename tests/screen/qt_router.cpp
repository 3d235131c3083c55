// The panels of Router with a made-up history, offscreen.
#include <QMouseEvent>
#include <QSignalSpy>
#include <QTest>

#include "core/findings/health.h"
#include "core/frame/specialisation.h"
#include "tests/support/controls.h"
#include "tests/support/drawn_texts.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"
#include "widgets/panel/format_text.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"

using namespace moescope;

namespace {

constexpr std::int64_t kRouterSteps = 200;

std::vector<std::unique_ptr<Panel>> allRouterPanels(Selection* selection) {
  std::vector<std::unique_ptr<Panel>> panels;
  for (const char* view : {"all layers", "by layer", "capacity"}) {
    auto layers = std::make_unique<BalancePanel>(selection);
    choose(layers.get(), "View", view);
    panels.push_back(std::move(layers));
  }
  panels.push_back(std::make_unique<ExpertBiasOverTimePanel>(selection));
  auto curves = std::make_unique<ExpertBiasOverTimePanel>(selection);
  choose(curves.get(), "View", "curves");
  panels.push_back(std::move(curves));
  for (const int view : {0, 1}) {
    auto confidence = std::make_unique<RouterConfidenceAndLossesPanel>(selection);
    confidence->showView(view);
    panels.push_back(std::move(confidence));
  }
  return panels;
}

}  // namespace

class RouterPanelsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() { open({}); }

  // Two experts are pinned at 1 and 0.5 in later steps than that of the cursor. They would have the same color if the
  // scale ended below 0.5.
  void theScaleOfTheBiasReachesWhatIsPinnedOutsideTheCursor() {
    SyntheticRun run{SyntheticShape{}};
    for (std::int64_t step = 0; step < 60; ++step) {
      auto frame = std::make_shared<TelemetryFrame>(*run.next());
      for (RouterFrame& router : frame->routers) {
        router.expert_bias.assign(router.expert_bias.size(), 0.0f);
        if (step < 20 || step >= 40) continue;
        router.expert_bias[3] = 1.0f;
        router.expert_bias[12] = 0.5f;
      }
      run.history()->append(std::move(frame));
    }
    selection_->setHistories({run.history()});
    selection_->setStep(5);
    ExpertBiasOverTimePanel panel(selection_.get());
    show(&panel);
    const auto* map = panel.findChild<TimeHeatMap*>();
    const QImage picture = panel.findChild<TimeHeatMap*>()->grab().toImage();
    QSet<QRgb> oranges;
    for (int y = 0; y < map->height(); ++y)
      if (const QColor color = picture.pixelColor(map->width() / 2, y); color.red() > color.blue() + 40)
        oranges << color.rgb();
    QCOMPARE(oranges.size(), 2);
  }

  // The title of the value axis is above the axis, that of the step axis at the right of its labels. Names and values
  // of curves are at their right ends.
  void titlesAndNamesHaveTheirPlaces() {
    BalancePanel panel(selection_.get());
    choose(&panel, "View", "all layers");
    show(&panel, {600, 320});
    auto* plot = control<LinePlot>(&panel, "MaxVio over layers");
    const std::vector<DrawnText> texts = textsDrawnBy(plot);
    const auto place = [&](const char* begin) {
      for (const DrawnText& text : texts)
        if (text.text.startsWith(QLatin1String(begin))) return text.place;
      return QRectF();
    };
    const QRectF caption = place("MaxVio"), step = place("step"), worst = place("worst"), label = place("100");
    QVERIFY(!caption.isNull() && !step.isNull() && !worst.isNull() && !label.isNull());
    QVERIFY(caption.left() < 2);
    for (const DrawnText& text : texts) QVERIFY2(text.place.top() >= caption.top(), qPrintable(text.text));
    QVERIFY(std::abs(step.top() - label.top()) < 2);
    QVERIFY(step.left() > label.right());
    QVERIFY(worst.left() > step.right());
    plot->resize(150, 200);  // the names do not fit at the ends, so there is a legend above
    plot->grab();
    const std::vector<DrawnText> narrow = textsDrawnBy(plot);
    for (const DrawnText& text : narrow)
      if (text.text.startsWith(QLatin1String("worst"))) QVERIFY(text.place.bottom() < 40);
  }

  void answersAreComputedFromTheData() {
    ExpertLoadPanel load(selection_.get(), ExpertLoadPanel::one_layer);
    BalancePanel balance(selection_.get());
    const LayerWindow window = layer_window(*selection_->history(), selection_->layer(), selection_->step());
    const FullestExperts fullest = fullest_experts(window.utilisation);
    QVERIFY(fullest.experts.size() > 1);
    QCOMPARE(load.answerText(),
             QString("Who gets the tokens of layer %1? %2 experts take %3 % of the token copies, at most %4 \u00d7 "
                     "fair share, over steps %5 to %6")
                 .arg(selection_->layer())
                 .arg(fullest.experts.size())
                 .arg(100 * fullest.share, 0, 'f', 0)
                 .arg(formatValue(window.max_vio + 1, 3))
                 .arg(selection_->step() - 49)
                 .arg(selection_->step()));
    QVERIFY2(balance.answerText().contains("Most uneven over steps "), qPrintable(balance.answerText()));
  }

  void everyPanelExplainsItselfAndDraws() {
    open({.specialise_every = 20});
    for (const auto& panel : allRouterPanels(selection_.get())) {
      show(panel.get());
      QVERIFY(panel->explain().contains(QStringLiteral("Source:")));
      QVERIFY(panel->focusPolicy() & Qt::TabFocus || panel->findChild<PlotFrame*>());
      int visible_plots = 0;
      for (const PlotFrame* plot : panel->findChildren<PlotFrame*>()) {
        QVERIFY(!plot->accessibleName().isEmpty());
        visible_plots += plot->isVisible() && plot->notice().isEmpty();
      }
      QVERIFY2(visible_plots > 0, qPrintable(panel->title()));
      QVERIFY2(lines(panel->csv()).size() > 1, qPrintable(panel->title()));
    }
  }

  void panelsSayWhatIsMissingAndSurviveEveryInput() {
    open({.specialise_every = 20});
    Selection none;
    SyntheticRun empty({}), scalars({.scalars_only = true});
    scalars.append(20);
    Selection not_yet, bare;
    not_yet.setHistories({empty.history()});
    bare.setHistories({scalars.history()});
    for (Selection* selection : {&none, &not_yet, &bare, selection_.get()})
      for (const auto& panel : allRouterPanels(selection)) {
        show(panel.get(), {400, 220});
        QVERIFY(panel->csv().contains(QLatin1Char('\n')));
        for (PlotFrame* plot : panel->findChildren<PlotFrame*>()) {
          if (!plot->isVisible()) continue;
          QCOMPARE(plot->notice().isEmpty(), selection == selection_.get());
          QTest::mouseClick(plot, Qt::LeftButton, {}, plot->rect().center());
          move(plot, plot->rect().center() + QPoint(2, 2));
          for (const auto key : {Qt::Key_Left, Qt::Key_Right, Qt::Key_Down}) QTest::keyClick(plot, key);
        }
        panel->restoreState(panel->saveState());
      }
  }

  void percentilesOfTheTableAreThoseOfTheLayers() {
    BalancePanel panel(selection_.get());
    choose(&panel, "View", "all layers");
    show(&panel);
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), 1 + static_cast<int>(kRouterSteps));
    std::vector<float> values;
    for (const int layer : run_->history()->info().moe_layers)
      values.push_back(run_->history()->value_at(Metric::max_vio, layer, 77));
    const QStringList cells = rows[1 + 77].split(QLatin1Char(','));
    QCOMPARE(cells[1].toFloat(), *std::ranges::max_element(values));
    QVERIFY(std::abs(cells[3].toFloat() - percentile(values, 0.5)) < 1e-6f);
    choose(&panel, "MaxVio of", "window");
    QApplication::processEvents();
    QVERIFY(lines(panel.csv())[1 + 77] != rows[1 + 77]);
  }

  // The readout of the capacity is that of the load at any factor, the answer that of the run's.
  void costsOfACapacityAreThoseOfTheLoad() {
    BalancePanel panel(selection_.get());
    choose(&panel, "View", "capacity");
    show(&panel);
    selection_->setLayer(3);
    const auto& counts = selection_->frame()->routers[2].tokens_per_expert;
    const auto* plot = panel.findChild<CurvePlot*>();
    for (const double factor : {0.75, 1.0, 2.5}) {
      const QString readout = plot->describe(factor).join(u' ');
      QVERIFY2(readout.contains("would drop " + formatPercent(dropped_fraction(counts, factor))), qPrintable(readout));
      QVERIFY2(readout.contains("filler rows " + formatPercent(filler_fraction(counts, factor))), qPrintable(readout));
      QVERIFY2(readout.contains("zero rows padded to 16 " + formatPercent(padding_fraction(counts, 16))),
               qPrintable(readout));
    }
    const QStringList cells = lines(panel.csv())[3].split(QLatin1Char(','));
    QCOMPARE(cells[6].toFloat(), padding_fraction(counts, 16));
    QVERIFY2(panel.answerText().contains(QString("Capacity factor %1 would drop").arg(cells[2].toDouble(), 0, 'f', 2)),
             qPrintable(panel.answerText()));
  }

  // The made-up quantiles of an expert are 0.02 apart; that of the fair share (kFairShare) is 0.03 for expert 3.
  void theBiasOfTheFairShareIsThatOfTheQuantile() {
    open({.specialise_every = 20});
    ExpertPanel panel(selection_.get());
    selection_->setExpert(3);
    show(&panel, {500, 800});
    const auto* plot = panel.findChild<FairSharePlot*>();
    QVERIFY(plot->isVisible());
    QCOMPARE(plot->fairBiasText(), QString("0.03"));
    const RunInfo& info = run_->history()->info();
    QCOMPARE(plot->describe(0.03).join(u' '),
             QStringLiteral("expert 3, r below 0.03: %1 of the tokens, 1.00 times the fair share")
                 .arg(formatPercent(static_cast<double>(info.top_k) / info.n_experts)));
    panel.resize(500, 300);
    QTRY_VERIFY(!plot->isVisible());
  }

  void linesOfTokensFillTheHeight() {
    TokenContexts contexts;
    contexts.setLines({{"int ", "main", "()", 0.5}, {"a", "b", "c", 1}});
    QCOMPARE(contexts.accessibleDescription(), QString("int [main](); a[b]c"));
    const int line = contexts.fontMetrics().height();
    contexts.resize(200, line + 4 + 3 * (line + 1));
    QCOMPARE(contexts.linesThatFit(), 3);
    const std::vector<DrawnText> texts = textsDrawnBy(&contexts);
    QVERIFY(std::ranges::find(texts, QString("main"), &DrawnText::text) != texts.end());
    QCOMPARE(shownBytes("a\tb\x01"), QString("a%1b%2").arg(byteGlyph('\t')).arg(QChar(0xb7)));
  }

  void meanAndExtremeDifferWhereStepsShareAPixel() {
    run_->append(1800);
    selection_->refresh();
    ExpertLoadPanel panel(selection_.get(), ExpertLoadPanel::one_layer);
    show(&panel, {300, 300});
    auto* map = panel.findChild<TimeHeatMap*>();
    const QRgb fair = utilisationLut(isDark(panel.palette()))[utilisationCode(1)];
    const auto farFromFair = [&] {  // sum of the differences in color from a fair load, in the middle of the picture
      const QImage picture = map->grab(QRect(map->width() / 3, map->height() / 4, 100, 100)).toImage();
      double sum = 0;
      for (int y = 0; y < 100; ++y)
        for (int x = 0; x < 100; ++x) {
          const QRgb pixel = picture.pixel(x, y);
          sum += std::abs(qRed(pixel) - qRed(fair)) + std::abs(qGreen(pixel) - qGreen(fair)) +
                 std::abs(qBlue(pixel) - qBlue(fair));
        }
      return sum;
    };
    const double mean = farFromFair();  // the default is the mean, in which noise must not look like imbalance
    choose(&panel, "Steps that share a pixel", "extreme");
    QApplication::processEvents();
    QVERIFY2(mean < farFromFair() * 0.8, qPrintable(QString::number(mean)));
  }

  void sortedByLoadTheTopRowIsTheFullestExpert() {
    ExpertLoadPanel panel(selection_.get(), ExpertLoadPanel::one_layer);
    choose(&panel, "Order of experts", "by load");
    show(&panel, {420, 300});
    const auto& counts = selection_->frame()->routers[0].tokens_per_expert;
    const auto fullest = std::ranges::max_element(counts) - counts.begin();
    auto* map = panel.findChild<TimeHeatMap*>();
    map->grab();  // fills it
    QTest::mouseClick(map, Qt::LeftButton, {}, {200, static_cast<int>(map->yOf(0)) + 3});
    QCOMPARE(selection_->expert(), static_cast<int>(fullest));
  }

  void theMapOfAllLayersHasTheRowsOfTwoRuns() {
    SyntheticRun first({.experts = 16}), second({.experts = 16});
    first.append(60);
    second.append(60);
    Selection selection;
    selection.setHistories({first.history(), second.history()});
    ExpertLoadPanel panel(&selection);
    auto* matrix = panel.findChild<MatrixPlot*>();
    const int layers = static_cast<int>(first.history()->info().moe_layers.size());
    show(&panel, {700, 400});
    QTRY_COMPARE(matrix->rows(), 2 * layers);
    QVERIFY(!panel.caption().contains("only"));
    QVERIFY(matrix->describe(0, 3).join(' ').contains("B: "));  // a row of A also names the load in B
    QVERIFY(matrix->describe(1, 3).front().startsWith("B: expert 3 of layer "));
    QVERIFY(!matrix->figure(1, 3));  // cards are about the active run
    SyntheticRun ended({.experts = 16});
    ended.append(40);
    selection.setHistories({first.history(), ended.history()});
    QTRY_VERIFY2(panel.caption().contains("B up to step 39"), qPrintable(panel.caption()));
    QVERIFY2(panel.answerText().contains("B (step 39): "), qPrintable(panel.answerText()));
    matrix->setMaximumHeight(60);  // no room for two rows of each layer
    QTRY_COMPARE(matrix->rows(), layers);
  }

  void clusteredRowsStandByTheirTeams() {
    SyntheticRun run({.specialise_every = 50});
    run.append(60);
    Selection selection;
    selection.setHistories({run.history()});
    ExpertLoadPanel panel(&selection);
    choose(&panel, "Order of experts", "by co-activation");
    show(&panel);
    int changes = 0, before = -1;
    for (int column = 0; column < 16; ++column) {
      QTest::mouseClick(panel.findChild<MatrixPlot*>(), Qt::LeftButton, {},
                        panel.findChild<MatrixPlot*>()->cellRect(2, column).center().toPoint());
      const int team = (selection.expert() * 7 + 3) % 16 / 4;
      changes += column > 0 && team != before;
      before = team;
    }
    QCOMPARE(changes, 3);  // the experts of each of four teams are adjacent
  }

  void cardShowsTheChosenExpertAndAsksForActions() {
    SyntheticRun run({.specialise_every = 50});
    run.append(120);
    Selection selection;
    selection.setHistories({run.history()});
    ExpertPanel card(&selection);
    show(&card, {320, 820});
    const auto buttons = card.findChildren<QPushButton*>();
    QCOMPARE(buttons.size(), 2);
    for (const QPushButton* button : buttons) QVERIFY(!button->isEnabled());
    for (const PlotFrame* plot : card.findChildren<PlotFrame*>())
      QVERIFY(plot->isHidden() || !plot->notice().isEmpty());

    ExpertPanel::Intervention intervention{.possible = true, .killed = false, .pinned_bias = {}};
    card.interventionOf = [&](int layer, int expert) {
      return layer == 2 && expert == 7 ? intervention : ExpertPanel::Intervention{true, false, {}};
    };
    selection.setLayer(2);
    selection.setExpert(7);
    QApplication::processEvents();
    for (const PlotFrame* plot : card.findChildren<PlotFrame*>())
      QVERIFY2(plot->notice().isEmpty(), qPrintable(plot->accessibleName()));
    QCOMPARE(card.findChild<QSpinBox*>()->value(), 7);
    QVERIFY(card.findChild<BandBars*>()->accessibleDescription().contains(QStringLiteral("its share")));
    QVERIFY(card.findChild<TokenContexts*>()->accessibleDescription().contains(QLatin1Char('[')));

    QSignalSpy kill(&card, &ExpertPanel::killRequested), pin(&card, &ExpertPanel::pinRequested);
    QTest::mouseClick(buttons[0], Qt::LeftButton);
    QCOMPARE(kill.last(), (QVariantList{2, 7, true}));
    intervention.killed = true;
    card.refreshActions();
    QTest::mouseClick(buttons[0], Qt::LeftButton);
    QCOMPARE(kill.last(), (QVariantList{2, 7, false}));
    QTest::mouseClick(buttons[1], Qt::LeftButton);
    QCOMPARE(pin.last()[2].value<std::optional<double>>().value(),
             double{selection.frame()->routers[1].expert_bias[7]});
    intervention.pinned_bias = 0.5;
    card.refreshActions();
    QTest::mouseClick(buttons[1], Qt::LeftButton);
    QVERIFY(!pin.last()[2].value<std::optional<double>>());

    const QStringList rows = lines(card.csv());
    QCOMPARE(rows.size(), 1 + 120);
    const auto frame = run.history()->frame_at(33);
    const QStringList cells = rows[1 + 33].split(QLatin1Char(','));
    QVERIFY(std::abs(cells[3].toFloat() - utilisation(frame->routers[1].tokens_per_expert, 7)) < 1e-3f);
    QCOMPARE(cells[4].toFloat(), frame->routers[1].expert_bias[7]);
  }

  void biasTableHoldsTheFramesValues() {
    selection_->setRange({10, 20});
    ExpertBiasOverTimePanel panel(selection_.get());
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), 1 + 11);
    const auto frame = run_->history()->frame_at(13);
    QCOMPARE(rows[1 + 3].split(QLatin1Char(','))[2 + 5].toFloat(), frame->routers[0].expert_bias[5]);
  }

 private:
  void open(SyntheticShape shape) {
    run_ = std::make_unique<SyntheticRun>(shape);
    run_->append(kRouterSteps);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(RouterPanelsTest)
#include "qt_router.moc"
