// The settings of the active run: shown in every bar, and changed in a model in training, each change with a marker on
// the timeline. What was changed can be undone, and so can an expert placement that is tried out on a recording.
#pragma once

#include <QString>

#include "app/actions/actions.h"
#include "core/config/config_field.h"

class QUndoStack;

namespace moescope {

class ActionsDock;
class LivePopover;
class SetupForm;

class LiveSettings : public Actions {
  Q_OBJECT

 public:
  LiveSettings(const Context& context, QUndoStack* undo, SetupForm* form, LivePopover* popover, ActionsDock* dock);

  void show();                                                        // those of the active run
  void change(int place, Setting setting, const ConfigValue& value);  // of the run at `place`
  void changeActive(Setting setting, const ConfigValue& value);
  void focus(const QString& key);  // where it can be changed at once, else in the form

 signals:
  void formWanted();     // on the screen
  void popoverWanted();  // the same

 private:
  void placeExperts(const QString& placement);
  QString purposeOfForm() const;

  QUndoStack* undo_;
  SetupForm* form_;
  LivePopover* popover_;
  ActionsDock* dock_;
};

}  // namespace moescope
