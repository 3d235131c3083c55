// No number on the screen is cut: in every workspace, panel and tab, at common screen sizes, with larger type and in
// the projector view, for a recording and for a log of 58 layers x 256 experts.
#include <QAbstractItemView>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QMouseEvent>
#include <QProcess>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <fstream>
#include <random>

#include "app/actions/file_actions.h"
#include "app/look/theme.h"
#include "app/session/run_session.h"
#include "app/window/main_window.h"
#include "app/window/projector_view.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/recording/recording.h"
#include "tests/support/drawn_texts.h"
#include "tests/support/laid_out.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr double kSlack = 2;                          // pixels that a measured text may exceed its widget
constexpr char kSizeOfTest[] = "MOESCOPE_TEST_SIZE";  // variable: size of the window in a process with another scale

bool hasDigits(const QString& text) {
  return std::ranges::any_of(text, [](QChar character) { return character.isDigit(); });
}

// True if the widget scrolls, so that a text outside of it is not cut.
bool scrolls(const QWidget* widget) {
  return qobject_cast<const QAbstractItemView*>(widget->parentWidget()) || qobject_cast<const QTabBar*>(widget);
}

QString nameOf(const QWidget* widget) {
  QStringList names;
  for (const QWidget* at = widget; at && !at->isWindow(); at = at->parentWidget())
    if (!at->accessibleName().isEmpty() || at == widget)
      names << QString::fromLatin1(at->metaObject()->className()) + QLatin1Char(' ') + at->accessibleName();
  return names.join(QStringLiteral(" in "));
}

// Returns the whole texts of the widget's tabs, current choice or cells.
QStringList sourcesOf(const QWidget* widget) {
  QStringList sources;
  if (const auto* bar = qobject_cast<const QTabBar*>(widget))
    for (int tab = 0; tab < bar->count(); ++tab)
      if (bar->isTabVisible(tab)) sources << bar->tabText(tab);
  if (const auto* box = qobject_cast<const QComboBox*>(widget)) sources << box->currentText();
  if (const auto* view = qobject_cast<const QAbstractItemView*>(widget->parentWidget());
      view && view->viewport() == widget && view->model())
    for (int row = 0; row < view->model()->rowCount(); ++row)
      for (int column = 0; column < view->model()->columnCount(); ++column) {
        const QModelIndex index = view->model()->index(row, column);
        if (widget->rect().contains(view->visualRect(index))) sources << index.data().toString();
      }
  return sources;
}

// Returns the pairs of texts of a plot that overlap.
QStringList overlapsOf(const std::vector<DrawnText>& drawn) {
  QStringList found;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    for (std::size_t j = i + 1; j < drawn.size(); ++j) {
      const QRectF a = drawn[i].place.adjusted(1, 3, -1, -3), b = drawn[j].place.adjusted(1, 3, -1, -3);
      const bool twice = a == b && drawn[i].text == drawn[j].text;  // drawn both in the cached layer and over it
      if (!twice && a.intersects(b) && !drawn[i].text.trimmed().isEmpty() && !drawn[j].text.trimmed().isEmpty())
        found << QStringLiteral("one over the other: %1 / %2").arg(drawn[i].text, drawn[j].text);
    }
  return found;
}

// Returns the texts with numbers that are elided or not completely in the widget.
QStringList cutAmong(const std::vector<DrawnText>& drawn, const QWidget* widget) {
  QStringList cut;
  const QRectF room = QRectF(widget->rect()).adjusted(-kSlack, -kSlack, kSlack, kSlack);
  for (const DrawnText& text : drawn) {
    if (!hasDigits(text.text)) continue;
    if (text.text.contains(QChar(0x2026))) cut << QStringLiteral("elided: ") + text.text;
    if (!scrolls(widget) && !room.contains(text.place))
      cut << QStringLiteral("beyond its widget: %1 (%2 to %3 of %4, %5 to %6 of %7)")
                 .arg(text.text)
                 .arg(text.place.left())
                 .arg(text.place.right())
                 .arg(widget->width())
                 .arg(text.place.top())
                 .arg(text.place.bottom())
                 .arg(widget->height());
  }
  return cut;
}

// Returns why numbers of the widget cannot be read; empty if all can be read.
QStringList cutNumbersOf(QWidget* widget) {
  const std::vector<DrawnText> drawn = textsDrawnBy(widget);
  QStringList cut = cutAmong(drawn, widget);
  for (const QString& source : sourcesOf(widget)) {
    const QString plain = QString(source).remove(QLatin1Char('&'));
    const bool elided =
        std::ranges::any_of(drawn, [](const DrawnText& text) { return text.text.contains(QChar(0x2026)); });
    const bool whole = std::ranges::any_of(drawn, [&](const DrawnText& text) { return text.text.contains(plain); });
    if (hasDigits(plain) && elided && !whole) cut << QStringLiteral("not whole: ") + plain;
  }
  if (qobject_cast<PlotFrame*>(widget)) cut << overlapsOf(drawn);
  for (QString& complaint : cut) complaint = nameOf(widget) + QStringLiteral(": ") + complaint;
  return cut;
}

