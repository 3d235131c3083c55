// The panels of Text with made-up histories: their figures, pictures and requests; the workspace with logs.
#include <QFile>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <random>

#include "app/actions/file_actions.h"
#include "app/start/first_steps.h"
#include "app/start/start_page.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "tests/support/controls.h"
#include "tests/support/sample_frames.h"
#include "tests/support/screen_test.h"
#include "widgets/panel/byte_text.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/expert_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/routing_stability_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/token_text_view.h"
#include "widgets/text/tokens_and_sample_panel.h"

namespace moescope {
namespace {

// Returns a text that is routed in two layers to 4 experts, K = 2. The first expert of byte b is b % 4 in layer 1 and
// (b + turn) % 4 in layer 2.
TokenFrame routedText(TextKind kind, const std::string& text, int turn) {
  TokenFrame frame;
  frame.kind = kind;
  frame.text = text;
  frame.loss_T.assign(text.size(), 0.5f);
  frame.loss_T[0] = kNoValue;
  for (int layer = 1; layer <= 2; ++layer) {
    TokenLayer& routed = frame.layers.emplace_back();
    routed.layer = layer;
    routed.top_k = 2;
    for (const char c : text) {
      const int first = (static_cast<unsigned char>(c) + (layer == 2 ? turn : 0)) % 4;
      routed.experts_TK.push_back(static_cast<std::uint16_t>(first));
      routed.experts_TK.push_back(static_cast<std::uint16_t>((first + 2) % 4));
      routed.scores_TK.push_back(0.75f);
      routed.scores_TK.push_back(0.25f);
      routed.margin_T.push_back(0.125f);
    }
  }
  return frame;
}

SpecialisationFrame table(int layer) {
  SpecialisationFrame frame;
  frame.layer = layer;
  frame.domain_DE = {80, 20, 0, 0, 0, 0, 50, 50};
  frame.together_EE.assign(16, 0);
  const auto put = [&](int i, int j, std::uint32_t n) {
    frame.together_EE[static_cast<std::size_t>(i * 4 + j)] = frame.together_EE[static_cast<std::size_t>(j * 4 + i)] = n;
  };
  put(0, 0, 80);
  put(1, 1, 20);
  put(2, 2, 50);
  put(3, 3, 50);
  put(0, 1, 20);
  put(2, 3, 50);
  put(0, 2, 30);
  frame.byte_256E.assign(256 * 4, 0);
  frame.byte_256E['a' * 4 + 0] = 80;
  frame.byte_256E['7' * 4 + 1] = 20;
  frame.byte_256E['7' * 4 + 2] = 50;
  frame.byte_256E['(' * 4 + 3] = 50;
  return frame;
}

std::shared_ptr<History> madeRun(const std::string& probe = "abcd\nef 12") {
  RunInfo info;
  info.name = "A";
  info.config_toml = "name = \"A\"\n";
  info.n_layers = 3;
  info.moe_layers = {1, 2};
  info.n_experts = 4;
  info.top_k = 2;
  info.tokens_per_step = 100;
  info.domains = {"prose", "code"};
  auto history = std::make_shared<History>(info);
  for (int step = 0; step <= 40; step += 10) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = 1;
    for (int layer = 1; layer <= 2; ++layer) {
      RouterFrame& router = frame->routers.emplace_back();
      router.layer = layer;
      router.tokens_per_expert = {50, 50, 50, 50};
      router.expert_bias = {0.5f, 0, 0, 0};
      frame->specialisation.push_back(table(layer));
    }
    frame->texts.push_back(routedText(TextKind::probe, probe, step >= 20 ? 1 : 0));
    frame->texts.push_back(routedText(TextKind::batch, step % 20 == 0 ? "once upon" : "int main", 0));
    frame->texts.back().domain = step % 20 == 0 ? "prose" : "code";
    if (step == 20) {
      frame->texts.push_back(routedText(TextKind::sample, "abcdefgh", 0));
      frame->texts.back().prompt = 3;
    }
    history->append(frame);
  }
  return history;
}

void show(Selection& selection, QWidget& widget, const std::shared_ptr<History>& history, QSize size = {700, 400}) {
  selection.setHistories({history});
  selection.fitRange();
  selection.refresh();
  selection.setLayer(1);
  widget.resize(size);
  widget.show();
  QVERIFY(QTest::qWaitForWindowExposed(&widget));
  widget.grab();
}

}  // namespace

