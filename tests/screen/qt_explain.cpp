// Cards of panels and of the figure under the mouse: they can be pinned, copied and closed.
#include <QApplication>
#include <QClipboard>
#include <QPointer>
#include <QSignalSpy>
#include <QTest>
#include <algorithm>
#include <numeric>

#include "core/files/assets.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/rank_matrix.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {

class QtExplain : public QObject {
  Q_OBJECT

 private:
  SyntheticRun run_{{.layers = 4, .experts = 8}};
  Selection selection_;

  static ExplainCard* card(QWidget* window) {
    for (ExplainCard* candidate : window->findChildren<ExplainCard*>())
      if (candidate->isVisible()) return candidate;
    return nullptr;
  }

 private slots:
  void initTestCase() {
    run_.append(30);
    selection_.setHistories({run_.history()});
    selection_.setLayer(2);
  }

  void aPanelsCardHasTheValuesPutIn() {
    BalancePanel panel(&selection_);
    choose(&panel, "Layers", "layer 2");
    const QString text = panel.explain();
    const RouterFrame& router = run_.history()->frame_at(29)->routers[1];
    const auto largest_count = *std::ranges::max_element(router.tokens_per_expert);
    QVERIFY2(text.contains(QString("(%1 - ").arg(largest_count)), qPrintable(text));
    QVERIFY(text.contains("layer 2, step 29"));
    QVERIFY(text.contains("knob:router.bias_update_rate"));
  }

  // Every KEY of {cards KEY KEY} in the pages of assets/panels is the key of a figure.
  void pagesOfPanelsNameKnownFigures() {
    int pages = 0;
    for (const Asset& page : assets()) {
      if (!page.name.starts_with("panels/")) continue;
      ++pages;
      const QString text = QString::fromUtf8(page.text.data(), qsizetype(page.text.size()));
      for (const QString& part : text.split('{').mid(1)) {
        const QStringList words = part.section('}', 0, 0).split(' ');
        QVERIFY2(words.size() > 1 || words[0] == "figures", qPrintable(part));
        for (const QString& key : words.mid(1)) QVERIFY2(find_metric(key.toStdString()), qPrintable(key));
      }
    }
    QVERIFY(pages > 25);
  }

  // The card has the formula with its values in a box, and links to settings that affect the figure and to its lesson.
  void theCardLeadsToSettingsAndLessons() {
    ExpertLoadPanel panel(&selection_);
    panel.resize(700, 600);
    panel.show();
    const QString html = figureCard(explain_figure(*run_.history(), {.key = "max_vio_window", .layer = 2, .step = 29}));
    QVERIFY2(html.contains("<table class=\"formula\">"), qPrintable(html));
    QVERIFY2(html.contains("bias update rate</a>"), qPrintable(html));
    const auto lesson = taughtIn("max_vio_window");
    QVERIFY(lesson);
    QVERIFY(html.contains(QString("<a href='lesson:%1'>lesson %1, %2</a>").arg(lesson->number).arg(lesson->title)));
    QVERIFY(!taughtIn("no such figure"));
    panel.setManualPage("/docs/router-and-balance.md", "Router and balance");
    panel.explainAt(panel.mapToGlobal(QPoint(5, 5)));
    ExplainCard* shown = card(&panel);
    QVERIFY(shown);
    QVERIFY(shown->text().contains("Manual: Router and balance"));
    QSignalSpy page(&panel, &Panel::manualRequested);
    QSignalSpy knob(&panel, &Panel::knobRequested), asked(&panel, &Panel::lessonRequested);
    auto* words = shown->findChild<QScrollArea*>()->findChild<QLabel*>();
    QVERIFY(words->text().contains("bgcolor='"));  // the card's text has a style
    emit words->linkActivated("knob:router.bias_update_rate");
    emit words->linkActivated("lesson:2");
    emit words->linkActivated("page:/docs/router-and-balance.md");
    QCOMPARE(page[0][0].toString(), QString("/docs/router-and-balance.md"));
    QCOMPARE(knob[0][0].toString(), QString("router.bias_update_rate"));
    QCOMPARE(asked[0][0].toString(), QString("2"));
    QTest::keyClick(shown, Qt::Key_Escape);
    QTRY_VERIFY(!card(&panel));
  }

