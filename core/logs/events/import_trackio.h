// Reads the runs in a database of Trackio, the tracker of transformers: PROJECT.db, an SQLite file. A row of the table
// metrics (run_name, step, metrics) holds a JSON object, which is read as a line of JSON (import_jsonl.h) in the order
// in which it was logged; a row of the table configs (run_name, config) has the settings of a run. System metrics,
// alerts and media are not read.
#pragma once

#include "core/files/sqlite.h"
#include "core/logs/import.h"

namespace moescope {

bool is_trackio(Connection& database);
// Throws std::runtime_error if the database cannot be read or has no step, RefusedLog if no name is known.
Imported import_trackio(Connection& database, const ImportOptions& options);

}  // namespace moescope
