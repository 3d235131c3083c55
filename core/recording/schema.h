// The recording's format: an SQLite 3 database in WAL mode, readable by sqlite3, pandas, DuckDB, ...
//
// The file's application_id is kApplicationId and its user_version kFormatVersion. Files of another version are
// refused. A change of a table raises the version if MoEScope has been released with the present one.
//
// core/frame/describe.h lists the tables and columns; sqlite3 FILE .schema prints the schema with a note beside
// each column.
//
// Blobs are little-endian arrays without a header. The note of the column gives type and shape; sizes are in `run`.
// NULL in a REAL column: no value was recorded, or the value was NaN if the row's nan_mask says so; bit i belongs to
// the i-th of the row's columns marked [i].
//
// `frame` has one row per step, with ids that rise in the order of writing. Rows of all other tables except marker
// belong to frame id >> 16, so that rows of one frame lie together; they repeat run and step, so that reading needs no
// join:
//   SELECT step, max_vio FROM router WHERE run = 0 AND layer = 1 ORDER BY step;
#pragma once

#include <string>
#include <string_view>

namespace moescope {

inline constexpr int kApplicationId = 0x4d6f4553;  // "MoES", at byte 68 of the file
inline constexpr std::size_t kApplicationIdEnds = 72;
inline constexpr int kFormatVersion = 1;

inline bool has_application_id(std::string_view file) {
  return file.substr(0, kApplicationIdEnds).ends_with("MoES") && file.size() >= kApplicationIdEnds;
}

// Values of flip.reference.
inline constexpr const char* kRun0Reference = "run 0";
inline constexpr const char* kFp32Reference = "fp32";

// Returns the SQL that creates the tables.
std::string schema();

}  // namespace moescope