// Returns the cut numbers of a plot with its readout while the mouse is at its middle.
QStringList cutUnderMouse(PlotFrame* plot, int* readouts) {
  const QPointF middle = plot->rect().center();
  QMouseEvent move(QEvent::MouseMove, middle, plot->mapToGlobal(middle), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(plot, &move);
  plot->markDirty();
  const std::vector<DrawnText> drawn = textsPaintedBy(plot);
  *readouts += !drawn.empty();
  QStringList cut = cutAmong(drawn, plot);
  QEvent leave(QEvent::Leave);
  QApplication::sendEvent(plot, &leave);
  for (QString& complaint : cut) complaint = nameOf(plot) + QStringLiteral(", under the mouse: ") + complaint;
  return cut;
}

int readouts_seen = 0;

QStringList cutNumbersIn(QWidget* window) {
  QStringList cut;
  for (QWidget* widget : window->findChildren<QWidget*>()) {
    if (!widget->isVisible() || widget->visibleRegion().isEmpty()) continue;
    cut << cutNumbersOf(widget);
    if (auto* plot = qobject_cast<PlotFrame*>(widget)) cut << cutUnderMouse(plot, &readouts_seen);
  }
  return cut;
}

void complainOf(const QStringList& cut) {
  for (const QString& complaint : cut) qWarning("%s", qPrintable(complaint));
}

// Returns the cut numbers of all workspaces, with each tab of docks in front once.
QStringList cutNumbersOfAll(MainWindow& window, const QString& what) {
  QStringList cut;
  for (Workspace* workspace : window.workspaces()->all()) {
    window.workspaces()->bringUp(workspace);
    if (!isLaidOut(&window)) cut << workspace->name() + ": does not settle";
    int tabs = 1;
    for (const QDockWidget* dock : workspace->docks())
      tabs =
          std::max(tabs, 1 + static_cast<int>(workspace->tabifiedDockWidgets(const_cast<QDockWidget*>(dock)).size()));
    for (int turn = 0; turn < tabs; ++turn) {
      for (QDockWidget* dock : workspace->docks()) {
        const QList<QDockWidget*> group = workspace->tabifiedDockWidgets(dock);
        if (turn < group.size()) group[turn]->raise();
      }
      if (!isLaidOut(&window)) cut << workspace->name() + ": does not settle";
      for (const QString& complaint : cutNumbersIn(&window))
        cut << QStringLiteral("%1, %2: %3").arg(what, workspace->name(), complaint);
    }
  }
  cut.removeDuplicates();
  return cut;
}

}  // namespace

