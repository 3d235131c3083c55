// Keeps the rows of a table of expert loads until all are read: only then the number of layers and experts and the
// order of the rows are known.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/import.h"
#include "core/logs/restart_rule.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_order.h"

namespace moescope {

class TableLoads {
 public:
  TableLoads(std::string path, TableForm form) : path_(std::move(path)), form_(std::move(form)) {}

  // Throws Unreadable if the row cannot be read; std::runtime_error if the table takes more than kMostTableBytes.
  void add(std::span<const std::string_view> cells, std::int64_t line);
  bool empty() const { return loads_.empty(); }
  // Builds the run step by step; `remarks` gets findings about the order. Throws std::runtime_error if the order of the
  // rows does not tell which of them count, or if there is more than can be shown.
  std::shared_ptr<History> build(const ImportOptions& options, std::vector<std::string>& remarks);

 private:
  struct Load {
    std::uint16_t layer, expert;
    std::uint32_t count;
  };
  static_assert(sizeof(Load) == 8);
  // Consecutive loads of one step in the file.
  struct Stretch {
    std::int64_t step;
    std::size_t first, end;
  };
  // A row with an unreadable expert or count: unless that expert has another row, its layer has no loads at that step.
  struct Spoiled {
    std::size_t at;  // number of rows before it
    std::int64_t step;
    std::uint16_t layer;
    std::int64_t expert;  // -1: not known
  };
  // The largest number of a column, and its line.
  struct Largest {
    std::int64_t number = -1, line = 0;
    void take(std::int64_t n, std::int64_t at) {
      if (n > number) number = n, line = at;
    }
  };
  class StepLoads;
  std::int64_t step_of(std::span<const std::string_view> cells, std::int64_t layer);
  std::uint64_t group_of(std::span<const std::string_view> cells, std::int64_t layer) const;
  bool adds_up() const { return form_.count < 0 || !form_.parts.empty(); }
  void sort(std::vector<Restart>& restarts, std::vector<std::string>& remarks);
  void drop_attempts(std::vector<Restart>& restarts, std::vector<std::string>& remarks);
  RunInfo info(const ImportOptions& options) const;
  void check_counts() const;
  void check_filling() const;
  void check_size(const RunInfo& info) const;
  std::int64_t smallest_batch() const;

  std::string path_;
  TableForm form_;
  TableOrder order_;
  std::vector<Load> loads_;
  std::vector<Stretch> stretches_;
  std::vector<Spoiled> spoiled_;  // in the order of the file
  Largest layer_, expert_;
  std::int64_t last_layer_ = 0, trace_step_ = 0;  // for a trace
};

}  // namespace moescope
