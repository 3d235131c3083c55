// A change of one live setting that can be undone: undo posts the reverse change, with a marker of its own.
#pragma once

#include <QUndoCommand>

#include "core/config/run_config.h"

namespace moescope {

class RunSession;

class LiveChangeCommand : public QUndoCommand {
 public:
  LiveChangeCommand(RunSession* session, int run, const ConfigField& field, ConfigValue from, ConfigValue to);
  void undo() override;
  void redo() override;

 private:
  void post(const ConfigValue& value);

  RunSession* session_;
  int run_;
  std::string key_;
  ConfigValue from_, to_;
};

}  // namespace moescope