class QtNoCutNumbers : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

  // A recording of five runs, the most that are shown together.
  QString recording() {
    const QString path = home_.filePath("run.moescope");
    if (QFile::exists(path)) return path;
    RecordingWriter writer(path.toStdString());
    for (int place = 0; place < kMaxRuns; ++place) {
      SyntheticRun run({.layers = 5, .experts = 16, .specialise_every = 20});
      RunInfo info = run.history()->info();
      info.run = place;
      info.name = "mxfp8_rceil_" + std::to_string(place);
      writer.add_run(info);
      std::vector<std::shared_ptr<const TelemetryFrame>> frames;
      for (int step = 0; step < 240; ++step) {
        TelemetryFrame frame = *run.next();
        frame.run = place;
        frames.push_back(std::make_shared<const TelemetryFrame>(std::move(frame)));
      }
      writer.write(frames);
    }
    return path;
  }

  QString log() {
    const QString path = home_.filePath("v3-58x256.jsonl");
    if (QFile::exists(path)) return path;
    constexpr int kLayers = 58, kExperts = 256, kSteps = 24;
    std::ofstream out(path.toStdString());
    out << R"({"run": "v3-58x256", "layers": 61, "experts": 256, "top_k": 8, "tokens_per_step": 16384})" << '\n';
    std::mt19937 rng(1);
    for (int step = 0; step < kSteps; ++step) {
      out << R"({"step": )" << 1000 + step * 50 << R"(, "loss": )" << 2.5 + 1.0 / (step + 1) << R"(, "routers": [)";
      for (int layer = 0; layer < kLayers; ++layer) {
        const bool sick = layer % 12 == 9 && step > 8;
        out << (layer ? ", " : "") << R"({"layer": )" << layer + 3 << R"(, "tokens_per_expert": [)";
        for (int expert = 0; expert < kExperts; ++expert) {
          unsigned tokens = 400 + rng() % 220;
          if (sick && expert % 64 == 16)
            tokens += 16000;
          else if (sick && expert % 3 != 0)
            tokens = 0;
          out << (expert ? "," : "") << tokens;
        }
        out << "]}";
      }
      out << "]}\n";
    }
    return path;
  }

  static void open(MainWindow& window, const QString& path) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 1, 60000);
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<FindingsWatch*>()->ready(), 60000);
  }

  // Returns the cut numbers of both files, one after the other, in a window of this size.
  QStringList cutAt(QSize size) {
    QStringList cut;
    for (const QString& path : {recording(), log()}) {
      MainWindow window(false);
      window.resize(size);
      window.show();
      open(window, path);
      const QString what =
          QStringLiteral("%1x%2, %3").arg(size.width()).arg(size.height()).arg(QFileInfo(path).fileName());
      cut << cutNumbersOfAll(window, what);
    }
    return cut;
  }

 private slots:
  void initTestCase() {
    QStandardPaths::setTestModeEnabled(true);
    QVERIFY(home_.isValid());
    applyTheme(Theme::light);
  }

  // The test itself finds an elided number, a number beyond its widget, and an elided tab.
  void aCutNumberIsFound() {
    QLabel label(QStringLiteral("MaxVio 1,234"));
    label.resize(40, 20);
    label.show();
    QCOMPARE(cutNumbersOf(&label).size(), 1);
    label.resize(400, 20);
    QVERIFY(cutNumbersOf(&label).isEmpty());
    QTabBar bar;
    bar.setElideMode(Qt::ElideRight);
    bar.setUsesScrollButtons(false);
    bar.addTab(QStringLiteral("Layer 12 of many"));
    bar.addTab(QStringLiteral("Layer 13 of many"));
    bar.resize(60, 30);
    bar.show();
    QVERIFY(!cutNumbersOf(&bar).isEmpty());
    QCOMPARE(overlapsOf({{QStringLiteral("nats/token"), {0, 0, 60, 14}}, {QStringLiteral("6"), {20, 6, 8, 14}}}).size(),
             1);
    QVERIFY(
        overlapsOf({{QStringLiteral("nats/token"), {0, 0, 60, 14}}, {QStringLiteral("6"), {20, 14, 8, 14}}}).isEmpty());
    FittedLabel fitted;
    fitted.setTexts({QStringLiteral("step 1,234 of 2,000"), QStringLiteral("1,234")});
    fitted.resize(50, 20);
    fitted.show();
    QVERIFY(cutNumbersOf(&fitted).isEmpty());
  }

  void noNumberIsCutAtTheSizesOfScreens_data() {
    QTest::addColumn<QSize>("size");
    if (const QByteArray only_size = qgetenv(kSizeOfTest); !only_size.isEmpty()) {
      const QList<QByteArray> sides = only_size.split('x');
      QTest::newRow("scaled") << QSize(sides.value(0).toInt(), sides.value(1).toInt());
      return;
    }
    for (const QSize size : {QSize(1024, 700), QSize(1280, 800), QSize(1920, 1080)})
      QTest::addRow("%dx%d", size.width(), size.height()) << size;
  }
  void noNumberIsCutAtTheSizesOfScreens() {
    QFETCH(const QSize, size);
    readouts_seen = 0;
    const QStringList cut = cutAt(size);
    complainOf(cut);
    QVERIFY(cut.isEmpty());
    QVERIFY2(readouts_seen > 20, qPrintable(QString::number(readouts_seen)));
  }

  // Each scale runs in a separate process, because Qt reads the scale only at its start.
  void noNumberIsCutOnScreensOfManyDots_data() {
    QTest::addColumn<QString>("scale");
    QTest::addColumn<QString>("size");
    QTest::newRow("1.25") << "1.25"
                          << "1152x720";
    QTest::newRow("1.5") << "1.5"
                         << "1280x720";
    QTest::newRow("2") << "2"
                       << "1280x800";
  }
  void noNumberIsCutOnScreensOfManyDots() {
    if (qEnvironmentVariableIsSet(kSizeOfTest)) QSKIP("in the process of another test");
    QFETCH(const QString, scale);
    QFETCH(const QString, size);
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("QT_SCALE_FACTOR"), scale);
    environment.insert(QString::fromLatin1(kSizeOfTest), size);
    process.setProcessEnvironment(environment);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QCoreApplication::applicationFilePath(),
                  {QStringLiteral("qt_no_cut_numbers"), QStringLiteral("noNumberIsCutAtTheSizesOfScreens")});
    QVERIFY(process.waitForFinished(300000));
    QVERIFY2(process.exitCode() == 0, process.readAll().constData());
  }

  void noNumberIsCutInTheProjectorView() {
    if (qEnvironmentVariableIsSet(kSizeOfTest)) QSKIP("in the process of another test");
    for (const QString& path : {recording(), log()}) {
      MainWindow window(false);
      window.resize(1280, 800);
      window.show();
      open(window, path);
      window.projector()->action()->setChecked(true);
      QVERIFY(isLaidOut(&window));
      QStringList cut = cutNumbersOfAll(window, QStringLiteral("projector, ") + QFileInfo(path).fileName());
      window.projector()->leave();
      complainOf(cut);
      QVERIFY(cut.isEmpty());
    }
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::QtNoCutNumbers)
#include "qt_no_cut_numbers.moc"
