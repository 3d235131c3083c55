#include "core/logs/table/table_form.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "core/files/input_file.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/table/csv_rows.h"
#include "core/numerics/index.h"

namespace moescope {

namespace {

constexpr std::string_view kDelimiters = ",;\t| ";
constexpr std::size_t kLargestTurned = std::size_t{16} << 20;
constexpr std::size_t kRowsLookedAt = 20, kMaxHeaderRows = 4;
constexpr std::array<std::string_view, 8> kRunNames = {"run",      "run_name", "run_id", "run_uuid",
                                                       "run_hash", "trial",    "seed",   "experiment"};
constexpr std::array<std::string_view, 4> kBatchNames = {"batch", "batch_idx", "minibatch", "step_in_epoch"};
constexpr int kNamesOfRuns = 5;  // the first five are names of runs, the others are settings
constexpr std::array<std::string_view, 2> kValueNames = {"value", "metric_value"};
constexpr std::array<std::string_view, 8> kFigureNames = {"tag",      "metric", "metric_name", "metric_key",
                                                          "variable", "key",    "name",        "series"};

// Returns the column with the first of `names` that exists; -1 if none exists.
int column_of(const std::vector<std::string>& spelled, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (const int column = index_in(spelled, name); column >= 0) return column;
  return -1;
}

// Returns the column whose name is the first of this meaning in the table of names; -1 if there is none.
int column_that_means(const TagMap& tags, TagMeaning means, const std::vector<std::string>& spelled,
                      const std::string& prefix = {}) {
  int best = -1, place = 0;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    const auto match = tags.find(prefix + spelled[i]);
    if (!match || match->rule->means != means || match->layer >= 0 || (best >= 0 && match->rule->place >= place))
      continue;
    best = to_int(i);
    place = match->rule->place;
  }
  return best;
}

bool is_step_name(const TagMap& tags, const std::string& name) {
  const auto match = tags.find(name);
  return match && match->rule->means == TagMeaning::step_number;
}

bool is_part_name(const std::string& name) {
  return has_any(name, {"rank", "device", "gpu", "worker", "host", "node", "micro", "shard", "replica"});
}

// Returns the number in "expert_3", "E3" or "expert_3_tokens"; -1 if the name is not that of an expert's load. Sets
// `prefix` to the text before the number.
int expert_of(std::string_view spelled, bool may_be_number, std::string& prefix) {
  for (const std::string_view end : {"_tokens", "_count", "_load"})
    if (spelled.ends_with(end)) spelled.remove_suffix(end.size());
  const std::size_t before = spelled.find_last_not_of("0123456789") + 1;
  const std::string_view digits = spelled.substr(before);
  prefix = spelled.substr(0, before);
  while (prefix.ends_with('_')) prefix.pop_back();
  const bool fits =
      is_one_of(prefix, {"expert", "experts", "exp", "e", "expert_tokens", "expert_count", "expert_load"}) ||
      (may_be_number && prefix.empty());
  return fits && !digits.empty() && digits.size() <= 5 ? std::stoi(std::string(digits)) : -1;
}

// Returns the columns expert_0, expert_1, ... by expert, also if they begin with 1; none if a number is missing.
std::vector<int> expert_columns(const std::vector<std::string>& spelled, bool may_be_number) {
  std::map<std::string, std::map<int, int>> columns;  // by prefix and expert
  for (int i = 0; i < std::ssize(spelled); ++i) {
    std::string prefix;
    const int expert = expert_of(spelled[i], may_be_number, prefix);
    if (expert >= 0) columns[prefix].emplace(expert, i);
  }
  std::vector<int> loads;
  for (const auto& [prefix, by_expert] : columns) {
    const auto experts = std::ssize(by_expert);
    const int first = by_expert.begin()->first;  // 0 or 1
    if (experts < 2 || first > 1 || by_expert.rbegin()->first + 1 - first != experts || !loads.empty()) continue;
    for (const auto& [expert, column] : by_expert) loads.push_back(column);
  }
  return loads;
}

// Returns the columns "RUN - KEY" of W&B's download of a chart, which also has "RUN - KEY__MIN" and "RUN - KEY__MAX".
std::vector<FigureColumn> wandb_columns(const TagMap& tags, const std::vector<std::string>& names) {
  const std::set<std::string_view> all(names.begin(), names.end());
  std::vector<FigureColumn> figures;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t dash = names[i].rfind(" - ");
    if (dash == std::string::npos || !all.contains(names[i] + "__MIN") || !all.contains(names[i] + "__MAX")) continue;
    FigureColumn figure{to_int(i), names[i].substr(dash + 3), names[i].substr(0, dash)};
    if (!is_step_name(tags, spelled_alike(figure.name))) figures.push_back(std::move(figure));
  }
  return figures;
}