  void theFigureUnderTheMouse() {
    ExpertLoadPanel panel(&selection_);
    panel.resize(500, 400);
    panel.show();
    auto* cells = panel.findChild<MatrixPlot*>();
    cells->grab();  // fills it
    const QPoint at = cells->mapToGlobal(cells->cellRect(1, 3).center().toPoint());
    panel.explainAt(at);
    ExplainCard* shown = card(&panel);
    QVERIFY(shown);
    double load_sum = 0;
    for (int step = 0; step < 30; ++step) {
      const auto& tokens = run_.history()->frame_at(step)->routers[1].tokens_per_expert;
      load_sum += 8.0 * tokens[3] / std::accumulate(tokens.begin(), tokens.end(), 0.0);
    }
    QVERIFY2(shown->text().contains(QString("= %1 = ").arg(load_sum / 30, 0, 'g', 6)), qPrintable(shown->text()));
    QVERIFY(shown->text().contains("layer 2, expert 3, steps 0 to 29 together"));
    QVERIFY(panel.rect().contains(shown->geometry()) || shown->width() > panel.width() - 16);

    QTest::keyClick(shown, Qt::Key_Escape);
    QTRY_VERIFY(!card(&panel));
  }

  // The card of a tile explains the tile's figure, not the panel.
  void tilesOfVolumesHaveTheirOwn() {
    AllToAllPanel volumes(&selection_);
    choose(&volumes, "View", "who sends what to whom");
    volumes.resize(900, 600);
    volumes.show();
    QApplication::processEvents();
    std::vector<std::optional<FigureTarget>> figures;
    const auto* matrix = volumes.findChild<RankMatrix*>();
    for (const QPoint place : {matrix->figureRect(0).center(), matrix->figureRect(1).center(),
                               matrix->figureRect(3).center(), matrix->barRect(0).center().toPoint()})
      figures.push_back(volumes.figureUnder(matrix->mapToGlobal(place)));
    QCOMPARE(figures.size(), std::size_t{4});
    for (const auto& figure : figures) {
      QVERIFY(figure);
      QVERIFY2(!explain_figure(*run_.history(), *figure).expression.empty(), figure->key.info().key);
    }
  }

  void theCapacityUnderTheMouseIsThatOfTheCard() {
    BalancePanel panel(&selection_);
    choose(&panel, "View", "capacity");
    panel.resize(600, 400);
    panel.show();
    auto* plot = panel.findChild<CurvePlot*>();
    plot->grab();
    const auto figure = plot->figureAt(plot->rect().center());
    QVERIFY(figure);
    QCOMPARE(figure->key, FigureKey("dropped_fraction"));
    QCOMPARE(figure->parameter, plot->xAt(plot->rect().center()));
    QVERIFY(!explain_figure(*run_.history(), *figure).expression.empty());
  }

  void pinnedCardsStayAndFollow() {
    QWidget window;
    BalancePanel panel(&selection_, &window);
    window.resize(700, 500);
    panel.resize(700, 300);
    window.show();
    auto* tile = panel.findChild<ValueTile*>();
    panel.explainAt(tile->mapToGlobal(tile->rect().center()));
    ExplainCard* first = card(&window);
    QVERIFY(first);
    QVERIFY(first->text().contains("MaxVio"));
    control<QToolButton>(first, "Pin")->click();
    const QString before = first->text();
    QTest::mouseClick(&panel, Qt::LeftButton, {}, {350, 290});
    QTest::qWait(20);  // the click does not close the pinned card
    QVERIFY(first->isVisible());
    run_.append(1);
    selection_.refresh();
    QVERIFY(first->text() != before);
    QTest::keyClick(first, Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QApplication::clipboard()->text(), first->text());
    panel.explainAt(panel.mapToGlobal(QPoint(5, 5)));  // a second card, which explains the whole panel
    QCOMPARE(window.findChildren<ExplainCard*>().size(), 2);
    QPointer<ExplainCard> second;
    for (ExplainCard* candidate : window.findChildren<ExplainCard*>())
      if (candidate != first) second = candidate;
    QTest::mouseClick(&panel, Qt::LeftButton, {}, {690, 290});
    QTRY_VERIFY(!second);
    QVERIFY(first->isVisible());
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::QtExplain)
#include "qt_explain.moc"
