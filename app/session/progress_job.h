// Work of seconds beside the window, with a bar and a way to cancel.
#pragma once

#include <QProgressDialog>
#include <atomic>
#include <functional>
#include <thread>

namespace moescope {

class ProgressJob : public QProgressDialog {
  Q_OBJECT

 public:
  // `work` runs on a thread of its own; it calls progress(0..1), stops when that returns false, and returns whether it
  // came to its end. The job deletes itself.
  using Work = std::function<bool(const std::function<bool(double)>& progress)>;
  ProgressJob(const QString& what, QWidget* window, Work work);
  ~ProgressJob() override;  // cancels and waits

 signals:
  void done();
  void failed(QString message);

 private:
  void end(bool complete, const QString& problem);
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

}  // namespace moescope
