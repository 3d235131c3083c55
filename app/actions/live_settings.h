// Shows the settings of the active run in every bar, and changes them while the run trains. Each change puts a mark on
// the timeline and can be undone. An expert placement that is tried out on a recording can be undone as well.
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

  void show();                                                        // shows the settings of the active run
  void change(int place, Setting setting, const ConfigValue& value);  // changes a setting of the run at `place`
  void changeActive(Setting setting, const ConfigValue& value);
  void focus(const QString& key);  // shows the setting in the live popover if it is live, else in the form

 signals:
  void formWanted();     // the set-up form should be shown
  void popoverWanted();  // the live popover should be shown

 private:
  void placeExperts(const QString& placement);

  QUndoStack* undo_;
  SetupForm* form_;
  LivePopover* popover_;
  ActionsDock* dock_;
};

}  // namespace moescope
