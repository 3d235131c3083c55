// A result of a command: values, tables and sentences, each described once for text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
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
  // The rows of a table in JSON only. `members`: for each row what its object has besides the columns; may be empty.
  void rows(const std::string& key, const ValueTable& table, std::span<const Report> members = {});
  // Reports on parts: their texts and tables follow, JSON has their objects, `key` of a single one or in an array.
  void part(const std::string& key, const Report& part);
  void parts(const std::string& key, std::span<const Report> parts);
  void json(std::string_view key, Json value);  // in JSON only: a list, or what is JSON already

  const std::string& text() const { return text_; }
  // ASCII, with a line end; `indent` -1: on one line.
  std::string json_text(int indent = 2) const {
    return json_.dump(indent, ' ', true, Json::error_handler_t::replace) + '\n';
  }
  const std::string& csv() const { return csv_; }

 private:
  void append(const Report& part);  // its texts and tables
  Json json_ = Json::object();
  std::string text_, csv_;
};

Report::Json json_value(const TableValue& value);  // null without a value, and for infinity
// Returns a number for JSON that tells apart what has no value (null), "NaN", "Infinity" and "-Infinity".
TableValue named_number(float value);
// Returns an array with an object for each row, which has the columns with a key.
Report::Json json_rows(const ValueTable& table);

}  // namespace moescope
