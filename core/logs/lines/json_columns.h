// Turns a JSON object in which the values of all steps stand together into the steps of a log:
//   {"step": [1, 2], "loss": [8.1, 7.9]}                           a list by name
//   {"step": {"0": 1, "1": 2}, "loss": {"0": 8.1, "1": 7.9}}       pandas' DataFrame.to_json()
//   {"train.loss": {"steps": [1, 2], "values": [8.1, 7.9]}}        Sacred; ClearML has "x" and "y"
//   {"columns": ["step", "loss"], "data": [[1, 8.1], [2, 7.9]]}   the same with orient="split"
//   {"100": {"loss": 8.1}, "200": {"loss": 7.9}}                   an object by step
//   {"loss": [8.1, 7.9], "val_loss": [8.2, 8.0]}                   Keras: the steps are epochs, counted from 1
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/json_values.h"

namespace moescope {

bool names_a_step(std::string_view json);  // true if JSON has a key that is usual for a step

class JsonColumns {
 public:
  // Throws Unreadable if the steps are in no order.
  explicit JsonColumns(const JsonFields& object);
  struct Row {
    std::optional<std::int64_t> step;  // if it stands beside the values
    std::vector<JsonFields::Field> values;
  };
  // In the order of the file if there is one list of steps, else by step.
  const std::vector<Row>& rows() const { return rows_; }
  bool is_by_step() const { return is_by_step_; }  // the keys of an object are the steps

 private:
  void add(const std::string& path, const JsonFields& object, int depth);
  bool add_table(const JsonFields& object);
  bool add_columns(const std::string& path, const JsonFields& object);
  bool add_by_step(const JsonFields& object);
  void add_epochs(const JsonFields& object);

  bool is_by_step_ = false;
  std::vector<Row> rows_;
  std::map<std::int64_t, std::size_t> row_of_step_;
  std::deque<std::string> names_;
};

}  // namespace moescope