class TextTest : public QObject {
  Q_OBJECT

 private slots:
  void everyByteHasASignAndAName() {
    for (int byte = 0; byte < 256; ++byte) {
      QCOMPARE(byteGlyph(static_cast<std::uint8_t>(byte)).size(), 1);
      QVERIFY(!byteGlyph(static_cast<std::uint8_t>(byte)).trimmed().isEmpty());
      QVERIFY(!byteName(static_cast<std::uint8_t>(byte)).isEmpty());
    }
    QCOMPARE(byteName('\n'), QString("line feed"));
    QCOMPARE(byteName(0xff), QString("0xff"));
  }

  // Sixteen experts with consecutive ids have colors that differ visibly.
  void coloursDiffer() {
    for (const bool dark : {false, true}) {
      for (const int experts : {4, 7, 16, 64, 256}) {
        const ExpertColors colors = ExpertColors::byId(experts, dark);
        for (int pair = 16; pair < 16 * experts; ++pair) {
          const int e = pair / 16, other = e - 1 - pair % 16;
          if (other < 0 || pair % 16 == 15) continue;  // the seventeenth colour is the first one
          const QColor a = colors.colorOf(other), b = colors.colorOf(e);
          const int difference =
              std::abs(a.red() - b.red()) + std::abs(a.green() - b.green()) + std::abs(a.blue() - b.blue());
          QVERIFY2(difference > 40, qPrintable(QString("%1 of %2").arg(e).arg(experts)));
        }
      }
    }
    QCOMPARE(ExpertColors::inOrder({2, 0, 1}, true).colorOf(2), ExpertColors::inOrder({2, 1, 0}, true).colorOf(2));
  }