// Sets the columns of `form` for a table of figures.
void find_figures(const TagMap& tags, const std::vector<std::string>& names, const std::vector<std::string>& spelled,
                  TableForm& form) {
  form.kind = TableKind::figures;
  form.figures = wandb_columns(tags, names);
  if (!form.figures.empty()) return;
  form.value = column_of(spelled, kValueNames);
  if (form.value >= 0) form.name = column_of(spelled, kFigureNames);
  const bool is_one_figure = std::ranges::all_of(spelled, [&](const std::string& name) {
    return is_one_of(name, {"", "wall_time", "timestamp", "time", "value"}) || is_step_name(tags, name);
  });
  if (form.value >= 0 && is_one_figure) return;  // that the name of the file names
  if (form.name < 0) {
    form.value = -1;
    form.expert_loads = expert_columns(spelled, form.layer >= 0);
  }
  std::vector<bool> is_load(names.size());
  for (const int column : form.expert_loads) is_load[column] = true;
  std::set<std::string_view> known_names;
  for (int i = 0; i < std::ssize(names); ++i) {
    const std::string& name = names[i];
    const bool is_other = i == form.step || i == form.layer || i == form.expert || i == form.name || i == form.value ||
                          std::ranges::count(form.other_steps, i) > 0 || is_load[i];
    if (is_other || (name.empty() && form.step >= 0)) continue;  // pandas writes its index without a name
    const bool is_repeated = !known_names.insert(spelled[i]).second;
    std::string figure = name;
    if (is_repeated) figure += fmt::format(" (column {})", i + 1);
    if (name.empty()) figure = fmt::format("column {}", i + 1);
    form.figures.push_back({i, std::move(figure), {}});
  }
}

bool is_any_known(const TagMap& tags, const std::vector<std::string>& spelled, bool only_losses = false) {
  return std::ranges::any_of(spelled, [&](const std::string& name) {
    const auto match = tags.find(name);
    return match && is_shown(match->rule->means) && (!only_losses || match->rule->step == &TelemetryFrame::ce_loss);
  });
}

using CellRows = std::vector<std::vector<std::string>>;

// True if a column has whole numbers that rise by the same amount from row to row: it may be the step.
bool has_rising_column(const CellRows& rows) {
  constexpr std::size_t kFewestRows = 4;
  for (std::size_t column = 0; column < rows[0].size() && rows.size() > kFewestRows; ++column) {
    std::vector<std::int64_t> steps;
    for (std::int64_t step = 0; steps.size() + 1 < rows.size(); steps.push_back(step)) {
      const std::vector<std::string>& row = rows[steps.size() + 1];
      if (column >= row.size() || !read_number(row[column], step)) break;
      if (steps.size() > 1 && step - steps.back() != steps[1] - steps[0]) break;
    }
    if (steps.size() + 1 == rows.size() && steps[0] < steps[1]) return true;
  }
  return false;
}

