// A popover with the most used live settings of the model in training. Each change puts a mark on the timeline and can
// be undone.
#pragma once

#include <map>
#include <optional>

#include "app/bars/popover.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QLabel;

namespace moescope {

class FieldEditor;

class LivePopover : public Popover {
  Q_OBJECT

 public:
  explicit LivePopover(QWidget* parent = nullptr);

  // Shows the settings of the active run; nullptr: no run. Unless `live`, they cannot be changed.
  void showConfig(const RunConfig* config, bool live);
  void showRun(const QString& letter);  // letter of the run whose settings are changed; empty: there is only one run
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