  void tokensHaveTheColourOfTheirFirstExpert() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    show(selection, panel, madeRun());
    TokenTextView* view = panel.findChild<TokenTextView*>();
    QVERIFY(view->notice().isEmpty());
    QCOMPARE(view->text()->text, std::string("abcd\nef 12"));
    QCOMPARE(view->colorOf(0, 0), view->colorOf(5, 0));  // 'a' and 'e'
    QVERIFY(view->colorOf(0, 0) != view->colorOf(1, 0));
    QVERIFY(view->cellOf(5).top() > view->cellOf(4).top());  // a line feed starts a new line
    const QImage picture = view->grab().toImage();
    const QRect cell = view->cellOf(2);  // the letter "c" does not cover the corner
    QCOMPARE(picture.pixelColor(cell.left() + 1, cell.top() + 1).rgb(), view->colorOf(2, 0));
    const QStringList lines = view->describe(0, -1);
    QVERIFY2(lines.join('|').contains("expert 1: 75.0 % of the mixing weights") ||
                 lines.join('|').contains("expert 1: 75 % of the mixing weights"),
             qPrintable(lines.join('|')));
    QVERIFY(lines.join('|').contains("margin of its choice 0.125"));
  }

  void clickOnATokenKeepsOnlyItsExpert() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    show(selection, panel, madeRun());
    TokenTextView* view = panel.findChild<TokenTextView*>();
    const QRgb before = view->colorOf(1, 0);
    QTest::mouseClick(view, Qt::LeftButton, {}, view->cellOf(0).center());
    QCOMPARE(selection.expert(), 'a' % 4);
    panel.grab();
    QVERIFY(view->colorOf(1, 0) != before);  // 'b' fades
    QTest::mouseClick(view, Qt::LeftButton, {}, view->cellOf(0).center());
    QCOMPARE(selection.expert(), -1);
    panel.grab();
    QCOMPARE(view->colorOf(1, 0), before);
    QTest::keyClick(view, Qt::Key_Right);
    QCOMPARE(selection.expert(), 'b' % 4);
  }

  // "é" and " do" are one token each, although they have several bytes. A click, a name and an outline are for a token.
  void tokensOfATokenizerAreShownAsPieces() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    auto run = madeRun();
    auto frame = std::make_shared<TelemetryFrame>(*run->frame_at(40));
    TokenFrame text = routedText(TextKind::probe, "aaa\xc3\xc3", 0);
    text.text = "\xc3\xa9 do";
    text.loss_T = {kNoValue, kNoValue, 1.5f, kNoValue, kNoValue};
    for (TokenLayer& layer : text.layers) {
      layer.experts_TK = {0, 2, 0, 2, 1, 3, 1, 3, 1, 3};
    }
    frame->step = 50;
    frame->texts = {text};
    run->append(frame);
    show(selection, panel, run);
    selection.setStep(50);
    panel.grab();
    TokenTextView* view = panel.findChild<TokenTextView*>();
    QCOMPARE(view->text()->text, text.text);
    QCOMPARE(view->cellOf(0), view->cellOf(1));  // the two bytes of one letter
    QTest::mouseClick(view, Qt::LeftButton, {}, view->cellOf(4).center());
    QCOMPARE(selection.expert(), 1);
    QVERIFY2(view->describe(2, -1).first().startsWith("'\u2423do'"), qPrintable(view->describe(2, -1).first()));
    QVERIFY2(view->describe(0, -1).first().startsWith(QString::fromUtf8("'\xc3\xa9'")),
             qPrintable(view->describe(0, -1).first()));
    panel.grab();
    QTest::keyClick(view, Qt::Key_Left);
    QCOMPARE(selection.expert(), 0);
  }

  // A run of texts through a checkpoint has passages but no probe text, so the passage of the first domain is shown.
  void passagesAreShownWhereThereIsNoProbe() {
    const auto run = madeRun();
    RunInfo info = run->info();
    info.config_toml.clear();
    const auto passages = std::make_shared<History>(info);
    for (const std::int64_t step : {0, 10, 20, 30, 40}) {
      auto frame = std::make_shared<TelemetryFrame>(*run->frame_at(step));
      std::int64_t at = step;
      frame->texts = {*run->text_at(TextKind::batch, at)};
      passages->append(frame);
    }
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    show(selection, panel, passages);
    TokenTextView* view = panel.findChild<TokenTextView*>();
    QVERIFY2(view->notice().isEmpty(), qPrintable(view->notice()));
    QCOMPARE(view->text()->text, std::string("once upon"));
    choose(&panel, "Displayed text", "code");
    panel.grab();
    QCOMPARE(view->text()->text, std::string("int main"));
  }

  void passagesComeByDomainAndEarlierStepsAreFound() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    show(selection, panel, madeRun());
    choose(&panel, "Displayed text", "code");
    panel.grab();
    QCOMPARE(panel.findChild<TokenTextView*>()->text()->text, std::string("int main"));
    QVERIFY(panel.csv().startsWith("step,position,byte"));
    QVERIFY(panel.csv().contains("\n30,0,105,"));
    choose(&panel, "Displayed text", "probe text");
    selection.setStep(4);
    panel.grab();
    QVERIFY(panel.csv().contains("\n0,0,97,"));
  }

  void allLayersHaveALineEach() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    show(selection, panel, madeRun());
    button(&panel, "all layers")->click();
    panel.grab();
    QCOMPARE(panel.findChild<TokenTextView*>()->colorOf(0, 0),
             panel.findChild<TokenTextView*>()->colorOf(3, 1));  // layer 2 shifts experts by one
    const QRect cell = panel.findChild<TokenTextView*>()->cellOf(3);
    QTest::mouseClick(panel.findChild<TokenTextView*>(), Qt::LeftButton, {},
                      QPoint(cell.center().x(), cell.bottom() + 5));
    QCOMPARE(selection.layer(), 1);
  }

  void sampleSaysWhereItBegins() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::sample);
    show(selection, panel, madeRun());
    QCOMPARE(panel.findChild<TokenTextView*>()->text()->prompt, 3);
    selection.setStep(10);
    panel.grab();
    QVERIFY(panel.findChild<TokenTextView*>()->notice().contains("No sample yet"));
  }

  void editedProbeIsAskedForWithEscapes() {
    Selection selection;
    TokensAndSamplePanel panel(&selection, TokensAndSamplePanel::Shows::probe_and_data);
    const auto run = madeRun("a\\b\n\x01");
    show(selection, panel, run);
    QSignalSpy probe_requests(&panel, &TokensAndSamplePanel::probeWanted);
    auto* texts = panel.findChild<QComboBox*>();
    QCOMPARE(texts->findText("own text..."), -1);  // there is no run in training
    auto* editor = panel.findChild<QPlainTextEdit*>();
    panel.setEditable(true);
    QVERIFY(!editor->isVisible());
    texts->setCurrentText("own text...");
    QCOMPARE(texts->currentText(), QString("probe text"));
    QVERIFY(editor->isVisible());
    QCOMPARE(editor->toPlainText(), QString("a\\\\b\n\\x01"));
    const auto press = [&] { QTest::mouseClick(button(&panel, "Use this text"), Qt::LeftButton); };
    editor->setPlainText("bad \\q");
    press();
    QCOMPARE(probe_requests.count(), 0);
    editor->setPlainText("two\nlines\t.");
    press();
    QCOMPARE(probe_requests.count(), 1);
    QCOMPARE(probe_requests[0][0].toString(), QString("two\\nlines\\t."));
    QVERIFY(!editor->isVisible());
    // Once it is routed, the list names it, and brings the first text back.
    std::int64_t step = selection.step();
    auto own_text = std::make_shared<TokenFrame>(*selection.history()->text_at(TextKind::probe, step));
    own_text->text = "of my own";
    run->set_edited_probe(own_text);
    selection.refresh();
    panel.grab();
    QCOMPARE(texts->currentText(), QString("own text"));
    texts->setCurrentText("first probe text");
    QCOMPARE(texts->currentText(), QString("own text"));
    QCOMPARE(probe_requests[1][0].toString(), QString("a\\\\b\\n\\x01"));
    RoutingStabilityPanel stability(&selection);
    stability.restoreState({{"against", 2}});
    stability.grab();
    QTRY_VERIFY(stability.answerText().startsWith("Is the routing settled? "));
    QVERIFY2(stability.caption().contains("of the earlier text"), qPrintable(stability.caption()));
  }

  void specialisationIsSortedByDomain() {
    Selection selection;
    SpecialisationPanel panel(&selection);
    show(selection, panel, madeRun());
    QVERIFY(panel.findChild<MatrixPlot*>()->notice().isEmpty());
    QCOMPARE(panel.findChild<MatrixPlot*>()->rows(), 2);
    QVERIFY(panel.csv().contains("40,1,prose,0,80,0.8,0.4,2\n"));
    const QStringList lines = panel.findChild<MatrixPlot*>()->describe(0, 0);
    QVERIFY2(lines.join('|').contains("lift 2"), qPrintable(lines.join('|')));
    QTest::mouseClick(panel.findChild<MatrixPlot*>(), Qt::LeftButton, {},
                      panel.findChild<MatrixPlot*>()->cellRect(1, 3).center().toPoint());
    QCOMPARE(selection.expert(), 3);
  }

  // A run that does not grow is painted only once, so the answer must be in the first picture.
  void theAnswerIsThereAtTheFirstPaint() {
    Selection selection;
    SpecialisationPanel panel(&selection);
    selection.setHistories({madeRun()});
    selection.refresh();
    selection.setLayer(1);
    panel.resize(700, 400);
    panel.grab();
    const auto parts = panel.findChildren<QWidget*>();
    QVERIFY(std::ranges::any_of(
        parts, [](const QWidget* part) { return part->accessibleName().startsWith("Do experts specialise? "); }));
  }

  void coactivationStandsInTeams() {
    Selection selection;
    CoactivationPanel panel(&selection);
    show(selection, panel, madeRun());
    QVERIFY2(panel.findChild<MatrixPlot*>()->notice().isEmpty(), qPrintable(panel.findChild<MatrixPlot*>()->notice()));
    QCOMPARE(panel.findChild<MatrixPlot*>()->rows(), 4);
    QVERIFY(panel.csv().contains("40,1,0,1,20,0.25\n"));
  }

  // Experts 1 and 2 take only the digit, experts 0 and 3 only one other byte each.
  void expertsThatTakeTheSameTokensAreNearOnTheMap() {
    Selection selection;
    CoactivationPanel panel(&selection);
    panel.restoreState({{"view", 1}});
    show(selection, panel, madeRun());
    auto* map = panel.findChild<ScatterPlot*>();
    QVERIFY2(map->isVisible() && map->notice().isEmpty(), qPrintable(map->notice()));
    const auto distance = [&](int a, int b) {
      const QPointF between = map->placeOf(a) - map->placeOf(b);
      return std::hypot(between.x(), between.y());
    };
    QVERIFY(distance(1, 2) < 1e-3);
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 3}, {1, 3}}) QVERIFY(distance(a, b) > 100);
    QVERIFY2(panel.answerText().contains("Nearest on the map: 1 and 2; the map shows 100.0 % of the variance"),
             qPrintable(panel.answerText()));
    QTest::mouseClick(map, Qt::LeftButton, {}, map->placeOf(3).toPoint());
    QCOMPARE(selection.expert(), 3);
    QCOMPARE(map->describe(3).join('|'),
             QString::fromUtf8("expert 3: 1.00 \u00d7 fair share|prefers '(' 4.0 \u00d7 its share"));
    QVERIFY2(panel.csv().contains("\n40,1,3,"), qPrintable(panel.csv()));
  }

  void lossWithoutAnExpertIsShownOverTraining() {
    Selection selection;
    ExpertPanel panel(&selection);
    show(selection, panel, madeRun(), {600, 900});
    selection.setExpert(2);
    MeasuredExperts measured{runLabel(selection, 0), {}};
    for (const std::int64_t step : {10, 30})
      measured.by_step[step].experts = {
          {.layer = 1, .expert = 2, .loss_change = {0.25 * static_cast<double>(step), 1}}};
    panel.showExperts(std::make_shared<const MeasuredExperts>(measured));
    LinePlot* plot = nullptr;
    for (LinePlot* candidate : panel.findChildren<LinePlot*>())
      if (candidate->accessibleName() == "Loss without the expert over time") plot = candidate;
    QVERIFY(plot && plot->isVisible());
    panel.grab();
    const QString losses = QString::fromStdString(to_csv(plot->table()));
    QVERIFY2(losses.contains("10,2.5") && losses.contains("30,7.5"), qPrintable(losses));
    const auto tile = [&] {
      for (const ValueTile* candidate : panel.findChildren<ValueTile*>())
        if (candidate->accessibleName().startsWith("Loss without it")) return candidate->accessibleDescription();
      return QString();
    };
    selection.setStep(40);
    panel.grab();
    const QString late = tile();
    selection.setStep(20);
    panel.grab();
    QVERIFY2(late.contains("7.5") && tile().contains("2.5"), qPrintable(late + tile()));
    measured.by_step.erase(30);
    panel.showExperts(std::make_shared<const MeasuredExperts>(measured));
    QVERIFY(!plot->isVisible());  // a single value is shown by the tile only
  }

  void bytesOfTheChosenExpertAreListed() {
    Selection selection;
    SpecialisationPanel panel(&selection);
    choose(&panel, "Figure", "use by byte");
    show(selection, panel, madeRun());
    auto* kinds = control<MatrixPlot>(&panel, "Kinds of bytes by expert");
    QCOMPARE(kinds->columns(), 4);
    QVERIFY(panel.csv().contains("40,1,3,40,50,1,4\n"));
    selection.setExpert(3);
    QVERIFY(!panel.grab().isNull());
    QVERIFY(kinds->describe(5, 3).join('|').contains("("));
  }

  void stabilityComparesWithAnEarlierStep() {
    Selection selection;
    RoutingStabilityPanel panel(&selection);
    show(selection, panel, madeRun());
    const auto settle = [&] {
      panel.grab();
      QTRY_VERIFY(!panel.property("busy").toBool());
      panel.grab();
    };
    settle();
    QVERIFY2(panel.findChild<LinePlot*>()->notice().contains("a routing 100 steps earlier"), "the run has 40 steps");
    panel.restoreState({{"against", 2}});
    settle();
    QVERIFY(panel.findChild<LinePlot*>()->notice().isEmpty());
    QVERIFY(panel.caption().contains("against step 0"));
    // Layer 1 keeps its experts. From step 20 on, layer 2 keeps none, because {e, e + 2} becomes {e + 1, e + 3}.
    for (const char* row :
         {"10,0,2,1,0.16666667,1,0.5\n", "40,0,1,1,0.16666667,1,0.5\n", "40,0,2,0,0.16666667,0,0.5\n"})
      QVERIFY2(panel.csv().contains(row), qPrintable(panel.csv()));
    QCOMPARE(panel.csv().count('\n'), 1 + 2 * 4);
    panel.restoreState({{"against", 1}});
    settle();
    QVERIFY(panel.caption().contains("against step 20"));
    QVERIFY(panel.csv().contains("40,20,2,1,") && panel.csv().contains("20,10,2,0,"));
  }

  void stabilityIsDrawnOverStepsByLayerAndAtAStep() {
    Selection selection;
    RoutingStabilityPanel panel(&selection);
    panel.restoreState({{"against", 2}});
    show(selection, panel, madeRun());
    QTRY_VERIFY(!panel.property("busy").toBool());
    panel.grab();
    // The card of a curve is given the earlier step with which the curve compares.
    const auto* lines = panel.findChild<LinePlot*>();
    std::optional<FigureTarget> curve;  // the lowest curve
    for (int y = lines->height() - 1; y > 0 && !curve; --y) curve = lines->figureAt({lines->width() / 2, y});
    QVERIFY(curve);
    QCOMPARE(curve->key, FigureKey("unchanged_choices"));
    QCOMPARE(curve->layer, 2);
    QCOMPARE(curve->reference, 0);
    choose(&panel, "View", "by layer");
    panel.grab();
    auto* layers = control<TimeHeatMap>(&panel, "Routing stability by layer over steps");
    QVERIFY(layers->describe(0, 30)[1] == "tokens that keep their experts 100.0 %");
    QVERIFY(layers->describe(1, 30)[1] == "tokens that keep their experts 0 %");
    QVERIFY(layers->describe(1, 0).isEmpty());
    const QImage picture = layers->grab().toImage();
    const auto color = [&](double place) {
      return picture.pixel(layers->width() * 3 / 4, qRound(layers->yOf(place + 0.5)));  // after step 20
    };
    QVERIFY(color(0) != color(1));
    choose(&panel, "View", "at this step");
    panel.grab();
    QVERIFY(panel.findChild<BandBars*>()->notice().isEmpty());
    QCOMPARE(panel.csv().count('\n'), 1 + 2);
    selection.setStep(0);
    panel.grab();
    QVERIFY(!panel.findChild<BandBars*>()->notice().isEmpty());
  }

  // Each answer names the largest figure of its panel.
  void answersAreOfTheTables() {
    const auto answered = [](Panel& panel, Selection& selection, const char* expected) {
      show(selection, panel, madeRun());
      QTRY_VERIFY(!panel.property("busy").toBool());
      panel.grab();
      QVERIFY2(panel.answerText().contains(QString::fromUtf8(expected)), qPrintable(panel.answerText()));
    };
    Selection selections[5];
    // In the counts of table(), experts 0 and 1 take only prose, experts 2 and 3 only code.
    SpecialisationPanel domains(&selections[0]);
    answered(domains, selections[0],
             "Expert 0 gets 80.0 % of the copies of prose and 40.0 % of all: 2.0 \u00d7 its share");
    selections[0].setExpert(2);  // as a click on a token does
    QVERIFY2(domains.answerText().startsWith("What does this expert get? Expert 2 gets "),
             qPrintable(domains.answerText()));
    CoactivationPanel pairs(&selections[1]);
    answered(pairs, selections[1], "Tokens of expert 1 also go to 0: 3.0 \u00d7 as often as by chance");
    SpecialisationPanel bytes(&selections[2]);
    choose(&bytes, "Figure", "use by byte");
    answered(bytes, selections[2], "Expert 3 gets 4.0 \u00d7 its share of brackets");
    // Four of the ten bytes have the remainder 2 when divided by 4.
    TokensAndSamplePanel tokens(&selections[3], TokensAndSamplePanel::Shows::probe_and_data);
    answered(tokens, selections[3],
             "Expert 2 is the first choice of 40.0 % of the probe's tokens, 3 experts share the rest");
    RoutingStabilityPanel stability(&selections[4]);
    stability.restoreState({{"against", 2}});
    answered(stability, selections[4],
             "No: 50.0 % of the tokens keep their experts since step 0, 40 steps before (by chance 16.7 %)");
  }

  void nothingIsShownOfARunWithoutTexts() {
    RunInfo info;
    info.moe_layers = {1};
    info.n_experts = 4;
    auto history = std::make_shared<History>(info);
    auto frame = std::make_shared<TelemetryFrame>();
    frame->ce_loss = 1;
    history->append(frame);
    Selection selection;
    QList<Panel*> panels{new TokensAndSamplePanel(&selection, TokensAndSamplePanel::Shows::probe_and_data),
                         new TokensAndSamplePanel(&selection, TokensAndSamplePanel::Shows::sample),
                         new SpecialisationPanel(&selection), new CoactivationPanel(&selection),
                         new RoutingStabilityPanel(&selection)};
    for (Panel* panel : panels) {
      panel->resize(400, 300);
      panel->show();
      panel->grab();
    }
    selection.setHistories({history});
    selection.fitRange();
    for (Panel* panel : panels) {
      panel->grab();
      QVERIFY(!panel->csv().isEmpty());
      QVERIFY(!panel->explain().isEmpty());
    }
    qDeleteAll(panels);
  }

  // From step 700 on the log has one domain alone, and it never has pairs of experts. Its counts are those of layer 4.
  void aLogShowsItsLastCountsOfTwoDomains() {
    MainWindow window(false);
    window.show();
    window.files()->open({QStringLiteral(MOESCOPE_TEST_DATA "/../assets/samples/domain_shift.jsonl")});
    window.workspaces()->bringUp("text");
    TextWorkspace* text = window.workspaces()->text();
    auto* panel = text->findChild<SpecialisationPanel*>();
    QTRY_COMPARE_WITH_TIMEOUT(panel->findChild<MatrixPlot*>()->rows(), 4, 60000);
    QCOMPARE(panel->findChild<MatrixPlot*>()->notice(), QString());
    QTRY_VERIFY(!text->dock("dock_text_coactivation")->isHidden());
    const auto* map = text->findChild<ScatterPlot*>();
    QTRY_VERIFY(map->isVisible());
    for (const int layer : {4, 1}) {
      window.selection()->setLayer(layer);
      QTRY_COMPARE(map->notice(), QString());
      QTRY_VERIFY(map->placeOf(4) != map->placeOf(5));  // the counts of several domains
      for (const Panel* shown :
           {static_cast<Panel*>(panel), static_cast<Panel*>(text->findChild<CoactivationPanel*>())}) {
        QCOMPARE(shown->findChild<LayerCombo*>()->count(), 1);
        QCOMPARE(shown->findChild<LayerCombo*>()->currentText(), QString("layer 4"));
      }
    }
    const auto* views = text->findChild<CoactivationPanel*>()->findChild<ViewSwitch*>();
    for (const int view : {0, 2})
      QVERIFY(!views->button(view)->isEnabled() && !views->button(view)->toolTip().isEmpty());
    const auto parts = panel->findChildren<QWidget*>();
    for (const char* part : {"step 600", "step 1,400 counted only python", "Only this layer has counts"})
      QTRY_VERIFY2(std::ranges::any_of(parts, [&](const QWidget* w) { return w->toolTip().contains(part); }), part);
  }

  void aLogWithoutTextsOffersTheNextSteps() {
    const QTemporaryDir folder;
    QFile log(folder.filePath("loads.jsonl"));
    QVERIFY(log.open(QIODevice::WriteOnly));
    for (int step = 0; step < 3; ++step)
      log.write(QString("{\"step\":%1,\"layer\":0,\"top_k\":1,\"tokens_per_expert\":[1,2,3,2]}\n").arg(step).toUtf8());
    log.close();
    MainWindow window(false);
    window.show();
    window.files()->open({log.fileName()});
    QTRY_VERIFY_WITH_TIMEOUT(window.selection()->history(), 60000);
    window.workspaces()->bringUp("text");
    TextWorkspace* text = window.workspaces()->text();
    const auto button = [&](const QString& name) {
      const auto buttons = text->findChildren<QPushButton*>();
      const auto found = std::ranges::find(buttons, name, &QPushButton::text);
      return found == buttons.end() ? nullptr : *found;
    };
    QTRY_VERIFY(button("Train or open a model")->isVisible());
    for (const QDockWidget* dock : text->docks()) QVERIFY2(dock->isHidden(), qPrintable(dock->objectName()));
    MainWindow other(false);
    other.workspaces()->text()->restore(text->remembered());
    for (const QDockWidget* dock : other.workspaces()->text()->docks())
      QVERIFY2(!dock->isHidden(), qPrintable("restored: " + dock->objectName()));
    button("Train or open a model")->click();
    QVERIFY(window.firstSteps()->page()->isVisible());
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::TextTest)
#include "qt_text.moc"
