#include "app/actions/heartbeat.h"

#include "app/bars/status_line.h"
#include "app/session/run_session.h"

namespace moescope {

namespace {

constexpr int kBeatMs = 200;

}  // namespace

Heartbeat::Heartbeat(RunSession* session, StatusLine* status, QObject* parent)
    : QObject(parent), session_(session), status_(status) {
  timer_.setInterval(kBeatMs);
  timer_.setObjectName("beats");
  connect(&timer_, &QTimer::timeout, this, &Heartbeat::beat);
  connect(session_, &RunSession::openingStarted, this, &Heartbeat::begin);
  connect(session_, &RunSession::failed, this, [this] {
    timer_.stop();
    status_->showState("Ready");
  });
  connect(session_, &RunSession::opened, this, [this] {
    timer_.stop();
    if (!session_->isLive()) return;
    begin("First step");
    beat();
  });
}

void Heartbeat::begin(const QString& what) {
  what_ = what;
  since_.start();
  timer_.start();
  show();
}

void Heartbeat::show() {
  status_->showState(QString("%1... %2 s").arg(what_).arg(since_.elapsed() / 1000));
}

bool Heartbeat::firstStepIsTaken() const {
  const LiveStatus status = session_->live()->status();
  return status.step > 0 || !status.error.empty() || !session_->histories().front()->steps().empty();
}

// Stops while a run is paused before its first step: it waits for the user, not for the program.
void Heartbeat::beat() {
  if (!session_->opening()) {
    if (!session_->isLive() || firstStepIsTaken()) return timer_.stop();
    if (const LiveStatus status = session_->live()->status(); !status.running) {
      timer_.stop();
      return status_->showTraining(status, static_cast<int>(session_->histories().size()));
    }
  }
  show();
}

void Heartbeat::showStatus(const LiveStatus& status) {
  if (timer_.isActive()) return;
  if (status.running && !firstStepIsTaken()) return begin("First step");
  status_->showTraining(status, static_cast<int>(session_->histories().size()));
}

}  // namespace moescope
