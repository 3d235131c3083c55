#include "core/logs/table/table_loads.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/tag_map.h"

namespace moescope {
namespace {

constexpr std::size_t kBytesOfASeries = 64;  // includes the overhead of the map and the allocator
constexpr int kExpertBits = 16;

constexpr std::int64_t kMaxCount = std::numeric_limits<std::uint32_t>::max();

const std::string_view& cell_at(std::span<const std::string_view> cells, int column) {
  if (static_cast<std::size_t>(column) >= cells.size()) throw Unreadable("has too few columns");
  return cells[column];
}

}  // namespace

void TableOrder::add(std::int64_t step, std::uint64_t group, std::uint64_t expert, std::int64_t line) {
  const auto [known, is_new] = last_.try_emplace(group << kExpertBits | expert, step);
  const bool is_new_group = is_new && groups_.insert(group).second;
  const bool row_falls = step < last_step_;
  falls_of_rows_ += row_falls;
  falls_to_new_series_ += row_falls && is_new;
  falls_to_new_groups_ += row_falls && is_new_group;
  last_step_ = step;
  if (is_new) return;
  const std::int64_t before = known->second;
  known->second = step;
  if (step > before) {
    ++rises_;
  } else if (step < before) {
    if (falls_++ == 0) first_fall_ = {step, line};
  } else if (repeats_++ == 0) {
    first_repeat_ = {step, line};
  }
}

TableOrder::Kind TableOrder::kind() const {
  if (falls_ > rises_) return Kind::newest_first;
  // The rows are sorted by group or series if new groups or series begin where the step falls.
  const bool sorted = falls_to_new_groups_ > 0 || 2 * falls_to_new_series_ > last_.size();
  if (falls_ > 0) return sorted ? Kind::lost : Kind::as_written;
  return falls_of_rows_ > 0 ? Kind::by_step : Kind::as_written;
}

TableOrder::Kind TableOrder::kind_of(const std::string& path) const {
  if (kind() == Kind::lost)
    refuse(path, fmt::format(
                     "line {}: goes back to step {} of the same layer and expert, but the rows are not in the order "
                     "in which they were written, so that it is not known which rows the restart dropped: remove these "
                     "rows, or restore the order in which they were written",
                     first_fall_.line, first_fall_.step));
  return kind();
}

std::string TableOrder::repeated() const {
  return fmt::format("line {}: the same step, layer and expert as in a row before (step {})", first_repeat_.line,
                     first_repeat_.step);
}

std::size_t TableOrder::bytes() const {
  return (last_.size() + groups_.size()) * kBytesOfASeries;
}

void TableRows::take(const CsvRow& row) {
  const std::span names = std::span(form_.names).subspan(form_.names.size() > row.cells.size() ? 1 : 0);
  if (form_.has_header && std::ranges::equal(row.cells, names)) return;  // also repeated in joined files
  if (row.too_long) return runs_->count_bad(row.line, Unreadable("too long"));
  if (is_table_remark(row.cells)) return;
  if (form_.header_rows > 1 && rows_of_header_++ < form_.header_rows) return;
  check_run(row);
  try {
    const bool has_groups = form_.has_decimal_points && std::ranges::any_of(row.cells, [](std::string_view cell) {
                              return cell.find(',') != cell.npos;
                            });
    if (!form_.has_decimal_commas && !has_groups) return add(row.cells, row.line);
    std::vector<std::string> texts(row.cells.begin(), row.cells.end());
    for (std::string& text : texts) has_groups ? drop_groups(text) : write_decimal_point(text);
    add(std::vector<std::string_view>(texts.begin(), texts.end()), row.line);
  } catch (const Unreadable& unreadable) {
    runs_->count_bad(row.line, unreadable);
  }
}

// Throws std::runtime_error if the row belongs to another run than the rows before. Not needed if each line of a table
// of figures gives the name of its run to LogRuns, which separates the runs.
void TableRows::check_run(const CsvRow& row) {
  const std::size_t column = form_.run;
  if (form_.run < 0 || column >= row.cells.size()) return;
  if (form_.kind == TableKind::figures && form_.run_is_name) return;
  if (!run_) run_ = row.cells[column];
  if (*run_ != row.cells[column])
    refuse(path_,
           fmt::format("line {}: the column {} names another run than the rows before: write each run to its own table",
                       row.line, form_.names[column]));
}

TableLoads::TableLoads(LogRuns& runs, TableForm form) : TableRows(runs, std::move(form)) {
  const auto add = [&](int column, const char* otherwise, const char* meaning) {
    const std::size_t place = column;
    const std::string name = column >= 0 && place < form_.names.size() ? form_.names[place] : otherwise;
    const TagMatch* match = *meaning ? nullptr : runs.find(name);
    return runs.context().book.add(name, match ? match->rule : nullptr, 0, meaning);
  };
  if (form_.step >= 0) step_name_ = add(form_.step, "column 1", "Step");
  if (form_.layer >= 0) layer_name_ = add(form_.layer, "column of layers", "Layer");
  expert_name_ = add(form_.expert, "column of experts", "Expert");
  count_name_ = form_.count < 0 ? expert_name_ : add(form_.count, "column of counts", "Expert load");
  for (const int column : form_.parts) add(column, "", "Part of a step: parts are summed");
  for (const int column : form_.other_columns) {
    const AccountBook::Name name = add(column, "", "");
    AccountBook::leave_out(name, "not a column of loads");
    other_columns_.push_back({column, name, !runs.find(form_.names[column])});
  }
}

// Counts the numbers of the columns that are not of loads, and looks which of them may be those of layers.
void TableLoads::take_others(std::span<const std::string_view> cells, std::int64_t step) {
  for (OtherColumn& other : other_columns_) {
    const std::string_view cell = cell_at(cells, other.column);
    double number = 0;
    if (read_number(cell, number))
      AccountBook::take(other.name, step, number);
    else
      AccountBook::take_text(other.name, step, cell);
    if (!other.may_be_layer) continue;
    try {
      const std::int64_t layer = number_in_name(cell, kLastImportedLayer, "layer");
      other.differs = other.differs || (other.first >= 0 && layer != other.first);
      other.first = layer;
    } catch (const Unreadable&) {
      other.may_be_layer = false;
    }
  }
}

// Returns the step of a row. In a trace this is the number of the batch, which ends where the layer's number falls.
std::int64_t TableLoads::step_of(std::span<const std::string_view> cells, std::int64_t layer) {
  if (form_.kind == TableKind::trace) {
    if (layer < last_layer_) ++trace_step_;
    last_layer_ = layer;
    return trace_step_;
  }
  return form_.step < 0 ? 0 : whole_number(cell_at(cells, form_.step), kLastStep, "step");
}

// Returns the stretch to which the next row of this step belongs.
TableLoads::Stretch& TableLoads::stretch_of(std::int64_t step) {
  if (stretches_.empty() || stretches_.back().step != step)
    stretches_.push_back({step, loads_.size(), loads_.size(), {}});
  return stretches_.back();
}

void TableLoads::add(std::span<const std::string_view> cells, std::int64_t line) {
  const bool is_trace = form_.kind == TableKind::trace;
  const std::int64_t layer =
      form_.layer < 0 ? 0 : number_in_name(cell_at(cells, form_.layer), kLastImportedLayer, "layer");
  const std::int64_t step = step_of(cells, layer);
  if (static_cast<std::size_t>(form_.expert) < cells.size() && cells[form_.expert] == "-1")
    throw Unreadable("expert: -1 stands for no expert");
  std::int64_t expert = -1, count = 1;
  std::uint64_t part = 0;  // each layer of each part has rows at every step
  try {
    expert = number_in_name(cell_at(cells, form_.expert), std::int64_t{kMaxImportedExperts} - 1, "expert");
    if (form_.count >= 0) count = whole_number(cell_at(cells, form_.count), kMaxCount, "count");
    for (const int column : form_.parts)
      part = part * 31 + std::hash<std::string_view>()(cell_at(cells, column)) % 0xFFFFFFFBu;
  } catch (const Unreadable&) {
    if (!is_trace) stretch_of(step).unreadable.emplace_back(layer, expert);
    throw;
  }
  if (!is_trace) order_.add(step, part << 12 ^ layer, expert, line);
  layer_.take(layer, line);
  expert_.take(expert, line);
  for (const auto& [name, value] :
       {std::pair(step_name_, step), std::pair(layer_name_, layer), std::pair(expert_name_, expert)})
    if (name.counts) name.counts->take(step, value);
  take_others(cells, step);
  Stretch& stretch = stretch_of(step);
  loads_.push_back(
      {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(expert), static_cast<std::uint32_t>(count)});
  stretch.end = loads_.size();
  check_table_bytes(loads_.size() * sizeof(Load) + stretches_.size() * sizeof(Stretch) + order_.bytes(), path_, line);
}

// Sorts the stretches by step, unless the training went back to an earlier one: then the run drops what came after it.
void TableLoads::sort(std::vector<std::string>& remarks) {
  const TableOrder::Kind kind = order_.kind_of(path_);
  if (order_.repeats() && !adds_up()) {
    if (kind == TableOrder::Kind::by_step)
      refuse(path_,
             order_.repeated() + ", and the rows are not in the order in which they were written: remove one of them");
    remarks.push_back(order_.repeated() + ": the later row counts");
  }
  if (kind == TableOrder::Kind::newest_first) {
    std::ranges::reverse(stretches_);
    for (const Stretch& stretch : stretches_)
      std::reverse(loads_.begin() + stretch.first, loads_.begin() + stretch.end);
  }
  if (order_.goes_back())
    std::erase_if(stretches_, [](const Stretch& stretch) { return stretch.first == stretch.end; });
  else
    std::ranges::stable_sort(stretches_, {}, &Stretch::step);
}

// Returns the number of rows of a layer in the smallest batch of a trace.
std::int64_t TableLoads::smallest_batch() const {
  std::size_t smallest = loads_.size();
  for (const Stretch& stretch : stretches_) {
    for (std::size_t i = stretch.first; i < stretch.end;) {
      const std::size_t begin = i;
      while (i < stretch.end && loads_[i].layer == loads_[begin].layer) ++i;
      smallest = std::min(smallest, i - begin);
    }
  }
  return smallest;
}

RunInfo TableLoads::info() const {
  RunInfo info;
  info.source = path_;
  std::vector<bool> layers(kMaxImportedLayers);
  for (const Load& load : loads_) layers[load.layer] = true;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    if (layers[layer]) info.moe_layers.push_back(to_int(layer));
  info.n_layers = to_int(layer_.number) + 1;
  info.n_experts = std::max(to_int(expert_.number) + 1, runs_->context().options.routed.experts);
  if (form_.kind == TableKind::trace) info.top_k = to_int(std::min<std::int64_t>(smallest_batch(), info.n_experts));
  return info;
}

// Engines fill slots without an expert with the largest number of a type. Throws std::runtime_error if the largest
// expert is such a number and no other expert is near.
void TableLoads::check_filling() const {
  if (expert_.number != 255 && expert_.number != 65535) return;
  int next = -1;
  for (const Load& load : loads_)
    if (load.expert != expert_.number) next = std::max(next, int{load.expert});
  if (2 * (next + 1) > expert_.number) return;
  refuse(path_,
         fmt::format("line {} has expert {}, and all others are {} at most: is it a slot without an expert? Write -1 "
                     "for such slots",
                     expert_.line, expert_.number, next));
}

// Without a column of counts, each row is a token. Throws std::runtime_error if no expert has two rows in a step: then
// the rows are not tokens, and one of the other columns has the counts under an unknown name.
void TableLoads::check_counts() const {
  if (form_.count >= 0) return;
  check_filling();
  if (form_.kind != TableKind::loads || order_.repeats()) return;
  std::string names;
  for (const int column : form_.other_columns) {
    const std::string& name = form_.names[column];
    if (is_one_of(spelled_alike(name),
                  {"", "token", "token_id", "token_idx", "token_index", "position", "pos", "sample", "seq", "sequence",
                   "weight", "gate", "prob", "score", "slot", "time", "timestamp", "batch"}))
      continue;
    names += (names.empty() ? "" : ", ") + printable(name);
  }
  if (!names.empty())
    refuse(path_, "has one row of each expert, but no column of counts that is known (" + names +
                      "): name the column of the token counts \"count\"");
}

// Throws RefusedLog if an expert has several rows in a step, and a column of unknown name may say of which layers.
void TableLoads::check_layers() const {
  if (form_.kind != TableKind::loads || form_.layer >= 0 || !form_.parts.empty()) return;
  if (!order_.repeats() && !order_.goes_back() && order_.kind() != TableOrder::Kind::lost) return;
  for (const OtherColumn& other : other_columns_) {
    if (!other.may_be_layer || !other.differs) continue;
    const std::string name = '"' + printable(form_.names[other.column]) + '"';
    AccountBook::ask(other.name, "layer", "an expert has several rows in a step: is this the layer?");
    throw RefusedLog(path_, "an expert has several rows in a step: " + layer_question(name), runs_->account());
  }
}

// Returns the loads of a step by layer; NaN: the expert has no row. Parts of a load are summed; else the later row
// counts. A layer with an unreadable row has no loads, unless the expert of this row has another one.
LogRecord TableLoads::record_of(std::span<const Stretch> step, const RunInfo& info) {
  LogRecord record;
  record.step = step.front().step;
  const bool may_be_from_1 = expert_.number == runs_->context().options.routed.experts;
  std::map<int, std::vector<double>> layers;
  for (const Stretch& stretch : step)
    for (std::size_t i = stretch.first; i < stretch.end; ++i) {
      std::vector<double>& counts = layers[loads_[i].layer];
      if (counts.empty()) {
        counts.assign(static_cast<std::size_t>(info.n_experts), form_.count < 0 ? 0 : std::nan(""));
        if (may_be_from_1) counts[0] = std::nan("");
      }
      double& count = counts[loads_[i].expert];
      count = loads_[i].count + (adds_up() && !std::isnan(count) ? count : 0);
      if (count > kMaxCount)
        refuse(path_, fmt::format("{}, expert {}: its parts are more than {} tokens together",
                                  place_text(*record.step, loads_[i].layer), loads_[i].expert, kMaxCount));
    }
  for (const Stretch& stretch : step)
    for (const auto& [layer, expert] : stretch.unreadable) {
      const auto found = layers.find(layer);
      if (found == layers.end() || found->second.empty()) continue;
      const bool is_known = expert >= 0 && expert < info.n_experts && !std::isnan(found->second[expert]);
      if (is_known && !adds_up()) continue;
      found->second.clear();
      unreadable_.add(*record.step, layer, "a row could not be read, so that the layer has no loads there");
    }
  for (const int layer : info.moe_layers) {
    const auto found = layers.find(layer);
    if (found == layers.end()) no_layer_.add(*record.step, layer, "no row, so that the layer has no loads there");
    if (found == layers.end() || found->second.empty()) continue;
    NamedValue& loads =
        record.add(form_.count < 0 ? "tokens_per_expert" : std::string_view(count_name_.counts->name()));
    loads.is_list = loads.leaves_out_zeros = loads.has_all_experts = true;
    loads.means = "tokens_per_expert";
    loads.layer = layer;
    loads.numbers = std::move(found->second);
  }
  return record;
}

Imported TableLoads::build() {
  const ImportOptions& options = runs_->context().options;
  std::vector<std::string> remarks;
  check_counts();
  check_layers();
  sort(remarks);
  RunBuilder& run = runs_->run("");
  const RunInfo info = this->info();
  run.stated.info = info;
  run.stated.info.n_experts = options.routed.experts;  // the run finds out whether they are numbered from 1
  std::size_t steps = 0;
  for (std::size_t i = 0; i < stretches_.size(); ++i) steps += i == 0 || stretches_[i].step != stretches_[i - 1].step;
  check_run_size(
      info, steps, loads_.size(),
      fmt::format("Line {} has expert {}, line {} layer {}", expert_.line, expert_.number, layer_.line, layer_.number));
  for (auto stretch = stretches_.begin(); stretch != stretches_.end();) {
    const auto next =
        std::find_if(stretch, stretches_.end(), [&](const Stretch& s) { return s.step != stretch->step; });
    const std::span<const Stretch> rows(stretch, next);
    stretch = next;
    if (std::ranges::all_of(rows, [](const Stretch& s) { return s.first == s.end; })) continue;  // none can be read
    LogRecord record = record_of(rows, info);
    if (options.progress && run.steps() % 64 == 0 &&
        !options.progress(0.5 + 0.5 * (stretch - stretches_.begin()) / stretches_.size()))
      return {};
    runs_->take(record);
  }
  run.show_steps();
  run.stated.info = {};  // so that the account says where the numbers come from
  Imported imported = runs_->finish(loads_.size());
  imported.remarks.insert(imported.remarks.begin(), remarks.begin(), remarks.end());
  for (const Gaps* gaps : {&no_layer_, &unreadable_})
    if (gaps->count > 0) imported.remarks.push_back(gaps->text());
  if (options.routed.experts == 0) imported.account.experts.source = "highest number of an expert, and one";
  if (form_.kind == TableKind::loads && form_.count < 0)
    imported.remarks.push_back("has no column of counts: each row is read as one token");
  return imported;
}

void check_table_bytes(std::size_t bytes, const std::string& path, std::int64_t line) {
  if (bytes > kMaxTableBytes)
    refuse(path,
           fmt::format("line {}: the rows so far take more than {} GiB: write them as JSON lines, which are read step "
                       "by step, or fewer steps",
                       line, kMaxTableBytes >> 30));
}

}  // namespace moescope
