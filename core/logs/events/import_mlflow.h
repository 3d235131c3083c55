// Runs of MLflow, from either of its local stores. What a key means the same mapping says as for TensorBoard's tags
// (tag_map.h); steps that come twice: restart_rule.h, by the times at which the values were logged.
//
// A folder for each run, mlruns/EXPERIMENT/RUN (mlflow/store/tracking/file_store.py):
//   metrics/KEY       yes: lines "milliseconds value step"; a slash in a key is a folder. Without a step: step 0
//   params/KEY        yes, the run's settings
//   tags/KEY          mlflow.runName, the run's name; others are texts
//   meta.yaml         run_name where there is no such tag; not times, status, lifecycle_stage (a deleted run that is
//                     opened is meant), experiment, user: no value depends on them
//   artifacts, inputs, outputs, traces, models
//                     no: files of any kind, data sets and models, none of them values over steps
// mlflow.db, SQLite, with all runs in it (mlflow/store/tracking/dbmodels/models.py):
//   runs              run_uuid, name, lifecycle_stage ("active" ones), start_time (their order)
//   metrics           key, value, timestamp, step, is_nan. Infinity is stored as the greatest number
//   params            key, value: the run's settings
//   latest_metrics    no: of each key the last value, which metrics has, too
//   experiments       no: deleting one deletes its runs, which their lifecycle_stage says
//   tags, experiment_tags, datasets, inputs, input_tags, logged_models and their metrics, params and tags, trace_...,
//   spans, assessments, entity_associations, registered_models, model_versions, webhooks, ...
//                     no: texts, other things than runs, and copies of values for a stored model
#pragma once

#include <filesystem>
#include <string>

#include "core/logs/import.h"

namespace moescope {

// `path`: the folder of a run, or a database; of that, runs that were not deleted and have a key that the mapping
// knows, the oldest first. options.only names runs by name or id. Throws std::runtime_error: cannot be read; holds no
// key that the mapping knows.
Imported import_mlflow(const std::string& path, const ImportOptions& options = {});

bool is_mlflow_run(const std::filesystem::path& folder);

}  // namespace moescope
