// Pictures for printing and the clipboard, and the report, from a window with a trained run.
#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QMimeData>
#include <QPainter>
#include <QPainterPath>
#include <QProcess>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <QXmlStreamReader>
#include <cmath>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/export/export_actions.h"
#include "app/export/report.h"
#include "app/look/theme.h"
#include "app/session/progress_job.h"
#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "app/workspaces/picture.h"
#include "app/workspaces/svg_device.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/findings/health.h"
#include "tests/support/laid_out.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/takes_keys.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/quantization_error_panel.h"

using namespace moescope;

namespace {

// Returns how often each element occurs, by name; empty if the XML is not well-formed.
QMap<QString, int> elementsOf(const QByteArray& xml) {
  QMap<QString, int> counts;
  QXmlStreamReader reader(xml);
  while (!reader.atEnd())
    if (reader.readNext() == QXmlStreamReader::StartElement) ++counts[reader.name().toString()];
  if (reader.hasError()) qWarning("%s", qPrintable(reader.errorString()));
  return reader.hasError() ? QMap<QString, int>() : counts;
}

QImage rasterised(const QByteArray& svg) {
  QProcess program;
  program.start("rsvg-convert", {"-f", "png"});
  if (!program.waitForStarted()) return {};
  program.write(svg);
  program.closeWriteChannel();
  program.waitForFinished();
  return QImage::fromData(program.readAllStandardOutput(), "PNG");
}

bool hasRasteriser() {
  return !QStandardPaths::findExecutable("rsvg-convert").isEmpty();
}

}  // namespace

class ExportTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;
  std::unique_ptr<MainWindow> window_;

 private slots:
  void initTestCase() {
    for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"})
      qputenv(name, home_.path().toUtf8());
    applyTheme(Theme::dark);
    window_ = std::make_unique<MainWindow>(false);
    window_->runControl()->setRecorded(false);
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    QSignalSpy opened(window_->session(), &RunSession::opened);
    RunConfig config = load_preset("nano").config;
    config.precision.experts = Recipe::mxfp8_rceil;
    window_->runControl()->start(config, RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), 20000);
    QVERIFY(takesKeys(window_.get()));
    LiveRuns* live = window_->session()->live();
    live->run_until(20);
    QTRY_VERIFY_WITH_TIMEOUT(!live->status().running && live->status().step == 20, 30000);
    live->flush();
    window_->selection()->refresh();
    QVERIFY(isLaidOut(window_.get()));
  }
  void cleanupTestCase() { window_.reset(); }

  void svgKeepsTextAndClips() {
    SvgDevice device({200, 100}, "A <title>", "words");
    QPainter painter(&device);
    painter.fillRect(0, 0, 200, 100, Qt::white);
    painter.drawText(20, 90, "<5 & more>");
    painter.setClipRect(QRect(50, 20, 40, 40));
    painter.fillRect(0, 0, 200, 70, Qt::red);
    painter.setClipping(false);
    painter.fillRect(150, 20, 20, 20, Qt::blue);
    painter.end();
    const auto elements = elementsOf(device.document());
    QCOMPARE(elements["text"], 1);
    QCOMPARE(elements["clipPath"], 1);
    QVERIFY(device.document().contains("&lt;5 &amp; more&gt;"));
    if (!hasRasteriser()) QSKIP("librsvg2-bin is not installed");
    const QImage image = rasterised(device.document());
    QCOMPARE(image.size(), QSize(200, 100));
    QCOMPARE(image.pixelColor(70, 40), QColor(Qt::red));
    QCOMPARE(image.pixelColor(40, 40), QColor(Qt::white));  // outside of the clip rectangle
    QCOMPARE(image.pixelColor(70, 65), QColor(Qt::white));
    QCOMPARE(image.pixelColor(160, 30), QColor(Qt::blue));  // after the end of clipping
  }

  void nestedClipsEndWithTheirSave() {
    SvgDevice device({100, 100}, "t", "d");
    QPainter painter(&device);
    painter.fillRect(0, 0, 100, 100, Qt::white);
    painter.setClipRect(QRect(0, 0, 50, 100));
    painter.save();
    painter.setClipRect(QRect(0, 0, 100, 50), Qt::IntersectClip);
    painter.fillRect(0, 0, 100, 100, Qt::red);
    painter.restore();
    painter.fillRect(0, 60, 100, 10, Qt::blue);
    painter.end();
    if (!hasRasteriser()) QSKIP("librsvg2-bin is not installed");
    const QImage image = rasterised(device.document());
    QCOMPARE(image.pixelColor(25, 25), QColor(Qt::red));
    QCOMPARE(image.pixelColor(75, 25), QColor(Qt::white));
    QCOMPARE(image.pixelColor(25, 55), QColor(Qt::white));
    QCOMPARE(image.pixelColor(25, 65), QColor(Qt::blue));
    QCOMPARE(image.pixelColor(75, 65), QColor(Qt::white));
  }

  void svgDrawsWhatTheScreenDraws() {
    if (!hasRasteriser()) QSKIP("librsvg2-bin is not installed");
    const auto paint = [](QPaintDevice& device) {
      QPainter painter(&device);
      painter.fillRect(0, 0, 300, 200, Qt::white);
      painter.fillRect(10, 10, 60, 60, QBrush(Qt::black, Qt::BDiagPattern));
      QLinearGradient gradient(100, 0, 200, 0);
      gradient.setColorAt(0, Qt::white);
      gradient.setColorAt(1, Qt::black);
      painter.fillRect(100, 10, 100, 50, gradient);
      QImage cells(2, 1, QImage::Format_RGB32);
      cells.setPixel(0, 0, qRgb(255, 0, 0));
      cells.setPixel(1, 0, qRgb(0, 0, 255));
      painter.drawImage(QRect(10, 100, 100, 50), cells);
      painter.setPen(QPen(Qt::darkGreen, 3));
      painter.setBrush(Qt::yellow);
      painter.drawEllipse(150, 100, 60, 60);
      painter.translate(250, 100);
      painter.rotate(45);
      painter.setPen(Qt::NoPen);
      painter.setBrush(Qt::cyan);
      painter.drawRect(-15, -15, 30, 30);
    };
    SvgDevice device({300, 200}, "t", "d");
    paint(device);
    QImage screen(300, 200, QImage::Format_RGB32);
    paint(screen);
    const QImage image = rasterised(device.document());
    QVERIFY(!image.isNull());
    int far = 0;
    for (int y = 0; y < 200; ++y)
      for (int x = 0; x < 300; ++x) far += std::abs(qGray(image.pixel(x, y)) - qGray(screen.pixel(x, y))) > 60;
    QVERIFY2(far < 1200, qPrintable(QString::number(far)));  // edges and the hatching may differ
    QCOMPARE(image.pixelColor(55, 125), QColor(255, 0, 0));  // the edges of cells are sharp
    QCOMPARE(image.pixelColor(64, 125), QColor(0, 0, 255));
  }

  void everyPanelIsAPictureInTheLightTheme() {
    int panels = 0;
    for (Workspace* workspace : window_->workspaces()->all()) {
      for (Panel* panel : workspace->panels()) {
        const PrintedPicture svg = panelPicture(panel, *window_->selection(), PictureKind::svg);
        const auto elements = elementsOf(svg.svg);
        QVERIFY2(elements["text"] >= 3, qPrintable(panel->title()));
        QVERIFY2(svg.svg.contains("Run A nano"), qPrintable(panel->title()));
        const PrintedPicture png = panelPicture(panel, *window_->selection(), PictureKind::image);
        QVERIFY2(png.image.width() >= kPrintScale * kMinPicture.width(), qPrintable(panel->title()));
        qint64 light = 0, all = 0;
        for (int y = 0; y < png.image.height(); y += 7)
          for (int x = 0; x < png.image.width(); x += 7) {
            light += qGray(png.image.pixel(x, y)) > 200;
            ++all;
          }
        QVERIFY2(light * 3 > all, qPrintable(panel->title() + QString(": %1 of %2 light").arg(light).arg(all)));
        ++panels;
      }
    }
    QVERIFY(panels > 25);
  }

  // The picture has the legend of the SQNR, which the screen shows on the answer line.
  void thePictureOfTheErrorMatrixHasItsScale() {
    SyntheticRun run(SyntheticShape{});
    run.append(20);
    Selection selection;
    selection.setHistories({run.history()});
    QuantizationErrorPanel panel(&selection);
    const PrintedPicture svg = panelPicture(&panel, selection, PictureKind::svg);
    QVERIFY2(svg.svg.contains("SQNR, dB"), svg.svg.left(4000));
  }

  // The picture has the whole answer under the title, because it has no tool tip. A narrow picture has it in two lines.
  void theAnswerStandsUnderTheTitle() {
    Panel* panel = nullptr;
    for (Workspace* workspace : window_->workspaces()->all())
      if (Panel* found = workspace->panel("dock_a2a_matrix")) panel = found;
    QVERIFY(panel && panel->answerText().contains("times the mean"));
    const auto textsOf = [&](QSize size) {
      QString texts;
      QXmlStreamReader reader(panelPicture(panel, *window_->selection(), PictureKind::svg, size).svg);
      while (!reader.atEnd())
        if (reader.readNext() == QXmlStreamReader::StartElement && reader.name() == QLatin1String("text"))
          texts += reader.readElementText().trimmed() + ' ';
      return texts.replace(QChar(QChar::Nbsp), QLatin1Char(' '));
    };
    QVERIFY2(textsOf({900, 400}).startsWith("All-to-all " + panel->answerText()), qPrintable(textsOf({900, 400})));
    QVERIFY2(textsOf({200, 400}).startsWith("All-to-all " + panel->answerText()), qPrintable(textsOf({200, 400})));
  }

  // The style sheet of the HTML pages has the colors of the window.
  void pagesHaveTheColoursOfTheWindow() {
    const QString sheet = QString::fromUtf8(page_look().data(), static_cast<qsizetype>(page_look().size()));
    for (const bool dark : {false, true}) {
      const QString block = sheet.section(dark ? ":root.dark {" : ":root {", 1).section('}', 0, 0);
      const auto value = [&](const QString& name) { return block.section("--" + name + ": ", 1).section(';', 0, 0); };
      const auto name = [](QRgb color) { return QColor(color).name(); };
      const Colors& c = colors(dark);
      const std::pair<const char*, QRgb> single[] = {{"window", c.window},
                                                     {"surface", c.surface},
                                                     {"sunken", c.sunken},
                                                     {"hairline", c.hairline},
                                                     {"field-border", c.field_border},
                                                     {"ink", c.ink},
                                                     {"ink2", c.ink2},
                                                     {"accent", c.accent},
                                                     {"accent-soft", c.accent_soft},
                                                     {"good", c.good},
                                                     {"good-soft", c.good_soft},
                                                     {"attention", c.attention},
                                                     {"attention-soft", c.attention_soft},
                                                     {"bad", c.bad},
                                                     {"bad-soft", c.bad_soft},
                                                     {"neutral-soft", c.neutral_soft},
                                                     {"grid", c.grid},
                                                     {"axis", c.axis},
                                                     {"plain-bar", c.plain_bar},
                                                     {"strong-bar", c.strong_bar},
                                                     {"no-data", c.no_data},
                                                     {"zero-load", c.zero_load},
                                                     {"noise", c.noise},
                                                     {"a", c.series[0]},
                                                     {"b", c.series[1]},
                                                     {"c", c.series[2]},
                                                     {"d", c.series[3]}};
      for (const auto& [token, color] : single) QCOMPARE(value(token), name(color));
      for (const auto& [token, scale] : {std::pair("load", c.load), std::pair("matrix", c.matrix)}) {
        QStringList names;
        for (const QRgb color : scale) names << name(color);
        QCOMPARE(value(token), names.join(' '));
      }
    }
    for (const auto& [token, type] :
         {std::pair("caption", Type::caption), std::pair("secondary", Type::secondary), std::pair("body", Type::body),
          std::pair("heading", Type::heading), std::pair("figure", Type::figure)})
      QVERIFY2(sheet.contains(QString("--%1: %2px;").arg(token).arg(int{static_cast<int>(type)})), token);
  }

  // Taking a picture does not change the theme and the place of the panel on the screen.
  void aPictureLeavesThePanelUnchanged() {
    Panel* panel = window_->workspaces()->overview()->panel("dock_loss");
    const QRect place = panel->geometry();
    const QPalette colors = panel->palette();
    panelPicture(panel, *window_->selection(), PictureKind::image, {900, 500});
    QCOMPARE(panel->geometry(), place);
    QCOMPARE(panel->palette(), colors);
    const QImage mean = panel->grab().toImage().scaled(1, 1, Qt::IgnoreAspectRatio, Qt::SmoothTransformation);
    QVERIFY(qGray(mean.pixel(0, 0)) < 100);
  }

  void aPictureHasTheAskedSize() {
    Panel* panel = window_->workspaces()->overview()->panel("dock_loss");
    const PrintedPicture wide = panelPicture(panel, *window_->selection(), PictureKind::image, {900, 500});
    const PrintedPicture small = panelPicture(panel, *window_->selection(), PictureKind::image, {860, 300});
    QCOMPARE(wide.image.width() - small.image.width(), kPrintScale * 40);
    QCOMPARE(wide.image.height() - small.image.height(), kPrintScale * 200);
  }

  void workspaceIsOnePicture() {
    for (const char* name : {"overview", "router", "compare", "cluster"}) {
      window_->workspaces()->bringUp(name);
      QVERIFY(isLaidOut(window_.get()));
      const QString path = home_.filePath(QString(name) + ".svg");
      saveWorkspacePicture(window_->workspaces()->current(), *window_->selection(), path);
      QFile file(path);
      QVERIFY(file.open(QIODevice::ReadOnly));
      QVERIFY2(elementsOf(file.readAll())["text"] > 10, name);
    }
    window_->workspaces()->bringUp("overview");
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, saveWorkspacePicture(window_->workspaces()->current(),
                                                                      *window_->selection(), "/no/folder/x.png"));
  }

  void copyTakesPictureAndFigures() {
    Panel* panel = window_->workspaces()->overview()->panel("dock_loss");
    panel->setFocus();
    QTest::keyClick(window_.get(), Qt::Key_C, Qt::ControlModifier);
    const QMimeData* copied = QApplication::clipboard()->mimeData();
    QVERIFY(copied->hasImage());
    QCOMPARE(copied->text(), panel->csvFile());
    QVERIFY(copied->data("image/svg+xml").startsWith("<?xml"));
  }

  void reportHasFiguresTablesAndWords() {
    const QByteArray page = report(window_->exports()->reportSource());
    QVERIFY(page.contains("Results") && page.contains("Findings") && page.contains("All settings"));
    const HistoryPtr history = window_->selection()->histories().front();
    FindingsScan scan(history);
    scan.advance(INT64_MAX);
    const Health health = judge_health(scan);
    const QString verdict =
        QString("<b>%1:</b> %2")
            .arg(health_verdict_name(health.verdict), QString::fromStdString(health.sentence).toHtmlEscaped());
    QVERIFY2(page.contains(verdict.toUtf8()), qPrintable(verdict));
    QVERIFY(page.count("<svg ") >= 5);
    QVERIFY(!page.contains("href=\"http") && !page.contains("src=\"http"));
    // No id occurs twice, although the page has several pictures.
    QSet<QByteArray> ids;
    for (qsizetype at = page.indexOf(" id=\""); at >= 0; at = page.indexOf(" id=\"", at + 5)) {
      const QByteArray id = page.mid(at + 5, page.indexOf('"', at + 5) - at - 5);
      QVERIFY2(!ids.contains(id), id.constData());
      ids << id;
    }
  }

  void replayPageIsWrittenInTheBackground() {
    const QString path = home_.filePath("replay.html");
    window_->exports()->saveReplay(path);
    QTRY_VERIFY_WITH_TIMEOUT(QFileInfo::exists(path), 20000);
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QByteArray page = file.readAll();
    QVERIFY(page.startsWith("<!DOCTYPE html>") && page.endsWith("</html>\n"));
    QVERIFY(page.contains("\"gemms\":[\"experts\"") && page.contains("\"lacks\":[]"));
    QTRY_VERIFY(!window_->findChild<ProgressJob*>());
  }

  void cancelledReplayPageIsNotWritten() {
    const QString path = home_.filePath("cancelled.html");
    SyntheticRun run({.layers = 20, .experts = 64, .top_k = 4, .quant_every = 10});
    run.append(200);
    MainWindow window(false);
    window.selection()->setHistories({run.history()});
    window.exports()->saveReplay(path);
    window.findChild<ProgressJob*>()->findChild<QPushButton*>()->click();
    QTRY_VERIFY_WITH_TIMEOUT(!window.findChild<ProgressJob*>(), 20000);
    QVERIFY(!QFileInfo::exists(path));
  }

  void paletteFindsTheReplayPage() {
    const auto commands = commandsOf(window_.get());
    QVERIFY(std::ranges::any_of(commands,
                                [](const PaletteCommand& command) { return command.title.contains("Replay page"); }));
  }

  // Two logs with the same settings up to a step are run A and its noise twin, with which a third log is judged. All
  // figures are of the last step that all logs have.
  void reportOfLogsKnowsEqualRuns() {
    QStringList paths;
    const auto log = [&](const char* name, const char* settings, double phase, int steps = 300) {
      paths << home_.filePath(QString(name) + ".jsonl");
      QFile file(paths.back());
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(QByteArray("{\"run\":\"") + name + "\",\"experts\":2," + settings + "}\n");
      for (int step = 0; step < steps; ++step)
        file.write(QString("{\"step\":%1,\"loss\":%2,\"tokens_per_expert\":[[3,5]]}\n")
                       .arg(step)
                       .arg(2 + 0.1 * std::sin(1.7 * step + phase))
                       .toLatin1());
    };
    log("first", "\"precision\":\"bf16\",\"domain_shift_step\":0", 0);
    log("other", "\"precision\":\"mxfp8\",\"domain_shift_step\":0", 1, 320);
    log("twin", "\"precision\":\"bf16\",\"domain_shift_step\":200", 2);
    MainWindow window(false);
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open(paths);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), 20000);
    const QByteArray page = report(window.exports()->reportSource());
    QVERIFY(page.contains("<b>N twin</b> is a noise twin: the settings of A up to step 199."));
    QVERIFY(page.contains("<td>B other</td><td><b>") && page.contains("<td>100 to 199</td>"));
    QVERIFY(page.contains("other against first: ") && page.contains(" nats/token over steps 100 to 199"));
    QVERIFY(page.contains("counts as a difference that matters"));
    QVERIFY(page.contains(R"(<td><span class="muted">precision</span></td><td>bf16</td><td>mxfp8</td><td>bf16</td>)"));
    QVERIFY(!page.contains("it is not known how much"));
    QVERIFY(page.contains("The loss is that of the last of steps 250 to 299") && window.selection()->following());
  }
};

SCREEN_TEST(ExportTest)
#include "qt_export.moc"
