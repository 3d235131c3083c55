// The recording's format: an SQLite 3 database in WAL mode, readable by sqlite3, pandas, DuckDB, ...
//
// The file's application_id is kApplicationId and its user_version kFormatVersion. Every change of a table raises the
// version; files of another version are refused.
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

#include <string>

namespace moescope {

inline constexpr int kApplicationId = 0x4d6f4553;  // "MoES"
inline constexpr int kFormatVersion = 1;

// flip.reference
inline constexpr const char* kRun0Reference = "run 0";
inline constexpr const char* kFp32Reference = "fp32";

// What creates the tables.
std::string schema();

}  // namespace moescope
