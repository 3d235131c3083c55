// What a file is, by its content first and its name second: the one place that decides how a file that was dropped,
// chosen, named on the command line or listed among recent files is opened.
#pragma once

#include <string>
#include <vector>

namespace moescope {

enum class FileKind {
  recording,     // .moescope: SQLite
  training_log,  // JSON lines, one step or one layer of a step a line
  event_file,    // TensorBoard: a file of events, or a folder that holds such files
  load_table,    // CSV of step,layer,expert,count, or llama.cpp's moe-trace
  tensors,       // .safetensors
  config,        // TOML: settings of a run
  lesson,        // TOML: a guided lesson
  text,          // anything else, and folders: data to train on
};
const char* file_kind_name(FileKind kind);
constexpr bool holds_runs(FileKind kind) {
  return kind <= FileKind::load_table;
}

// Throws std::runtime_error with the path: it is not there, cannot be read, or is compressed or in
// another encoding than UTF-8 where it should be text. Reads a few kB at most.
FileKind file_kind(const std::string& path);

}  // namespace moescope
