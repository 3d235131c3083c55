// Reads a run of W&B from its offline files, run-ID.wandb. Its keys are tags (tag_map.h), and its config is the run's
// settings.
//
// A training that was stopped and resumed has a file for each part, wandb/(offline-)run-TIME-ID/run-ID.wandb. The path
// of any part, or of its folder, opens the whole run; the folder above them opens all runs in it. Parts are read in the
// order of their folders' times; restart_rule.h describes repeated steps.
//
// A step is `_step`, which counts the calls of log(), unless the run defines another axis for its loss with
// define_metric(), as Hugging Face's callback does for all keys. A row then belongs to the step that its value of the
// axis gives, or else to that of the row before; rows before the first value have no step and are left out. A key with
// a third axis (such as epochs) is shown at the step of its row. Records without values over steps are not read
// (wandb.proto), nor are paths of event files whose values the history also has.
//
// The file begins with seven bytes: ":W&B", 0xBEE1, version 0. Pieces of records follow in blocks of 32 KiB. Each piece
// has a header, CRC-32 (zlib's, over type and payload) uint32, length uint16, type uint8 (1 whole record, 2 first part,
// 3 middle part, 4 last part), all little-endian, and a payload. If fewer than seven bytes are left in a block, they
// are padding. The joined payloads of a record are one protobuf Record (wandb.proto). Source: wandb/wandb,
// wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// `path`: the file of a run, its folder, or one of the three folders above. Throws std::runtime_error if the path
// cannot be read or has no key that the mapping knows (then with its keys).
Imported import_wandb(const std::string& path, const ImportOptions& options = {});

std::vector<std::string> wandb_files(const std::string& file);  // all parts of its run, oldest first

bool begins_like_wandb(std::string_view bytes);
bool is_wandb_folder(const std::string& folder);   // true for the folder of a run, or of runs
bool holds_wandb_runs(const std::string& folder);  // also true if the folders of runs are two levels further down

}  // namespace moescope
