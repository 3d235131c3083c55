#include "app/setup/live_change_command.h"

#include "app/session/run_session.h"

namespace moescope {

LiveChangeCommand::LiveChangeCommand(RunSession* session, int run, const ConfigField& field, ConfigValue from,
                                     ConfigValue to)
    : session_(session), run_(run), key_(field.key), from_(std::move(from)), to_(std::move(to)) {
  setText(QString("%1 %2 to %3")
              .arg(QString::fromStdString(key_), QString::fromStdString(to_string(from_)),
                   QString::fromStdString(to_string(to_))));
}

void LiveChangeCommand::undo() {
  post(from_);
}
void LiveChangeCommand::redo() {
  post(to_);
}

// An undo that is no longer valid (top_k after another change of the groups) is removed from the stack.
void LiveChangeCommand::post(const ConfigValue& value) {
  if (!session_->change({.run = run_, .key = key_, .value = value}).isEmpty()) setObsolete(true);
}

}  // namespace moescope
