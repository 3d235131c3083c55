// What the columns of a CSV table mean, told from its first rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

enum class TableKind {
  loads,   // step, layer, expert and count: a row an expert
  trace,   // layer and expert: a row for every expert that a token was sent to
  figures  // step, and a column for each value
};

struct TableForm {
  TableKind kind = TableKind::loads;
  char delimiter = ',';
  bool has_header = false;
  std::vector<std::string> names;                      // of the columns, where a header gives them
  int step = -1, layer = -1, expert = -1, count = -1;  // columns; -1: there is none, of `layer`: it is 0
  std::vector<int> parts;                              // columns that tell parts of one count: rank, microbatch, ...
  std::vector<int> other_steps;                        // columns of steps beside `step`: within the epoch, ...
  int run = -1;                                        // column that tells runs apart: run, seed, ...; -1: none
};

// By the first bytes of a file; `named_csv`: its name says that it is a table, so that a row of numbers is one without
// a header, and columns of figures are a log. nullopt: it is no table of a run.
std::optional<TableForm> table_form(std::string_view beginning, bool named_csv);
// A comment, or Excel's line that names the delimiter.
bool is_table_remark(std::string_view first_cell);
bool is_named_csv(std::string_view path);  // .csv, .tsv

}  // namespace moescope
