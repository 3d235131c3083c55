// "Train on hosts...": input, the resulting command, and a training with mpirun on this machine.
#include <signal.h>

#include <QApplication>
#include <QDir>
#include <QFile>
#include <QPlainTextEdit>
#include <QProcess>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>
#include <fstream>
#include <stdexcept>

#include "app/session/host_training.h"
#include "app/setup/hosts_dialog.h"
#include "core/config/config_toml.h"
#include "core/recording/recording.h"

using namespace moescope;

namespace {

QString problemOf(const QString& hosts) {
  try {
    parseHosts(hosts);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return {};
}

QByteArray bytesOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// Returns the id of the process of a rank that mpirun started for this recording; 0 if there is none.
pid_t processOfRank(const QString& recording, int rank) {
  const QByteArray variable = "OMPI_COMM_WORLD_RANK=" + QByteArray::number(rank);
  for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
    const QString process = "/proc/" + entry;
    if (bytesOf(process + "/cmdline").split('\0').contains(recording.toUtf8()) &&
        bytesOf(process + "/environ").split('\0').contains(variable))
      return entry.toInt();
  }
  return 0;
}

}  // namespace

class HostsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { QStandardPaths::setTestModeEnabled(true); }
  void hostsAreALineEach();
  void ranksFillHostsInTheirOrder();
  void dialogSaysWhatIsWrong();
  void trainsAndServes();
  void saysWhichHostFailed();
  void saysWhichRankWasKilled();

 private:
  HostPlan plan(const QTemporaryDir& folder) const;
};

void HostsTest::hostsAreALineEach() {
  const auto hosts = parseHosts("localhost:2\n\n  node-1.cluster  # the second\n10.0.0.3:8\n");
  QCOMPARE(hosts.size(), std::size_t{3});
  QCOMPARE(hosts[1].name, QString("node-1.cluster"));
  QCOMPARE(hosts[1].ranks, 1);
  QCOMPARE(ranksOf(hosts), 11);
  QVERIFY(problemOf("localhost\nbad host").startsWith("Line 2: \"bad host\""));
  QVERIFY(problemOf("a:0").startsWith("Line 1"));
  QVERIFY(problemOf("-oProxyCommand=x").startsWith("Line 1"));
  QVERIFY(problemOf("a:1;rm").startsWith("Line 1"));
  QCOMPARE(problemOf("# nothing\n"), QString("No host is given"));
  QVERIFY(!problemOf("a:1000\nb:1000").isEmpty());
}

void HostsTest::ranksFillHostsInTheirOrder() {
  const auto hosts = parseHosts("a:2\nb\nc:2");
  const QStringList expected{"a", "a", "b", "c", "c"};
  for (int rank = 0; rank < 5; ++rank) QCOMPARE(hostOfRank(hosts, rank), expected[rank]);
  HostPlan plan{hosts, "/opt/moescope-cli", "/shared/c.toml", "/shared/r.moescope", 100, 5001};
  const QString command = mpirunArguments(plan).join(' ');
  QVERIFY2(command.contains("--host a:2,b:1,c:2 -n 5"), qPrintable(command));
  QVERIFY2(command.endsWith("/opt/moescope-cli train --config /shared/c.toml --ep 5 --steps 100 --out "
                            "/shared/r.moescope --serve 5001"),
           qPrintable(command));
  QVERIFY(!command.contains("isolated"));
  plan.hosts = parseHosts("a:2\nb:2");
  QVERIFY(mpirunArguments(plan).join(' ').endsWith("--ranks-per-node 2"));
}

void HostsTest::dialogSaysWhatIsWrong() {
  QTemporaryDir folder;
  HostsDialog dialog(folder.path(), 300, nullptr);
  dialog.show();
  QPushButton* train = nullptr;
  for (QPushButton* button : dialog.findChildren<QPushButton*>())
    if (button->text() == "&Train") train = button;
  QVERIFY(train && train->isEnabled());
  auto* hosts = dialog.findChildren<QPlainTextEdit*>().front();
  QSignalSpy planned(&dialog, &HostsDialog::planned);
  hosts->setPlainText("two words");
  QVERIFY(!train->isEnabled());
  hosts->setPlainText("a\nb\nc");  // the number of ranks must be a power of two
  QVERIFY(!train->isEnabled());
  hosts->setPlainText("localhost:4");
  QVERIFY(train->isEnabled());
  train->click();
  QCOMPARE(planned.count(), 1);
}

HostPlan HostsTest::plan(const QTemporaryDir& folder) const {
  HostPlan plan;
  plan.hosts = parseHosts("localhost:2");
  plan.program = MOESCOPE_CLI;
  plan.config = folder.filePath("nano.toml");
  plan.recording = folder.filePath("run.moescope");
  plan.steps = 5;
  plan.port = 20000 + static_cast<int>(QCoreApplication::applicationPid() % 20000);
  std::ofstream(plan.config.toStdString()) << to_toml(load_preset("nano").config);
  return plan;
}

void HostsTest::trainsAndServes() {
  if (QStandardPaths::findExecutable("mpirun").isEmpty()) QSKIP("mpirun is not installed");
  QTemporaryDir folder;
  HostTraining training(plan(folder), nullptr);
  QSignalSpy serving(&training, &HostTraining::serving), ended(&training, &HostTraining::ended);
  training.start();
  QVERIFY(ended.wait(60000));
  QCOMPARE(ended.front().at(1).toString(), QString());
  QCOMPARE(serving.count(), 1);
  const auto history = RecordingReader(training.plan().recording.toStdString()).load(0);
  QCOMPARE(history->steps().last, std::int64_t{4});
  QCOMPARE(history->frame_at(4)->wire.ranks, 2);
}

void HostsTest::saysWhichHostFailed() {
  if (QStandardPaths::findExecutable("mpirun").isEmpty()) QSKIP("mpirun is not installed");
  QTemporaryDir folder;
  HostPlan wrong = plan(folder);
  wrong.config = folder.filePath("none.toml");
  HostTraining training(wrong, nullptr);
  QSignalSpy ended(&training, &HostTraining::ended);
  training.start();
  QVERIFY(ended.wait(60000));
  const QString why = ended.front().at(1).toString();
  QVERIFY2(why.contains("localhost (rank 0): moescope-cli: error:") && why.contains("none.toml"), qPrintable(why));
}

void HostsTest::saysWhichRankWasKilled() {
  if (QStandardPaths::findExecutable("mpirun").isEmpty()) QSKIP("mpirun is not installed");
  QTemporaryDir folder;
  HostPlan endless = plan(folder);
  endless.steps = 1000000;
  HostTraining training(endless, nullptr);
  QSignalSpy serving(&training, &HostTraining::serving), ended(&training, &HostTraining::ended);
  training.start();
  QVERIFY(serving.wait(60000));
  const pid_t process = processOfRank(endless.recording, 1);
  QVERIFY(process > 0);
  QCOMPARE(::kill(process, SIGKILL), 0);
  QVERIFY(ended.wait(60000));
  const QStringList why = ended.front().at(1).toString().split('\n');
  QCOMPARE(why.front(), QString("localhost (rank 1): exited on signal 9 (Killed)"));
  // The messages of the other rank follow, unless mpirun ends it before it writes any.
  for (const QString& line : why.mid(1)) QVERIFY2(line.startsWith("localhost (rank 0): "), qPrintable(line));
}

QTEST_MAIN(HostsTest)
#include "qt_hosts.moc"
