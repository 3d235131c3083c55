// Runs of MLflow from either of its local stores. The mapping of TensorBoard's tags (tag_map.h) gives the meaning of a
// key. Repeated steps follow restart_rule.h, in the order of the times at which the values were logged.
//
// A folder for each run, mlruns/EXPERIMENT/RUN (mlflow/store/tracking/file_store.py):
//   metrics/KEY       yes: lines "milliseconds value step"; a slash in a key is a folder. Without a step: step 0
//   params/KEY        yes, the run's settings
//   tags/KEY          mlflow.runName, the run's name; others are texts
//   meta.yaml         run_name if there is no such tag; not times, status, experiment and user, on which no value
//                     depends, and not lifecycle_stage: a deleted run is read if it is opened
//   artifacts, inputs, outputs, traces, models
//                     no: files of any kind, data sets and models, without values over steps
// mlflow.db, an SQLite file with all runs (mlflow/store/tracking/dbmodels/models.py):
//   runs              run_uuid, name, lifecycle_stage ("active" runs), start_time (their order)
//   metrics           key, value, timestamp, step, is_nan. Infinity is stored as the greatest number
//   params            key, value: the run's settings
//   latest_metrics    no: the last value of each key, which `metrics` also has
//   experiments       no: if an experiment was deleted, lifecycle_stage of its runs says so
//   tags, experiment_tags, datasets, inputs, input_tags, logged_models and their metrics, params and tags, trace_...,
//   spans, assessments, entity_associations, registered_models, model_versions, webhooks, ...
//                     no: texts, objects other than runs, and copies of values for a stored model
#pragma once

#include <filesystem>
#include <string>

#include "core/logs/import.h"

namespace moescope {

// `path`: the folder of a run, or a database. From a database it reads, oldest first, the runs that are not deleted and
// have a key that the mapping knows; options.only names runs by name or id. Throws std::runtime_error if the path
// cannot be read or has no key that the mapping knows.
Imported import_mlflow(const std::string& path, const ImportOptions& options = {});

bool is_mlflow_run(const std::filesystem::path& folder);

}  // namespace moescope
