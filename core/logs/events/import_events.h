// TensorBoard event files: scalars, histograms and tensors of a training, by a mapping of tags (tag_map.h).
//
// A path is one event file, or a folder: every folder below it that holds event files is a run, whose files are read in
// the order of their names, which begin with their time. A record whose checksum is wrong is counted and skipped; after
// a damaged header the rest of the file cannot be read, and that is counted, too. Steps that come twice, and loads:
// tagged_run.h.
//
// The records of the format (tensorflow/tensorboard, tensorboard/compat/proto/event.proto and summary.proto), and which
// of them count:
//   Event.wall_time, step            yes
//   Event.file_version               no: TensorBoard looks for restarts in steps if it is below 2, and in session_log
//   from
//                                    2 on; here both are done for every version
//   Event.summary                    yes
//   Event.session_log                START: what was logged at its step and later is dropped. STOP and CHECKPOINT
//   change
//                                    no value
//   Event.graph_def, meta_graph_def, tagged_run_metadata, log_message, source_metadata
//                                    no: the graph, the profile of an operation, texts, the writer's name; no value
//                                    depends on them
//   Value.tag                        yes; node_name where an old tensor has no tag
//   Value.simple_value, histo, tensor
//                                    yes
//   Value.image, audio, obsolete_old_style_histogram
//                                    refused where their tag is one of a number
//   Value.metadata.plugin_data       yes, from the first value of a tag on, as writers give it only there:
//                                    "histograms": a tensor [k, 3] holds buckets (from, to, count), not layers;
//                                    "pr_curves", "mesh", "images", "audio", "text", "hparams", "custom_scalars",
//                                    "graphs", "projector": no numbers by layer or expert, refused; "scalars", others
//                                    and none: the tensor is what its shape says
//   Value.metadata.display_name, summary_description, data_class
//                                    no: names for the screen; the class follows from the plugin
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// The mapping is options.tags, else moescope-tags.toml in the folder of the events, else the built-in one. Throws
// std::runtime_error: cannot be read; holds no tag that the mapping knows (with the tags there are).
Imported import_events(const std::string& path, const ImportOptions& options = {});

// Reads the bytes of one event file, for the fuzzer; true if anything was understood.
bool read_event_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
