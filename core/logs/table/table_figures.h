// The rows of a table of figures, each as a line of JSON (import_jsonl.h), which knows the names of all logs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/import.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_order.h"

namespace moescope {

class TableFigures {
 public:
  TableFigures(std::string path, TableForm form) : path_(std::move(path)), form_(std::move(form)) {}

  // Throws Unreadable: the row has no step; std::runtime_error: the table takes more than kMostTableBytes.
  void add(std::span<const std::string_view> cells, std::int64_t line);
  bool empty() const { return lines_.empty(); }
  // Throws std::runtime_error: no row has a figure that is known, or their order does not tell which of them count.
  void build(const ImportOptions& options, Imported& imported);

 private:
  struct Line {
    std::int64_t step, number;
    std::size_t first, end;  // of its text
  };
  void sort();

  std::string path_;
  TableForm form_;
  TableOrder order_;
  std::string text_;
  std::vector<Line> lines_;
};

}  // namespace moescope