// Returns the step of a table with an epoch per row, as Keras writes it; -1: the table has none. If an epoch has
// several rows, the batch is the step, and RunBuilder counts it on over the epochs.
int step_of_epochs(const std::vector<std::string>& spelled, const CellRows& rows) {
  const int epoch = index_in(spelled, "epoch"), batch = column_of(spelled, kBatchNames);
  const auto repeats = [&](int column) {
    return rows.back().size() == spelled.size() && rows[rows.size() - 2].size() == spelled.size() &&
           rows.back()[column] == rows[rows.size() - 2][column];
  };
  const bool is_batch = epoch >= 0 && batch >= 0 && rows.size() > 2 && repeats(epoch) && !repeats(batch);
  return is_batch ? batch : epoch;
}

// `asks`: a table without a step is a log if a training loss or a column that may be the step shows it: the account
// asks for the step.
std::optional<TableForm> form_of_header(const TagMap& tags, const CellRows& rows, bool named_csv, bool asks = false) {
  std::vector<std::string> names = rows[0];
  std::vector<std::string> spelled;
  for (const std::string& name : names) spelled.push_back(spelled_alike(name));
  TableForm form;
  form.has_header = true;
  form.step = column_that_means(tags, TagMeaning::step_number, spelled);
  for (int i = 0; i < std::ssize(spelled); ++i)
    if (i != form.step && is_step_name(tags, spelled[i])) form.other_steps.push_back(i);
  form.layer = column_that_means(tags, TagMeaning::layer_number, spelled);
  form.expert = column_that_means(tags, TagMeaning::expert_number, spelled);
  if (form.step < 0 && form.layer < 0 && form.expert < 0) form.step = step_of_epochs(spelled, rows);
  form.run = column_of(spelled, kRunNames);
  form.run_is_name = form.run >= 0 && index_in(kRunNames, spelled[form.run]) < kNamesOfRuns;
  // In a row of one expert a name such as "hits" is the number of its tokens.
  form.count = column_that_means(tags, TagMeaning::tokens_per_expert, spelled, "expert_0/");
  if (form.count < 0) form.count = column_of(spelled, kValueNames);
  if (form.count < 0) form.count = column_that_means(tags, TagMeaning::tokens_per_expert, spelled);
  const bool has_one_layer = form.layer < 0 && form.expert >= 0 && form.step >= 0 && form.count >= 0;
  const bool names_figures =
      form.count >= 0 && form.count == column_of(spelled, kValueNames) && column_of(spelled, kFigureNames) >= 0;
  if (((form.layer >= 0 && form.expert >= 0) || has_one_layer) && !names_figures) {
    form.kind = form.step < 0 && form.count < 0 ? TableKind::trace : TableKind::loads;
    for (int i = 0; i < std::ssize(spelled); ++i) {
      const bool is_used = i == form.step || i == form.layer || i == form.expert || i == form.count || i == form.run ||
                           std::ranges::count(form.other_steps, i) > 0;
      if (is_part_name(spelled[i]))
        form.parts.push_back(i);
      else if (!is_used)
        form.other_columns.push_back(i);
    }
  } else if (asks && form.step < 0 && form.layer < 0 && form.expert < 0 &&
             (is_any_known(tags, spelled, true) || has_rising_column(rows))) {
    find_figures(tags, names, spelled, form);
  } else if (form.step >= 0 && names.size() > 1 &&
             (named_csv || names_figures || is_any_known(tags, spelled) ||
              (form.layer >= 0 && !expert_columns(spelled, false).empty()))) {
    find_figures(tags, names, spelled, form);
  } else {
    return std::nullopt;
  }
  form.names = std::move(names);
  return form;
}

std::optional<TableForm> form_of_numbers(std::size_t cells) {
  TableForm form;
  if (cells == 2) {
    form.kind = TableKind::trace;
    form.layer = 0;
    form.expert = 1;
  } else if (cells >= 4) {
    form.step = 0;
    form.layer = 1;
    form.expert = 2;
    form.count = 3;
  } else {
    return std::nullopt;
  }
  return form;
}

