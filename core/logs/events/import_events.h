// Reads TensorBoard event files: the scalars, histograms and tensors of a training under tags that a mapping knows
// (tag_map.h).
//
// A path is one event file, or a folder. The folder and each folder below it is a run if it has event files. The files
// of a run are read in the order of their names, which begin with their time. A record with a wrong checksum is counted
// and skipped. After a damaged header the rest of the file cannot be read, which is counted as well. run_builder.h
// describes repeated steps and loads.
//
// Fields of the format (tensorflow/tensorboard, tensorboard/compat/proto/event.proto and summary.proto):
//   Event.wall_time, step, summary   read
//   Event.file_version               not read: restarts are looked for in steps and in session_log in every version
//   Event.session_log                START: the values of its step and of later steps are dropped
//   Value.tag                        read; node_name if an old tensor has no tag
//   Value.simple_value, histo, tensor
//                                    read; image, audio and the oldest histograms are refused if their tag is known
//   Value.metadata.plugin_data       of the first value of a tag, since writers give it only there. "histograms": a
//                                    tensor [k, 3] holds buckets (from, to, count), not layers. Plugins without
//                                    numbers by layer or expert are refused. Else the shape of the tensor decides
// No value depends on the others: the graph, profiles, texts, names for the screen.
#pragma once

#include <filesystem>
#include <string>

#include "core/logs/import.h"

namespace moescope {

// The mapping is options.tags, else moescope-tags.toml in the folder of the events, else the built-in mapping. Throws
// std::runtime_error if the path cannot be read, or has no tag that the mapping knows (then with its tags).
Imported import_events(const std::string& path, const ImportOptions& options = {});

bool is_event_file(const std::filesystem::path& path);  // judged by the name

}  // namespace moescope
