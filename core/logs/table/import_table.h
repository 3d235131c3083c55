// Reads CSV tables in three forms (table_form.h); the delimiter may be a comma, a semicolon, a tab or "|".
//   step,layer,expert,count    loads: one row per expert, to which `count` tokens of the batch were sent. A header may
//                              name columns in any order, with others between them; without a header, these four are
//                              assumed. An expert without a row got no tokens. A layer without rows has no loads at the
//                              step; a remark says so. Without `count` (or another name of tag_map.h), each row is one
//                              token. If there is a column rank, device, microbatch, ..., the counts of an expert are
//                              parts, which are summed.
//   layer,expert               llama.cpp's moe-trace: one row for every expert to which a token was sent, layer after
//                              layer for each evaluated batch. Each batch is a step; it ends where the layer's number
//                              falls. The first batch is the prompt, and each later one is a token. top_k is the number
//                              of rows of a layer in the smallest batch.
//   step,NAME,NAME,...         figures, as in Lightning's metrics.csv: the cells of a row that are not empty are read
//                              as a line of JSON (import_jsonl.h), under the names of all logs (tag_map.h). Columns
//                              expert_0, expert_1, ... (with a column `layer` also e0 or 0) are the loads of a layer.
//                              A table may have one value per row, with columns for the name (metric, tag, key, ...)
//                              and the value of a figure. Downloads of charts are read, too: W&B's have columns "RUN -
//                              KEY", and each RUN becomes a run; TensorBoard's have columns "Wall time,Step,Value", and
//                              the file's name contains the tag.
// Rows may have any unambiguous order (table_loads.h). Layers are indices among all layers; E is the highest expert
// plus one. A row that cannot be read is skipped and counted with its line number and the reason. Numbers with grouped
// digits ("1,234") are not read, because they are ambiguous.
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// Reads the file once; it may grow meanwhile. Leaves out an unfinished last line that is still being written. Throws
// std::runtime_error if the file cannot be read, has no readable row, takes more than kMaxTableBytes, or has rows in
// an order that does not tell which of them count.
inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;  // memory for the rows of a table
// Returns the name of the values in a download of TensorBoard, which is part of the file's name: "train_loss" for
// "run-a-tag-train_loss (1).csv".
std::string tag_of_file(const std::string& path);
// Returns the first line of a table if it is a header; else an empty text.
std::string table_header(const std::string& path);
Imported import_table(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
