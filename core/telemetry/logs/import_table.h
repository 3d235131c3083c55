// Tables of expert loads as CSV, in two forms:
//   step,layer,expert,count    one row an expert: `count` tokens of the batch went to it. Columns may stand in any
//   order
//                              and others between them; a header names them, without one these four are meant. Rows of
//                              one step follow each other; experts that are not named got nothing.
//   layer,expert               llama.cpp's moe-trace: one row for every expert that a token was sent to, layer after
//                              layer for each evaluated batch. A batch is a step: it ends where the layer's number
//                              falls. Its first is the prompt, each later one a token. top_k is the number of rows of a
//                              layer in the smallest batch.
// Layers are indices among all layers; E is the highest expert that occurs, plus one. A row that cannot be read is
// counted with its line's number and the reason, and skipped.
#pragma once

#include <string>

#include "core/telemetry/logs/import.h"

namespace moescope {

// Throws std::runtime_error: the file cannot be read, or holds no load.
Imported import_table(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
