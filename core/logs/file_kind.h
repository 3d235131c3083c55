// Recognises what a file is, by its content first and its name second. This alone decides how a file is opened that was
// dropped, chosen, named on the command line or listed among recent files.
#pragma once

#include <string>

namespace moescope {

enum class FileKind {
  recording,       // .moescope: SQLite
  training_log,    // JSON lines, one step or one layer of a step per line
  event_file,      // TensorBoard: a file of events, or a folder that holds such files
  load_table,      // CSV: loads of experts, llama.cpp's moe-trace, or figures by step
  wandb_run,       // W&B's offline file, its folder, or the folder of several
  te_statistics,   // TransformerEngine's debug statistics: a file, or a folder that holds such files
  mlflow_run,      // the folder of a run of MLflow, or its mlflow.db
  routed_experts,  // of inference engines and verl: JSON of responses, or a tensor of integers
  text_log,        // what a training printed: text_log.h
  trainer_state,   // trainer_state.json of Hugging Face's Trainer
  router_trace,    // Megatron-LM's router_trace_rankR.jsonl, or a folder that holds such files
  tensors,         // .safetensors, .npy, .pt
  config,          // TOML: settings of a run
  lesson,          // TOML: a guided lesson
  queue,           // .queue: candidates that train in groups, beside their recordings
  text,            // anything else, and folders: to train on, if somebody says so
};
const char* file_kind_name(FileKind kind);
constexpr bool holds_runs(FileKind kind) {
  return kind <= FileKind::router_trace;
}

// Throws std::runtime_error with the path: missing, unreadable, or compressed or not UTF-8 where it should be text.
// Reads a few kB, of JSON that does not begin with a step 4 MiB, of other text the first and the last MiB.
FileKind file_kind(const std::string& path);

}  // namespace moescope
