// Reads CSV tables (docs/logs.md) in three forms (table_form.h), with any usual delimiter.
// In a trace of llama.cpp, layer after layer for each evaluated batch, a batch is a step, and top_k is the number of
// rows of a layer in the smallest batch. The cells of a row of figures are read as a line of JSON (import_jsonl.h).
// Rows may have any unambiguous order (table_loads.h).
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// Reads the file once; it may grow meanwhile. Throws std::runtime_error if the file cannot be read, has no readable
// row, takes more than kMaxTableBytes, or has rows in an order that does not tell which of them count.
inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;  // memory for the rows of a table
// Returns the name of the values in a download of TensorBoard, which is part of the file's name: "train_loss" for
// "run-a-tag-train_loss (1).csv".
std::string tag_of_file(const std::string& path);
// Returns the first line of a table if it is a header; else an empty text.
std::string table_header(const std::string& path);
Imported import_table(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
