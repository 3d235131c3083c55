#include "app/actions/host_actions.h"

#include <QAction>
#include <QFileInfo>
#include <QMenu>
#include <stdexcept>
#include <utility>

#include "app/bars/notice_bar.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/setup/hosts_dialog.h"
#include "app/setup/setup_form.h"
#include "core/config/config_toml.h"
#include "core/io/whole_file.h"

namespace moescope {

HostActions::HostActions(const Context& context, SetupForm* form, NoticeBar* notice)
    : Actions(context), form_(form), notice_(notice) {}

void HostActions::addActionsTo(QMenu* menu) {
  QAction* train = menu->addAction("Train on &hosts...", this, &HostActions::ask);
  train->setToolTip("Train with the settings of the set-up on this machine and others, by mpirun");
  stop_ = menu->addAction("Stop the training on hosts", this, [this] {
    if (training_) training_->stop();
  });
  stop_->setToolTip("Stop after the current step; the recording is kept");
  stop_->setEnabled(false);
}

void HostActions::stopNow() {
  training_.reset();
}

void HostActions::ask() {
  if (training_) return notice_->showNotice("A training on hosts is running already: Run > Stop the training on hosts");
  const RunConfig config = form_->draft();
  auto* dialog = new HostsDialog(recordingsFolder(), config.optimizer.total_steps, messages_->window());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &HostsDialog::planned, this, &HostActions::start);
  dialog->open();
}

void HostActions::start(HostPlan plan) {
  try {
    write_whole_file(plan.config.toStdString(), to_toml(form_->draft()));
  } catch (const std::runtime_error& problem) {
    return messages_->warn(QString::fromUtf8(problem.what()));
  }
  notice_->showNotice(QString("%1 ranks are starting on %2 hosts...").arg(ranksOf(plan.hosts)).arg(plan.hosts.size()));
  training_ = std::make_unique<HostTraining>(std::move(plan), nullptr);
  connect(training_.get(), &HostTraining::serving, this, [this] {
    notice_->showNotice({});
    session_->attach(training_->address(), training_->token());
  });
  // Queued, since end() deletes the sender.
  connect(training_.get(), &HostTraining::ended, this, &HostActions::end, Qt::QueuedConnection);
  stop_->setEnabled(true);
  training_->start();
}

void HostActions::end(bool stopped, const QString& why) {
  const QString recording = training_->plan().recording;
  training_.reset();
  stop_->setEnabled(false);
  const QString name = QFileInfo(recording).fileName();
  const auto open = [this, recording] { session_->open({recording}); };
  if (stopped || why.isEmpty()) {
    notice_->offer(QString(stopped ? "The training on hosts was stopped: %1."
                                   : "The training on hosts has finished all steps: %1.")
                       .arg(name),
                   "Open the recording", open);
  } else {
    notice_->showNotice({});
    messages_->warn("The training on hosts has failed:\n" + why);
  }
}

}  // namespace moescope