CellRows first_rows(std::string_view beginning, char delimiter, std::size_t most_rows = kRowsLookedAt) {
  CellRows first;
  std::vector<std::string> remark;  // the names of columns, as numpy.savetxt writes them: "# step layer e0"
  const auto take = [&](const CsvRow& row) {
    const bool is_title = first.empty() && row.cells.size() == 1 && delimiter != ' ';  // a line above the table
    if (first.size() == most_rows || row.too_long || is_title) return;
    if (is_table_remark(row.cells)) {
      remark.assign(row.cells.begin(), row.cells.end());
      if (remark[0] == "#")
        remark.erase(remark.begin());
      else
        remark[0] = trimmed(remark[0], "# ");
      return;
    }
    if (first.empty() && remark.size() == row.cells.size() && is_like_number(row.cells[0]) &&
        !is_like_number(remark[0]))
      first.push_back(remark);
    if (first.empty() || !std::ranges::equal(row.cells, first[0]))  // some programs print the header again
      first.emplace_back(row.cells.begin(), row.cells.end());
  };
  try {
    CsvRows rows(delimiter);
    rows.add(beginning, take);
    if (first.size() < 2 || most_rows > kRowsLookedAt) rows.finish(take);
  } catch (const Unreadable&) {  // reported when the whole file is read
  }
  return first;
}

bool is_decimal(const std::string& cell) {
  double number = 0;
  return cell.find('.') != std::string::npos && read_number(cell, number);
}

// Sets what a comma in a number is. It is that of decimals if this is certain of a cell, and no cell has a decimal
// point, which that of "1.000" may not be.
void find_commas(const CellRows& rows, TableForm& form) {
  bool is_certain = false;
  for (const std::vector<std::string>& row : rows)
    for (const std::string& cell : row) {
      std::string grouped = cell;
      write_decimal_point(grouped);
      form.has_decimal_points = form.has_decimal_points || (is_decimal(cell) && grouped == cell);
      const bool has_groups = grouped != cell && std::ranges::count(cell, '.') > 1;  // "1.048.576"
      is_certain =
          is_certain || has_groups || (may_have_decimal_comma(cell) && is_like_number(cell) && !printed_number(cell));
    }
  form.has_decimal_commas = is_certain && !form.has_decimal_points && form.delimiter != ',';
}

// Words of a text are cells only if rows of numbers follow. The first of them may be without a name, as pandas prints
// it.
bool is_table_of_blanks(CellRows& rows) {
  const auto is_name = [](const std::string& cell) { return std::isalpha(static_cast<unsigned char>(cell[0])) != 0; };
  if (rows.size() < 2 || rows[0].size() < 3 || !std::ranges::all_of(rows[0], is_name)) return false;
  const std::size_t columns = rows[1].size();
  if (columns == rows[0].size() + 1) rows[0].insert(rows[0].begin(), std::string());
  return rows[0].size() == columns && std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) {
           return row.size() == columns && is_like_number(row.front()) && is_like_number(row.back());
         });
}

