#include "app/cli/train/text_columns.h"

#include <algorithm>

#include "core/frame/frame.h"
#include "core/io/words.h"

namespace moescope {

std::string figure_text(float value, const char* format, double factor) {
  return is_missing(value) ? "-" : formatted(format, factor * static_cast<double>(value));
}

void drop_empty_columns(std::vector<TextRow>& rows) {
  for (std::size_t c = rows.front().size(); c-- > 0;) {
    const bool empty = std::all_of(rows.begin() + 1, rows.end(), [c](const TextRow& row) { return row[c] == "-"; });
    if (!empty) continue;
    for (TextRow& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::string aligned(const std::vector<TextRow>& rows) {
  std::vector<std::size_t> width(rows.front().size(), 0);
  for (const TextRow& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(width[c] - row[c].size(), ' ');
      const bool left = c == 0 || c + 1 == row.size();
      if (c > 0) line += "  ";
      line += left ? row[c] : space;
      line += left ? space : row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
    text += '\n';
  }
  return text;
}

}  // namespace moescope
