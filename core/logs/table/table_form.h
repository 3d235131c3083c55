// Determines the meaning of the columns of a CSV table from its first rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/tag_map.h"

namespace moescope {

enum class TableKind {
  loads,   // step, layer, expert and count: a row per expert
  trace,   // layer and expert: a row for every expert that a token was sent to
  figures  // step, and a column for each figure, or columns with the name and the value of one figure
};

struct FigureColumn {
  int column = 0;
  std::string name;  // name of the values, to be translated by a TagMap
  std::string run;   // run of the values; empty if the header does not name runs
};

struct TableForm {
  TableKind kind = TableKind::loads;
  char delimiter = ',';
  bool has_header = false;
  std::size_t header_rows = 1;                         // if there is a header
  bool has_decimal_commas = false;                     // "2,5" is 2.5
  bool has_decimal_points = false;                     // "2,500" is 2500, as a number such as 2.5 has a point
  std::vector<std::string> names;                      // names of the columns, if there is a header
  int step = -1, layer = -1, expert = -1, count = -1;  // columns; -1: no such column (layer: all rows are layer 0)
  std::vector<int> parts;          // columns that number the parts of one count: rank, microbatch, ...
  std::vector<int> other_steps;    // further columns with steps, such as steps within the epoch
  std::vector<int> other_columns;  // remaining columns of a table of loads
  int run = -1;                    // column that identifies runs: run, seed, ...; -1: none
  bool run_is_name = false;        // the cells of `run` are names of runs; otherwise settings, such as seeds

  std::vector<FigureColumn> figures;  // columns of figures, if each figure has its own
  std::vector<int> expert_loads;      // columns expert_0, expert_1, ... with loads, by expert
  int name = -1, value = -1;          // columns with the name and the value of a figure; if there is no `name`, the
                                      // name of the file contains that of the values
};

// Determines the form from the first bytes of a file; nullopt if it is not a table of a run. `named_csv`: the file has
// the name of a table. Then rows of numbers need no header, and the names of figures need not be known.
std::optional<TableForm> table_form(std::string_view beginning, bool named_csv,
                                    const TagMap& tags = TagMap::built_in());
// Returns a table whose columns are steps or layers with its columns as rows, "expert,layer_0,layer_1" as
// "layer,expert_0,expert_1"; empty: it is another file. Throws std::runtime_error with the path if the columns may be
// either.
std::string turned_table(const std::string& path);
bool has_blocks(std::string_view table);  // pandas prints its columns in blocks: the header ends in "\\"
// True for a comment, for Excel's line that gives the delimiter, and for a line drawn between rows: "|---|---|".
bool is_table_remark(std::span<const std::string_view> cells);
bool is_named_csv(std::string_view path);  // .csv, .tsv

}  // namespace moescope
