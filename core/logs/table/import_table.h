// Tables as CSV, in three forms (table_form.h); the delimiter may be a comma, a semicolon, a tab or "|".
//   step,layer,expert,count    one row an expert: `count` tokens of the batch went to it. Columns may stand in any
//                              order and others between them; a header names them, without one these four are meant.
//                              An expert without a row got nothing, and a layer without any has no loads at that
//                              step, which a remark says. Without `count` (or another name of tag_map.h) a row is a
//                              token. Rows with a column rank, device, microbatch, ... are parts, which are added up.
//   layer,expert               llama.cpp's moe-trace: one row for every expert that a token was sent to, layer after
//                              layer for each evaluated batch. A batch is a step: it ends where the layer's number
//                              falls. Its first is the prompt, each later one a token. top_k is the number of rows of a
//                              layer in the smallest batch.
//   step,NAME,NAME,...         figures, as Lightning's metrics.csv has them: each row is read as a line of JSON with
//   the
//                              cells that are not empty (import_jsonl.h), the names those of all logs (tag_map.h).
// Rows may stand in any order that leaves no doubt (table_order.h). Layers are indices among all layers; E is the
// highest expert that occurs, plus one. A row that cannot be read is counted with its line's number and the reason, and
// skipped. Numbers are plain: digits that are grouped, as in "1,234", may mean two things.
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// The file is read once, to the end that it has then; it may grow meanwhile, and a last line without an end that is
// still being written is left out. Throws std::runtime_error: the file cannot be read, holds no row that could be read,
// more than kMostTableBytes, or rows in an order that does not tell which of them count.
inline constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;  // that are kept of it
Imported import_table(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
