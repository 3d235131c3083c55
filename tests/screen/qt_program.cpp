// The program with the window, started as a process.
#include <signal.h>

#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QImage>
#include <QProcess>
#include <QSet>
#include <QTemporaryDir>
#include <QTest>

#include "app/program/screenshot.h"
#include "app/window/main_window.h"
#include "tests/support/screen_test.h"

using namespace moescope;

namespace {

struct Result {
  int status;
  QString out, err;
};

Result start(const QStringList& arguments, const QStringList& without = {}) {
  QProcess program;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  for (const QString& name : without) environment.remove(name);
  program.setProcessEnvironment(environment);
  program.start(MOESCOPE_APP, arguments);
  if (!program.waitForFinished(120000)) return {-1, {}, program.errorString()};
  return {program.exitCode(), program.readAllStandardOutput(), program.readAllStandardError()};
}

}  // namespace

class ProgramTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"})
      qputenv(name, home_.path().toUtf8());
  }

  void aScreenshotOfTrainingIsWritten_data() {
    QTest::addColumn<QString>("theme");
    QTest::newRow("dark") << "dark";
    QTest::newRow("light") << "light";
  }
  void aScreenshotOfTrainingIsWritten() {
    QFETCH(QString, theme);
    const QString path = home_.filePath(theme + ".png");
    const Result result = start(
        {"--preset", "nano", "--screenshot", path, "--after-steps", "12", "--size", "1280x800", "--theme", theme});
    QVERIFY2(result.status == 0, qPrintable(result.err));
    const QImage image(path);
    QCOMPARE(image.size(), QSize(1280, 800));
    QSet<QRgb> colors;
    for (int y = 0; y < image.height(); y += 3)
      for (int x = 0; x < image.width(); x += 3) colors << image.pixel(x, y);
    QVERIFY2(colors.size() > 100, qPrintable(QString::number(colors.size())));
    QCOMPARE(qGray(image.pixel(image.width() - 3, image.height() / 2)) < 128, theme == "dark");
  }

  // With a file of tensors, --screenshot does not wait for a run.
  void aScreenshotOfTensorsIsWritten() {
    const QString tensors = home_.filePath("t.safetensors"), path = home_.filePath("t.png");
    QFile file(tensors);
    QVERIFY(file.open(QIODevice::WriteOnly));
    const QByteArray header = R"({"w":{"dtype":"F32","shape":[8,32],"data_offsets":[0,1024]}})";
    const quint64 size = static_cast<quint64>(header.size());
    file.write(reinterpret_cast<const char*>(&size), 8);
    file.write(header + QByteArray(1024, '\x3f'));
    file.close();
    const Result result = start({tensors, "--screenshot", path, "--size", "1280x800"});
    QVERIFY2(result.status == 0, qPrintable(result.err));
    QCOMPARE(QImage(path).size(), QSize(1280, 800));
  }

  // The picture shows the first step of the lesson.
  void aScreenshotOfALessonIsWritten() {
    const QString path = home_.filePath("lesson.png");
    const Result result = start({"--lesson", "mx-block", "--screenshot", path, "--size", "1280x800"});
    QVERIFY2(result.status == 0, qPrintable(result.err));
    QCOMPARE(QImage(path).size(), QSize(1280, 800));
  }

  // Both write their file from a log and end the event loop.
  void aPictureAndAnExportOfAWindowAreWritten() {
    Arguments arguments;
    arguments.files << home_.filePath("run.jsonl");
    QFile log(arguments.files.front());
    QVERIFY(log.open(QIODevice::WriteOnly));
    for (int step = 0; step < 20; ++step) log.write(qPrintable(QString("{\"step\":%1,\"loss\":3.5}\n").arg(step)));
    log.close();
    arguments.screenshot = home_.filePath("run.png");
    {
      MainWindow window(false);
      window.resize(1280, 800);
      window.show();
      takeScreenshot(&window, arguments);
      QCOMPARE(QApplication::exec(), 0);
    }
    QCOMPARE(QImage(arguments.screenshot).size(), QSize(1280, 800));
    arguments.export_request = {home_.filePath("loss.csv"), "csv", "loss", {}};
    {
      MainWindow window(false);
      window.show();
      takeExport(&window, arguments);
      QCOMPARE(QApplication::exec(), 0);
    }
    QFile csv(arguments.export_request.out);
    QVERIFY(csv.open(QIODevice::ReadOnly));
    QCOMPARE(csv.readAll().count('\n'), 21);
    arguments.export_request.panel = "no such panel";
    MainWindow window(false);
    window.show();
    takeExport(&window, arguments);
    QCOMPARE(QApplication::exec(), 1);
  }

  void errorsAreToldAtOnceWithStatusTwo() {
    QFile file(home_.filePath("bad.toml"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("[router]\ntop_k = 400\nbias_updaterate = 0.1\n");
    file.close();
    const Result result = start({"--config", file.fileName(), "--size", "huge", "--theme", "pink"});
    QCOMPARE(result.status, 2);
    for (const char* part : {"bad.toml:2", "bad.toml:3", "1280x800", "dark or light"})
      QVERIFY2(result.err.contains(part), qPrintable(result.err));
  }

  void wrongArgumentsAreRefused_data() {
    QTest::addColumn<QStringList>("arguments");
    QTest::addColumn<QString>("message");
    QTest::newRow("no such preset") << QStringList{"--preset", "huge"} << "small";
    QTest::newRow("no such option") << QStringList{"--prest", "nano"} << "--help";
    QTest::newRow("no such file") << QStringList{"/nowhere/x.moescope"} << "/nowhere/x.moescope";
    QTest::newRow("no such data") << QStringList{"--data", "/nowhere"} << "/nowhere";
    QTest::newRow("both") << QStringList{"--preset", "nano", "--config", "x.toml"} << "--config";
    QTest::newRow("steps") << QStringList{"--screenshot", "x.png", "--after-steps", "-3"} << "-3";
    QTest::newRow("recording and preset") << QStringList{"/etc/hostname", "--preset", "nano"} << "--preset";
  }
  void wrongArgumentsAreRefused() {
    QFETCH(QStringList, arguments);
    QFETCH(QString, message);
    const Result result = start(arguments);
    QCOMPARE(result.status, 2);
    QVERIFY2(result.err.contains(message), qPrintable(result.err));
  }

  void aPictureThatCannotBeWrittenIsRefused() {
    const Result result = start({"--preset", "nano", "--screenshot", "/nowhere/x.png", "--after-steps", "1"});
    QCOMPARE(result.status, 2);
    QVERIFY2(result.err.contains("/nowhere/x.png"), qPrintable(result.err));
  }

  void aPictureReplacesNoFileUnasked() {
    const QString path = home_.filePath("kept.toml");
    const QByteArray text = "name = \"kept\"\n";
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
    file.close();
    for (const auto& [arguments, reason] : std::initializer_list<std::pair<QStringList, QString>>{
             {{"--config", path, "--screenshot", path, "--overwrite"}, "is also an input"},
             {{"--preset", "nano", "--screenshot", path}, "exists"}}) {
      const Result result = start(arguments);
      QCOMPARE(result.status, 2);
      QVERIFY2(result.err.contains("--screenshot " + path + ": " + reason), qPrintable(result.err));
      QVERIFY(file.open(QIODevice::ReadOnly));
      QCOMPARE(file.readAll(), text);
      file.close();
    }
  }

  void withoutADisplayHelpAndPicturesWorkAndAWindowIsRefused() {
    const QStringList display = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"};
    const QString path = home_.filePath("no_display.png");
    const QStringList screenshot{"--preset", "nano", "--screenshot", path, "--after-steps", "1"};
    for (const QStringList& arguments : {QStringList{"--help"}, screenshot}) {
      const Result result = start(arguments, display + QStringList{"XDG_RUNTIME_DIR"});
      QCOMPARE(result.status, 0);
      QCOMPARE(result.err, QString());
    }
    QVERIFY(!QImage(path).isNull());
    const Result window = start({"--preset", "nano"}, display);
    QCOMPARE(window.status, 2);
    QVERIFY2(window.err.contains("no display"), qPrintable(window.err));
  }

  void helpOnAFullDiskIsAnError() {
    QProcess program;
    program.setStandardOutputFile("/dev/full");
    program.start(MOESCOPE_APP, {"--help"});
    QVERIFY(program.waitForFinished(60000));
    QCOMPARE(program.exitCode(), 1);
    const QString error = program.readAllStandardError();
    QVERIFY2(error.contains("standard output: cannot be written: No space left on device"), qPrintable(error));
  }

  void aSignalClosesTheWindowWithItsCheckpoint_data() {
    QTest::addColumn<int>("signal");
    QTest::newRow("SIGHUP") << SIGHUP;
    QTest::newRow("SIGTERM") << SIGTERM;
    QTest::newRow("SIGINT") << SIGINT;
  }
  void aSignalClosesTheWindowWithItsCheckpoint() {
    QFETCH(int, signal);
    const QTemporaryDir data;
    QProcess program;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("XDG_DATA_HOME", data.path());
    environment.insert("QT_QPA_PLATFORM", "offscreen");
    program.setProcessEnvironment(environment);
    program.start(MOESCOPE_APP, {"--preset", "nano"});
    QVERIFY(program.waitForStarted());
    const auto found = [&](const QString& name, QDir::Filters kind) {
      QDirIterator entry(data.path(), {name}, kind | QDir::NoDotAndDotDot, QDirIterator::Subdirectories);
      return entry.hasNext() ? entry.next() : QString();
    };
    QTRY_VERIFY_WITH_TIMEOUT(!found("*00", QDir::Dirs).isEmpty(), 60000);  // a second checkpoint is on the disk
    for (int attempt = 0; attempt < 2; ++attempt) ::kill(static_cast<pid_t>(program.processId()), signal);
    QVERIFY(program.waitForFinished(60000));
    QCOMPARE(program.exitStatus(), QProcess::NormalExit);
    QCOMPARE(program.exitCode(), 128 + signal);
    QVERIFY(!found("*.moescope", QDir::Files).isEmpty());
    QVERIFY2(found("*.moescope-wal", QDir::Files).isEmpty(), "closed");
    QVERIFY(!found("nano.safetensors", QDir::Files).isEmpty());
    QVERIFY2(found("*.partial", QDir::Dirs).isEmpty(), "whole");
  }

  void helpSaysHowManyRecordingsAreKept() {
    const Result result = start({"--help"});
    QCOMPARE(result.status, 0);
    QVERIFY2(result.out.contains("newest 20"), qPrintable(result.out));
  }
};

SCREEN_TEST(ProgramTest)
#include "qt_program.moc"
