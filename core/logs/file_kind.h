// Recognises the kind of a file, first by its content, then by its name, and reads it by the reader of its kind. Files
// that are dropped, chosen, named on the command line or listed among recent files are all opened by this kind.
#pragma once

#include <string>
#include <vector>

namespace moescope {

struct Imported;
struct ImportOptions;

enum class FileKind {
  recording,       // .moescope: SQLite
  training_log,    // JSON lines: a step or a layer of a step per line
  event_file,      // TensorBoard: an event file, or a folder with event files
  load_table,      // CSV: loads of experts, llama.cpp's moe-trace, or figures by step
  wandb_run,       // W&B's offline file, its folder, or a folder of several runs
  te_statistics,   // TransformerEngine's debug statistics: a file, or a folder with such files
  mlflow_run,      // the folder of an MLflow run, or mlflow.db
  routed_experts,  // from inference engines and verl: JSON of responses, or an integer tensor
  text_log,        // output of a training: text_log.h
  trainer_state,   // trainer_state.json of Hugging Face's Trainer
  expert_counts,   // dumps of expert statistics: import_expert_counts.cpp
  router_trace,    // Megatron-LM's router_trace_rankR.jsonl, or a folder with such files
  part_files,      // a folder with a log for each rank or layer: part_files.cpp
  tensors,         // .safetensors, .npy, .pt
  config,          // TOML: settings of a run
  lesson,          // TOML: a guided lesson
  queue,           // .queue: candidates that train in groups; lies beside their recordings
  unread,          // a known form that is not read (unread_form()), or a binary file of unknown form
  text,            // any other file or folder: text to train on if the user chooses so
};
const char* file_kind_name(FileKind kind);
bool holds_runs(FileKind kind);

// Throws std::runtime_error with the path if the file is missing or cannot be read, or if it is compressed or not UTF-8
// where text is expected. Reads a few kB of most files, 64 KiB of CSV, up to 4 MiB of JSON that does not begin with a
// step, the whole of a config, and the first and the last MiB of other text.
FileKind file_kind(const std::string& path);
FileKind file_kind(const std::string& path, const ImportOptions& options);  // with the names of its mapping files

// Returns why a file or folder of a kind without runs is no log: "PATH: is a Parquet file, which is not read: ...",
// "PATH: is no log that MoEScope knows ...". runs_in_folder.h lists the runs in a folder.
std::string no_log_text(const std::string& path, FileKind kind);

// Reads the runs of a log of another program. `kind`: the file's kind, which must hold runs and not be a recording.
// Throws std::runtime_error with the path if the log cannot be read.
Imported import_log(const std::string& path, FileKind kind, const ImportOptions& options);

// Returns the files that are read with a log although the user does not name them: the other parts of the W&B run of a
// file, and the mapping beside a file of events. Throws like file_kind().
std::vector<std::string> files_beside(const std::string& path);

}  // namespace moescope
