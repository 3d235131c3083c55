// Settings that the window saves. The program starts with any damaged settings file, trains if the home folder cannot
// be written.
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QSettings>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <random>

#include "app/actions/file_actions.h"
#include "app/look/theme.h"
#include "app/session/settings.h"
#include "app/start/first_steps.h"
#include "app/start/start_page.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"

using namespace moescope;

namespace {

// Values that a key may have after an edit by hand or a disk error.
const QByteArray kOddValues[] = {"",
                                 "-1",
                                 "99999999999999999999",
                                 "nan",
                                 "@Invalid()",
                                 "@ByteArray(\\0\\0\\0\\xff\\xff\\xff\\xff)",
                                 "@Variant(\\0\\0\\0\\b\\x7f\\xff\\xff\\xff)",
                                 "@Size(2147483647 -5)",
                                 "@Rect(-2147483648 0 2147483647 1)",
                                 "a, b, \\x0, \"c",
                                 QByteArray(100000, 'x')};

class Damage {
 public:
  Damage(QByteArray whole, int seed) : whole_(std::move(whole)), random_(static_cast<unsigned>(seed)) {}

  QByteArray next() {
    QByteArray damaged = whole_;
    switch (upTo(3)) {
      case 0:
        for (int i = 0, n = 1 + upTo(40); i < n; ++i) damaged[upTo(damaged.size() - 1)] = static_cast<char>(upTo(255));
        return damaged;
      case 1:
        return damaged.left(upTo(damaged.size() - 1));
      case 2:
        damaged.remove(upTo(damaged.size() - 1), 1 + upTo(200));
        return damaged;
      default:
        return withAnOddValue();
    }
  }

 private:
  int upTo(qsizetype highest) { return std::uniform_int_distribution<int>(0, static_cast<int>(highest))(random_); }

  QByteArray withAnOddValue() {
    QList<QByteArray> lines = whole_.split('\n');
    QByteArray& line = lines[upTo(lines.size() - 1)];
    if (const qsizetype value = line.indexOf('='); value > 0)
      line = line.left(value + 1) + kOddValues[upTo(std::size(kOddValues) - 1)];
    return lines.join('\n');
  }

  QByteArray whole_;
  std::mt19937 random_;
};

QByteArray contentOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void write(const QString& path, const QByteArray& content) {
  QFile file(path);
  if (!file.open(QIODevice::WriteOnly) || file.write(content) != content.size()) qFatal("settings: cannot write");
}

// Opens and closes the main window, which reads all settings.
void startOnce() {
  applyTheme(rememberedTheme());
  MainWindow window;
  window.firstSteps()->showPage();
  window.show();
  QCoreApplication::processEvents();
  QVERIFY(window.width() > 0 && window.width() < 20000);
  QVERIFY(window.workspaces()->current());
  window.close();
}

}  // namespace

class SettingsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void aDamagedSettingsFileDoesNotStopAStart() {
    {
      OpenWindow w;
      w.window.resize(1500, 900);
      w.window.workspaces()->bringUp("router");
      w.trainTo(25);
      w.window.close();
    }
    settings().setValue("recent_files", QStringList{"/tmp/a", "/tmp/b"});
    settings().setValue("theme", "dark");
    const QString path = settings().fileName();
    const QByteArray whole = contentOf(path);
    QVERIFY(whole.contains("arrangement"));
    for (int seed = 0; seed < 40; ++seed) {
      write(path, Damage(whole, seed).next());
      startOnce();
      if (QTest::currentTestFailed()) return;
    }
  }

  // Arrangements of an earlier version, which had no checksum, are removed.
  void anArrangementWithoutAChecksumIsNotTakenOver() {
    settings().setValue("window/layout", QByteArray("\0\0\0\xff\0\0\0\3\xfd\0\0\0\2", 13));
    settings().setValue("window/geometry", QByteArray(300, '\x7f'));
    settings().setValue("workspaces/Router", QVariantMap{{"layout", QByteArray(50, '\x11')}});
    startOnce();
    QVERIFY(!settings().contains("window/layout"));
    QVERIFY(!settings().contains("workspaces/Router"));
    QVERIFY(!sealed("window/arrangement").isEmpty());
  }

  void aChangedByteLosesTheArrangement() {
    keepSealed("x", {{"a", 1}});
    QCOMPARE(sealed("x"), (QVariantMap{{"a", 1}}));
    QByteArray stored = settings().value("x").toByteArray();
    stored[stored.size() - 1] = static_cast<char>(stored.back() ^ 1);
    settings().setValue("x", stored);
    QVERIFY(sealed("x").isEmpty());
  }

  void aHomeThatCannotBeWrittenStopsNoTraining() {
    const QString file = home_.filePath("no-folder");
    write(file, "x");
    qputenv("XDG_DATA_HOME", file.toUtf8());
    {
      OpenWindow w(nano(), true);
      QVERIFY(!w.complaint());
      QVERIFY(w.window.session()->path().isEmpty());
      QVERIFY(w.window.statusBar()->currentMessage().startsWith("Not recorded, the run is in memory only: "));
      w.trainTo(3);
    }
    useFolderOfTest(home_);
  }

  // The file that was open last is the first of the start page's recent files; one that is gone is removed when it is
  // chosen.
  void recentFilesAreOnTheStartPage() {
    const QString log = home_.filePath("mine.jsonl");
    write(log, R"({"step":0,"loss":2.5,"routers":[{"layer":1,"tokens_per_expert":[3,5]}]})");
    const auto first = [](MainWindow& window) {
      QMenu* menu = window.firstSteps()->page()->findChild<QToolButton*>("start_recent")->menu();
      emit menu->aboutToShow();
      return menu->actions().front();
    };
    {
      MainWindow window;
      QSignalSpy opened(window.session(), &RunSession::opened);
      window.files()->open({log});
      QVERIFY(opened.wait(kWaitMs));
      window.close();
    }
    MainWindow second;
    second.firstSteps()->showPage();
    QCOMPARE(first(second)->text(), log);
    QSignalSpy opened(second.session(), &RunSession::opened);
    first(second)->trigger();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(second.session()->path(), log);
    QVERIFY(second.firstSteps()->page()->isHidden());
    QFile::remove(log);
    MainWindow third;
    first(third)->trigger();
    QVERIFY(first(third)->text() != log);
  }

  void aRecordedRunIsARecentFile() {
    OpenWindow w(nano(), true);
    w.trainTo(3);
    QCOMPARE(recentFiles().value(0), w.window.session()->path());
  }
};

SCREEN_TEST(SettingsTest)
#include "qt_settings.moc"
