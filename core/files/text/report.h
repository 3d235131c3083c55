// A result of a command: values, tables and sentences, each described once for text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/files/text/value_table.h"

namespace moescope {

class Report {
 public:
  using Json = nlohmann::ordered_json;

  void sentence(std::string_view line);  // in the text only, made printable; an empty line separates
  void lines(std::string_view text);     // as sentence(), with the line breaks of the text; nothing for an empty text
  // A value, in the text as a line "name: value unit". A column without a name is in JSON only.
  void value(const ValueColumn& column, const TableValue& value);
  // A table; `key`: that of its array of rows in JSON, empty: not in JSON. CSV has the tables in the order of the
  // calls.
  void table(const std::string& key, const ValueTable& table);
  Json& json() { return json_; }  // for values that have no cell, such as lists

  const std::string& text() const { return text_; }
  // ASCII, with a line end.
  std::string json_text() const { return json_.dump(2, ' ', true, Json::error_handler_t::replace) + '\n'; }
  const std::string& csv() const { return csv_; }

 private:
  Json json_;
  std::string text_, csv_;
};

Report::Json json_value(const TableValue& value);  // null without a value, and for infinity
// Returns a number for JSON that tells apart what has no value (null), "NaN", "Infinity" and "-Infinity".
TableValue named_number(float value);
// Returns an array with an object for each row, which has the columns with a key.
Report::Json json_rows(const ValueTable& table);

}  // namespace moescope
