// trainer_state.json of Hugging Face's Trainer: the lines of its log_history, read as JSON lines (import_jsonl.h). Its
// other fields say how far the training is and what was saved: nothing of them changes a value of a step. A list of
// such lines alone, as json.dump(trainer.state.log_history) writes it, is read, too.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

bool begins_like_trainer_state(std::string_view bytes);

// Throws std::runtime_error: the file cannot be read, or holds no step.
Imported import_trainer_state(const std::string& path, const ImportOptions& options = {});
// Of its bytes. Throws Unreadable: not JSON, or without log_history.
Imported read_trainer_state(std::string_view bytes, const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
