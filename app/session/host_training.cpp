#include "app/session/host_training.h"

#include <unistd.h>

#include <QProcessEnvironment>
#include <QRegularExpression>
#include <QStandardPaths>
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/logs/run_feed.h"

namespace moescope {

namespace {

constexpr int kMostRanks = 1024, kMostErrors = 12, kEndMs = 10000;

bool isThisMachine(const QString& host) {
  return host == "localhost" || host == "127.0.0.1" || host == QSysInfo::machineHostName();
}

}  // namespace

std::vector<HostRanks> parseHosts(const QString& text) {
  static const QRegularExpression form(R"(^([A-Za-z0-9][A-Za-z0-9._-]*)(?::(\d{1,4}))?$)");
  std::vector<HostRanks> hosts;
  const QStringList lines = text.split('\n');
  for (qsizetype i = 0; i < lines.size(); ++i) {
    const QString line = lines[i].section('#', 0, 0).trimmed();
    if (line.isEmpty()) continue;
    const QRegularExpressionMatch match = form.match(line);
    const int ranks = match.captured(2).isEmpty() ? 1 : match.captured(2).toInt();
    if (!match.hasMatch() || ranks < 1)
      throw std::runtime_error(QString("Line %1: \"%2\" is not a host; expected NAME or NAME:RANKS, such as node1:4")
                                   .arg(i + 1)
                                   .arg(line)
                                   .toStdString());
    hosts.push_back({match.captured(1), ranks});
  }
  if (hosts.empty()) throw std::runtime_error("No host is given");
  if (ranksOf(hosts) > kMostRanks) throw std::runtime_error("More than 1024 ranks");
  return hosts;
}

int ranksOf(const std::vector<HostRanks>& hosts) {
  int ranks = 0;
  for (const HostRanks& host : hosts) ranks += host.ranks;
  return ranks;
}

QString hostOfRank(const std::vector<HostRanks>& hosts, int rank) {
  for (const HostRanks& host : hosts) {
    if (rank < host.ranks) return host.name;
    rank -= host.ranks;
  }
  return {};
}

bool hostsAreNodes(const std::vector<HostRanks>& hosts) {
  return std::ranges::all_of(hosts, [&](const HostRanks& host) { return host.ranks == hosts.front().ranks; });
}

QStringList mpirunArguments(const HostPlan& plan) {
  QStringList hosts;
  for (const HostRanks& host : plan.hosts) hosts << QString("%1:%2").arg(host.name).arg(host.ranks);
  const QString ranks = QString::number(ranksOf(plan.hosts));
  QStringList arguments{"--tag-output", "--map-by", "slot", "--host",      hosts.join(','),
                        "-n",           ranks,      "-x",   kTokenVariable};
  const bool here = std::ranges::all_of(plan.hosts, [](const HostRanks& host) { return isThisMachine(host.name); });
  // mpirun would look for a remote shell, which a training on this machine alone does not need.
  if (here && !qEnvironmentVariableIsSet("OMPI_MCA_plm"))
    arguments << "--mca"
              << "plm"
              << "isolated";
  if (geteuid() == 0) arguments << "--allow-run-as-root";
  arguments << plan.program << "train"
            << "--config" << plan.config << "--ep" << ranks << "--steps" << QString::number(plan.steps) << "--out"
            << plan.recording << "--serve" << QString::number(plan.port);
  if (hostsAreNodes(plan.hosts)) arguments << "--ranks-per-node" << QString::number(plan.hosts.front().ranks);
  return arguments;
}

HostTraining::HostTraining(HostPlan plan, QObject* parent)
    : QObject(parent), plan_(std::move(plan)), token_(QString::fromStdString(new_feed_token())) {
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert(kTokenVariable, token_);
  process_.setProcessEnvironment(environment);
  process_.setProcessChannelMode(QProcess::MergedChannels);
  connect(&process_, &QProcess::readyRead, this, &HostTraining::read);
  connect(&process_, &QProcess::finished, this,
          [this](int status, QProcess::ExitStatus how) { finish(status, how == QProcess::CrashExit); });
  connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) emit ended(false, "mpirun cannot be started: " + process_.errorString());
  });
}

HostTraining::~HostTraining() {
  process_.disconnect(this);
  if (process_.state() == QProcess::NotRunning) return;
  process_.terminate();
  if (!process_.waitForFinished(kEndMs)) process_.kill();
  process_.waitForFinished(kEndMs);
}

void HostTraining::start() {
  const QString mpirun = QStandardPaths::findExecutable("mpirun");
  if (mpirun.isEmpty()) {
    emit ended(false, "mpirun is not installed here. On Debian: apt-get install openmpi-bin, on every host");
    return;
  }
  process_.start(mpirun, mpirunArguments(plan_));
}

void HostTraining::stop() {
  stopped_ = true;
  process_.terminate();
}

void HostTraining::read() {
  partial_ += process_.readAll();
  for (qsizetype end; (end = partial_.indexOf('\n')) >= 0;) {
    take(partial_.left(end));
    partial_.remove(0, end + 1);
  }
}

// Reads a line of the output: "[1,3]<stderr>:text" is from rank 3; a line without such a prefix is from mpirun.
void HostTraining::take(const QByteArray& bytes) {
  static const QRegularExpression tag(R"(^\[\d+,(\d+)\]<(stdout|stderr)>:\s?)");
  QString line = QString::fromUtf8(bytes).trimmed();
  const QRegularExpressionMatch match = tag.match(line);
  line.remove(0, match.capturedLength());
  if (match.captured(2) == "stdout") {
    if (line.startsWith("serving ")) emit serving();
    return;
  }
  const bool ruler = !line.isEmpty() && line.count('-') == line.size();
  if (line.isEmpty() || ruler) return;
  static const QRegularExpression killed(R"(process rank (\d+) with PID .* (exited on signal .*)\.$)");
  if (const auto of_rank = killed.match(line); !match.hasMatch() && of_rank.hasMatch())
    killed_ << ofRank(of_rank.captured(1).toInt(), of_rank.captured(2));
  QStringList& said = match.hasMatch() ? said_by_ranks_ : said_by_mpirun_;
  if (said.size() < kMostErrors)
    said << (match.hasMatch() ? ofRank(match.captured(1).toInt(), line) : "mpirun: " + line);
}

QString HostTraining::ofRank(int rank, const QString& text) const {
  return QString("%1 (rank %2): %3").arg(hostOfRank(plan_.hosts, rank)).arg(rank).arg(text);
}

// Returns why the training ended: the messages about killed ranks, then those of the ranks. mpirun's own messages,
// which only report that a rank is missing, are left out if it names a killed rank.
QString HostTraining::why(int status) const {
  QStringList lines = killed_ + said_by_ranks_;
  if (killed_.isEmpty()) lines += said_by_mpirun_;
  if (lines.isEmpty()) return QString("mpirun ended with status %1").arg(status);
  return lines.mid(0, kMostErrors).join('\n');
}

void HostTraining::finish(int status, bool crashed) {
  read();
  emit ended(stopped_, status == 0 && !crashed ? QString() : why(status));
}

}  // namespace moescope
