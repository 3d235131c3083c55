// CSV tables in three forms (table_form.h); the delimiter may be a comma, a semicolon, a tab or "|".
//   step,layer,expert,count    one row per expert: `count` tokens of the batch went to it. A header may name columns
//                              in any order, with others between them; without a header these four are assumed.
//                              An expert without a row got no tokens. A layer without rows has no loads at that step;
//                              a remark says so. Without `count` (or another name of tag_map.h) a row is a token. Rows
//                              with a column rank, device, microbatch, ... are parts, which are added up.
//   layer,expert               llama.cpp's moe-trace: one row for every expert that a token was sent to, layer after
//                              layer for each evaluated batch. A batch is a step: it ends where the layer's number
//                              falls. Its first is the prompt, each later one a token. top_k is the number of rows of a
//                              layer in the smallest batch.
//   step,NAME,NAME,...         figures, as in Lightning's metrics.csv: the cells of a row that are not empty are read
//                              as a line of JSON (import_jsonl.h), under the names of all logs (tag_map.h). Columns
//                              expert_0, expert_1, ... (with a column `layer`: also e0 or 0) are the loads of a layer.
//                              Downloads of charts: W&B's columns "RUN - KEY", of which each run becomes one here; of
//                              TensorBoard's "Wall time,Step,Value" the file's name has the tag. Tables with a value a
//                              row have columns for its name (metric, tag, key, ...) and its value.
// Rows may have any unambiguous order (table_loads.h). Layers are indices among all layers; E is the highest expert
// plus one. A row that cannot be read is skipped and counted with its line number and the reason. Numbers must not have
// grouped digits ("1,234"), which are ambiguous.
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// Reads the file once, up to its size at the start, so the file may grow meanwhile. Leaves out an unfinished last line
// that is still being written. Throws std::runtime_error if the file cannot be read, has no readable row, takes more
// than kMostTableBytes, or has rows in an order that does not tell which of them count.
inline constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;  // kept bytes of a table
Imported import_table(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
