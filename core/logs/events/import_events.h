// Reads TensorBoard event files: the scalars, histograms and tensors of a training under tags that a mapping knows
// (tag_map.h).
//
// A path is one event file, or a folder. The folder and each folder below it is a run if it has event files. The files
// of a run are read in the order of their names, which begin with their time. A record with a wrong checksum is counted
// and skipped. After a damaged header the rest of the file cannot be read, which is counted as well. run_builder.h
// describes repeated steps and loads.
//
// Fields of the format (tensorflow/tensorboard, tensorboard/compat/proto/event.proto and summary.proto), and whether
// they are read:
//   Event.wall_time, step            yes
//   Event.file_version               no: TensorBoard looks for restarts in steps if it is below 2, in session_log
//                                    from 2 on; this reader looks for both in every version
//   Event.summary                    yes
//   Event.session_log                START: the values of its step and of later steps are dropped. STOP and CHECKPOINT
//                                    change no value
//   Event.graph_def, meta_graph_def, tagged_run_metadata, log_message, source_metadata
//                                    no: the graph, the profile of an operation, texts, the writer's name; no value
//                                    depends on them
//   Value.tag                        yes; node_name is read if an old tensor has no tag
//   Value.simple_value, histo, tensor
//                                    yes
//   Value.image, audio, obsolete_old_style_histogram
//                                    refused if the mapping knows their tag
//   Value.metadata.plugin_data       yes. The first value of a tag gives it for all its values, since writers give it
//                                    only there. "histograms": a tensor [k, 3] holds buckets (from, to, count), not
//                                    layers. "pr_curves", "mesh", "images", "audio", "text", "hparams",
//                                    "custom_scalars", "graphs", "projector": refused, because they hold no numbers by
//                                    layer or expert. "scalars", others and none: the shape of the tensor decides
//   Value.metadata.display_name, summary_description, data_class
//                                    no: names for the screen; the plugin determines the class
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
