#include "app/actions/source_status.h"

#include <QAction>
#include <QFileInfo>
#include <QMenu>
#include <QMessageBox>
#include <algorithm>

#include "app/actions/account_window.h"
#include "app/actions/close_question.h"
#include "app/bars/status_line.h"
#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/frame/frame.h"
#include "core/numerics/index.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

namespace moescope {
AccountActions::AccountActions(const Context& context, StatusLine* status) : Actions(context), status_(status) {
  connect(session_, &RunSession::opened, this, &AccountActions::onOpened);
  connect(session_, &RunSession::runsChanged, this, &AccountActions::showStatus);
  connect(session_, &RunSession::meaningWanted, this,
          [this](const QStringList& paths, const ImportAccount& account, const StatedLogs& stated) {
            paths_ = paths;
            agreed_ = session_->live();
            show({account}, stated);
          });
  connect(status_, &StatusLine::accountClicked, this, [this] {  // opens a log with names that the line counts
    if (!unread_.empty() && std::ranges::count(unread_, selection_->run()) == 0) selection_->setRun(unread_.front());
    showAccount();
  });
}

void AccountActions::addActionsTo(QMenu* menu) {
  QAction* read = menu->addAction("&What was read...", this, &AccountActions::showAccount);
  connect(menu, &QMenu::aboutToShow, this, [this, read] { read->setEnabled(!session_->accounts().empty()); });
  enableWhenClosed(menu, {read});
}

void AccountActions::showAccount() {
  std::vector<ImportAccount> accounts = session_->accounts();
  if (accounts.empty())
    return messages_->say("What was read lists the names in a log of another program: open such a log first");
  paths_ = session_->paths();
  show(std::move(accounts), session_->stated());
}

void AccountActions::onOpened() {
  showStatus();
  const std::vector<ImportAccount> accounts = session_->accounts();
  if (accounts.empty()) {
    if (window_) window_->hide();
  } else if ((window_ && window_->isVisible()) || std::ranges::any_of(accounts, &ImportAccount::to_confirm)) {
    showAccount();
  }
}

void AccountActions::showStatus() {
  qsizetype to_confirm = 0, left_out = 0;
  const std::vector<ImportAccount> accounts = session_->accounts();
  const bool one_for_each_run = accounts.size() > 1 && accounts.size() == session_->histories().size();
  QStringList by_run;
  unread_.clear();
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    to_confirm += accounts[i].to_confirm();
    qsizetype unread_names = 0;
    for (const AccountRow& row : accounts[i].rows)
      if (!row.is_shown && row.certainty == Certainty::unknown) unread_names += row.names;
    left_out += unread_names;
    if (!one_for_each_run || unread_names == 0) continue;
    by_run << QString("%1 %2").arg(runLetter(*selection_, static_cast<int>(i)), formatCount(unread_names));
    unread_.push_back(static_cast<int>(i));
  }
  status_->showAccount(to_int(to_confirm), to_int(left_out), !accounts.empty(), by_run.join(", "));
}

void AccountActions::show(std::vector<ImportAccount> accounts, const StatedLogs& stated) {
  if (!window_) {
    window_ = new AccountWindow(selection_, messages_->window());
    connect(window_, &AccountWindow::refused, messages_, &Messages::warn);
    connect(window_, &AccountWindow::stated, this, [this](const StatedLogs& logs) {
      const auto open = [this, logs] { session_->openStated(paths_, logs); };
      if (agreed_ == session_->live()) return open();  // nothing is open but the logs, or the user agreed before
      askToCloseTraining(*session_, *selection_, messages_->window(), open);
    });
  }
  window_->showAccounts(std::move(accounts), stated);
  window_->show();
  window_->raise();
}

namespace {

constexpr int kBeatMs = 200;

}  // namespace

SourceStatus::SourceStatus(const Context& context, StatusLine* status, NoticeBar* notice)
    : Actions(context), status_(status), notice_(notice) {
  connect(session_, &RunSession::opened, this, &SourceStatus::onOpened);
  connect(session_, &RunSession::runsChanged, this, [this] {  // or a large recording has been read to its end
    if (!session_->isLive() && !session_->isFollowing())
      status_->showState(session_->isSnapshot() ? "Snapshot, not following" : "Recording opened");
  });
  connect(session_, &RunSession::growingEnded, this, &SourceStatus::onGrowingEnded);
  connect(session_, &RunSession::openingStarted, this, &SourceStatus::begin);
  connect(session_, &RunSession::failed, this, [this] {
    timer_.stop();
    status_->showState("Ready");
  });
  timer_.setInterval(kBeatMs);
  timer_.setObjectName("beats");
  connect(&timer_, &QTimer::timeout, this, &SourceStatus::beat);
}

