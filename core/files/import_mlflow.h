// Runs of MLflow, from either of its local stores:
// - a folder for each run, mlruns/EXPERIMENT/RUN: meta.yaml, and files metrics/KEY of lines "milliseconds value step",
//   params/KEY and tags/KEY; a slash in a key is a folder (mlflow/store/tracking/file_store.py);
// - mlflow.db, SQLite, with all runs in it: tables runs, metrics, params (mlflow/store/tracking/dbmodels/models.py).
// What a key means the same mapping says as for TensorBoard's tags (tag_map.h).
#pragma once

#include <filesystem>
#include <string>

#include "core/telemetry/logs/import.h"

namespace moescope {

// `path`: the folder of a run, or a database; of that, runs that were not deleted and have a key that the mapping
// knows, the oldest first. Throws std::runtime_error: cannot be read; holds no key that the mapping knows.
Imported import_mlflow(const std::string& path, const ImportOptions& options = {});

bool is_mlflow_run(const std::filesystem::path& folder);

}  // namespace moescope
