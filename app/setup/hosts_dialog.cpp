#include "app/setup/hosts_dialog.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDialogButtonBox>
#include <QDir>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSettings>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "app/look/dialog_parts.h"
#include "app/session/settings.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr const char* kHostsKey = "hosts/list";
constexpr const char* kFolderKey = "hosts/folder";
constexpr const char* kProgramKey = "hosts/program";

QString cliBesideThisProgram() {
  return QDir(QCoreApplication::applicationDirPath()).filePath("moescope-cli");
}

}  // namespace

HostsDialog::HostsDialog(const QString& folder, qint64 steps, QWidget* parent)
    : QDialog(parent),
      hosts_(new QPlainTextEdit),
      program_(new QLineEdit),
      folder_(new QLineEdit),
      steps_(new QSpinBox),
      port_(new QSpinBox),
      problem_(problemText()),
      answer_(new QLabel),
      command_(new QPlainTextEdit),
      start_(nullptr) {
  setWindowTitle("Train on hosts");
  answer_->setWordWrap(true);
  const QSettings settings = moescope::settings();
  hosts_->setPlainText(settings.value(kHostsKey, "localhost:2").toString());
  hosts_->setToolTip(
      "mpirun reaches the other hosts by ssh without a password. The first host is this machine: rank 0 writes the "
      "recording and serves this window");
  hosts_->setFixedHeight(fontMetrics().lineSpacing() * 5);
  hosts_->setTabChangesFocus(true);
  program_->setText(settings.value(kProgramKey, cliBesideThisProgram()).toString());
  program_->setToolTip("The path of moescope-cli on every host, of the same version");
  const QString last = settings.value(kFolderKey).toString();
  folder_->setText(QFileInfo(last).isDir() ? last : folder);
  folder_->setToolTip("A folder that every host has under this path, for the settings and the recording");
  steps_->setRange(1, 1000000000);
  steps_->setGroupSeparatorShown(true);
  steps_->setValue(static_cast<int>(std::min<qint64>(steps, 1000000000)));
  port_->setRange(1024, 65535);
  port_->setValue(5000);
  port_->setToolTip("On this machine, for this window alone (127.0.0.1)");
  command_->setReadOnly(true);
  command_->setFixedHeight(fontMetrics().lineSpacing() * 4);
  command_->setFont(formulaFont(font()));
  command_->setTabChangesFocus(true);
  command_->setToolTip("The command that starts the training; it can be copied");

  QGridLayout* fields = fieldGrid();
  addField(fields, "&Hosts", hosts_);
  addField(fields, "Shared &folder", folder_);
  addField(fields, "&Steps", steps_);
  addField(fields, "&Program", program_);
  addField(fields, "P&ort", port_);
  addField(fields, "Command", command_);
  QDialogButtonBox* buttons = dialogButtons(this, "&Train", &start_);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    QSettings kept = moescope::settings();
    kept.setValue(kHostsKey, hosts_->toPlainText());
    kept.setValue(kFolderKey, folder_->text());
    kept.setValue(kProgramKey, program_->text());
    emit planned(plan());
    accept();
  });
  auto* column = dialogColumn(this, "Train on hosts", "settings of the set-up, by mpirun");
  column->addWidget(quietText("One host a line: NAME, or NAME:RANKS. The first host is this machine."));
  column->addLayout(fields);
  column->addWidget(problem_);
  column->addWidget(answer_);
  column->addWidget(buttons);
  connect(hosts_, &QPlainTextEdit::textChanged, this, &HostsDialog::look);
  for (QLineEdit* edit : {program_, folder_}) connect(edit, &QLineEdit::textChanged, this, &HostsDialog::look);
  for (QSpinBox* box : {steps_, port_}) connect(box, &QSpinBox::valueChanged, this, &HostsDialog::look);
  resize(680, sizeHint().height());
  look();
}

HostPlan HostsDialog::plan() const {
  HostPlan plan;
  plan.hosts = parseHosts(hosts_->toPlainText());
  const int ranks = ranksOf(plan.hosts);
  if (!std::has_single_bit(static_cast<unsigned>(ranks)))
    throw std::runtime_error(std::to_string(ranks) +
                             " ranks: the number must be a power of two, so that the order of sums is fixed");
  plan.program = program_->text().trimmed();
  if (plan.program.isEmpty()) throw std::runtime_error("The path of the program is missing");
  const QFileInfo folder(folder_->text().trimmed());
  if (!folder.isDir() || !folder.isWritable())
    throw std::runtime_error((folder_->text() + " is not a folder that can be written to").toStdString());
  const QString name = QDateTime::currentDateTime().toString("yyyyMMdd-HHmmss") + "-hosts";
  const QDir dir(folder.absoluteFilePath());
  plan.config = dir.filePath(name + ".toml");
  plan.recording = dir.filePath(name + ".moescope");
  plan.steps = steps_->value();
  plan.port = port_->value();
  return plan;
}

void HostsDialog::look() {
  QString problem;
  try {
    const HostPlan plan = this->plan();
    command_->setPlainText("mpirun " + mpirunArguments(plan).join(' '));
    const int ranks = ranksOf(plan.hosts);
    answer_->setText(
        QString("%1 on %2. Experts and sequences are spread over the ranks; the results equal those of one process, "
                "to the bit.%3")
            .arg(ranks == 1 ? QString("1 rank") : QString("%1 ranks").arg(ranks))
            .arg(plan.hosts.size() == 1 ? QString("1 host") : QString("%1 hosts").arg(plan.hosts.size()))
            .arg(hostsAreNodes(plan.hosts) ? ""
                                           : " Bytes are counted as inside one node: the hosts have different numbers "
                                             "of ranks."));
  } catch (const std::runtime_error& wrong) {
    command_->clear();
    problem = QString::fromUtf8(wrong.what());
    problem += '.';
  }
  answer_->setVisible(problem.isEmpty());
  showProblem(problem_, problem);
  start_->setEnabled(problem.isEmpty());
}

}  // namespace moescope
