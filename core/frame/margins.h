// Sums of the rows and columns of a table of counts [rows, columns].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moescope {

struct Margins {
  std::vector<double> rows, columns;
  double total = 0;

  Margins(const std::vector<std::uint32_t>& table, std::size_t n_columns)
      : rows(n_columns ? table.size() / n_columns : 0), columns(n_columns) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      rows[i / n_columns] += table[i];
      columns[i % n_columns] += table[i];
      total += table[i];
    }
  }
};

}  // namespace moescope
