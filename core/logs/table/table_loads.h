// Keeps the rows of a table of expert loads until all are read, because the number of layers and experts and the order
// of the rows are known only then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/logs/runs/log_runs.h"
#include "core/logs/table/csv_rows.h"
#include "core/logs/table/table_form.h"

namespace moescope {

// Determines the order of the rows of a table: as a training wrote them, or sorted in another way, such as by layer and
// expert.
//
// A series is the rows of one expert of one layer, at most one per step. If the step never falls within a series, the
// table can be sorted by step. If steps fall more often than they rise within series, the newest row is first.
// Otherwise a fall means that the training went back to an earlier step (restart_rule.h). But if the rows are also
// sorted by layer or rank, the order in which they were written is lost.
class TableOrder {
 public:
  enum class Kind { as_written, by_step, newest_first, lost };

  // `group`: the layer, combined with the rank if there are several; each group has rows at every step.
  void add(std::int64_t step, std::uint64_t group, std::uint64_t expert, std::int64_t line);
  Kind kind() const;
  bool repeats() const { return repeats_ > 0; }  // true if a series has a step twice in succession
  Kind kind_of(const std::string& path) const;   // throws std::runtime_error "PATH: line 7: goes back to ..." if lost
  std::string repeated() const;  // "line 7: the same step, layer and expert as in a row before (step 8)"
  bool goes_back() const { return falls_ > 0 && rises_ > 0; }
  std::size_t bytes() const;  // memory that the object takes

 private:
  struct Row {
    std::int64_t step = 0, line = 0;
  };
  std::unordered_map<std::uint64_t, std::int64_t> last_;  // last step of each series
  std::unordered_set<std::uint64_t> groups_;
  Row first_fall_, first_repeat_;
  std::int64_t last_step_ = -1;
  std::size_t rises_ = 0, falls_ = 0, repeats_ = 0;
  std::size_t falls_of_rows_ = 0, falls_to_new_groups_ = 0, falls_to_new_series_ = 0;
};

// The rows of a table, of which the order is known only when all are read.
class TableRows {
 public:
  TableRows(LogRuns& runs, TableForm form) : runs_(&runs), path_(runs.context().source), form_(std::move(form)) {}
  virtual ~TableRows() = default;
  // Takes a row of values; leaves out headers and remarks, and counts rows that cannot be read. Throws
  // std::runtime_error if the table takes more than kMaxTableBytes, or has rows of another run that are not named.
  void take(const CsvRow& row);
  virtual bool empty() const = 0;
  virtual Imported build() = 0;  // to be called once, after the last row; returns no run if cancelled

 protected:
  virtual void add(std::span<const std::string_view> cells, std::int64_t line) = 0;  // throws Unreadable

  LogRuns* runs_;
  const std::string& path_;
  TableForm form_;
  TableOrder order_;

 private:
  void check_run(const CsvRow& row);

  std::optional<std::string> run_;
  std::size_t rows_of_header_ = 0;  // that were read
};

class TableLoads : public TableRows {
 public:
  TableLoads(LogRuns& runs, TableForm form);
  bool empty() const override { return loads_.empty(); }
  // Gives the loads to the run step by step, and returns it with remarks on the order of the rows and on missing rows.
  // Throws std::runtime_error if the order of the rows does not tell which of them count,
  // or if there are more layers, experts and steps than can be shown; RefusedLog if the layers may be in a column of
  // unknown name.
  Imported build() override;

 private:
  struct Load {
    std::uint16_t layer, expert;
    std::uint32_t count;
  };
  static_assert(sizeof(Load) == 8);
  // Consecutive rows of one step in the file, and the layers and experts (-1: not known) of those that cannot be read.
  struct Stretch {
    std::int64_t step;
    std::size_t first, end;
    std::vector<std::pair<int, std::int64_t>> unreadable;
  };
  // The largest number of a column, and its line.
  struct Largest {
    std::int64_t number = -1, line = 0;
    void take(std::int64_t n, std::int64_t at) {
      if (n > number) *this = {n, at};
    }
  };
  // A column that is none of loads. It may hold the layer if its cells are several numbers.
  struct OtherColumn {
    int column;
    AccountBook::Name name;
    bool may_be_layer;
    std::int64_t first = -1;
    bool differs = false;
  };
  void add(std::span<const std::string_view> cells, std::int64_t line) override;
  std::int64_t step_of(std::span<const std::string_view> cells, std::int64_t layer);
  Stretch& stretch_of(std::int64_t step);
  bool adds_up() const { return form_.count < 0 || !form_.parts.empty(); }
  void take_others(std::span<const std::string_view> cells, std::int64_t step);
  void sort(std::vector<std::string>& remarks);
  RunInfo info() const;
  void check_counts() const;
  void check_filling() const;
  void check_layers() const;
  std::int64_t smallest_batch() const;
  LogRecord record_of(std::span<const Stretch> step, const RunInfo& info);

  std::vector<Load> loads_;
  std::vector<Stretch> stretches_;
  Largest layer_, expert_;
  Gaps no_layer_, unreadable_;
  AccountBook::Name step_name_, layer_name_, expert_name_, count_name_;
  std::vector<OtherColumn> other_columns_;
  std::int64_t last_layer_ = 0, trace_step_ = 0;  // for a trace
};

inline constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;  // memory for the rows of a table
// Throws std::runtime_error if the rows of a table up to `line` take more than that.
void check_table_bytes(std::size_t bytes, const std::string& path, std::int64_t line);

}  // namespace moescope
