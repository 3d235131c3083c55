// A job that runs in a thread, with a progress bar and a cancel button.
#pragma once

#include <QProgressDialog>
#include <atomic>
#include <functional>
#include <thread>

namespace moescope {

class ProgressJob : public QProgressDialog {
  Q_OBJECT

 public:
  // `work` runs in its own thread. It calls progress(0..1), stops when that returns false, and returns whether it
  // finished. The job then deletes itself. A failure after Cancel is not told.
  using Work = std::function<bool(const std::function<bool(double)>& progress)>;
  ProgressJob(const QString& what, QWidget* window, Work work);
  ~ProgressJob() override;  // cancels and waits

 signals:
  void workDone();
  void failed(QString message);

 private:
  void end(bool complete, const QString& problem);
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

}  // namespace moescope
