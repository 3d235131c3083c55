// Files of every kind into the window: dropped, chosen, named on the command line, or opened again.
#include <QDir>
#include <QFileInfo>
#include <QInputDialog>
#include <QMessageBox>
#include <QStandardPaths>
#include <stdexcept>

#include "app/bars/notice_bar.h"
#include "app/bars/status_line.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "core/files/assets.h"
#include "core/files/file_kind.h"
#include "core/io/whole_file.h"
#include "core/telemetry/logs/run_feed.h"

namespace moescope {

void MainWindow::openFiles(const QStringList& paths) {
  if (paths.isEmpty()) return;
  guarded([&] {
    std::vector<FileKind> kinds;
    for (const QString& path : paths) kinds.push_back(file_kind(path.toStdString()));
    if (std::ranges::all_of(kinds, holds_runs)) return session_.open(paths);
    if (paths.size() > 1) {
      QStringList lines{
          "Several files open together where each holds runs: recordings, logs, tables, events. These are:"};
      for (qsizetype i = 0; i < paths.size(); ++i)
        lines << QString("%1: %2").arg(QFileInfo(paths[i]).fileName(),
                                       QString(file_kind_name(kinds[static_cast<std::size_t>(i)])));
      return complain(lines.join('\n'));
    }
    openOther(paths.front());
  });
}

// The logs of assets/samples, which are built in, as files that can be opened like any.
void MainWindow::openSample() {
  guarded([&] {
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::CacheLocation) + "/samples";
    QStringList paths;
    for (const char* name : {"unbalanced_bf16.jsonl", "domain_shift.jsonl"}) {
      const QString path = folder + '/' + name;
      QDir().mkpath(folder);
      write_whole_file(path.toStdString(), asset(std::string("samples/") + name));
      paths << path;
    }
    openFiles(paths);
  });
}

// What holds no run.
void MainWindow::openOther(const QString& path) {
  switch (file_kind(path.toStdString())) {
    case FileKind::tensors:
      return openTensors(path);
    case FileKind::lesson:
      return startLesson(path);
    case FileKind::config:
      if (loadConfigIntoForm(path)) startTogether(load_config(path.toStdString()));
      return;
    default:
      RunConfig config = session_.hasConfig() ? session_.config() : form_->draft();
      config.data.path = path.toStdString();
      startRun(config);
  }
}

void MainWindow::askAttach() {
  bool given = false;
  const QString address = QInputDialog::getText(
      this, "Attach to a training",
      "HOST:PORT of a training that runs with --serve PORT.\nIt prints both this and the token that it made.",
      QLineEdit::Normal, "127.0.0.1:5000", &given);
  if (given) attach(address.trimmed());
}

void MainWindow::attach(const QString& address, QString token) {
  if (token.isEmpty()) token = qEnvironmentVariable(kTokenVariable);
  if (token.isEmpty())
    token = QInputDialog::getText(this, "Attach to a training", "Token of the training at " + address + ":",
                                  QLineEdit::Password);
  session_.attach(address, token);
}

void MainWindow::onGrowingEnded(const QString& why) {
  const bool attached = !session_.attachedTo().isEmpty();
  growing_ended_ = true;
  status_->showFollowing(attached ? "attached no more" : "recording, followed no more");
  notice_->showNotice((attached ? "Attached no more. " : "Followed no more. ") + why + '.');
  showConfigEverywhere();
  if (!attached || !why.contains("the training ended")) complain(why);
}

// Never a silent loss: what a log had that could not be read is told once it is open, and on demand, with its line
// numbers.
void MainWindow::sayWhatWasSkipped() {
  const std::vector<SkippedLines> files = session_.skipped();
  if (files.empty()) return;
  QStringList summaries, all;
  for (const SkippedLines& skipped : files) {
    const QString name = QFileInfo(QString::fromStdString(skipped.path)).fileName();
    summaries << name + ": " + QString::fromStdString(skipped.bad.summary(skipped.unit));
    all << name + "\n" + QString::fromStdString(skipped.bad.text(skipped.unit));
  }
  auto* box = new QMessageBox(QMessageBox::Information, "MoEScope",
                              summaries.join("\n") +
                                  "\n\nThey were skipped; everything else is open. File > Lines that could not be "
                                  "read shows them again.",
                              QMessageBox::Ok, this);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("skipped_lines");
  box->setDetailedText(all.join('\n'));
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->open();
}

}  // namespace moescope
