// Reads runs from either of MLflow's local stores, in the order of the times at which the values were logged; and
// databases of Trackio.
//
// A folder for each run, mlruns/EXPERIMENT/RUN (mlflow/store/tracking/file_store.py):
//   metrics/KEY       lines "milliseconds value step"; without a step, the step is 0. A slash in a key is a folder
//   params/KEY        the run's settings
//   tags/mlflow.runName, or run_name in meta.yaml
//                     the run's name. A deleted run (lifecycle_stage) is read if it is opened
// mlflow.db, an SQLite file with all runs (mlflow/store/tracking/dbmodels/models.py):
//   runs              run_uuid, name, lifecycle_stage (only "active" runs are read), start_time (their order)
//   metrics           key, value, timestamp, step, is_nan. Infinity is stored as the greatest number
//   params            key, value: the run's settings
#pragma once

#include <filesystem>
#include <string>

#include "core/logs/import.h"

namespace moescope {

inline constexpr int kDeepestMlflowKey = 32;  // slashes in a key that is read

// `path`: the folder of a run, or a database. Of a database, reads the runs that are not deleted and have a key that
// the mapping knows, oldest first; options.only has names or ids of runs. Throws std::runtime_error if the path cannot
// be read or has no key that the mapping knows.
Imported import_mlflow(const std::string& path, const ImportOptions& options = {});

bool is_mlflow_run(const std::filesystem::path& folder);

}  // namespace moescope