void SourceStatus::addActionsTo(QMenu* menu) {
  QAction* skipped = menu->addAction("&Lines that could not be read...", this, &SourceStatus::showSkippedLines);
  skipped->setEnabled(false);
  connect(menu, &QMenu::aboutToShow, this, [this, skipped] { skipped->setEnabled(!session_->skipped().empty()); });
}

void SourceStatus::onOpened() {
  timer_.stop();
  notice_->showNotice(session_->isLive() ? QString() : session_->missing().join('\n'));
  if (session_->isLive()) {
    begin("First step");
    return beat();
  }
  // A followed log has no run before its first step.
  const auto& histories = session_->histories();
  if (!histories.empty() && run_origin(histories.front()->info()) == RunOrigin::checkpoint) offerQuestions();
  if (session_->isSnapshot()) {
    offerToFollow();
    status_->showState("Snapshot, not following");
  } else {
    status_->showState(session_->canGrow() ? "Recording opened" : "Log opened");
  }
  // The box opens in front of What was read, which may be shown for the same log.
  QMetaObject::invokeMethod(this, &SourceStatus::showSkippedLines, Qt::QueuedConnection);
}

// Offers what can be asked about a checkpoint after texts were run through it.
void SourceStatus::offerQuestions() {
  const auto ask = [this](Workspace* workspace, Panel* panel) {
    return [this, workspace, panel] { workspaces_->bringUp(workspace, panel); };
  };
  TextWorkspace* text = workspaces_->text();
  MicroscalingWorkspace* formats = workspaces_->microscaling();
  const QString before = notice_->isVisible() ? notice_->text() + '\n' : QString();
  notice_->offer(before + "The texts were run through the model. What can be asked next:",
                 {{"Experts of each token", ask(text, text->findChild<TokensAndSamplePanel*>())},
                  {"Experts that can be removed", ask(text, text->findChild<SpecialisationPanel*>())},
                  {"Costs of number formats", ask(formats, formats->findChild<OperandCostsPanel*>())}});
}

void SourceStatus::offerToFollow() {
  QStringList names;
  for (const QString& path : session_->paths()) names << QFileInfo(path).fileName();
  notice_->offer("Snapshot, not following: " + names.join(", "),
                 {{"Follow", [this] { session_->open(QStringList(session_->paths())); }}});
}

void SourceStatus::onGrowingEnded(const QString& reason) {
  status_->showState("Recording opened, no longer followed");
  notice_->showNotice("No longer followed. " + reason + '.');
  messages_->warn(reason);
}

void SourceStatus::showProgress() {
  if (session_->isFollowing()) status_->showState(session_->followingText(), StatusLine::Dot::good);
  if (const double share = session_->fillingShare(); share >= 0)
    status_->showState(QString("Reading the recording: %1 %").arg(static_cast<int>(100 * share)));
}

void SourceStatus::begin(const QString& what) {
  what_ = what;
  elapsed_.start();
  timer_.start();
  showBeat();
}

void SourceStatus::showBeat() {
  status_->showState(QString("%1... %2 s").arg(what_).arg(elapsed_.elapsed() / 1000));
}

bool SourceStatus::firstStepIsTaken() const {
  const LiveStatus status = session_->live()->status();
  return status.step > 0 || !status.error.empty() || !session_->histories().front()->steps().empty();
}

// Updates the time that is shown. Stops if a run is paused before its first step: then the program waits for the user.
void SourceStatus::beat() {
  if (!session_->opening()) {
    if (!session_->isLive() || firstStepIsTaken()) return timer_.stop();
    if (const LiveStatus status = session_->live()->status(); !status.running) {
      timer_.stop();
      return status_->showTraining(status, to_int(session_->histories().size()), session_->isFinished());
    }
  }
  showBeat();
}

void SourceStatus::showStatus(const LiveStatus& status) {
  if (timer_.isActive()) return;
  if (status.running && !firstStepIsTaken()) return begin("First step");
  status_->showTraining(status, to_int(session_->histories().size()), session_->isFinished());
}

// Shows once after opening, and on demand, which lines of the logs could not be read, with their numbers.
void SourceStatus::showSkippedLines() {
  const std::vector<SkippedLines> files = session_->skipped();
  if (files.empty()) return;
  QStringList summaries, all;
  for (const SkippedLines& skipped : files) {
    const QString name = QFileInfo(QString::fromStdString(skipped.path)).fileName();
    summaries << name + ": " + QString::fromStdString(skipped.bad.summary());
    all << name + "\n" + QString::fromStdString(skipped.bad.text());
  }
  auto* box = new QMessageBox(QMessageBox::Information, "MoEScope",
                              summaries.join("\n") +
                                  "\n\nThey were skipped; everything else is open. File > Lines that could not be "
                                  "read shows them again.",
                              QMessageBox::Ok, frontOf(messages_->window()));
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("skipped_lines");
  box->setDetailedText(all.join('\n'));
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->open();
}

}  // namespace moescope
