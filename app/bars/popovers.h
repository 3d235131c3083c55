// Popovers of the window bar: the pace of a run, and its live settings.
#pragma once

#include <QFrame>
#include <map>
#include <optional>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QVBoxLayout;

namespace moescope {

class FieldEditor;

// A frame with rows of a label and a field. It opens under a button of the bar and closes with Escape or a click
// elsewhere.
class Popover : public QFrame {
  Q_OBJECT

 public:
  Popover(const QString& title, QWidget* parent);

  void openUnder(QWidget* anchor);  // aligns the right edges of both, then moves the popover into the screen

 protected:
  QLabel* addRow(const QString& name, QWidget* field);
  void setNote(const QString& text);  // secondary text beside the title
  QVBoxLayout* column() const { return column_; }

  void keyPressEvent(QKeyEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  QVBoxLayout* column_;
  QGridLayout* rows_;
  QLabel* note_;
};

// A popover for the speed of a run and for the step before which the run pauses.
class PacePopover : public Popover {
  Q_OBJECT

 public:
  explicit PacePopover(QWidget* parent = nullptr);

  void showUntil(std::optional<qint64> step);
  void setTraining(bool training);  // false: a replay, which has no field for the end

 signals:
  void speedRequested(double steps_per_s);          // 0: as fast as possible
  void untilRequested(std::optional<qint64> step);  // nullopt: no end

 private:
  void onUntilEdited();

  QComboBox* speed_;
  QLineEdit* until_;
  QLabel *until_name_, *words_;
};

// The most used live settings of the model in training. Each change puts a mark on the timeline and can be undone.
class LivePopover : public Popover {
  Q_OBJECT

 public:
  explicit LivePopover(QWidget* parent = nullptr);

  // Shows the settings of the active run; nullptr: no run. Unless `live`, they cannot be changed.
  void showConfig(const RunConfig* config, bool live);
  // letter of the run whose settings are changed; empty: there is only one run
  void showRun(const QString& letter) { setNote(letter.isEmpty() ? QString() : "run " + letter); }
  void showProblem(const QString& problem);    // shows why a value was refused; empty: no value was refused
  FieldEditor* editor(Setting setting) const;  // nullptr: the popover has no such setting

 signals:
  void changeRequested(moescope::Setting setting, moescope::ConfigValue value);
  // Requests a twin of run A with this value.
  void twinRequested(moescope::Setting setting, moescope::ConfigValue value);
  // Requests a twin with another value of the setting; nullopt: the user chooses the setting.
  void compareRequested(std::optional<moescope::Setting> setting);
  void allSettingsRequested();
  void undoRequested();
  void redoRequested();

 protected:
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void addField(Setting setting);
  void addFoot();
  void onCommitted(FieldEditor* editor);

  bool live_ = false;
  std::map<Setting, FieldEditor*> editors_;
  std::map<Setting, QLabel*> names_;
  QLabel* problem_ = nullptr;
};

}  // namespace moescope
