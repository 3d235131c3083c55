// The bar at the top: the open run, and run, pause, step and reset.
#pragma once

#include <QToolBar>
#include <optional>

#include "core/config/run_config.h"
#include "core/training/lab/lab_status.h"

class QAction;
class QComboBox;
class QLabel;
class QLineEdit;

namespace moescope {

class PresetList;
class RunChips;

QString runSummary(const RunConfig& config);        // "experts in fp32, top-2 of 16, sigmoid, bias 0.001"
QString balancingSummary(const RunConfig& config);  // "bias 0.001 + sequence loss 0.0001"

class RunBar : public QToolBar {
  Q_OBJECT

 public:
  explicit RunBar(QWidget* parent = nullptr);

  QAction* runAction() const { return run_; }
  QAction* stepAction() const { return step_; }
  QAction* resetAction() const { return reset_; }
  QAction* setupAction() const { return setup_; }
  RunChips* chips() const { return chips_; }
  PresetList* presets() const { return preset_; }

  void showNothing();
  void showFollowing(const QString& name);  // a log that another program writes
  void showRun(const RunConfig& config);
  // "recording x.moescope", "attached to 127.0.0.1:5000"
  void showRecording(const QString& what, const RunConfig* config);
  void showReplay(bool playing, std::int64_t step);  // of a recording
  void showStatus(const LabStatus& status);          // a run in training only
  void showUntil(std::optional<qint64> step);

 signals:
  void runRequested(bool run);
  void stepRequested();
  void resetRequested();
  void speedRequested(double steps_per_s);          // 0: as fast as it can
  void untilRequested(std::optional<qint64> step);  // nullopt: no end
  void presetRequested(QString name);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void makeActions();
  void makePreset();
  void makePace();
  void makeChips();
  void onUntilEdited();
  void drawPictures();
  void setRunning(bool running);
  void setControlsEnabled(bool live);

  QAction *run_, *step_, *reset_, *setup_;
  QComboBox* speed_;
  PresetList* preset_;
  QLineEdit* until_;
  QLabel *count_, *summary_;
  RunChips* chips_;
  bool running_ = false;
};

}  // namespace moescope
