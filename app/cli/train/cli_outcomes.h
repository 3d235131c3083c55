// The table of outcomes of a comparison: on the terminal, as CSV (core/training/engine/outcomes.h) and as JSON.
#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "core/training/engine/outcomes.h"

namespace moescope {

// Returns the table and, below it, a sentence for each candidate that trained.
std::string outcomes_report(std::span<const Outcome> outcomes);

// Throws std::runtime_error unless `path` ends in .csv or .json.
void check_table_name(const std::string& path);
// Writes the table and prints its path to `text`; returns false after printing to stderr why it could not be written.
bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text);

}  // namespace moescope
