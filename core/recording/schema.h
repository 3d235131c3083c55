// The recording's format: an SQLite 3 database in WAL mode, readable by sqlite3, pandas, DuckDB, ...
//
// The file's application_id is kApplicationId and its user_version kFormatVersion. A change that older programs cannot
// read raises the version; they refuse newer files. Version 2 added the tables flip and gradient, version 3 the weights
// beside the routed experts' to quant, version 4 the tables specialisation, text, text_layer and wire, the router's
// histograms and mutual_information, the names of the run's domains, and flips against FP32, version 5 the kernels that
// computed a run, version 6 key and value of a live change, which before had only the sentence in `text`, version 7
// the validation loss, version 8 loads as uint16 where all fit and histograms of 48 bins,
// version 9 the overlap of expert sets, version 10 the biases for shares of the tokens,
// version 11 how well a layer's experts predict the next one's. This program reads all of them.
//
// Which columns the rows of figures have is said in core/frame/describe.h; the schema as SQLite has it, with
// a note beside each column: sqlite3 FILE .schema
//
// Blobs are arrays, little-endian, without header, of what is said at the column, shape from `run`.
// NULL in a REAL column: no value was recorded, or, where the row's nan_mask says so, the value was NaN: bit i stands
// for the i-th of the row's columns marked [i].
//
// One row per step in `frame`, with id rising in the order of writing. Rows of all other tables but marker belong to
// frame id >> 16, so that rows of one frame lie together; run and step are repeated in them for reading
// without a join:
//   SELECT step, max_vio FROM router WHERE run = 0 AND layer = 1 ORDER BY step;
#pragma once

#include <algorithm>
#include <string>

#include "core/frame/figures.h"

namespace moescope {

template <class... Tables>
constexpr int newest_format(int newest, const Tables&... tables) {
  const auto look = [&newest](const auto& table) {
    for (const auto& figure : table) newest = std::max(newest, figure.since);
  };
  (look(tables), ...);
  return newest;
}

inline constexpr int kApplicationId = 0x4d6f4553;  // "MoES"
// 10 by what is no figure; a figure of a later format raises it.
inline constexpr int kFormatVersion =
    newest_format(10, kFrameFigures, kRouterFigures, kQuantFigures, kFlipFigures, kGradientFigures);
inline constexpr int kOldestFormatVersion = 1;

// flip.reference
inline constexpr const char* kRun0Reference = "run 0";
inline constexpr const char* kFp32Reference = "fp32";

// What creates the tables.
std::string schema();

}  // namespace moescope
