#include "app/session/progress_job.h"

#include <exception>

namespace moescope {

namespace {

constexpr int kJobSteps = 1000, kShowJobAfterMs = 500;

}  // namespace

ProgressJob::ProgressJob(const QString& what, QWidget* window, Work work)
    : QProgressDialog(what, "Cancel", 0, kJobSteps, window) {
  setWindowModality(Qt::WindowModal);
  setMinimumDuration(kShowJobAfterMs);
  setAutoReset(false);
  setAutoClose(false);
  setValue(0);
  connect(this, &QProgressDialog::canceled, this, [this] { cancelled_ = true; });
  thread_ = std::thread([this, work = std::move(work)] {
    bool complete = false;
    QString problem;
    try {
      complete = work([this](double share) {
        QMetaObject::invokeMethod(
            this, [this, share] { setValue(static_cast<int>(kJobSteps * share)); }, Qt::QueuedConnection);
        return !cancelled_.load();
      });
    } catch (const std::exception& e) {
      problem = QString::fromUtf8(e.what());
    }
    QMetaObject::invokeMethod(
        this, [this, complete, problem] { end(complete, problem); }, Qt::QueuedConnection);
  });
}

ProgressJob::~ProgressJob() {
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
}

void ProgressJob::end(bool complete, const QString& problem) {
  thread_.join();
  hide();
  if (!problem.isEmpty() && !cancelled_)
    emit failed(problem);
  else if (complete)
    emit workDone();
  deleteLater();
}

}  // namespace moescope
