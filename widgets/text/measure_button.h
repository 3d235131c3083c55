// A button that starts a measurement and cancels it while it runs, and the texts about the measurement.
#pragma once

#include <QPushButton>

namespace moescope {

class MeasureButton : public QPushButton {
  Q_OBJECT

 public:
  explicit MeasureButton(const QString& tool_tip, QWidget* parent) : QPushButton("Measure", parent) {
    setToolTip(tool_tip);
    hide();
    connect(this, &QPushButton::clicked, this, [this] { busy() ? emit cancelled() : emit requested(); });
  }
  void showProgress(const QString& progress) { set(progress, {}); }
  void showRefused(const QString& reason) { set({}, reason); }
  void showDone() { showProgress({}); }
  bool busy() const { return !progress_.isEmpty(); }
  const QString& progress() const { return progress_; }  // empty: no measurement runs
  const QString& refused() const { return refused_; }    // why the last measurement failed or was cancelled; else empty

 signals:
  void requested();
  void cancelled();
  void changed();  // the texts have changed

 private:
  void set(const QString& progress, const QString& refused) {
    progress_ = progress;
    refused_ = refused;
    setText(busy() ? QString("Cancel") : QString("Measure"));
    emit changed();
  }

  QString progress_, refused_;
};

}  // namespace moescope
