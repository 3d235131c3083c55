// A training whose expert-parallel ranks run on several hosts. mpirun starts moescope-cli on the hosts; rank 0 writes
// the recording and serves its frames to this window.
#pragma once

#include <QByteArray>
#include <QObject>
#include <QProcess>
#include <QString>
#include <QStringList>
#include <vector>

namespace moescope {

struct HostRanks {
  QString name;
  int ranks = 1;
};
// Reads hosts such as "node1" or "node1:4" (4 ranks), one per line; ignores empty lines and text after #. Throws
// std::runtime_error, which names the wrong line.
std::vector<HostRanks> parseHosts(const QString& text);
int ranksOf(const std::vector<HostRanks>& hosts);
// Returns the host of a rank. Ranks fill the hosts in order, as mpirun maps them by slot.
QString hostOfRank(const std::vector<HostRanks>& hosts, int rank);
bool hostsAreNodes(const std::vector<HostRanks>& hosts);  // whether all hosts have equally many ranks and count as
                                                          // nodes; else all ranks count as one node

struct HostPlan {
  std::vector<HostRanks> hosts;  // hosts; rank 0 runs on the first
  QString program;               // path of moescope-cli on every host
  QString config, recording;     // paths in a folder that every host sees
  qint64 steps = 0;
  int port = 5000;
};
QStringList mpirunArguments(const HostPlan& plan);

class HostTraining : public QObject {
  Q_OBJECT

 public:
  HostTraining(HostPlan plan, QObject* parent);
  ~HostTraining() override;  // stops after the current step and closes the recording

  void start();
  void stop();  // stops after the current step
  const HostPlan& plan() const { return plan_; }
  const QString& token() const { return token_; }
  QString address() const { return QString("127.0.0.1:%1").arg(plan_.port); }

 signals:
  void serving();                         // the training serves its frames
  void ended(bool stopped, QString why);  // `why`: messages of the hosts; empty if all steps were taken

 private:
  void read();
  void take(const QByteArray& line);
  void finish(int status, bool crashed);
  QString ofRank(int rank, const QString& text) const;  // returns "node2 (rank 3): TEXT"
  QString why(int status) const;

  HostPlan plan_;
  QString token_;
  QProcess process_;
  QByteArray partial_;
  QStringList killed_, said_by_ranks_, said_by_mpirun_;
  bool stopped_ = false;
};

}  // namespace moescope