// Joins the names of a header of several rows, as pandas and spreadsheets write them: "load.layer1.expert0" below
// "load" in the rows "layer" and "expert". An empty cell repeats the one before it if the cells above are equal.
// Returns the number of rows of the header; 1 if it has one.
std::size_t join_header_rows(CellRows& rows) {
  std::size_t size = 1;
  const auto is_values = [](const std::vector<std::string>& row) {
    return is_like_number(row.front()) && std::ranges::any_of(row.begin() + 1, row.end(), is_like_number);
  };
  while (size < std::min(rows.size(), kMaxHeaderRows + 1) && !is_values(rows[size])) ++size;
  if (size < 2 || size == rows.size() || size > kMaxHeaderRows) return 1;
  if (std::ranges::any_of(rows.begin(), rows.begin() + size + 1,
                          [&](const auto& row) { return row.size() != rows[0].size(); }))
    return 1;
  std::vector<std::string> names(rows[0].size());
  for (std::size_t column = 1; column < names.size(); ++column) {
    bool is_same = column > 1;
    for (std::size_t r = 0; r < size; ++r) {
      std::string& cell = rows[r][column];
      if (cell.starts_with("Unnamed:")) cell.clear();
      if (cell.empty() && is_same && r + 1 < size) cell = rows[r][column - 1];
      is_same = is_same && cell == rows[r][column - 1];
      if (cell.empty()) continue;
      const bool is_number = cell.find_first_not_of("0123456789") == std::string::npos;
      names[column] += (names[column].empty() ? "" : ".") + (is_number ? rows[r][0] : std::string()) + cell;
    }
  }
  for (std::size_t r = 0; r < size; ++r)
    if (!rows[r][0].empty()) names[0] = rows[r][0];
  rows[0] = std::move(names);
  return size;
}

// Returns what the columns behind the first are, by the word before their numbers: steps for "name,step_10,step_20",
// other for "name,10,20"; nullopt if they have other names, or do not rise.
std::optional<Counted> counted_by_columns(std::span<const std::string> header) {
  std::optional<Counted> counted;
  std::int64_t before = -1, number = 0;
  for (const std::string& name : header.subspan(1)) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const Counted word = digits == 0 ? Counted::other : counted_before(name.substr(0, digits));
    if (!read_number(std::string_view(name).substr(digits), number) || number <= std::exchange(before, number) ||
        (word == Counted::other && digits > 0) || counted.value_or(word) != word)
      return std::nullopt;
    counted = word;
  }
  return counted;
}

// Returns the number of columns that define a table of loads.
int known_columns(const TableForm& form) {
  return (form.step >= 0) + (form.layer >= 0) + (form.expert >= 0) + (form.count >= 0);
}

// Returns a table that pandas prints in blocks of columns as one; empty if it is none. The header of each block but the
// last ends in "\", and its rows, as many as in the first block, begin with the index.
std::string joined_blocks(std::string_view table) {
  std::vector<std::string> joined;
  std::size_t row_of_block = 0, blocks = 0;
  bool goes_on = true;
  for (std::vector<std::string>& cells : first_rows(table, ' ', SIZE_MAX)) {
    const bool is_header = !is_like_number(cells.front());
    if (cells.front().starts_with('[')) break;  // "[3 rows x 5 columns]"
    if (is_header && !std::exchange(goes_on, cells.back() == "\\")) return {};
    if (is_header && std::exchange(row_of_block, 0) != joined.size()) return {};
    blocks += is_header;
    if (is_header && goes_on) cells.pop_back();
    if (!is_header) cells.erase(cells.begin());
    if (row_of_block == joined.size() && blocks > 1) return {};
    if (row_of_block == joined.size()) joined.emplace_back();
    std::string& row = joined[row_of_block++];
    for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + cell;
  }
  return goes_on || row_of_block != joined.size() ? std::string()
                                                  : moescope::joined(joined, "\n", std::identity()) + '\n';
}

}  // namespace

