#include "core/logs/table/table_form.h"

#include <algorithm>
#include <array>

#include "core/io/csv_rows.h"
#include "core/io/text_encoding.h"
#include "core/io/unreadable.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

constexpr std::string_view kDelimiters = ",;\t|";
constexpr std::array<std::string_view, 6> kStepNames = {"global_step", "step",          "iteration",
                                                        "train_step",  "training_step", "iter"};
constexpr std::array<std::string_view, 7> kRunNames = {"run",   "run_id", "run_name",  "run_uuid",
                                                       "trial", "seed",   "experiment"};
constexpr std::array<std::string_view, 4> kLayerNames = {"layer", "layer_id", "layer_idx", "layer_index"};
constexpr std::array<std::string_view, 4> kExpertNames = {"expert", "expert_id", "expert_idx", "expert_index"};
// Further names of the number of tokens; unambiguous in a row of one expert.
constexpr std::array<std::string_view, 7> kCountNames = {"count",       "num_tokens", "n_tokens",  "tokens",
                                                         "token_count", "counts",     "load_count"};
constexpr std::array<std::string_view, 9> kPartNames = {"rank", "device", "gpu",   "worker", "host",
                                                        "node", "micro",  "shard", "replica"};

// Returns the column with the first of `names` that exists; -1 if none exists.
template <class Names>
int column_of(const std::vector<std::string>& spelled, const Names& names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(spelled, name);
    if (found != spelled.end()) return static_cast<int>(found - spelled.begin());
  }
  return -1;
}

// Returns that column, or the first one to which the table of names gives this meaning; -1 if there is no such column.
template <class Names>
int column_of(const std::vector<std::string>& spelled, const Names& names, TagMeaning means) {
  const int known = column_of(spelled, names);
  if (known >= 0) return known;
  const auto found = std::ranges::find_if(spelled, [means](const std::string& name) {
    const auto match = TagMap::built_in().find(name);
    return match && match->rule->means == means;
  });
  return found == spelled.end() ? -1 : static_cast<int>(found - spelled.begin());
}

bool is_step_name(const std::string& name) {
  const auto match = TagMap::built_in().find(name);
  return std::ranges::find(kStepNames, name) != kStepNames.end() ||
         (match && match->rule->means == TagMeaning::step_number);
}

bool is_part_name(const std::string& name) {
  return std::ranges::any_of(kPartNames, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::optional<TableForm> form_of_header(std::vector<std::string> names, bool named_csv) {
  std::vector<std::string> spelled;
  for (const std::string& name : names) spelled.push_back(spelled_alike(name));
  TableForm form;
  form.has_header = true;
  form.step = column_of(spelled, kStepNames, TagMeaning::step_number);
  for (int i = 0; i < std::ssize(spelled); ++i)
    if (i != form.step && is_step_name(spelled[static_cast<std::size_t>(i)])) form.other_steps.push_back(i);
  form.run = column_of(spelled, kRunNames);
  form.layer = column_of(spelled, kLayerNames);
  form.expert = column_of(spelled, kExpertNames);
  form.count = column_of(spelled, kCountNames, TagMeaning::tokens_per_expert);
  const bool of_one_layer = form.layer < 0 && form.expert >= 0 && form.step >= 0 && form.count >= 0;
  if ((form.layer >= 0 && form.expert >= 0) || of_one_layer) {
    form.kind = form.step < 0 && form.count < 0 ? TableKind::trace : TableKind::loads;
    for (std::size_t i = 0; i < spelled.size(); ++i)
      if (is_part_name(spelled[i])) form.parts.push_back(static_cast<int>(i));
  } else if (form.step >= 0 && named_csv && names.size() > 1) {
    form.kind = TableKind::figures;
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
    form.layer = 0, form.expert = 1;
  } else if (cells >= 4) {
    form.step = 0, form.layer = 1, form.expert = 2, form.count = 3;
  } else {
    return std::nullopt;
  }
  return form;
}

std::vector<std::string> first_row(std::string_view beginning, char delimiter) {
  std::vector<std::string> cells;
  const auto take = [&](const CsvRow& row) {
    if (cells.empty() && !row.too_long && !is_table_remark(row.cells.front()))
      cells.assign(row.cells.begin(), row.cells.end());
  };
  try {
    CsvRows rows(delimiter);
    rows.add(beginning, take);
    if (cells.empty()) rows.finish(take);
  } catch (const Unreadable&) {  // reported when the whole file is read
  }
  return cells;
}

// Returns how many of the columns that define a table exist.
int known_columns(const TableForm& form) {
  return (form.step >= 0) + (form.layer >= 0) + (form.expert >= 0) + (form.count >= 0);
}

}  // namespace

std::optional<TableForm> table_form(std::string_view beginning, bool named_csv) {
  beginning = without_byte_order_mark(beginning);
  std::optional<TableForm> best;
  for (const char delimiter : kDelimiters) {
    const std::vector<std::string> cells = first_row(beginning, delimiter);
    if (cells.size() < 2) continue;
    const bool numbers = std::ranges::all_of(cells, [](const std::string& cell) {
      return !cell.empty() && cell.find_first_not_of("0123456789") == std::string::npos;
    });
    std::optional<TableForm> form = !numbers    ? form_of_header(cells, named_csv)
                                    : named_csv ? form_of_numbers(cells.size())
                                                : std::nullopt;
    if (!form) continue;
    form->delimiter = delimiter;
    if (!best || known_columns(*form) > known_columns(*best)) best = std::move(form);
  }
  return best;
}

bool is_table_remark(std::string_view first_cell) {
  return first_cell.starts_with('#') || first_cell.starts_with("sep=");
}

bool is_named_csv(std::string_view path) {
  return path.ends_with(".csv") || path.ends_with(".tsv");
}

}  // namespace moescope
