// The most used live settings of the model in training: each change is a marker on the timeline and can be undone.
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

  void showConfig(const RunConfig* config, bool live);  // nullptr: none; not live: off
  void showRun(const QString& letter);                  // the run that is changed; empty: there is only one
  void showProblem(const QString& problem);             // empty: none
  FieldEditor* editor(Setting setting) const;           // nullptr: it has none

 signals:
  void changeRequested(moescope::Setting setting, moescope::ConfigValue value);
  void twinRequested(moescope::Setting setting, moescope::ConfigValue value);  // a twin of run A with this value
  void compareRequested(std::optional<moescope::Setting> setting);             // a twin with another value
  void allSettingsRequested();
  void undoRequested();
  void redoRequested();

 protected:
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void addField(Setting setting, const QString& label);
  void addFoot();
  void onCommitted(FieldEditor* editor);

  bool live_ = false;
  std::map<Setting, FieldEditor*> editors_;
  std::map<Setting, QLabel*> names_;
  std::map<Setting, QString> tip_of_;  // of each field
  QLabel* problem_ = nullptr;
};

}  // namespace moescope