std::string turned_table(const std::string& path) {
  const std::string text = beginning_of(path, kLargestTurned);
  const std::string_view table = without_byte_order_mark(text);
  if (has_blocks(table)) return joined_blocks(table);
  for (const char delimiter : kDelimiters) {
    CellRows rows = first_rows(table.substr(0, table.find('\n')), delimiter);
    const auto counted = rows.empty() || rows[0].size() < 2 || text.size() == kLargestTurned
                             ? std::nullopt
                             : counted_by_columns(rows[0]);
    if (!counted) continue;
    rows = first_rows(table, delimiter, SIZE_MAX);
    if (rows.size() < 3) continue;
    if (rows[0].size() + 1 == rows[1].size()) rows[0].insert(rows[0].begin(), std::string());  // pandas' index
    if (std::ranges::any_of(rows, [&](const auto& row) { return row.size() != rows[0].size(); })) continue;
    const auto is_of_expert = [&](std::size_t row) {
      const std::string& name = rows[row][0];
      return counted_before(name.substr(0, name.find_last_not_of("0123456789") + 1)) == Counted::expert;
    };
    const bool are_experts = is_of_expert(0) || is_of_expert(1);
    if (*counted == Counted::other && are_experts)
      refuse(path, fmt::format("its columns {0}, {1}, ... may be steps or layers: name them step_{0} or layer_{0}, ...",
                               rows[0][1], rows[0][2]));
    std::vector<std::string> names;
    for (const auto& row : std::span(rows).subspan(1))
      names.push_back((are_experts ? "expert_" : "") +
                      row[0].substr(are_experts ? row[0].find_last_not_of("0123456789") + 1 : 0));
    const bool are_steps =
        *counted == Counted::step || (*counted == Counted::other && is_any_known(TagMap::built_in(), names));
    if (!are_steps && *counted != Counted::layer) continue;
    std::string turned = are_steps ? "step" : "layer";
    for (const std::string& name : names) turned += delimiter + name;
    for (std::size_t column = 1; column < rows[0].size(); ++column) {
      turned += '\n' + rows[0][column].substr(rows[0][column].find_last_not_of("0123456789") + 1);
      for (const auto& row : std::span(rows).subspan(1)) turned += delimiter + row[column];
    }
    return turned + '\n';
  }
  return {};
}

std::optional<TableForm> table_form(std::string_view beginning, bool named_csv, const TagMap& tags) {
  beginning = without_byte_order_mark(beginning);
  std::optional<TableForm> best;
  for (const char delimiter : kDelimiters) {
    if (delimiter == ' ' && best) continue;
    CellRows rows = first_rows(beginning, delimiter);
    if (delimiter == ' ' && !is_table_of_blanks(rows)) continue;
    if (rows.empty() || rows[0].size() < 2 || std::ranges::any_of(rows[0], is_decimal)) continue;
    const std::vector<std::string>& cells = rows[0];
    const bool numbers = std::ranges::all_of(cells, [](const std::string& cell) {
      return !cell.empty() && cell.find_first_not_of("0123456789") == std::string::npos;
    });
    std::optional<TableForm> form = std::nullopt;
    if (named_csv) form = form_of_numbers(cells.size());
    if (!numbers) form = form_of_header(tags, rows, named_csv);
    if (const std::size_t size = form || !named_csv ? 1 : join_header_rows(rows); size > 1) {
      form = form_of_header(tags, rows, named_csv);
      if (form) form->header_rows = size;
    }
    if (!form && named_csv && !numbers) form = form_of_header(tags, rows, named_csv, true);
    if (!form) continue;
    form->delimiter = delimiter;
    find_commas(rows, *form);
    if (!best || known_columns(*form) > known_columns(*best)) best = std::move(form);
  }
  return best;
}

bool has_blocks(std::string_view table) {
  return trimmed(table.substr(0, table.find('\n')), " \r").ends_with('\\');
}

bool is_table_remark(std::span<const std::string_view> cells) {
  const auto is_rule = [](std::string_view cell) { return cell.find_first_not_of("-+=:") == cell.npos; };
  const bool is_line = std::ranges::all_of(cells, is_rule) &&
                       std::ranges::any_of(cells, [](std::string_view cell) { return cell.find('-') != cell.npos; });
  // psql's "(4 rows)"
  const bool is_count =
      cells.size() == 1 && cells[0].starts_with('(') && (cells[0].ends_with(" rows)") || cells[0].ends_with(" row)"));
  return is_line || is_count || cells.front().starts_with('#') || cells.front().starts_with("sep=");
}

bool is_named_csv(std::string_view path) {
  const std::string suffix = suffix_of(std::string(path));
  return suffix == ".csv" || suffix == ".tsv";
}

}  // namespace moescope
